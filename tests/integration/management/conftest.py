from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from integration.cli.stage import Stage
from reminders import bootstrap
from reminders.celery import app
from reminders.embedded import Services
from reminders.ledger.database import Database
from reminders.settings import Settings


@pytest.fixture
def stage(
    database: Database, settings: Settings, services: Services, migrated: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Stage]:
    """A ledger that this process, as a worker, is set up for."""
    monkeypatch.setenv("DATABASE_URL", migrated)
    monkeypatch.setenv("REDIS_URL", services.redis_url)
    app.loader.import_default_modules()
    yield Stage(database, settings)
    bootstrap.database().close()


@pytest.fixture
def run(
    request: pytest.FixtureRequest, stage: Stage, caplog: pytest.LogCaptureFixture
) -> Callable[..., tuple[Any, str]]:
    """As a worker runs a task, with the `WORD` of the file: the answer must be fit for a message. With it, what its `LOGGER` said."""
    word, logger = request.module.WORD, request.module.LOGGER

    def _run(name: str, **given: Any) -> tuple[Any, str]:
        caplog.clear()
        with caplog.at_level(logging.INFO, logger=logger):
            answer = json.loads(json.dumps(app.tasks[f"reminders.{name}"](**{**word, **given})))
        (line,) = [each.getMessage() for each in caplog.records if each.name == logger]
        return answer, line

    return _run
