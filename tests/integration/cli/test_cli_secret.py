"""`reminders secret`: rotate, revoke, list, history, reencrypt, generate-key; and what the commands around it say."""

from __future__ import annotations

import pytest

from integration.cli.stage import ADDRESS, lines, only
from own_keys import KEY, KEYRING, LOST_KEY, OLDER_KEY
from reminders.domain.identity import destination_id
from reminders.ledger.keyring import Keyring, secret_fingerprint
from reminders.ledger.own_secrets import PostgresSecrets
from reminders.providers.signing import parse_secret
from reminders.settings import Secret, load

PLACE = str(destination_id("acme", "webhook", ADDRESS))
ROTATED = {
    "v", "tenant_id", "channel", "destination_id", "id", "secret", "fingerprint", "key_fingerprint", "created_at", "former_until",
}  # fmt: skip
LISTED = {
    "v", "id", "tenant_id", "channel", "destination_id", "state", "inherited", "fingerprint", "key_fingerprint", "created_at",
    "retires_at", "actor", "reason",
}  # fmt: skip
HERE = ["--tenant", "acme", "--to", ADDRESS]


@pytest.fixture(autouse=True)
def keys(monkeypatch, stage):
    monkeypatch.setenv("REMINDERS_KEYS", f"{KEY},{OLDER_KEY}")


def used(stage):
    """What the next claim at the address is signed with."""
    claim = stage.claim(stage.schedule())
    found = PostgresSecrets(stage.database, KEYRING).of_mark(claim.delivery, claim.secret_mark)
    return [each.secret for each in found.own], found.derived


def test_rotate_shows_the_secret_that_the_next_claim_signs_with(run, stage):
    result = run("secret", "rotate", *HERE, "--json", "--actor", "ada", "--reason", "yearly")
    made = only(result)
    assert (result.exit_code, set(made)) == (0, ROTATED)
    assert (made["tenant_id"], made["channel"], made["destination_id"]) == ("acme", "webhook", PLACE)
    own, derived = used(stage)
    assert own == [parse_secret(made["secret"])]
    assert made["fingerprint"] == secret_fingerprint(own[0])
    assert made["key_fingerprint"] == KEYRING.newest
    assert derived == pytest.approx(86400, abs=60)


def test_rotate_for_people_and_by_id_and_for_the_tenant(run, stage):
    stage.schedule()
    by_id = run("secret", "rotate", "--tenant", "acme", "--destination-id", PLACE, "--grace", "0s")
    (line,) = [line for line in by_id.stdout.splitlines() if line.startswith("secret")]
    assert used(stage) == ([parse_secret(line.split()[1])], 0.0)
    assert "not shown again" in by_id.stderr
    tenants = only(run("secret", "rotate", "--tenant", "acme", "--json"))
    assert tenants["destination_id"] is None
    assert len(used(stage)[0]) == 1


def test_list_and_history_show_fingerprints_and_who_and_never_a_secret(run, stage):
    made = only(run("secret", "rotate", *HERE, "--json", "--actor", "ada", "--reason", "yearly"))
    inherited, newest = lines(run("secret", "list", "--json"))
    assert set(inherited) == set(newest) == LISTED
    assert (inherited["state"], inherited["inherited"], inherited["fingerprint"]) == ("retiring", True, None)
    assert (inherited["retires_at"], newest["retires_at"]) == (made["former_until"], None)
    assert (newest["state"], newest["fingerprint"], newest["actor"]) == ("signs", made["fingerprint"], "ada")
    (change,) = lines(run("secret", "history", "--json", "--tenant", "acme"))
    assert (change["action"], change["actor"], change["reason"]) == ("rotate", "ada", "yearly")
    _, first, second = run("secret", "list").stdout.splitlines()
    assert (first.split()[0], second.split()[0]) == ("inherited", made["fingerprint"])
    assert "rotate" in run("secret", "history").stdout
    assert lines(run("secret", "list", "--json", "--tenant", "nobody")) == []
    assert lines(run("secret", "list", "--json", "--destination-id", str(destination_id("a", "b", "c")))) == []
    assert run("secret", "list", "--channel", "log").stdout.startswith("No destination has a secret of its own")


def test_the_actor_is_whoever_calls_unless_said(run):
    run("secret", "rotate", *HERE)
    from reminders.cli.dlq_closing import whoever_this_is

    assert only(run("secret", "history", "--json"))["actor"] == whoever_this_is()


def test_revoke_drops_the_former_at_once(run, stage):
    first = only(run("secret", "rotate", *HERE, "--json"))
    second = only(run("secret", "rotate", *HERE, "--json"))
    said = only(run("secret", "revoke", *HERE, "--reason", "leaked", "--json"))
    assert said == {
        "v": 1, "tenant_id": "acme", "channel": "webhook", "destination_id": PLACE,
        "revoked": sorted([first["fingerprint"], "inherited"]),
    }  # fmt: skip
    assert used(stage) == ([parse_secret(second["secret"])], 0.0)
    again = run("secret", "revoke", *HERE, "--reason", "leaked")
    assert (again.exit_code, again.stdout) == (1, "")
    assert "only the newest secret" in again.stderr
    assert len(lines(run("secret", "list", "--json"))) == 1
    assert len(lines(run("secret", "list", "--json", "--retired"))) == 3


