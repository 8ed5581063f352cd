"""`reminders erase` and `reminders retention`: what they say, and how they end."""

import json

import pytest

from integration.cli.stage import ADDRESS
from reminders.domain.outcomes import Delivered, Rejected
from reminders.domain.retry_policy import Bury, Deliver
from reminders.ledger.destinations import set_deduplicates

HER = ("--tenant", "acme", "--user", "ada")
WHY = ("--reason", "asked by letter", "--actor", "dpo")


@pytest.fixture
def ada(stage):
    """Two reminders of hers that have ended, and one that lives."""
    stage.deliver(stage.schedule(user_id="ada"), Delivered("far-1"), Deliver())
    stage.deliver(stage.schedule(user_id="ada"), Rejected("no", "refused"), Bury("destination"))
    return stage.schedule(user_id="ada")


def erased(stage):
    with stage.database.transaction() as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(erased_at), count(*) FILTER (WHERE destination = %s) FROM reminders.reminders", (ADDRESS,)
        )
        return cursor.fetchone()


def test_it_tells_what_it_touched(stage, ada, run):
    done = run("erase", *HER, *WHY)
    assert done.exit_code == 0, done.output
    assert "        3  reminders\n" in done.stdout
    assert "Erased. What stays bears erased-" in done.stdout
    assert erased(stage) == (3, 0)
    assert "Nothing was left to erase." in run("erase", *HER, *WHY).stdout


def test_as_json(stage, ada, run):
    told = json.loads(run("erase", *HER, *WHY, "--json").stdout)
    assert (told["v"], told["complete"], told["touched"]["reminders"], told["being_sent"]) == (1, True, 3, 0)
    assert told["user_token"].startswith("erased-")


def test_a_dry_run_only_counts(stage, ada, run):
    told = json.loads(run("erase", *HER, "--dry-run", "--json").stdout)
    assert (told["found"]["reminders"], told["found"]["live_reminders"], told["dry_run"]) == (3, 1, True)
    assert "        3  reminders\n" in run("erase", *HER, "--dry-run").stdout
    assert erased(stage) == (0, 3)


def test_without_a_reason_it_is_wrong_usage(stage, run):
    assert run("erase", *HER).exit_code == 2


def test_an_address_that_is_not_known_any_more_is_named(stage, run):
    set_deduplicates(stage.database, "acme", "log", "old@x.example", deduplicates=True)
    assert "Nothing was left" in run("erase", *HER, *WHY).stdout
    done = run("erase", *HER, *WHY, "--to", "old@x.example", "--to", "other@x.example", "--channel", "log")
    assert (done.exit_code, "        1  destinations\n" in done.stdout) == (0, True)
    assert run("erase", *HER, *WHY, "--channel", "log").exit_code == 2
    assert run("erase", *HER, "--dry-run", "--to", "a").exit_code == 2


def test_an_open_claim_is_told_of(stage, run):
    made = stage.schedule(user_id="ada")
    stage.claim(made)
    done = run("erase", *HER, *WHY, "--wait", "0s")
    assert done.exit_code == 3
    assert "Being sent: 1 reminder of the user, the last until 20" in done.stdout
    assert erased(stage) == (0, 1)


def test_a_tenants_retention(stage, run):
    done = run("retention", "set", "--tenant", "acme", "--keep", "30d", *WHY)
    assert (done.exit_code, done.stdout) == (0, "reminders of acme are kept for 30 days once they are over\n")
    assert run("retention", "set", "--tenant", "acme", "--keep", "30", *WHY).exit_code == 1
    refused = run("retention", "set", "--tenant", "acme", "--keep", "1d", *WHY)
    assert (refused.exit_code, refused.stderr) == (
        1, "--keep: must not be below REMINDERS_DEDUP_WINDOW (604800 s); this is 86400 s\n",
    )  # fmt: skip
    assert run("retention", "set", "--tenant", "acme", "--of", "evidence", "--keep", "1d", *WHY).exit_code == 0
    assert run("retention", "remove", "--tenant", "acme", "--of", "evidence").exit_code == 0
    (line,) = run("retention", "list", "--json").stdout.splitlines()
    told = json.loads(line)
    assert (told["tenant_id"], told["about"], told["keep"], told["actor"]) == ("acme", "reminders", 30 * 86400, "dpo")
    assert "30 d" in run("retention", "list", "--tenant", "acme").stdout
    assert run("retention", "remove", "--tenant", "acme").exit_code == 0
    assert run("retention", "remove", "--tenant", "acme").exit_code == 1
