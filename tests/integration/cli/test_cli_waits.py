"""No command waits without end for an application's open transaction: each gives up in time, with the same two lines."""

from __future__ import annotations

import json

import pytest

from integration.cli.stage import only
from reminders.cli import session

SERIES = (
    "series", "add", "--tenant", "acme", "--user", "ada", "--kind", "pills", "--channel", "log", "--to", "somewhere",
    "--start", "2031-01-01T09:00", "--zone", "Europe/Berlin", "--rule", "FREQ=DAILY", "--reference", "pills-1", "--json",
)  # fmt: skip


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(session, "PATIENCE_MS", 100)


@pytest.fixture
def made(run):
    """Ids by which commands are filled in: a series and its next occurrence."""
    series = only(run(*SERIES))["id"]
    (occurrence,) = [json.loads(line) for line in run("list", "--json").stdout.splitlines()]
    return {"series": series, "occurrence": occurrence["id"], "turn": "2031-01-02T09:00"}


COMMANDS = (
    "series pause {series}",
    "series resume {series}",
    "series edit {series} --rule FREQ=WEEKLY",
    "series skip {series} {turn}",
    "series skip {series} {turn} --undo",
    "series move {series} {turn} --due-at 2031-01-03T09:00Z",
    "series cancel {series}",
    "cancel {occurrence}",
    "cancel --tenant acme --reference x",
    "reschedule {occurrence} --due-at 2031-01-03T09:00Z",
    "snooze {occurrence} --until 2031-01-03T09:00Z",
    "replan",
    "pause --all --reason r",
    "suppress add --tenant acme --user ada --reason r",
    "tenant lateness acme --max-lateness 2h",
    "tenant set acme --on-unknown review",
    "destination set --tenant acme --channel log --to somewhere --deduplicates no",
    "destination disable --tenant acme --channel log --to somewhere --reason r",
    "notice seen --all",
    "dlq discard --all --reason r",
    "recipient set --tenant acme --user ada --zone Europe/Berlin",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_gives_up_when_everything_is_held(run, stage, made, impatient, command):
    words = command.format(**made).split()
    with stage.database.transaction() as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT string_agg(format('reminders.%I', relname), ', ') FROM pg_class "
            "WHERE relnamespace = 'reminders'::regnamespace AND relkind IN ('r', 'p')"
        )
        (tables,) = cursor.fetchone()
        # Reading goes on, as with row locks; whatever would write has to wait.
        cursor.execute(f"LOCK TABLE {tables} IN EXCLUSIVE MODE")
        answer = run(*words)
    assert (answer.exit_code, answer.stdout) == (1, ""), answer.output
    assert answer.stderr == (
        "Another transaction holds what this command needs, and did not end in time.\n"
        "What was under way is undone; try again.\n"
    )
