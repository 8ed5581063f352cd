"""`reminders destination`: reading, and saying whether a destination deduplicates."""

import pytest

from integration.cli.stage import ADDRESS, lines, only
from reminders.domain.identity import destination_id

KEYS = {
    "v", "id", "tenant_id", "channel", "deduplicates", "deduplicates_set", "created_at", "reminders", "live", "held_until",
    "hold_reason", "disabled_at", "disabled_reason", "failing_since", "enabled_at", "enabled_reason", "own_secret",
    "breaker", "breaker_opened_at", "breaker_times", "timed_out_at",
}  # fmt: skip
PLACE = str(destination_id("acme", "webhook", ADDRESS))
NAMED = ["--tenant", "acme", "--channel", "webhook", "--to", ADDRESS]


@pytest.fixture
def known(stage):
    stage.schedule(tenant_id="acme")
    stage.schedule(tenant_id="acme")
    stage.schedule(tenant_id="other", channel="log", destination="somewhere")


def test_list_names_destinations_by_id(run, known):
    found = lines(run("destination", "list", "--json"))
    assert [set(each) for each in found] == [KEYS] * 2
    names = ("id", "tenant_id", "channel", "deduplicates", "deduplicates_set", "reminders", "live")
    assert [tuple(each[name] for name in names) for each in found] == [
        (PLACE, "acme", "webhook", True, False, 2, 2),
        (str(destination_id("other", "log", "somewhere")), "other", "log", True, False, 1, 1),
    ]
    assert lines(run("destination", "list", "--json", "--limit", "1")) == found[:1]
    assert [each["tenant_id"] for each in lines(run("destination", "list", "--json", "--channel", "log"))] == ["other"]
    assert lines(run("destination", "list", "--json", "--tenant", "nobody")) == []


def test_addresses_are_shown_on_demand(run, known):
    hidden = run("destination", "show", PLACE, "--json")
    assert set(only(hidden)) == KEYS
    assert ADDRESS not in hidden.stdout
    assert only(run("destination", "show", PLACE, "--reveal", "--json")) == only(hidden) | {"address": ADDRESS}
    assert ADDRESS not in run("destination", "list").stdout
    head, row, _ = run("destination", "list", "--reveal").stdout.splitlines()
    assert row[head.index("deduplicates") :].split()[:2] == ["yes", "no"]
    assert row[head.index("reminders") :].split()[:2] == ["2", "2"]
    assert row[head.index("address") :] == ADDRESS


def test_one_is_shown_by_what_it_is_too(run, known):
    assert only(run("destination", "show", *NAMED, "--json")) == only(run("destination", "show", PLACE, "--json"))


@pytest.mark.parametrize("named", [[PLACE], NAMED])
def test_set_decides_what_the_next_claim_does_with_an_unknown_outcome(run, stage, named):
    first, second, third = (stage.schedule(tenant_id="acme") for _ in range(3))
    assert stage.claim(first).on_unknown == "repeat"
    result = run("destination", "set", *named, "--deduplicates", "no", "--json")
    assert result.exit_code == 0
    assert set(only(result)) == KEYS
    shown = ("id", "deduplicates", "deduplicates_set", "reminders")
    assert [only(result)[name] for name in shown] == [PLACE, False, True, 3]
    assert stage.claim(second).on_unknown == "review"
    assert only(run("destination", "set", *named, "--deduplicates", "yes", "--json"))["deduplicates"] is True
    assert stage.claim(third).on_unknown == "repeat"


def test_a_destination_can_be_described_before_its_first_reminder(run, stage):
    said = run("destination", "set", *NAMED, "--deduplicates", "no", "--json")
    assert (said.exit_code, only(said)["id"], only(said)["reminders"]) == (0, PLACE, 0)
    assert [each["id"] for each in lines(run("destination", "list", "--json"))] == [PLACE]
    assert stage.claim(stage.schedule(tenant_id="acme")).on_unknown == "review"
    assert stage.rows("SELECT id::text, address, deduplicates FROM destinations") == [(PLACE, ADDRESS, False)]
    assert only(run("destination", "show", PLACE, "--json")) == only(said) | {"reminders": 1, "live": 1}


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        ([PLACE, "--deduplicates", "no"], 1, f"there is no destination {PLACE}"),
        (["no-id", "--deduplicates", "no"], 1, "ID: 'no-id' is no id"),
        (
            ["--tenant", "a", "--channel", "pigeon", "--to", "x", "--deduplicates", "no"],
            1,
            "--channel: 'pigeon' is not",
        ),
        (["--tenant", "a", "--channel", "webhook", "--to", "x", "--deduplicates", "no"], 1, "--to: must be an"),
        (["--tenant", "", "--channel", "webhook", "--to", ADDRESS, "--deduplicates", "no"], 1, "--tenant: is empty"),
        (["--tenant", "a", "--channel", "log", "--to", "\0", "--deduplicates", "no"], 1, "--to: contains a con"),
        (["--tenant", "a", "--channel", "log", "--to", "\udcff", "--deduplicates", "no"], 1, "--to: contains a"),
        ([PLACE], 2, "Missing option '--deduplicates'"),
        ([PLACE, "--deduplicates", "perhaps"], 2, "'perhaps' is not a valid boolean"),
        (["--deduplicates", "no"], 2, "Give either ID or all of"),
        (["--tenant", "a", "--channel", "log", "--deduplicates", "no"], 2, "Give either ID or all of"),
        ([PLACE, "--tenant", "a", "--deduplicates", "no"], 2, "Give either ID or all of"),
        ([PLACE, "--tenant", "", "--deduplicates", "no"], 2, "Give either ID or all of"),
    ],
)
def test_what_set_refuses(run, stage, given, code, said):
    result = run("destination", "set", *given)
    assert said in result.stderr
    assert (result.exit_code, result.stdout) == (code, "")
    assert stage.count("destinations") == 0


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        ([PLACE], 1, f"there is no destination {PLACE}"),
        (NAMED, 1, f"there is no destination {PLACE}"),
        (["--tenant", "acme", "--channel", "webhook", "--to", "\0"], 1, "--to: contains a con"),
        ([], 2, "Give either ID or all of"),
        (["--tenant", "acme", "--channel", "webhook"], 2, "Give either ID or all of"),
    ],
)
def test_what_show_refuses(run, given, code, said):
    result = run("destination", "show", *given)
    assert said in result.stderr
    assert (result.exit_code, result.stdout) == (code, "")
