"""`reminders import`, against a real ledger."""

import csv
import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from integration.import_files import DESTINATION, HEADER, USER, count, csv_file, csv_row, jsonl, rejects
from reminders import reschedule
from reminders.cli.app import reminders

DATA = Path(__file__).parent.parent / "data"
AFTER_ALL = "2027-06-01T00:00Z"
"""After the last instant of events.csv."""


@pytest.fixture
def run(services, database, monkeypatch, tmp_path):
    """Run `reminders import ...` in an empty folder; a traceback fails the test."""
    monkeypatch.setenv("DATABASE_URL", services.database_url)
    monkeypatch.setenv("REDIS_URL", services.redis_url)
    monkeypatch.chdir(tmp_path)

    def call(*arguments, **more):
        result = CliRunner().invoke(reminders, ["import", *map(str, arguments)], **more)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return call


def outcome(result):
    return json.loads(result.stdout)


@pytest.fixture
def events(tmp_path):
    return Path(shutil.copy(DATA / "events.csv", tmp_path / "events.csv"))


def test_real_events_in_23_zones_come_out_at_the_expected_instants(run, database, events):
    result = run(events, "--overdue", "send", "--now", AFTER_ALL, "--json")
    assert result.exit_code == 0, result.output
    assert outcome(result) == {
        "v": 1,
        "read": 480,
        "scheduled": 480,
        "existing": 0,
        "rejected": 0,
        "skipped": 0,
        "rejects_file": None,
    }
    with database.transaction() as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT r.user_id, r.reference, r.tenant_id, r.due_at, d.wake_at, r.data FROM reminders.reminders r "
            "JOIN reminders.due d USING (id)"
        )
        found = {(user, reference): rest for user, reference, *rest in cursor.fetchall()}
    with (DATA / "events_expected.csv").open(newline="") as file:
        expected = {(row["user_id"], row["reference"]): row for row in csv.DictReader(file)}
    assert len(expected) == 480
    assert found.keys() == expected.keys()
    for key, row in expected.items():
        tenant, due_at, wake_at, data = found[key]
        instant = datetime.fromisoformat(row["due_at_utc"])
        assert (key, tenant, due_at, wake_at) == (key, row["tenant_id"], instant, instant)
        assert data.keys() == {"venue", "session"}

    again = run(events, "--overdue", "send", "--now", AFTER_ALL, "--json")
    assert again.exit_code == 0
    assert (outcome(again)["scheduled"], outcome(again)["existing"]) == (0, 480)
    assert count(database) == count(database, "due") == 480


def test_long_past_instants_are_rejected_by_default(run, database, events):
    result = run(events, "--now", AFTER_ALL, "--json")
    assert result.exit_code == 3
    assert (outcome(result)["rejected"], outcome(result)["scheduled"]) == (480, 0)
    assert outcome(result)["rejects_file"] == f"{events}.rejects.jsonl"
    told = rejects(Path(f"{events}.rejects.jsonl"))
    assert [line for line, _, _ in told] == list(range(2, 482))
    assert told[0] == (
        2,
        "due_at",
        "was due at 2026-03-06T01:00:00+00:00, over 24 hours ago; --overdue send or skip takes such rows",
    )
    assert count(database) == 0


def test_long_past_instants_can_be_skipped(run, database, events):
    result = run(events, "--overdue", "skip", "--now", AFTER_ALL, "--json")
    assert result.exit_code == 0
    assert (outcome(result)["read"], outcome(result)["skipped"], outcome(result)["rejected"]) == (480, 480, 0)
    assert count(database) == 0


def test_what_is_overdue_by_a_day_or_less_is_scheduled(run, tmp_path):
    path = tmp_path / "f.csv"
    path.write_text(
        HEADER
        + csv_row(1, due_at="2026-05-01T12:00:00Z")
        + csv_row(2, due_at="2026-05-01T11:59:59Z")
        + csv_row(3, due_at="2026-05-02T12:00:00Z")
    )
    result = run(path, "--now", "2026-05-02T12:00Z", "--json")
    assert (outcome(result)["scheduled"], outcome(result)["rejected"]) == (2, 1)
    assert rejects(tmp_path / "f.csv.rejects.jsonl")[0][:2] == (3, "due_at")


