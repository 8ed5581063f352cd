"""`reminders suppress`: add, remove, list, import."""

from __future__ import annotations

import json
from uuid import UUID

import pytest

from integration.cli.stage import ADDRESS, lines, only
from integration.import_files import rejects
from reminders.domain.identity import destination_id
from reminders.ledger.claiming import PostgresClaims

pytestmark = pytest.mark.usefixtures("stage")
WHO = ("--tenant", "acme", "--user", "ada")
HOME = destination_id("acme", "webhook", ADDRESS)


def ends(stage, made):
    """What becomes of its message."""
    stage.publish()
    return PostgresClaims(stage.database, worker="w", formats={}).refusal(made.id, made.delivery_key)


def test_add_says_what_lives_under_it_and_show_and_list_say_why_it_is_not_sent(run, stage):
    made = stage.schedule(user_id="ada")
    sending = stage.claim(stage.schedule(user_id="ada"))
    stage.schedule(user_id="bea")
    said = only(run("suppress", "add", *WHO, "--reason", "unsubscribed", "--source", "link", "--actor", "bo", "--json"))
    assert said | {"id": 0, "claims_end_at": 0} == {
        "v": 1, "id": 0, "created": True, "tenant_id": "acme", "user_id": "ada", "destination_id": None, "channel": None,
        "kind": None, "reminders": 2, "open_claims": 1, "claims_end_at": 0, "other_spellings": [],
    }  # fmt: skip
    assert said["claims_end_at"] > sending.claimed_at.isoformat()[:19]
    before = only(run("show", made.id, "--json"))
    assert before["why"].startswith("it will not be sent: unsubscribed; it ends as suppressed when it comes due")
    assert ends(stage, made) == "suppressed"
    after = only(run("show", made.id, "--json"))
    assert (after["status"], after["suppressed_by"], after["suppressed_reason"]) == (
        "suppressed",
        said["id"],
        "unsubscribed",
    )
    assert after["why"] == f"it was not sent: unsubscribed ({said['id']}); only a reschedule revives it"
    assert after["timeline"][-1]["detail"] == "unsubscribed"
    assert [each["id"] for each in lines(run("list", "--status", "suppressed", "--json"))] == [str(made.id)]


def test_said_twice_it_is_one(run):
    one = only(run("suppress", "add", *WHO, "--reason", "a", "--json"))
    again = run("suppress", "add", *WHO, "--reason", "b")
    assert (again.exit_code, again.stdout.splitlines()) == (
        0,
        [
            f"already suppressed: user ada of acme ({one['id']})",
            "0 live reminders; they end as suppressed when they come due",
        ],
    )


@pytest.mark.parametrize("by_id", [True, False])
def test_an_address_is_named_once_and_kept_as_an_id(run, stage, by_id):
    made = stage.schedule()
    named = ("--destination-id", HOME) if by_id else ("--channel", "webhook", "--to", ADDRESS)
    result = run("suppress", "add", "--tenant", "acme", *named, "--reason", "bounced", "--json")
    said = only(result)
    assert (said["destination_id"], said["channel"], said["reminders"]) == (str(HOME), None, 1)
    assert ADDRESS not in result.stdout + run("suppress", "list").stdout
    assert ends(stage, made) == "suppressed"
    found = lines(run("suppress", "list", "--tenant", "acme", "--channel", "webhook", "--to", ADDRESS, "--json"))
    assert [each["id"] for each in found] == [said["id"]]
    assert run("suppress", "remove", "--tenant", "acme", *named, "--reason", "mended").exit_code == 0
    assert lines(run("suppress", "list", "--json")) == []


def test_remove_by_id_keeps_it_on_record(run):
    said = only(run("suppress", "add", *WHO, "--kind", "offer", "--reason", "unsubscribed", "--json"))
    lifted = only(run("suppress", "remove", said["id"], "--reason", "came back", "--actor", "bo", "--json"))
    assert lifted == {"v": 1, "id": said["id"], "lifted": True}
    (kept,) = lines(run("suppress", "list", "--lifted", "--json"))
    assert (kept["kind"], kept["reason"], kept["lifted_by"], kept["lifted_reason"]) == (
        "offer",
        "unsubscribed",
        "bo",
        "came back",
    )
    assert "lifted" in run("suppress", "list", "--lifted").stdout
    assert run("suppress", "list").stdout == "Nothing is suppressed.\n"
    again = run("suppress", "remove", said["id"], "--reason", "r")
    assert (again.exit_code, again.stderr) == (1, f"no suppression of exactly this stands: {said['id']}\n")
    other = run("suppress", "remove", *WHO, "--reason", "r")
    assert (other.exit_code, other.stderr) == (1, "no suppression of exactly this stands: user ada of acme\n")


