"""What the channel would refuse is told by `template preview`, `add` and `check` as the dead letter would tell it."""

from __future__ import annotations

import json

import pytest

from integration.cli.stage import only
from reminders.domain.identity import uuid7

PLACE = ("--all-tenants", "--kind", "invoice-due")
WORD = "=?utf-8?q?a?="
TOO_LONG = "text: the text comes to 7 SMS parts; REMINDERS_SMS_MAX_PARTS allows 4"
SMS_FAULTS = [
    ("x" * 1000, TOO_LONG),
    (" \n", "text: the text is empty"),
    ("a\x07b", "text: the text holds U+0007, which an SMS cannot carry"),
]
EMAIL_FAULTS = [
    (WORD, "subject: contains an encoded word"),
    ("s" * 501, "subject: has 501 characters; at most 500 are allowed"),
    (" ", "subject: is empty"),
    ("two\nlines", "subject: it comes to more than one line"),
]


@pytest.fixture
def parts(tmp_path):
    def write(channel, text, subject="s", html=None):
        words = ["--channel", channel]
        given = {"text": text} if channel == "sms" else {"subject": subject, "text": text, "html": html}
        for part, source in given.items():
            if source is not None:
                path = tmp_path / f"due.{part}"
                path.write_text(source)
                words += [f"--{part}", path]
        return words

    return write


def faults(result):
    assert result.exit_code == 1
    assert result.stdout == ""
    return result.stderr


@pytest.mark.parametrize("command", ["preview", "add"])
@pytest.mark.parametrize(("text", "said"), SMS_FAULTS)
def test_what_no_sms_can_be_names_the_file_and_exits_with_1(run, *, stage, parts, tmp_path, command, text, said):
    result = run("template", command, *PLACE, *parts("sms", text))
    assert faults(result) == f"{tmp_path / 'due.text'}, {said}\n"
    assert stage.count("templates") == 0


@pytest.mark.parametrize("command", ["preview", "add"])
@pytest.mark.parametrize(("subject", "said"), EMAIL_FAULTS)
def test_what_no_subject_can_be_names_the_file_and_exits_with_1(run, *, stage, parts, tmp_path, command, subject, said):
    result = run("template", command, *PLACE, *parts("email", "t", subject))
    assert f"{tmp_path / 'due.subject'}, {said}" in faults(result)
    assert stage.count("templates") == 0


@pytest.mark.parametrize(
    ("channel", "given", "data", "said"),
    [
        ("sms", ("{{ data.x }}",), "y" * 1000, TOO_LONG),
        ("sms", ("{{ data.x }}",), " ", "text: the text is empty"),
        ("sms", ("a{{ data.x }}",), "\x1b", "text: the text holds U+001B"),
        ("email", ("t", "{{ data.x }}"), WORD, "subject: contains an encoded word"),
        ("email", ("t", "{{ data.x }}"), "a\r\nBcc: x@y", "subject: it comes to more than one line"),
        ("email", ("t", "a{{ data.x }}"), "s" * 500, "subject: has 501 characters"),
        ("email", ("{{ data.x }}", "s"), "", "text: is empty"),
    ],
)
def test_what_only_the_data_bring_about_is_found_by_preview(run, *, parts, channel, given, data, said):
    words = parts(channel, *given)
    assert run("template", "add", *PLACE, *words).exit_code == 0
    data_words = ("--data", json.dumps({"x": data}))
    for more in (words, words[:2]):
        assert said in faults(run("template", "preview", *PLACE, *more, *data_words))


def test_fixed_words_that_are_too_long_are_refused_whatever_else_is_said(run, parts):
    words = parts("sms", "{{ data.name }}, {" + "x" * 613 + "{% if data.more %}y{% endif %}")
    assert "comes to 5 SMS parts" in faults(run("template", "add", *PLACE, *words))
    fits = parts("sms", "{{ data.name }}" + "x" * 612 + "{% if data.more %}y{% endif %}")
    assert run("template", "add", *PLACE, *fits).exit_code == 0


def test_what_only_values_make_complete_is_added(run, parts):
    html = "<style>p { margin: 0 }</style>{% for x in data.lines %}{{ x }}{% endfor %}"
    assert run("template", "add", *PLACE, *parts("email", "{{ data.x }}", "{{ data.x }}", html)).exit_code == 0
    assert run("template", "add", *PLACE, *parts("sms", "{% if data.x %}a{% endif %}")).exit_code == 0
    assert run("template", "check").stdout == "2 active templates, nothing found\n"


def test_check_finds_what_was_added_under_other_limits(run, stage):
    with stage.database.transaction() as connection, connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO reminders.templates (id, tenant_id, kind, channel, locale, version, parts, actor, host)"
            " VALUES (%s, 't', 'k', 'sms', '', 1, %s, 'x', 'x')",
            (str(long := uuid7()), json.dumps({"text": "x" * 1000})),
        )
    run("template", "activate", long)
    result = run("template", "check")
    assert (result.exit_code, result.stdout) == (1, f"t/k/sms/*@1, {TOO_LONG}\n")


@pytest.mark.parametrize(
    ("text", "counted", "told"),
    [
        ("a" * 160 + "\n", {"parts": 1, "encoding": "GSM-7", "units": 160}, "--- 1 SMS, GSM-7, 160 units"),
        ("ж" * 71, {"parts": 2, "encoding": "UCS-2", "units": 71}, "--- 2 SMS, UCS-2, 71 units"),
    ],
)
def test_preview_says_what_an_sms_comes_to(run, parts, text, counted, told):
    words = parts("sms", text)
    said = only(run("template", "preview", *PLACE, *words, "--json"))
    assert (said["sms"], said["parts"]) == (counted, {"text": text.rstrip("\n")})
    assert run("template", "preview", *PLACE, *words).stdout.splitlines()[-1] == told
    assert "sms" not in only(run("template", "preview", *PLACE, *parts("email", "t"), "--json"))


def test_preview_goes_by_the_channels_limits_from_the_settings(run, parts, monkeypatch):
    words = parts("sms", "x" * 1000)
    monkeypatch.setenv("REMINDERS_SMS_MAX_PARTS", "7")
    assert only(run("template", "preview", *PLACE, *words, "--json"))["sms"]["parts"] == 7


def test_preview_for_a_reminder_is_rendered_to_its_own_address(run, stage, parts):
    made = stage.schedule(channel="sms", destination="+4915112345678", kind="invoice-due", data={"x": "y" * 1000})
    run("template", "add", *PLACE, *parts("sms", "{{ data.x }}"))
    assert faults(run("template", "preview", "--reminder", made.id)) == f"*/invoice-due/sms/*@1, {TOO_LONG}\n"