def test_rejects_name_line_field_and_reason_and_copy_no_record(run, database, tmp_path):
    path = tmp_path / "f.csv"
    path.write_bytes(
        HEADER.encode()
        + csv_row(1).encode()
        + csv_row(2, zone="Mars/Olympus").encode()
        + csv_row(3, user_id="").encode()
        + csv_row(4, due_at="yesterday").encode()
        + csv_row(5, destination="not-a-url-of-" + USER).encode()
        + csv_row(6, channel="pigeon").encode()
        + csv_row(7, user_id="x\x00y").encode()
        + csv_row(8, user_id="\xe9").encode("latin-1")
        + b"cut,off\n"
        + csv_row(9).encode()
    )
    result = run(path, "--rejects", tmp_path / "bad.jsonl")
    assert result.exit_code == 3
    assert "10 records read: 2 scheduled, 0 existing, 8 rejected, 0 skipped" in result.stdout
    assert str(tmp_path / "bad.jsonl") in result.stdout
    told = rejects(tmp_path / "bad.jsonl")
    assert [(line, field) for line, field, _ in told] == [
        (3, "zone"),
        (4, "user_id"),
        (5, "due_at"),
        (6, "destination"),
        (7, "channel"),
        (8, "user_id"),
        (9, None),
        (10, None),
    ]
    assert told[0][2] == "'Mars/Olympus' is no IANA zone name, such as Europe/Berlin"
    assert told[1][2] == "is missing"
    text = (tmp_path / "bad.jsonl").read_text()
    assert USER not in text
    assert DESTINATION not in text
    assert count(database) == 2


def test_the_same_reminder_with_other_content_is_a_reject(run, database, tmp_path):
    path = tmp_path / "f.csv"
    moved = csv_row(1, due_at="2090-05-02 09:00")
    path.write_text(HEADER + csv_row(1) + csv_row(2) + moved + csv_row(2) + csv_row(3, zone="Mars"))
    result = run(path, "--json")
    assert result.exit_code == 3
    assert (outcome(result)["scheduled"], outcome(result)["existing"], outcome(result)["rejected"]) == (2, 1, 2)
    (_, _, reason), _ = told = rejects(tmp_path / "f.csv.rejects.jsonl")
    assert [(line, field) for line, field, _ in told] == [(4, "reference"), (6, "zone")]
    assert "already stands" in reason
    assert USER not in reason
    with database.transaction() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT due_at FROM reminders.reminders WHERE reference = 'invoice-1'")
        assert cursor.fetchone()[0] == datetime(2090, 5, 1, 7, tzinfo=UTC)


def test_of_two_lines_for_one_reminder_the_first_counts_however_far_apart(run, database, tmp_path):
    path = csv_file(tmp_path / "f.csv", 3000)
    with path.open("a") as file:
        file.writelines(csv_row(number, zone="Asia/Tokyo") for number in range(2001, 3001))
    result = run(path, "--json")
    assert (outcome(result)["scheduled"], outcome(result)["rejected"]) == (3000, 1000)
    assert [line for line, _, _ in rejects(tmp_path / "f.csv.rejects.jsonl")] == list(range(3002, 4002))


def test_import_reschedule_import_is_one_reminder_at_its_new_time(run, database, tmp_path):
    path = csv_file(tmp_path / "f.csv", 1)
    run(path)
    moved = datetime(2091, 1, 1, tzinfo=UTC)
    with database.transaction() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT id::text FROM reminders.reminders")
        reschedule(connection, cursor.fetchone()[0], due_at=moved)
    result = run(path, "--json")
    assert (outcome(result)["existing"], outcome(result)["rejected"]) == (1, 0)
    with database.transaction() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT r.due_at, d.wake_at FROM reminders.reminders r JOIN reminders.due d USING (id)")
        assert cursor.fetchall() == [(moved, moved)]


