"""Words from a command line that are no text, no host and no number: refused in a line, without a traceback."""

from __future__ import annotations

import pytest

NO_TEXT = "x\udcff"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("status", "--slo", "--tenant", NO_TEXT), "--tenant: contains a lone surrogate"),
        (("suppress", "list", "--tenant", NO_TEXT), "--tenant: contains a lone surrogate"),
        (("purge", "--older-than", "99999999d", "--dry-run"), "--older-than: must be at most a hundred years"),
        (("capacity", "--days", "nan"), "--days: is no number"),
    ],
)
def test_they_are_refused(run, arguments, told):
    done = run(*arguments)
    assert done.exit_code == 1
    assert told in done.stderr


@pytest.mark.parametrize("host", [NO_TEXT, "x" * 300])
def test_what_can_be_no_host_is_none_to_listen_on(run, monkeypatch, host):
    monkeypatch.setenv("REMINDERS_METRICS_TOKEN", "Zk3vQ8rT1nW6yB0eH5uJ9pL2xS7dF4gA")
    done = run("metrics", "--serve", "--port", "0", "--host", host)
    assert done.exit_code == 1
    assert "Cannot listen on" in done.stderr
