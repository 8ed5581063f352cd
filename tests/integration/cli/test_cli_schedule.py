"""`reminders schedule`: what it writes, says and refuses."""

import os
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from integration.cli.stage import ADDRESS, only

GIVEN = {
    "--tenant": "acme",
    "--user": "u-1",
    "--kind": "invoice-due",
    "--channel": "webhook",
    "--to": ADDRESS,
    "--due-at": "2031-05-01T09:30Z",
    "--reference": "invoice-1",
}
KEYS = {"v", "id", "status", "due_at", "delivery_key", "version", "created"}


def options(**changed):
    """The command line of `GIVEN`; an underscore stands for a hyphen, None takes the option away."""
    given = GIVEN | {f"--{name.replace('_', '-')}": value for name, value in changed.items()}
    return [part for name, value in given.items() if value is not None for part in (name, value)]


def test_prints_the_reminder_that_the_ledger_holds(run, stage):
    result = run("schedule", *options(data='{"amount": 10.5, "name": "Zoë"}', slot="day-before"), "--json")
    found = only(result)
    assert result.exit_code == 0
    assert set(found) == KEYS
    assert found | {"id": 0, "delivery_key": 0} == {
        "v": 1, "id": 0, "status": "pending", "due_at": "2031-05-01T09:30:00Z", "delivery_key": 0, "version": 1,
        "created": True,
    }  # fmt: skip
    ((row_id, key, slot, data, due),) = stage.rows("SELECT id::text, delivery_key, slot, data, due_at FROM reminders")
    assert (found["id"], found["delivery_key"]) == (row_id, key)
    assert (slot, data) == ("day-before", {"amount": 10.5, "name": "Zoë"})
    assert due == datetime(2031, 5, 1, 9, 30, tzinfo=UTC)


def test_scheduling_again_shows_the_reminder_as_it_stands(run, stage):
    first = only(run("schedule", *options(), "--json"))
    run("cancel", first["id"])
    again = run("schedule", *options(), "--json")
    assert again.exit_code == 0
    assert only(again) == first | {"created": False, "status": "cancelled"}
    assert stage.count("reminders") == 1


def test_other_content_under_the_same_identity_is_refused_in_a_line(run, stage):
    run("schedule", *options())
    result = run("schedule", *options(due_at="2031-05-02T09:30Z"))
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "already stands" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_wall_time_is_read_in_its_zone(run, stage):
    found = run("schedule", *options(due_at="2031-03-30 02:30", zone="Europe/Berlin"))
    # The clocks go from 02:00 to 03:00 that night: the time is read with the offset before the gap.
    assert "due 2031-03-30 01:30:00 UTC (03:30 Europe/Berlin)" in found.stdout
    assert UUID(found.stdout.split()[0])


def test_a_time_from_now(run, stage):
    before = datetime.now(UTC)
    found = only(run("schedule", *options(due_at="+5m"), "--json"))
    due = datetime.fromisoformat(found["due_at"])
    assert before + timedelta(minutes=5) <= due <= datetime.now(UTC) + timedelta(minutes=5)


def test_data_from_a_file_and_from_standard_input(run, stage, tmp_path):
    (tmp_path / "data.json").write_bytes(b'\xef\xbb\xbf{"from": "file"}')
    assert run("schedule", *options(data=f"@{tmp_path}/data.json")).exit_code == 0
    assert run("schedule", *options(data="@-", slot="b"), input='{"from": "stdin"}').exit_code == 0
    assert stage.rows("SELECT data FROM reminders ORDER BY slot") == [({"from": "file"},), ({"from": "stdin"},)]


def test_data_from_a_standard_input_that_is_closed(process, stage):
    ended = process("schedule", *options(data="@-"), preexec_fn=lambda: os.close(0))
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "", "--data: standard input is closed\n")


def test_an_expiry_is_written_like_the_due_time(run, stage):
    run("schedule", *options(zone="Europe/Berlin", expires_at="2031-05-02T12:00"))
    assert stage.rows("SELECT expires_at FROM reminders") == [(datetime(2031, 5, 2, 10, tzinfo=UTC),)]