def test_reencrypt_says_which_keys_may_go(run, monkeypatch):
    newest, older = KEYRING.fingerprints
    monkeypatch.setenv("REMINDERS_KEYS", OLDER_KEY)
    run("secret", "rotate", *HERE)
    monkeypatch.setenv("REMINDERS_KEYS", f"{KEY} {OLDER_KEY}")
    done = only(run("secret", "reencrypt", "--json"))
    assert (done["reencrypted"], done["unreadable"], done["erased"]) == (1, 0, 0)
    assert done["keys"] == [
        {"fingerprint": newest, "secrets": 1, "known": True, "newest": True},
        {"fingerprint": older, "secrets": 0, "known": True, "newest": False},
    ]
    told = run("secret", "reencrypt").stdout
    assert told.startswith("0 encrypted anew")
    assert f"{older}  0        no longer in use: it can be taken out of REMINDERS_KEYS" in told
    monkeypatch.setenv("REMINDERS_KEYS", LOST_KEY)
    lost = run("secret", "reencrypt", "--json")
    assert (lost.exit_code, only(lost)["unreadable"]) == (3, 1)
    assert only(lost)["keys"][1] == {"fingerprint": newest, "secrets": 1, "known": False, "newest": False}
    assert "cannot be used" in run("secret", "reencrypt").stdout


def test_a_generated_key_is_one_for_the_setting(run):
    made = {run("secret", "generate-key").stdout.strip() for _ in range(3)}
    assert len(made) == 3
    assert load({"REMINDERS_KEYS": " ".join(sorted(made))}).keys == tuple(map(Secret, sorted(made)))


def test_a_key_that_is_lost_is_told_and_a_new_secret_can_be_made(run, stage, monkeypatch):
    monkeypatch.setenv("REMINDERS_KEYS", LOST_KEY)
    run("secret", "rotate", *HERE, "--grace", "0s")
    (lost,) = Keyring([Secret(LOST_KEY)]).fingerprints
    monkeypatch.setenv("REMINDERS_KEYS", KEY)
    refused = run("secret", "rotate", *HERE)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert f"no key with the fingerprint {lost}" in refused.stderr
    audited = run("audit")
    assert audited.exit_code == 1
    assert f"secret_key_missing: 1 violation\n  Must hold: Every secret" in audited.stdout  # noqa: F541
    assert f"is under key {lost}" in audited.stdout
    made = only(run("secret", "rotate", *HERE, "--grace", "0s", "--json"))
    assert used(stage) == ([parse_secret(made["secret"])], 0.0)


def test_a_destination_says_whose_own_secret_signs(run, stage):
    stage.schedule()
    assert only(run("destination", "show", PLACE, "--json"))["own_secret"] is None
    run("secret", "rotate", "--tenant", "acme")
    assert only(run("destination", "show", PLACE, "--json"))["own_secret"] == "tenant"
    run("secret", "rotate", *HERE)
    assert only(run("destination", "show", PLACE, "--json"))["own_secret"] == "destination"
    assert run("tenant", "show", "acme").stdout.startswith("Nothing is set or held for this tenant")


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        (["rotate", "--to", ADDRESS], 2, "Missing option '--tenant'"),
        (["rotate", *HERE, "--destination-id", PLACE], 2, "Give either --to or --destination-id"),
        (["rotate", "--tenant", "acme", "--destination-id", PLACE], 1, f"there is no destination {PLACE}"),
        (["rotate", "--tenant", "acme", "--destination-id", "no-id"], 1, "--destination-id: 'no-id' is no id"),
        (["rotate", "--tenant", "acme", "--to", "no-url"], 1, "--to: must be an"),
        (["rotate", "--tenant", "acme", "--channel", "log"], 1, "--channel: 'log' does not sign"),
        (["rotate", "--tenant", "acme", "--channel", "pigeon"], 1, "--channel: 'pigeon' is not"),
        (["rotate", "--tenant", "", "--to", ADDRESS], 1, "--tenant: is empty"),
        (["rotate", *HERE, "--grace", "soon"], 1, "--grace: 'soon' is no duration"),
        (["rotate", *HERE, "--grace", "91d"], 1, "--grace: '91d' is longer than 90d"),
        (["rotate", *HERE, "--actor", " "], 1, "actor: is needed"),
        (["revoke", *HERE], 2, "Missing option '--reason'"),
        (["revoke", *HERE, "--reason", "x"], 1, "has no secret of its own"),
        (["revoke", *HERE, "--reason", " "], 1, "reason: is needed"),
        (["reveal", *HERE], 2, "No such command 'reveal'"),
        (["list", "--destination-id", "x"], 1, "--destination-id: 'x' is no id"),
    ],
)
def test_what_is_refused(run, stage, given, code, said):
    result = run("secret", *given)
    assert said in result.stderr
    assert (result.exit_code, result.stdout) == (code, "")
    assert (stage.count("secrets"), stage.count("destinations"), stage.count("tenant_policies")) == (0, 0, 0)


def test_another_tenants_destination_is_refused(run, stage):
    stage.schedule()
    result = run("secret", "rotate", "--tenant", "beta", "--destination-id", PLACE)
    assert (result.exit_code, result.stderr.startswith("tenant beta has no destination")) == (1, True)
    assert stage.count("secrets") == 0


@pytest.mark.parametrize("command", [["rotate", *HERE], ["reencrypt"]])
def test_without_keys_it_says_how_to_make_one(run, monkeypatch, command):
    monkeypatch.delenv("REMINDERS_KEYS")
    result = run("secret", *command)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "REMINDERS_KEYS is not set" in result.stderr
    assert "reminders secret generate-key" in result.stderr
