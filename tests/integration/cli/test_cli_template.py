"""`reminders template`: adding, listing, showing, trying, going back, and what is refused."""

from __future__ import annotations

import getpass
import socket

import pytest

from integration.cli.stage import only
from reminders.domain.identity import uuid7
from reminders.ledger.claiming import PostgresClaims

PLACE = ("--all-tenants", "--kind", "invoice-due", "--channel", "email")
DATA = '{"order": 17}'


@pytest.fixture
def file(tmp_path):
    def write(name, text):
        path = tmp_path / name
        path.write_text(text) if isinstance(text, str) else path.write_bytes(text)
        return path

    return write


@pytest.fixture
def add(run, file, stage):
    """Add a version; `more` are further words of the command line."""

    def call(text="Order {{ data.order }}\n", subject="Due\n", *more, place=PLACE):
        parts = ("--subject", file("s", subject), "--text", file("t", text))
        return run("template", "add", *place, *parts, *more)

    return call


def scheduled(stage, **changed):
    return stage.schedule(**{"channel": "email", "destination": "ada@shop.example", "data": {"order": 17}, **changed})


def test_add_says_what_it_added_and_again_adds_nothing(add, run):
    first = only(add("one", "Due", "--json"))
    assert (first["name"], first["version"], first["created"], first["active"]) == (
        "*/invoice-due/email/*@1",
        1,
        True,
        True,
    )
    assert (first["tenant_id"], first["locale"]) == (None, None)
    again = only(add("one", "Due", "--json"))
    assert (again["id"], again["created"]) == (first["id"], False)
    said = add("two", "Due").stdout
    assert said.startswith("added: */invoice-due/email/*@2 (")
    assert add("two", "Due").stdout.startswith("there already: */invoice-due/email/*@2 (")
    shown = only(run("template", "show", first["id"], "--json"))
    assert shown["parts"] == {"subject": "Due", "text": "one"}
    assert (shown["added_by"], shown["active"]) == (getpass.getuser(), False)
    for_people = run("template", "show", first["id"]).stdout
    assert f"{getpass.getuser()} on {socket.gethostname()}" in for_people
    assert for_people.endswith("--- subject\nDue\n--- text\none\n")


def test_list_activate_and_withdraw(add, run):
    own = ("--tenant", "acme", "--kind", "invoice-due", "--channel", "email", "--locale", "de_AT")
    first, second = only(add("one", "s", "--json")), only(add("two", "s", "--json", "--actor", "bea"))
    assert only(add("own", "s", "--json", place=own))["name"] == "acme/invoice-due/email/de-at@1"
    assert [line.split()[-1] for line in run("template", "list").stdout.splitlines()[1:]] == [
        "*/invoice-due/email/*@2",
        "acme/invoice-due/email/de-at@1",
    ]
    assert only(run("template", "list", "--locale", "de-AT", "--json"))["tenant_id"] == "acme"
    back = only(run("template", "activate", first["id"], "--actor", "bea", "--json"))
    assert (back["active"], back["activated_by"], back["changed"]) == (True, "bea", True)
    assert "nothing changed: */invoice-due/email/*@1" in run("template", "activate", first["id"]).stdout
    said = add("two", "s").stdout
    assert f"`reminders template activate {second['id']}` changes that" in said
    assert only(run("template", "withdraw", first["id"], "--json"))["active"] is False
    assert run("template", "list", "--tenant", "nobody").stdout == "No template fits.\n"
    assert len(run("template", "list", "--kind", "invoice-due", "--all").stdout.splitlines()) == 4


def test_inactive_is_added_for_later(add, run):
    add("one", "s")
    later = only(add("two", "s", "--inactive", "--json"))
    assert (later["version"], later["active"]) == (2, False)
    tried = run("template", "preview", later["id"], "--data", DATA, "--json")
    assert only(tried)["parts"] == {"subject": "s", "text": "two"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--channel", "webhook", "--text", "T"), "--channel: webhook has no templates"),
        (("--channel", "pigeon", "--text", "T"), "--channel: 'pigeon' is not installed"),
        (("--channel", "email", "--text", "T"), "--subject: is missing; templates of email must have it"),
        (("--channel", "sms", "--text", "T", "--html", "T"), "--html: templates of sms have no html; they have text"),
        (("--channel", "sms", "--text", "MISSING"), "--text: 'MISSING' cannot be read: No such file"),
        (("--channel", "sms", "--text", "LATIN"), "LATIN' is not UTF-8 text"),
        (("--channel", "sms", "--text", "NUL"), "NUL' contains a NUL character"),
        (("--channel", "sms", "--text", "T", "--locale", "german"), "'german' is no language tag"),
        (("--channel", "sms", "--text", "BROKEN"), "BROKEN, text, line 2: there is no name nope; there are channel"),
        (("--channel", "sms", "--text", "T", "--actor", ""), "--actor: "),
    ],
)
def test_what_is_no_template_is_refused_and_nothing_is_added(run, stage, file, words, said):
    files = {
        "T": file("T", "x"), "LATIN": file("LATIN", b"\xe4"), "NUL": file("NUL", "a\0b"), "BROKEN": file("BROKEN", "a\n{{ nope }}"),
    }  # fmt: skip
    result = run("template", "add", "--all-tenants", "--kind", "k", *(files.get(word, word) for word in words))
    assert result.exit_code == 1
    assert said in result.stderr
    assert stage.count("templates") == 0