DEEP = '{"a":' * 5000 + "1" + "}" * 5000
REFUSED = [
    (
        {"due_at": "2031-05-01T09:30"},
        "--due-at: is a wall time without an offset; give it one, or add --zone Europe/Berlin",
    ),
    ({"due_at": "2031-05-01"}, "--due-at: '2031-05-01' has no time of day"),
    ({"due_at": "2031-02-30T10:00Z"}, "--due-at: '2031-02-30T10:00Z' is no date"),
    ({"due_at": ""}, "--due-at: is empty"),
    ({"due_at": "infinity"}, "--due-at: 'infinity' is no instant"),
    ({"due_at": "9999-05-01T09:30Z"}, "--due-at: is in the year 9999"),
    ({"due_at": "1969-05-01T09:30Z"}, "--due-at: is in the year 1969"),
    ({"due_at": "+5 parsecs"}, "--due-at: '+5 parsecs' is no time from now"),
    ({"due_at": "+999999999d"}, "--due-at: '+999999999d' is too far ahead; the last year is 9998"),
    ({"due_at": "2031-05-01T09:30\udcff"}, "--due-at: "),
    ({"zone": "../etc/passwd"}, "--zone: '../etc/passwd' is no IANA zone name"),
    ({"zone": ""}, "--zone: '' is no IANA zone name"),
    ({"zone": "europe/berlin"}, "--zone: 'europe/berlin' is no IANA zone name; did you mean Europe/Berlin?"),
    ({"zone": "Factory"}, "--zone: 'Factory' is no IANA zone name"),
    ({"zone": "x" * 65}, "--zone: must be the name of an IANA zone"),
    ({"zone": "\udcff"}, "--zone: "),
    ({"tenant": ""}, "--tenant: is empty"),
    ({"tenant": "a\0b"}, "--tenant: contains a control character (U+0000) at position 1"),
    ({"user": "u\udcff"}, "--user: contains a lone surrogate (U+DCFF) at position 1"),
    ({"user": "u" * 257}, "--user: has 257 characters; at most 256 are allowed"),
    ({"kind": "a\nb"}, "--kind: contains a control character (U+000A)"),
    ({"channel": "pigeon"}, "--channel: 'pigeon' is not installed; known channels: "),
    ({"channel": "\0"}, "--channel: "),
    ({"reference": "\udc80"}, "--reference: contains a lone surrogate"),
    ({"reference": ""}, "--reference: is empty"),
    ({"slot": "\x7f"}, "--slot: contains a control character"),
    ({"to": "hooks.example"}, "--to: must be an absolute URL"),
    ({"to": "https://u:p@hooks.example/"}, "--to: must not hold a user name"),
    ({"to": "https://hooks.example/" + "x" * 2000}, "--to: has 2,022 characters"),
    ({"data": "[1]"}, "--data: must be a JSON object"),
    ({"data": "null"}, "--data: must be a JSON object"),
    ({"data": "{"}, "--data: is no JSON"),
    ({"data": ""}, "--data: is no JSON"),
    ({"data": '{"a": NaN}'}, "--data: holds NaN"),
    ({"data": '{"a": -Infinity}'}, "--data: holds -Infinity"),
    ({"data": '{"a": 1e999}'}, "--data: data.a is inf"),
    ({"data": '{"a": 1, "b": {"c": 1, "c": 2}}'}, "--data: has the key 'c' twice"),
    ({"data": '{"a": "\\u0000"}'}, "--data: data.a contains U+0000"),
    ({"data": '{"a": "\\ud800"}'}, "--data: data.a contains U+D800"),
    ({"data": '{"a": "\udcff"}'}, "--data: data.a contains U+DCFF"),
    (
        {"data": '{"a": 9223372036854775808}'},
        "--data: data.a is a number that neither a 64-bit integer nor a 64-bit float holds",
    ),
    ({"data": '{"a": ' + "9" * 6000 + "}"}, "--data: holds a number with too many digits"),
    ({"data": '{"a":' * 17 + "1" + "}" * 17}, "--data: is nested deeper than 16 levels"),
    ({"data": DEEP}, "--data: is nested too deep"),
    ({"data": '{"a": "' + "x" * 8192 + '"}'}, "--data: has 8,200 bytes as JSON"),
    ({"data": '{"a": "' + "x" * 99_999 + '"}'}, "--data: is too long"),
    ({"data": "@no/such/file"}, "--data: 'no/such/file' cannot be read: No such file or directory"),
    ({"data": "@\0"}, "--data: '\\x00' cannot be read"),
    ({"data": "@."}, "--data: '.' cannot be read: Is a directory"),
    ({"expires_at": "2031-05-01T09:30Z"}, "--expires-at: must be later than --due-at"),
    ({"expires_at": "soon"}, "--expires-at: 'soon' is no instant"),
]


@pytest.mark.parametrize(("changed", "said"), REFUSED, ids=[f"{next(iter(c))}-{n}" for n, (c, _) in enumerate(REFUSED)])
def test_what_cannot_be_accepted_is_named_in_a_line_and_nothing_is_written(run, stage, changed, said):
    result = run("schedule", *options(**changed))
    assert result.stderr.startswith(said)
    assert len(result.stderr.splitlines()) == 1
    assert (result.exit_code, result.stdout) == (1, "")
    assert stage.count("reminders") == 0


def test_a_mistake_is_named_without_asking_postgres(run, monkeypatch):
    monkeypatch.setenv("DATABASE_URL", "postgresql://nobody@127.0.0.1:1/nothing")
    assert run("schedule", *options(zone="Mars/Olympus")).stderr.startswith(
        "--zone: 'Mars/Olympus' is no IANA zone name"
    )
    assert run("schedule", *options()).stderr.startswith("Postgres does not answer at ")


def test_a_missing_option_is_wrong_usage(run):
    result = run("schedule", *options(tenant=None))
    assert result.exit_code == 2
    assert "Missing option '--tenant'" in result.stderr


def test_a_slip_of_the_year_is_sent_only_on_demand(run, stage):
    long_ago = (datetime.now(UTC) - timedelta(hours=25)).isoformat(timespec="seconds")
    refused = run("schedule", *options(due_at=long_ago))
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr == (
        f"--due-at: was due at {long_ago}, over 24 hours ago; --overdue send schedules it all the same\n"
    )
    assert stage.count("reminders") == stage.count("due") == 0
    made = only(run("schedule", *options(due_at=long_ago, overdue="send"), "--json"))
    assert made["created"] is True
    # What stands already is shown, whatever its age.
    assert only(run("schedule", *options(due_at=long_ago), "--json")) == made | {"created": False}


def test_a_little_late_is_scheduled_without_a_word(run, stage):
    late = (datetime.now(UTC) - timedelta(hours=23)).isoformat()
    assert run("schedule", *options(due_at=late)).exit_code == 0
