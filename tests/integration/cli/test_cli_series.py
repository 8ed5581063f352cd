"""`reminders series`, `preview` and `replan`."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest

from integration.cli.stage import lines, only

ADD = (
    "series", "add", "--tenant", "acme", "--user", "ada", "--kind", "pills", "--channel", "log", "--to", "somewhere",
    "--start", "2020-01-01T09:00", "--zone", "Europe/Berlin", "--rule", "FREQ=DAILY", "--reference", "pills-1",
)  # fmt: skip


FAR = ("--start", "2034-12-01T09:00")
"""Far ahead: no turn comes due while a test runs."""


def added(run, *more):
    return only(run(*ADD, *more, "--json"))


def turn(text: str) -> str:
    """The instant as the command line takes a turn."""
    return datetime.fromisoformat(text).isoformat()


def sql(stage, query, *arguments):
    with stage.database.transaction() as connection, connection.cursor() as cursor:
        cursor.execute(query, arguments or None)
        return cursor.fetchall() if cursor.description else []


def live(stage, series):
    query = "SELECT id::text, due_at FROM reminders.reminders WHERE series_id = %s AND status = 'live' ORDER BY due_at"
    return sql(stage, query, series["id"])


def test_add_makes_the_next_occurrence_and_the_same_again_changes_nothing(run, stage):
    made = added(run)
    assert (made["created"], made["status"], made["rule"], made["start"]) == (
        True,
        "active",
        "FREQ=DAILY",
        "2020-01-01T09:00:00",
    )
    ((_, due),) = live(stage, made)
    assert due == datetime.fromisoformat(made["next_at"])
    again = run(*ADD)
    assert again.exit_code == 0
    assert again.stdout.startswith(f"{made['id']} stands already: active, next ")
    refused = run(*ADD[:-4], "--rule", "FREQ=WEEKLY", "--reference", "pills-1")
    assert refused.exit_code == 1
    assert "already stands" in refused.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--rule", "FREQ=SOMETIMES"), "--rule: FREQ"),
        (("--zone", "Berlin"), "--zone: 'Berlin' is no IANA zone name; did you mean Europe/Berlin?"),
        (("--start", "2020-01-01T09:00Z"), "--start: is a wall time of the zone; leave Z or the offset out"),
        (("--extra", "tomorrow"), "--extra: 'tomorrow' is no instant"),
        (("--max-lateness", "1s"), "--max-lateness: is 1 s; from a minute to 300 days is allowed"),
        (("--rule", "FREQ=DAILY;UNTIL=20200201"), "--rule: has no turn left; its last one has passed"),
    ],
)
def test_what_cannot_be_is_told_in_the_words_of_the_command_line(run, stage, options, said):
    refused = run(*ADD, *options)
    assert refused.exit_code == 1
    assert said in refused.stderr


def test_list_and_show(run, stage):
    made = added(run)
    only_one = added(run, "--slot", "evening")
    run("series", "pause", only_one["id"])
    assert [each["id"] for each in lines(run("series", "list", "--tenant", "acme", "--json"))] == [
        made["id"],
        only_one["id"],
    ]
    assert [each["id"] for each in lines(run("series", "list", "--status", "paused", "--json"))] == [only_one["id"]]
    shown = only(run("series", "show", made["id"], "--json"))
    assert len(shown["next"]) == 5
    assert [each["status"] for each in shown["occurrences"]] == ["pending"]
    assert "somewhere" not in str(shown)
    text = run("series", "show", made["id"]).stdout
    assert re.search(r"Comes next\nturn +at\n\d{4}-\d\d-\d\d 09:00:00  ", text)
    assert "FREQ=DAILY" in text
    assert made["id"] in run("series", "list").stdout
    assert run("series", "show", "0" * 32).exit_code == 1


def test_edit_pause_resume(run, stage):
    made = added(run, *FAR)
    edited = only(
        run(
            "series",
            "edit",
            made["id"],
            "--rule",
            "FREQ=WEEKLY;BYDAY=MO",
            "--to",
            "elsewhere",
            "--max-lateness",
            "2h",
            "--json",
        )
    )
    assert edited["version"] == 2
    ((id_, due),) = live(stage, made)
    assert due.astimezone(UTC).weekday() == 0
    ((where,),) = sql(stage, "SELECT destination FROM reminders.reminders WHERE id = %s", id_)
    assert where == "elsewhere"
    assert only(run("series", "show", made["id"], "--json"))["max_lateness"] == 7200
    run("series", "edit", made["id"], "--max-lateness", "none")
    assert only(run("series", "show", made["id"], "--json"))["max_lateness"] is None
    assert run("series", "pause", made["id"]).stdout == f"{made['id']} paused: paused\n"
    assert live(stage, made) == []
    assert run("series", "resume", made["id"]).stdout.startswith(f"{made['id']} resumed: active, next 20")
    assert len(live(stage, made)) == 1
    assert run("series", "edit", made["id"]).exit_code == 2


def test_skip_and_move(run, stage):
    made = added(run, *FAR)
    first = turn(made["next_at"])
    skipped = run("series", "skip", made["id"], first)
    assert (skipped.exit_code, skipped.stdout) == (
        0,
        f"turn {first} of {made['id']} cancelled: no attempt will be made\n",
    )
    ((_, second),) = live(stage, made)
    assert second > datetime.fromisoformat(first)
    assert run("series", "skip", made["id"], first, "--undo").exit_code == 0
    assert live(stage, made)[0][1] == datetime.fromisoformat(first)
    moved = only(
        run("series", "move", made["id"], first, "--due-at", "2035-01-01T09:00", "--zone", "Europe/Berlin", "--json")
    )
    assert moved["due_at"] == "2035-01-01T08:00:00Z"
    wrong = run("series", "skip", made["id"], "2035-01-01T09:01")
    assert wrong.exit_code == 1
    assert "TURN: the series has none at 2035-01-01 09:01:00; the nearest one is 2035-01-01 09:00:00" in wrong.stderr


def test_cancel_says_what_became_of_what_was_open(run, stage):
    made = added(run)
    ((id_, _),) = live(stage, made)
    done = only(run("series", "cancel", made["id"], "--json"))
    assert done["occurrences"] == [{"id": id_, "result": "cancelled"}]
    assert run("series", "cancel", made["id"]).stdout == f"{made['id']} cancelled; open occurrences: 0\n"
    refused = run("series", "resume", made["id"])
    assert (refused.exit_code, "is cancelled" in refused.stderr) == (1, True)


def test_preview_of_a_rule_needs_no_ledger_and_shows_where_the_clocks_change(run, monkeypatch):
    monkeypatch.setenv("DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none")
    rule = (
        "--start",
        "2030-03-30T02:30",
        "--zone",
        "Europe/Berlin",
        "--rule",
        "FREQ=DAILY",
        "--from",
        "2030-03-30T00:00",
    )
    found = lines(run("preview", *rule, "--count", "3", "--json"))
    assert [(each["at"], each["local"]) for each in found] == [
        ("2030-03-30T01:30:00Z", "2030-03-30T02:30:00+01:00"),
        ("2030-03-31T01:30:00Z", "2030-03-31T03:30:00+02:00"),
        ("2030-04-01T00:30:00Z", "2030-04-01T02:30:00+02:00"),
    ]
    text = run("preview", *rule, "--count", "2").stdout
    assert "Sun 2030-03-31 03:30:00 +02:00 Europe/Berlin  2030-03-31 02:30:00\n" in text
    assert run("preview").exit_code == 2
    for far in ("0001-01-01T00:00+14:00", "0001-01-01T00:00", "9999-12-31T23:59-12:00"):
        refused = run("preview", *rule, "--from", far)
        assert refused.exit_code == 1
        assert "from: is in the year" in refused.stderr
    over = run("preview", "--start", "2020-01-01T09:00", "--zone", "UTC")
    assert over.stdout == "Nothing comes any more.\n"


def test_preview_of_a_series_leaves_out_what_it_skips(run, stage):
    made = added(run, *FAR)
    run("series", "skip", made["id"], turn(made["next_at"]))
    found = lines(run("preview", made["id"], "--count", "2", "--json"))
    first = datetime.fromisoformat(made["next_at"])
    assert timedelta(hours=22) < datetime.fromisoformat(found[0]["at"]) - first < timedelta(hours=26)


def test_replan_moves_what_another_release_of_the_zones_has_otherwise_and_says_so_once(run, stage):
    # Far ahead: a turn that comes due meanwhile is not moved.
    far = ("--start", "2051-01-01T09:00")
    made, other = added(run, *far), added(run, *far, "--slot", "other")
    ((id_, due),) = live(stage, made)
    # As if an older release had placed it an hour earlier.
    for table, column in (("due", "wake_at"), ("reminders", "due_at")):
        sql(stage, f"UPDATE reminders.{table} SET {column} = {column} - interval '1 hour' WHERE id = %s", id_)
    sql(
        stage,
        "UPDATE reminders.series SET plan_at = plan_at - interval '1 hour', planned_until = planned_until - interval '1 hour' WHERE id = %s",
        made["id"],
    )
    would = lines(run("replan", "--dry-run", "--json"))
    assert would[-1] == {"v": 1, "series": 2, "moved": 1, "faulty": 0, "dry_run": True}
    assert live(stage, made)[0][1] == due - timedelta(hours=1)
    moved, summary = lines(run("replan", "--tenant", "acme", "--json"))
    assert (moved["reminder_id"], datetime.fromisoformat(moved["to"])) == (id_, due)
    assert (summary["series"], summary["moved"]) == (2, 1)
    assert live(stage, made) == [(id_, due)]
    again = run("replan", "--series", other["id"])
    assert again.stdout == "1 series looked at, 0 moved\n"
    assert run("replan").stdout == "2 series looked at, 0 moved\n"
    assert run("replan", "--series", "0" * 32).exit_code == 1


def test_replan_tells_of_series_it_cannot_plan(run, stage):
    made = added(run)
    sql(stage, "UPDATE reminders.series SET zone = 'Mars/Olympus', planned_zone = 'Mars/Olympus'")
    done = run("replan")
    assert done.exit_code == 1
    assert f"series {made['id']} cannot be planned: zone: 'Mars/Olympus'" in done.stderr
