"""Procfiles as people write them, read as their shells would run them."""

from __future__ import annotations

import pytest

from reminders.operate.doctor.check import look
from reminders.operate.doctor.procfile import PROCFILE, read_procfile

APART = """release: exec reminders migrate
beat: exec python -m reminders.supervise beat
"""


def found(text: str) -> set[str]:
    return {each.check.name for each in look(PROCFILE, read_procfile(text))}


@pytest.mark.parametrize(
    "lines",
    [
        # What the remedy of `procfile_queue_mixed` advises.
        "all: exec reminders worker scan & exec reminders worker deliver retry maintenance & exec reminders worker alone",
        "all: exec reminders worker scan& exec reminders worker deliver retry maintenance& exec reminders worker alone",
        "all: exec reminders worker scan 2>&1 & exec reminders worker deliver retry maintenance >> log & exec reminders worker alone",
    ],
)
def test_a_line_of_several_commands_serves_the_queues_of_all(lines):
    assert found(APART + lines) == set()


def test_what_must_be_apart_is_looked_for_in_each_command_of_a_line():
    lines = "all: exec reminders worker scan deliver retry maintenance & exec reminders worker alone"
    assert found(APART + lines) == {"procfile_queue_mixed"}


@pytest.mark.parametrize("queues", ["-Q deliver,retry,maintenance", "-c 4 --queues=deliver,retry,maintenance"])
def test_a_bare_celery_line_may_name_several_queues(queues):
    lines = f"""scanner: exec reminders worker scan
alone: exec reminders worker alone
worker: exec celery -A reminders worker {queues}
"""
    assert found(APART + lines) == {"procfile_unsupervised"}
