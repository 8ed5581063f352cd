"""`reminders destination`: reading, and saying whether a destination deduplicates."""

import pytest

from integration.cli.stage import ADDRESS, lines, only
from reminders.domain.identity import destination_id

KEYS = {"v", "id", "tenant_id", "channel", "deduplicates", "created_at"}
PLACE = str(destination_id("acme", "webhook", ADDRESS))


@pytest.fixture
def known(stage):
    stage.schedule(tenant_id="acme")
    stage.schedule(tenant_id="other", channel="log", destination="somewhere")


def test_list_names_destinations_by_id(run, known):
    found = lines(run("destination", "list", "--json"))
    assert [set(each) for each in found] == [KEYS] * 2
    assert [(each["id"], each["tenant_id"], each["channel"], each["deduplicates"]) for each in found] == [
        (PLACE, "acme", "webhook", True),
        (str(destination_id("other", "log", "somewhere")), "other", "log", True),
    ]
    assert [each["tenant_id"] for each in lines(run("destination", "list", "--json", "--channel", "log"))] == ["other"]
    assert lines(run("destination", "list", "--json", "--tenant", "nobody")) == []


def test_addresses_are_shown_on_demand(run, known):
    assert only(run("destination", "show", PLACE, "--reveal", "--json")) == only(
        run("destination", "show", PLACE, "--json")
    ) | {"address": ADDRESS}
    head, row, _ = run("destination", "list", "--reveal").stdout.splitlines()
    assert row[head.index("deduplicates") :].startswith("yes ")
    assert row[head.index("address") :] == ADDRESS


@pytest.mark.parametrize("named", [[PLACE], ["--tenant", "acme", "--channel", "webhook", "--to", ADDRESS]])
def test_set_decides_what_the_next_claim_does_with_an_unknown_outcome(run, stage, named):
    first, second = stage.schedule(tenant_id="acme"), stage.schedule(tenant_id="acme")
    assert stage.claim(first).on_unknown == "repeat"
    result = run("destination", "set", *named, "--deduplicates", "no", "--json")
    assert result.exit_code == 0
    assert (only(result)["id"], only(result)["deduplicates"]) == (PLACE, False)
    assert stage.claim(second).on_unknown == "review"
    assert only(run("destination", "set", *named, "--deduplicates", "yes", "--json"))["deduplicates"] is True


def test_a_destination_can_be_described_before_its_first_reminder(run, stage):
    named = ["--tenant", "acme", "--channel", "webhook", "--to", ADDRESS]
    assert run("destination", "set", *named, "--deduplicates", "no").exit_code == 0
    assert stage.claim(stage.schedule(tenant_id="acme")).on_unknown == "review"
    assert stage.rows("SELECT id::text, address, deduplicates FROM destinations") == [(PLACE, ADDRESS, False)]


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        ([PLACE, "--deduplicates", "no"], 1, f"there is no destination {PLACE}"),
        (["no-id", "--deduplicates", "no"], 1, "id: 'no-id' is no id"),
        (["--tenant", "a", "--channel", "pigeon", "--to", "x", "--deduplicates", "no"], 1, "channel: 'pigeon' is not"),
        (["--tenant", "a", "--channel", "webhook", "--to", "x", "--deduplicates", "no"], 1, "destination: must be an"),
        (["--tenant", "", "--channel", "webhook", "--to", ADDRESS, "--deduplicates", "no"], 1, "tenant_id: is empty"),
        (["--tenant", "a", "--channel", "log", "--to", "\0", "--deduplicates", "no"], 1, "destination: contains a con"),
        (["--tenant", "a", "--channel", "log", "--to", "\udcff", "--deduplicates", "no"], 1, "destination: contains a"),
        ([PLACE], 2, "Missing option '--deduplicates'"),
        ([PLACE, "--deduplicates", "perhaps"], 2, "'perhaps' is not a valid boolean"),
        (["--deduplicates", "no"], 2, "Give either ID or all of"),
        (["--tenant", "a", "--channel", "log", "--deduplicates", "no"], 2, "Give either ID or all of"),
        ([PLACE, "--tenant", "a", "--deduplicates", "no"], 2, "Give either ID or all of"),
    ],
)
def test_what_is_refused(run, stage, given, code, said):
    result = run("destination", "set", *given)
    assert said in result.stderr
    assert (result.exit_code, result.stdout) == (code, "")
    assert stage.count("destinations") == 0
