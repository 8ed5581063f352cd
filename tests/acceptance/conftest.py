"""What the acceptance tests share: a whole installation, and a receiver that does what the test says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from acceptance.harness import Stack, installation
from acceptance.scripted_receiver import ScriptedReceiver


@pytest.fixture
def receiver() -> Iterator[ScriptedReceiver]:
    receiver = ScriptedReceiver()
    yield receiver
    receiver.close()


@pytest.fixture
def stack(home: Path) -> Iterator[Stack]:
    with installation(home) as stack:
        yield stack