def test_list_filters(run):
    for more in ((), ("--kind", "offer"), ("--channel", "webhook")):
        run("suppress", "add", *WHO, *more, "--reason", "r")
    run("suppress", "add", "--tenant", "beta", "--user", "ada", "--reason", "r")

    def kinds(*filters):
        return [(e["tenant_id"], e["kind"], e["channel"]) for e in lines(run("suppress", "list", *filters, "--json"))]

    assert kinds("--tenant", "beta") == [("beta", None, None)]
    assert kinds("--tenant", "acme", "--kind", "offer") == [
        ("acme", None, None),
        ("acme", "offer", None),
        ("acme", None, "webhook"),
    ]
    assert kinds("--tenant", "acme", "--channel", "log") == [("acme", None, None), ("acme", "offer", None)]
    assert kinds("--limit", "1") == [("acme", None, None)]


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        (["add", "--user", "ada", "--reason", "r"], 2, "Say whose: --tenant"),
        (["add", "--tenant", "acme", "--reason", "r"], 2, "Give one of --user, --to"),
        (["add", *WHO, "--to", "x", "--reason", "r"], 2, "Give one of --user, --to"),
        (["add", *WHO], 2, "Missing option '--reason'"),
        (["add", *WHO, "--reason", " "], 1, "reason: is needed"),
        (["add", "--tenant", "acme", "--to", ADDRESS, "--reason", "r"], 1, "--channel: is needed with an address"),
        (["add", "--tenant", "acme", "--channel", "webhook", "--to", "nowhere", "--reason", "r"], 1, "--to: "),
        (["add", "--tenant", "acme", "--channel", "pigeon", "--to", "x", "--reason", "r"], 1, "--channel: "),
        (["add", *WHO, "--channel", "E-Mail", "--reason", "r"], 1, "--channel: 'E-Mail' is not installed"),
        (
            ["add", "--tenant", "acme", "--channel", "sms", "--to", "+49 151 12345678", "--reason", "r"],
            1,
            "--to: must be spelled +4915112345678",
        ),
        (["add", "--tenant", "acme", "--destination-id", "x", "--reason", "r"], 1, "destination_id: is no id"),
        (["remove", "--reason", "r"], 2, "Give either ID"),
        (["remove", str(UUID(int=1)), *WHO, "--reason", "r"], 2, "Give either ID"),
        (["remove", "x", "--reason", "r"], 1, "'x' is no id"),
    ],
)
def test_what_is_refused(run, stage, given, code, said):
    result = run("suppress", *given)
    assert said in result.stderr
    assert (result.exit_code, result.stdout, stage.count("suppressions")) == (code, "", 0)


def test_import_adds_once_and_lists_what_it_cannot_take(run, stage, tmp_path):
    file = tmp_path / "left.csv"
    file.write_text(
        "tenant_id,user_id,destination,destination_id,channel,kind,reason,source\n"
        "acme,ada,,,,,unsubscribed,old system\n"
        f"acme,,{ADDRESS},,webhook,,bounced,\n"
        f"acme,,,{HOME},,,bounced,\n"
        "acme,bea,,,,offer,,\n"
        "acme,,,,,,unsubscribed,\n"
        "acme,cleo,,,webhook,,unsubscribed,\n"
        "acme,dora,,no id,,,unsubscribed,\n"
    )
    result = run("suppress", "import", file, "--json")
    expected = {"v": 1, "read": 7, "added": 3, "existing": 1, "rejected": 3, "rejects_file": f"{file}.rejects.jsonl"}
    assert (result.exit_code, only(result)) == (3, expected)
    assert [(line, field) for line, field, _ in rejects(tmp_path / "left.csv.rejects.jsonl")] == [
        (5, "reason"),
        (6, "user_id"),
        (8, "user_id"),
    ]
    found = lines(run("suppress", "list", "--json"))
    assert {(e["user_id"], e["channel"], e["source"]) for e in found} == {
        ("ada", None, "old system"), (None, None, "left.csv"), ("cleo", "webhook", "left.csv"),
    }  # fmt: skip
    again = only(run("suppress", "import", file, "--json"))
    assert (again["added"], again["existing"]) == (0, 4)
    assert ADDRESS not in json.dumps(found)