def test_an_unknown_column_stops_the_import_before_anything_is_written(run, database, tmp_path):
    path = csv_file(tmp_path / "f.csv", 1)
    path.write_text(path.read_text().replace("destination", "destinaton", 1))
    result = run(path)
    assert result.exit_code == 1
    assert "destinaton: is no column of a reminder; did you mean destination?" in result.stderr
    assert count(database) == 0
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("form", [[], ["--format", "jsonl"], ["--format", "csv"]])
def test_an_array_is_told_apart_from_json_lines(run, database, tmp_path, form):
    path = tmp_path / "f.json"
    path.write_text('[{"tenant_id": "acme"}]\n')
    result = run(path, *form)
    assert result.exit_code == 1
    first, second = result.stderr.splitlines()
    assert first == f"{path} begins with [ like a JSON array; JSON Lines is needed, one object a line"
    assert second.startswith("To convert it: ")
    assert list(tmp_path.iterdir()) == [path]


def test_a_clean_run_removes_the_rejects_of_the_run_before(run, database, tmp_path):
    path = csv_file(tmp_path / "f.csv", 2)
    good = path.read_text()
    path.write_text(good.replace("Europe/Berlin", "Mars/Olympus", 1))
    assert run(path).exit_code == 3
    assert len(list(tmp_path.iterdir())) == 2
    path.write_text(good)
    assert run(path).exit_code == 0
    assert list(tmp_path.iterdir()) == [path]


def test_json_lines_from_standard_input(run, database):
    record = {
        "tenant_id": "acme",
        "user_id": "u",
        "kind": "k",
        "channel": "log",
        "destination": "anywhere",
        "due_at": "2090-05-01T09:00+02:00",
        "expires_at": "2090-05-02T09:00Z",
        "data": {"amount": 12.5, "ü": ["x\\y", None]},
    }
    text = jsonl([record, {**record, "slot": "hour-before"}, {**record, "data": "text"}, {**record, "due_at": 7}])
    result = run("-", "--json", input=text)
    assert result.exit_code == 3
    assert outcome(result)["rejects_file"] == "stdin.rejects.jsonl"
    assert [told[:2] for told in rejects(Path("stdin.rejects.jsonl"))] == [(3, "data"), (4, "due_at")]
    with database.transaction() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT slot, data, due_at, expires_at FROM reminders.reminders ORDER BY slot")
        due, expiry = datetime(2090, 5, 1, 7, tzinfo=UTC), datetime(2090, 5, 2, 9, tzinfo=UTC)
        assert cursor.fetchall() == [("", record["data"], due, expiry), ("hour-before", record["data"], due, expiry)]


def test_csv_from_standard_input_and_a_format_that_overrides_the_name(run, tmp_path):
    assert outcome(run("-", "--json", input=HEADER + csv_row(1)))["scheduled"] == 1
    path = csv_file(tmp_path / "rows.jsonl", 2)
    assert outcome(run(path, "--format", "csv", "--json"))["scheduled"] == 1


def test_an_empty_csv_is_an_error_and_an_empty_jsonl_is_not(run, tmp_path):
    (tmp_path / "f.csv").touch()
    (tmp_path / "f.jsonl").touch()
    assert run(tmp_path / "f.csv").exit_code == 1
    assert outcome(run(tmp_path / "f.jsonl", "--json"))["read"] == 0


def test_files_that_cannot_be_read_are_told_without_a_traceback(run, tmp_path):
    (tmp_path / "wide.csv").write_bytes(HEADER.encode("utf-16"))
    for name, message in (("absent.csv", "No such file"), (".", "Is a directory"), ("wide.csv", "UTF-16")):
        result = run(tmp_path / name)
        assert result.exit_code == 1
        assert message in result.stderr


def test_the_file_itself_is_never_taken_for_rejects(run, tmp_path):
    path = csv_file(tmp_path / "f.csv", 1)
    before = path.read_text()
    result = run(path, "--rejects", path)
    assert result.exit_code == 1
    assert "name another" in result.stderr
    assert path.read_text() == before
