"""`reminders drill --here` before anything is done: whom it refuses, and that it asks. What it does runs in acceptance."""

import pytest

HERE = ("drill", "--here", "same-message", "--tenant")


@pytest.fixture(autouse=True)
def idle(broker):
    """No worker is connected."""


def test_a_tenant_with_other_reminders_is_refused(run, stage):
    other = stage.schedule(tenant_id="staging")
    refused = run(*HERE, "staging", "--yes")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert str(other.id) in refused.stderr
    let = run(*HERE, "staging", "--yes", "--among-others")
    assert "No worker of this installation consumes scan or deliver" in let.stderr


def test_the_tenants_name_is_asked_for_once_more(run, stage):
    mistyped = run(*HERE, "drills", input="drill\n")
    assert (mistyped.exit_code, mistyped.stdout) == (1, "")
    assert "nothing was done" in mistyped.stderr
    typed = run(*HERE, "drills", input="drills\n")
    assert typed.exit_code == 1
    assert "No worker of this installation consumes scan or deliver" in typed.stderr
    assert stage.count("reminders") == 0
