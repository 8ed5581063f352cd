"""What each kind of process leaves unimported: a line of the Procfile has to fit beside others (docs/deploy.md)."""

import os
import subprocess
import sys

import pytest

TASKS = "reminders.tasks, reminders.management_tasks, reminders.control_tasks, reminders.upkeep_tasks, reminders.erasure_tasks, reminders.reconcile_tasks"
CELERY = "from reminders import supervised; supervised._leave_out_commands_of_others(); import celery.bin.celery; "
BEAT = (
    "import reminders.celery as ours; ours._celery_command = lambda: 'beat'; ours.app.loader.import_default_modules()"
)


@pytest.mark.parametrize(
    ("code", "unwanted"),
    [
        ("import reminders.cli.app, reminders.cli.worker", ("celery", "kombu", "ssl", "sqlalchemy", "email")),
        ("import reminders.supervise, reminders.process_lines", ("celery", "kombu", "ssl", "sqlalchemy", "email")),
        (f"{CELERY}import {TASKS}", ("sqlalchemy.orm", "cryptography.fernet", "prompt_toolkit", "flower", "jinja2", "phonenumbers", "icalendar", "alembic", "rich")),
        (f"{CELERY}{BEAT}", ("sqlalchemy", "psycopg2", "reminders.ledger", "cryptography.fernet", "prompt_toolkit")),
    ],
    ids=["worker's parent", "beat's parent", "worker", "beat"],
)  # fmt: skip
def test_a_process_imports_nothing_that_it_has_no_use_for(code, unwanted):
    told = subprocess.run(
        [sys.executable, "-c", f"{code}; import sys; print(*sys.modules)"],
        env={**os.environ, "REDIS_URL": "redis://127.0.0.1:1/0"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    imported = told.stdout.split()
    assert "reminders.settings" in imported
    assert set(imported) & set(unwanted) == set()
