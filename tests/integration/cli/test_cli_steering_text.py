"""What would steer or mislead a terminal is shown as its escape, whichever command says it, on both outputs."""

from __future__ import annotations

import pytest

USER = "ada\u202eeve\u2028x"
SHOWN = "ada\\u202eeve\\u2028x"
WHO = ("--tenant", USER, "--user", USER)


@pytest.fixture
def template_file(tmp_path):
    path = tmp_path / "t.txt"
    path.write_text("x")
    return path


def told(result):
    for text in (result.stdout, result.stderr):
        assert "\u202e" not in text
        assert "\u2028" not in text
    assert SHOWN in result.stdout + result.stderr
    return result


@pytest.mark.parametrize(
    "words",
    [
        ("suppress", "add", *WHO, "--reason", "r"),
        ("suppress", "remove", *WHO, "--reason", "r"),
        ("suppress", "add", *WHO, "--channel", USER, "--reason", "r"),
        ("recipient", "show", *WHO),
        ("recipient", "set", *WHO, "--zone", "UTC"),
        ("pause", "--tenant", USER, "--reason", "r"),
        ("template", "add", "--all-tenants", "--kind", USER, "--channel", "sms", "--text", "FILE"),
    ],
)
def test_a_name_that_steers_a_terminal_is_escaped(run, stage, template_file, words):
    told(run(*(template_file if word == "FILE" else word for word in words)))


def test_so_it_is_when_it_is_changed_or_found_at_fault(run, stage, template_file):
    added = run("template", "add", "--tenant", USER, "--kind", USER, "--channel", "sms", "--text", template_file)
    version = told(added).stdout.rpartition("(")[2].rstrip(")\n")
    told(run("template", "activate", version))
    told(run("template", "withdraw", version))
    stage.schedule(tenant_id=USER, user_id=USER, kind=USER, channel="sms", destination="+4915112345678")
    assert told(run("template", "check")).exit_code == 1
    told(run("pause", "--tenant", USER, "--reason", "r"))
    told(run("resume", "--tenant", USER))
    told(run("list"))