def test_import_takes_what_is_left_out_from_its_options_and_removes_its_old_rejects(run, stage, tmp_path):
    file = tmp_path / "left.csv"
    file.write_text("user_id\n" + "".join(f"user-{n}\n" for n in range(2500)))
    rejected = tmp_path / "r.jsonl"
    rejected.write_text('{"line": 1, "field": null, "reason": "x"}\n')
    result = run(
        "suppress", "import", file, "--tenant", "acme", "--reason", "left", "--source", "crm", "--rejects", rejected
    )
    assert (result.exit_code, result.stdout) == (0, "2,500 records read: 2,500 added, 0 existing, 0 rejected\n")
    assert not rejected.exists()
    assert stage.count("suppressions") == 2500


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("tenant_id,user_id", "reason: has no column; required are tenant_id, reason"),
        ("user_id,reason", "tenant_id: has no column"),
        ("tenant_id,usr_id,reason", "usr_id: is no column of a suppression; did you mean user_id?"),
        ("", "The file is empty"),
    ],
)
def test_import_refuses_a_file_of_something_else(run, stage, tmp_path, header, said):
    file = tmp_path / "x.csv"
    file.write_text(f"{header}\n" if header else "")
    result = run("suppress", "import", file)
    assert result.exit_code == 1
    assert said in result.stderr
    assert not list(tmp_path.glob("*.jsonl"))


def test_import_rejects_what_no_reminder_can_be_called(run, stage, tmp_path):
    file = tmp_path / "left.csv"
    file.write_text(
        "user_id,destination,channel,kind\n"
        ",+49 151 12345678,sms,\n"
        ",015112345679,sms,\n"
        " sue ,,,\n"
        "tom,,E-Mail,\n"
        "eve,,email, offer\n"
        ", a@shop.example,email,\n"
        ",nowhere,webhook,\n"
        ",+4915112345678,sms,\n"
        "sue,,,\n"
    )
    result = run("suppress", "import", file, "--tenant", "acme", "--reason", "left", "--json")
    assert (result.exit_code, only(result)["added"], only(result)["rejected"]) == (3, 2, 7)
    assert next(iter(rejects(tmp_path / "left.csv.rejects.jsonl"))) == (
        2,
        "destination",
        "must be spelled +4915112345678: numbers are not rewritten, since they identify",
    )
    assert [(line, field) for line, field, _ in rejects(tmp_path / "left.csv.rejects.jsonl")] == [
        (2, "destination"),
        (3, "destination"),
        (4, "user_id"),
        (5, "channel"),
        (6, "kind"),
        (7, "destination"),
        (8, "destination"),
    ]
    found = lines(run("suppress", "list", "--json"))
    number = str(destination_id("acme", "sms", "+4915112345678"))
    assert {(e["user_id"], e["destination_id"]) for e in found} == {("sue", None), (None, number)}


def test_add_names_live_destinations_that_differ_in_case_only(run, stage):
    upper = stage.schedule(channel="log", destination="Kim@Shop.example")
    stage.schedule(channel="log", destination="lee@shop.example")
    named = ("--tenant", "acme", "--channel", "log", "--reason", "r")
    other = str(destination_id("acme", "log", "Kim@Shop.example"))
    assert only(run("suppress", "add", *named, "--to", "kim@shop.example", "--json"))["other_spellings"] == [other]
    again = run("suppress", "add", *named, "--to", "kim@shop.example")
    assert again.stdout.splitlines()[-1] == (
        f"not suppressed: destination {other}, the same but for upper and lower case; --destination-id names it"
    )
    run("suppress", "add", "--tenant", "acme", "--destination-id", other, "--reason", "r")
    assert only(run("suppress", "add", *named, "--to", "kim@shop.example", "--json"))["other_spellings"] == []
    assert ends(stage, upper) == "suppressed"
