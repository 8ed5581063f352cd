"""`reminders audit`: exit codes, JSON, what people read, and the page that lists the checks."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from integration.audit.aging import AGAIN, DAY
from integration.audit.series_stories import series
from reminders.cli.app import reminders
from reminders.ledger.audit import CHECKS
from reminders.ledger.audit_check import GRACE
from reminders.ledger.database import driver_url

PAGE = Path(__file__).parents[3] / "docs" / "audit.md"
AT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


@pytest.fixture
def run(audit_url: str, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Run `reminders audit ARGUMENTS...` against these tests' database."""
    monkeypatch.setenv("DATABASE_URL", audit_url)

    def call(*arguments: str) -> Result:
        result = CliRunner().invoke(reminders, ["audit", *arguments])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return call


def lost(world):
    made = world.schedule()
    world.sql("DELETE FROM reminders.due WHERE id = %s", str(made.id))
    return made


def test_without_violation(run, world):
    world.ended(AGAIN)
    result = run()
    assert (result.exit_code, AT.sub("AT", result.stdout)) == (
        0,
        f"No violation: {len(CHECKS)} checks of the whole ledger, at AT\n",
    )


def test_json_without_violation(run, world):
    world.ended(AGAIN)
    before = datetime.now(UTC)
    result = run("--json")
    (line,) = result.stdout.splitlines()
    found = json.loads(line)
    checks = found.pop("checks")
    assert before <= datetime.fromisoformat(found.pop("checked_at")) <= datetime.now(UTC)
    assert (result.exit_code, found) == (0, {"v": 1, "ok": True, "since": None, "violations": 0})
    assert [each["name"] for each in checks] == [check.name for check in CHECKS]
    assert all(
        set(each) == {"name", "scope", "meaning", "remedy", "violations", "seconds", "listed"} for each in checks
    )
    assert all((each["violations"], each["listed"]) == (0, []) and each["seconds"] >= 0 for each in checks)


def test_json_with_violations(run, world):
    made = [lost(world) for _ in range(3)]
    result = run("--json", "--limit", "2")
    found = json.loads(result.stdout)
    assert (result.exit_code, found["ok"], found["violations"]) == (1, False, 3)
    (check,) = [each for each in found["checks"] if each["violations"]]
    assert (check["name"], check["violations"]) == ("live_without_due", 3)
    assert [(each["reminder_id"], each["delivery_key"]) for each in check["listed"]] == [
        (str(each.id), each.delivery_key) for each in made[:2]
    ]
    assert all(set(each) == {"reminder_id", "delivery_key", "detail"} for each in check["listed"])


def test_people_read_what_must_hold_what_was_found_and_what_to_do(run, world):
    made = [lost(world) for _ in range(2)]
    result = run("--limit", "1")
    check = next(check for check in CHECKS if check.name == "live_without_due")
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[:2] == ["live_without_due: 2 violations", f"  Must hold: {check.meaning}"]
    assert lines[2].startswith(f"  {made[0].id}  {made[0].delivery_key}  live since ")
    assert lines[3:6] == ["  ... and 1 more; --limit shows them", f"  To do: {check.remedy}", ""]
    assert AT.sub("AT", lines[6]) == f"2 violations: {len(CHECKS)} checks of the whole ledger, at AT"


def test_the_remedy_for_a_lost_reminder_brings_it_back(run, world):
    made = lost(world)
    assert run().exit_code == 1
    moved = CliRunner().invoke(reminders, ["reschedule", str(made.id), "--due-at", "+1m"])
    assert (moved.exit_code, run().exit_code) == (0, 0)
    assert world.status(made.id)[0] == "pending"


def test_since_takes_an_instant_or_an_age(run, world):
    made = world.ended(AGAIN)
    world.sql("UPDATE reminders.delivery_attempts SET outcome = 'delivered'")
    world.age(2 * DAY)
    world.sql("DELETE FROM reminders.due WHERE id = %s", str(made.id))
    world.sql("UPDATE reminders.reminders SET status = 'cancelled', finished_at = now()")
    world.sql("UPDATE reminders.notification_deliveries SET status = 'cancelled', finished_at = now()")
    day_ago = (datetime.now(UTC) - timedelta(days=1)).replace(microsecond=0)
    for within in ("36h", "1d", day_ago.isoformat(), f"{day_ago:%Y-%m-%dT%H:%M:%S}Z"):
        assert run("--since", within).exit_code == 0, within
    for before in ("3d", "72h", "2001-01-01T00:00:00Z", "2001-01-01T00:00+02:00", "999999999d"):
        assert run("--since", before).exit_code == 1, before
    said = run("--since", f"{day_ago:%Y-%m-%dT%H:%M:%S}Z").stdout
    assert f"what is live, and the rest since {day_ago:%Y-%m-%dT%H:%M:%S}Z, at" in said


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("yesterday", "since: 'yesterday' is no instant"),
        ("lastweekd", "since: 'lastweekd' is no age; write 90m, 36h or 7d"),
        ("2026-01-01T00:00:00", "since: needs Z or an offset"),
        ("2026", "since: '2026' is no instant"),
        ("9998-01-01T00:00Z", "since: is in the future, by the ledger's clock"),
        ("-1h", "since: '-1h' is no age"),
    ],
)
@pytest.mark.usefixtures("world")
def test_since_that_cannot_be_is_refused(run, given, said):
    result = run("--since", given)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(said)


def test_it_runs_where_nothing_may_be_written(run, world, audit_url, monkeypatch):
    lost(world)
    url = driver_url(audit_url).update_query_dict({"options": "-c default_transaction_read_only=on"})
    monkeypatch.setenv("DATABASE_URL", url.render_as_string(hide_password=False))
    assert run().stdout.startswith("live_without_due: 1 violation\n")


def test_the_settings_of_the_environment_count(run, world, monkeypatch):
    world.ended(AGAIN)
    monkeypatch.setenv("REMINDERS_MAX_ATTEMPTS", "1")
    assert run().stdout.startswith("too_many_attempts: 1 violation\n")


def test_the_page_lists_the_checks_as_they_are():
    text = PAGE.read_text()
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| `")
    ]
    assert rows == [[f"`{c.name}`", c.meaning, c.scope, c.remedy] for c in CHECKS]
    assert f"more than {GRACE / 60:.0f} minutes" in text


def test_names_are_told_apart_and_texts_fit_a_table():
    assert len({check.name for check in CHECKS}) == len(CHECKS)
    for check in CHECKS:
        assert "|" not in check.meaning + check.remedy
        assert check.meaning.endswith((".", ".)"))
        assert check.remedy.endswith(".")


def test_with_series_their_turns_are_looked_for_as_well(run, world):
    made = series(world)
    assert f"No violation: {len(CHECKS) + 1} checks of the whole ledger" in run("--series").stdout
    world.sql("DELETE FROM reminders.due")
    world.sql("DELETE FROM reminders.reminders")
    assert run().exit_code == 0
    result = run("--series", "--json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)["checks"][-1]
    assert (found["name"], found["scope"], found["violations"]) == ("turn_lost", "turns", 1)
    assert str(made.id) in found["listed"][0]["detail"]
