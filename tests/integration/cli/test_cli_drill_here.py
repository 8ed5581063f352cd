"""`reminders drill --here` before anything is done: whom it refuses, and that it asks. What it does runs in acceptance."""

import os

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


def test_with_nobody_to_ask_it_says_what_to_add(run, stage):
    needed = "Nobody is there to type the tenant's name; nothing was done\nAdd --yes to go on without being asked\n"
    ended = run(*HERE, "drills", input="")
    assert (ended.exit_code, ended.stdout) == (1, "")
    assert ended.stderr.endswith(f"\n{needed}")
    assert stage.count("reminders") == 0


def test_with_standard_input_closed_it_says_the_same(process):
    ended = process(*HERE, "drills", preexec_fn=lambda: os.close(0))
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.strip().splitlines() == [
        "Nobody is there to type the tenant's name; nothing was done",
        "Add --yes to go on without being asked",
    ]