@pytest.mark.parametrize("place", [(), ("--tenant", "a", "--all-tenants"), ("--tenant", "a", "--kind", "k")])
def test_where_it_belongs_must_be_said(run, place):
    assert run("template", "add", *place).exit_code == 2


def test_preview_fills_in_files_with_given_data(run, file):
    parts = (
        "--subject",
        file("s", "{{ kind }} of {{ user_id }}\n"),
        "--text",
        file("t", "{{ due_at|local('%H:%M') }} {{ data.order }}\n"),
    )
    html = ("--html", file("h", "<b>{{ data.order }}</b>"))
    more = ("--data", '{"order": "<17>"}', "--user", "bea", "--due-at", "2030-05-01T09:30", "--zone", "Europe/Berlin")
    said = run("template", "preview", *PLACE, *parts, *html, *more)
    assert said.stdout == "--- subject\ninvoice-due of bea\n--- text\n09:30 <17>\n--- html\n<b>&lt;17&gt;</b>\n"
    steering = run("template", "preview", *PLACE, *parts, "--data", '{"order": "\\u001b[2J"}', "--zone", "UTC")
    assert "\x1b" not in steering.stdout


def test_preview_tells_faults_with_file_and_line(run, add, file):
    text = file("due.txt", "a\n{{ data.order.total }}\n")
    said = run(
        "template", "preview", *PLACE, "--subject", file("s", "x"), "--text", text, "--data", '{"order": {"SECRET": 1}}'
    )
    assert said.exit_code == 1
    assert said.stderr == f"{text}, text, line 2: total is missing in the data\n"
    stored = only(add("a\n{{ data.order.total }}", "x", "--json"))
    said = run("template", "preview", stored["id"], "--data", '{"order": {}}')
    assert said.stderr == "*/invoice-due/email/*@1, text, line 2: total is missing in the data\n"


def test_preview_for_a_reminder_shows_what_its_claim_would_pin_and_sends_nothing(run, add, stage):
    made = scheduled(stage)
    missing = run("template", "preview", "--reminder", made.id)
    assert missing.exit_code == 1
    assert (
        "reminders template add --all-tenants --kind invoice-due --channel email --subject FILE --text FILE"
        in missing.stderr
    )
    add("Order {{ data.order }} of {{ tenant_id }}")
    assert only(run("template", "preview", "--reminder", made.id, "--json"))["parts"]["text"] == "Order 17 of acme"
    stage.publish()
    claims = PostgresClaims(stage.database, worker="w", formats={}, templated=["email"])
    claim = claims.claim(made.id, made.delivery_key, uuid7(), 30.0)
    assert claim is not None
    newer = only(add("Newer {{ data.order }}", "s", "--json"))
    assert only(run("template", "preview", "--reminder", made.id, "--json"))["template"] == "*/invoice-due/email/*@1"
    tried = run("template", "preview", newer["id"], "--reminder", made.id, "--json")
    assert only(tried)["parts"]["text"] == "Newer 17"
    assert stage.count("notification_deliveries") == 1
    shown = only(run("show", made.id, "--json"))
    assert (shown["template"], shown["template_id"]) == ("*/invoice-due/email/*@1", str(claim.template_id))
    assert "*/invoice-due/email/*@1" in run("show", made.id).stdout


def test_preview_of_a_place_without_an_active_version(run, add):
    assert run("template", "preview", *PLACE, "--data", DATA).exit_code == 1
    add("Order {{ data.order }}")
    assert "Order 17" in run("template", "preview", *PLACE, "--data", DATA).stdout


def test_check_finds_broken_templates_and_reminders_that_would_have_none(run, add, stage):
    add()
    assert run("template", "check").stdout == "1 active templates, nothing found\n"
    scheduled(stage)
    scheduled(stage, kind="other", tenant_id="shop")
    scheduled(stage, kind="other", tenant_id="shop")
    stage.schedule(kind="other")
    with stage.database.transaction() as connection, connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO reminders.templates (id, tenant_id, kind, channel, locale, version, parts, actor, host)"
            """ VALUES (%s, 't', 'k', 'sms', '', 1, '{"text": "{{ nope }}", "html": ""}', 'x', 'x')""",
            (str(broken := uuid7()),),
        )
    run("template", "activate", broken)
    result = run("template", "check")
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "t/k/sms/*@1, html: the channel has no such part",
        (
            "t/k/sms/*@1, text, line 1: there is no name nope; there are channel, data, due_at, kind, locale, reference, slot, "
            "tenant_id, user_id, zone"
        ),
        (
            "2 waiting: tenant shop has no active template for kind other on channel email, nor have all tenants; nothing was sent. "
            "`reminders template add --all-tenants --kind other --channel email --subject FILE --text FILE`, then redrive it"
        ),
    ]
    found = run("template", "check", "--json").stdout.splitlines()
    assert len(found) == 3


def test_what_is_not_there_is_said(run, stage):
    for command in ("show", "activate", "withdraw", "preview"):
        result = run("template", command, uuid7())
        assert (result.exit_code, "there is no template version" in result.stderr) == (1, True)
    assert "there is no reminder" in run("template", "preview", "--reminder", uuid7()).stderr
