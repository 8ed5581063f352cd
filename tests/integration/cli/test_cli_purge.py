"""`reminders purge`: marks, then deletes; says what it did; may be killed; and what is gone is told of as such."""

from datetime import UTC, datetime

import psycopg2
import pytest
from sqlalchemy.dialects.postgresql.psycopg2 import PGDialect_psycopg2

from acceptance.harness import wait_until
from integration.audit.aging import DAY, AgingWorld
from integration.cli.stage import lines, only
from reminders.domain.outcomes import Delivered, Rejected
from reminders.domain.retry_policy import Bury, Deliver
from reminders.ledger import changing
from reminders.ledger.purging import settle

COUNTS = {
    "purged": 0, "marked": 0, "complete": True, "waiting": 0, "dropped_months": [], "dry_run": False,
    "settlement_files": 0, "settlement_lines": 0, "reconciliation_runs": 0, "reconciliation_decisions": 0, "others": {},
}  # fmt: skip


@pytest.fixture
def old(stage):
    """Three that have ended a hundred days ago, one of them dead and undecided; one that ended now; one that lives."""
    made = [stage.schedule() for _ in range(2)]
    for each in made:
        stage.deliver(each, Delivered("far-1"), Deliver())
    made.append(stage.schedule())
    stage.deliver(made[-1], Rejected("http_410", "gone", 410), Bury("destination"))
    AgingWorld(stage.database).age(100 * DAY)
    ended = stage.schedule()
    with stage.database.transaction() as connection:
        assert changing.cancel(connection, "reminders", ended.id) == "cancelled"
    stage.schedule(due_at=datetime(2090, 1, 1, tzinfo=UTC))
    return made


def let_others_end(stage):
    """What is deleted waits for transactions that were open when it was marked; Postgres's own upkeep may have had one."""
    wait_until(lambda: settle(stage.database) == 0, 60, "all that was open has ended")


def test_one_run_marks_and_the_next_deletes(run, stage, old):
    assert only(run("purge", "--json")) == {**COUNTS, "v": 1, "marked": 2, "older_than_seconds": 90 * 86400.0}
    assert only(run("purge", "--dry-run", "--json")) == {
        **COUNTS, "v": 1, "purged": 2, "dry_run": True, "reconciliation_decisions": None, "older_than_seconds": 90 * 86400.0,
    }  # fmt: skip
    let_others_end(stage)
    result = run("purge")
    assert (result.exit_code, result.stdout) == (0, "2 purged; 0 marked, for the next run to delete\n")
    assert [
        stage.count(table) for table in ("reminders", "keys_seen", "notification_deliveries", "delivery_attempts")
    ] == [3, 2, 1, 1]
    assert run("audit").stdout.startswith("No violation")


def test_for_people(run, old):
    assert run("purge", "--dry-run").stdout == "0 marked, for the next run to delete; 2 would be marked\n"
    assert run("purge", "--limit", 1).stdout == (
        "0 purged; 1 marked, for the next run to delete\nThere is more to look at: run it again.\n"
    )


def test_the_age_is_the_settings_or_what_is_said(run, stage, old, monkeypatch):
    assert only(run("purge", "--older-than", "101d", "--dry-run", "--json"))["marked"] == 0
    assert only(run("purge", "--older-than", "2399h", "--dry-run", "--json"))["marked"] == 2
    monkeypatch.setenv("REMINDERS_RETENTION", "200d")
    assert only(run("purge", "--dry-run", "--json"))["marked"] == 0
    assert stage.count("keys_seen") == 0


@pytest.mark.parametrize("age", ["90", "23h", "soon", "-1d", "6d"])
def test_an_age_that_may_be_a_slip_is_refused(run, stage, old, age):
    result = run("purge", f"--older-than={age}")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("--older-than: ")
    assert stage.count("purges") == 0


def test_what_destinations_still_remember_may_be_purged_where_the_setting_says_so(run, old, monkeypatch):
    monkeypatch.setenv("REMINDERS_DEDUP_WINDOW", "3d")
    assert run("purge", "--older-than=6d", "--dry-run").exit_code == 0


def test_what_was_purged_is_told_of(run, stage, old):
    run("purge")
    let_others_end(stage)
    run("purge")
    # By the ledger's word: midnight may have come since.
    ((day,),) = stage.rows(
        f"SELECT (purged_at AT TIME ZONE 'UTC')::date FROM keys_seen WHERE reminder_id = '{old[0].id}'"
    )
    for command in (["show"], ["show", "--json"], ["cancel"], ["reschedule", "--due-at", "+1h"]):
        result = run(*command, old[0].id)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.startswith(f"reminder {old[0].id} was purged on {day}; it ended as delivered on 20")
    refused = run("dlq", "redrive", old[0].id, "--reason", "again")
    assert "purged" in refused.stdout + refused.stderr


def test_an_old_file_imported_again_sends_nothing(run, stage, tmp_path):
    file = tmp_path / "old.csv"
    file.write_text(
        "tenant_id,user_id,kind,channel,destination,due_at,zone,reference\n"
        "shop,ada,payment_due,log,anywhere,2035-01-01 09:00,Europe/Berlin,order-18\n"
        "shop,ada,payment_due,log,anywhere,2035-01-01 09:00,Europe/Berlin,order-19\n"
    )
    assert only(run("import", file, "--json"))["scheduled"] == 2
    for (reminder,) in stage.rows("SELECT id::text FROM reminders"):
        assert run("cancel", reminder).exit_code == 0
    AgingWorld(stage.database).age(100 * DAY)
    run("purge")
    let_others_end(stage)
    assert only(run("purge", "--json"))["purged"] == 2
    again = only(run("import", file, "--json"))
    assert (again["scheduled"], again["existing"], again["rejected"]) == (0, 2, 0)
    file.write_text(file.read_text().replace("anywhere", "elsewhere"))
    changed = only(run("import", file, "--json"))
    assert (changed["scheduled"], changed["existing"], changed["rejected"]) == (0, 0, 2)
    assert (stage.count("reminders"), stage.count("due")) == (0, 0)
    assert lines(run("list", "--json")) == []


def test_killed_in_the_middle_it_leaves_nothing_half_done(run, start, stage, old):
    """The server carries the step that it was told to its end, or undoes it."""

    def found():
        tables = ("reminders", "notification_deliveries", "delivery_attempts")
        purged = stage.rows("SELECT count(*) FROM keys_seen WHERE purged_at IS NOT NULL")[0][0]
        return [*(stage.count(table) for table in tables), stage.count("keys_seen"), purged]

    run("purge")
    let_others_end(stage)
    before = found()
    _, given = PGDialect_psycopg2().create_connect_args(stage.database.url)
    holder = psycopg2.connect(**given)
    with holder.cursor() as cursor:
        cursor.execute("SELECT 1 FROM reminders.notification_deliveries FOR UPDATE")
    waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = 'reminders-cli'"
    with start("purge") as running:
        wait_until(lambda: stage.rows(waiting), 60, "the purge in the middle of its deleting")
        running.kill()
    holder.close()
    under_way = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'reminders-cli' AND state <> 'idle'"
    wait_until(lambda: not stage.rows(under_way), 60, "the killed command's session has ended")
    after = found()
    assert after == before or (after[0], after[-1]) == (before[0] - 2, 2)
    assert run("audit").stdout.startswith("No violation")
    assert only(run("purge", "--json"))["purged"] == 2 - after[-1]
    assert found()[-1] == 2
    assert run("audit").stdout.startswith("No violation")
