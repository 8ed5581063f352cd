"""`reminders import CALENDAR`, against a real ledger: what is made, and what a second import changes."""

import json
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner

from calendar_files import BERLIN, DATA, calendar, event
from integration.import_files import count, rejects
from reminders import cancel
from reminders.cli.app import reminders
from reminders.domain.request import LIMITS
from reminders.operate.retention import purge as purge_reminders

NOW = "2026-03-01T00:00Z"
WHOSE = ("--tenant", "acme", "--user", "ada", "--kind", "calendar", "--channel", "log", "--to", "anywhere")
NOTHING = {
    "existing": 0, "moved": 0, "cancelled": 0, "requested": 0, "rejected": 0, "skipped": 0, "scheduled": 0,
}  # fmt: skip


@pytest.fixture
def invoke(services, database, monkeypatch, tmp_path):
    """Run `reminders import ...` in an empty folder; a traceback fails the test."""
    monkeypatch.setenv("DATABASE_URL", services.database_url)
    monkeypatch.setenv("REDIS_URL", services.redis_url)
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        result = CliRunner().invoke(reminders, ["import", *map(str, arguments)])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return call


@pytest.fixture
def run(invoke, tmp_path):
    """Import a calendar's text; what its JSON says, without what every import says and what is zero."""

    def call(text, *options, now=NOW, whose=WHOSE, name="a.ics"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        result = invoke(path, *whose, "--now", now, "--json", *options)
        assert result.exit_code in {0, 3}, result.output
        found = json.loads(result.stdout)
        assert found.pop("v") == 1
        assert found.pop("read") == sum(
            found[each] for each in ("scheduled", "existing", "moved", "rejected", "skipped")
        )
        assert (found["rejects_file"] is None) == (found["rejected"] == 0 or found["dry_run"])
        assert result.exit_code == (3 if found["rejected"] else 0)
        return {key: found[key] for key in NOTHING if found[key]}

    return call


@pytest.fixture
def ledger(database):
    """(slot, due_at, status) of every reminder, in the order of time; `versions` tells whether any was written anew."""

    class Ledger:
        def rows(self, columns, order="r.due_at, r.slot"):
            with database.transaction() as connection, connection.cursor() as cursor:
                cursor.execute(
                    f"SELECT {columns} FROM reminders.reminders r LEFT JOIN reminders.due d USING (id) ORDER BY {order}"
                )
                return cursor.fetchall()

        def due(self):
            """Of live ones."""
            rows = self.rows("r.due_at, r.status, d.wake_at")
            assert all(due_at == wake_at for due_at, status, wake_at in rows if status == "live")
            return [f"{due_at.astimezone(UTC):%m-%dT%H:%M}" for due_at, status, _ in rows if status == "live"]

        def written(self):
            """Changes whenever a row of the ledger is written."""
            with database.transaction() as connection, connection.cursor() as cursor:
                found = []
                for table in ("reminders", "due", "calendar_entries", "calendar_revisions"):
                    cursor.execute(f"SELECT xmin::text, ctid::text FROM reminders.{table} ORDER BY ctid")
                    found.append(cursor.fetchall())
                return found

        def end(self, status="delivered"):
            """All that is live ends."""
            with database.transaction() as connection, connection.cursor() as cursor:
                cursor.execute("DELETE FROM reminders.due")
                cursor.execute(
                    "UPDATE reminders.reminders SET status = %s, finished_at = clock_timestamp() WHERE status = 'live'",
                    [status],
                )

        def cancel_all(self):
            """As a person does it."""
            with database.transaction() as connection:
                for (found,) in self.rows("r.id::text"):
                    assert cancel(connection, found) == "cancelled"

    return Ledger()


DAILY = (f"DTSTART;{BERLIN}:20260327T090000", "RRULE:FREQ=DAILY;COUNT=4")
LONGEST = "start-366d23h59m59s@20260327T090000Z~20260327T090000Z"
ONE = "DTSTART:20260401T090000Z"


@pytest.mark.parametrize("path", sorted(DATA.glob("*.ics")), ids=lambda path: path.stem)
def test_every_real_calendar_imports_and_again_without_a_change(run, ledger, database, path):
    raw = path.read_bytes()
    first = run(raw, "--overdue", "send", "--horizon", "30d", now="2024-11-20T00:00Z")
    assert first.keys() == {"scheduled"}
    assert count(database) == count(database, "due") == first["scheduled"]
    before = ledger.written()
    assert run(raw, "--overdue", "send", "--horizon", "30d", now="2024-11-20T00:00Z") == {
        "existing": first["scheduled"]
    }
    assert ledger.written() == before


def test_what_an_alarm_becomes(run, ledger):
    assert run(calendar(event(*DAILY, "SUMMARY:secret", alarm="-PT15M"))) == {"scheduled": 4}
    assert ledger.due() == ["03-27T07:45", "03-28T07:45", "03-29T06:45", "03-30T06:45"]
    row = ledger.rows("r.tenant_id, r.user_id, r.kind, r.channel, r.destination, r.reference, r.slot, r.zone, r.data")[
        0
    ]
    assert row == (
        "acme", "ada", "calendar", "log", "anywhere", "one@example.org", "start-15m@20260327T090000", "Europe/Berlin",
        {"uid": "one@example.org", "start": "2026-03-27T08:00:00Z", "recurrence_id": "20260327T090000"},
    )  # fmt: skip


def test_the_longest_slot_fits():
    assert len(LONGEST) <= LIMITS["slot"]


def test_a_single_event_that_moves_is_the_same_reminder(run, ledger):
    assert run(calendar(event(ONE))) == {"scheduled": 1}
    [before] = ledger.rows("r.id, r.version, r.identity_key::text, r.delivery_key")
    assert run(calendar(event("DTSTART:20260402T100000Z"))) == {"moved": 1}
    [after] = ledger.rows("r.id, r.version, r.identity_key::text, r.delivery_key")
    assert (after[0], after[1], after[2]) == (before[0], 2, before[2])
    assert after[3] != before[3]
    assert ledger.due() == ["04-02T10:00"]
    assert ledger.rows("r.data ->> 'start'") == [("2026-04-02T10:00:00Z",)]
    assert run(calendar(event("DTSTART:20260402T100000Z"))) == {"existing": 1}


def test_only_what_changed_is_written(run, ledger):
    series = event(*DAILY)
    assert run(calendar(series, event(ONE, uid="two"), event(ONE, uid="three"))) == {"scheduled": 6}
    before = dict(ledger.rows("r.id, r.xmin::text"))
    moved = event(f"RECURRENCE-ID;{BERLIN}:20260328T090000", f"DTSTART;{BERLIN}:20260328T100000")
    result = run(calendar(series, moved, event(ONE, uid="two"), event(ONE, uid="four")))
    assert result == {"existing": 4, "moved": 1, "scheduled": 1, "cancelled": 1}
    after = dict(ledger.rows("r.id, r.xmin::text"))
    assert len(after) == 7
    assert sum(after[each] != xmin for each, xmin in before.items()) == 2
    assert ledger.due() == ["03-27T08:00", "03-28T09:00", "03-29T07:00", "03-30T07:00", "04-01T09:00", "04-01T09:00"]


@pytest.mark.parametrize("how", ["STATUS:CANCELLED", "EXDATE"])
def test_a_turn_that_is_cancelled_and_comes_back(run, ledger, how):
    series = event(*DAILY)
    assert run(calendar(series)) == {"scheduled": 4}
    if how == "EXDATE":
        without = calendar(event(*DAILY, f"EXDATE;{BERLIN}:20260328T090000"))
    else:
        without = calendar(series, event(f"RECURRENCE-ID;{BERLIN}:20260328T090000", "DTSTART:20260328T080000Z", how))
    result = run(without)
    assert (result["cancelled"], result["existing"]) == (1, 3)
    assert ledger.due() == ["03-27T08:00", "03-29T07:00", "03-30T07:00"]
    assert "cancelled" not in run(without)
    assert run(calendar(series)) == {"existing": 3, "moved": 1}
    assert ledger.due() == ["03-27T08:00", "03-28T08:00", "03-29T07:00", "03-30T07:00"]


def test_an_alarm_that_is_added_leaves_the_others_alone(run):
    assert run(calendar(event(ONE, alarm="-PT15M"))) == {"scheduled": 1}
    earlier = ("BEGIN:VALARM", "TRIGGER:-PT1H", "END:VALARM")
    assert run(calendar(event(ONE, *earlier, alarm="-PT15M"))) == {"scheduled": 1, "existing": 1}


def test_the_horizon_rolls_on_and_never_cancels(run, ledger):
    endless = calendar(event("DTSTART:20260301T090000Z", "RRULE:FREQ=DAILY"))
    assert run(endless, "--horizon", "10d") == {"scheduled": 10}
    assert run(endless, "--horizon", "3d") == {"existing": 10}
    assert run(endless, "--horizon", "12d") == {"scheduled": 2, "existing": 10}
    # A week later those of the first days are over: neither read nor cancelled.
    assert run(endless, "--horizon", "10d", now="2026-03-08T00:00Z") == {"scheduled": 5, "existing": 6}
    assert len(ledger.due()) == 17


def test_the_audit_finds_nothing_after_imports(run, ledger):
    run(calendar(event(*DAILY, alarm="-PT15M"), event(ONE, uid="two")))
    run(
        calendar(event(*DAILY, "EXDATE:20260328T080000Z", alarm="-PT15M"), event("DTSTART:20260402T090000Z", uid="two"))
    )
    found = CliRunner().invoke(reminders, ["audit", "--json"])
    assert found.exit_code == 0, found.output


def test_other_content_is_given_to_what_has_not_been_attempted(run, ledger):
    text = calendar(event(*DAILY, "SUMMARY:Dentist"))
    assert run(text) == {"scheduled": 4}
    assert run(text, "--data", "summary") == {"moved": 4}
    assert {row[0]["summary"] for row in ledger.rows("r.data")} == {"Dentist"}
    elsewhere = (*WHOSE[:-1], "elsewhere")
    assert run(text, "--data", "summary", whose=elsewhere) == {"moved": 4}
    assert set(ledger.rows("r.destination")) == {("elsewhere",)}
    assert ledger.rows("r.destination_id = d.destination_id") == [(True,)] * 4
    assert run(text, "--data", "summary", whose=elsewhere) == {"existing": 4}


def test_an_event_that_moves_after_its_alarm_rang_rings_again(run, ledger):
    run(calendar(event("DTSTART:20260301T120000Z")))
    ledger.end()
    now = "2026-03-01T13:00Z"
    assert run(calendar(event("DTSTART:20260301T120000Z")), now=now) == {"existing": 1}
    # To a time that is past: it has rung for it.
    assert run(calendar(event("DTSTART:20260301T123000Z")), now=now) == {"existing": 1}
    assert ledger.due() == []
    assert run(calendar(event("DTSTART:20260302T120000Z")), now=now) == {"moved": 1}
    assert ledger.due() == ["03-02T12:00"]
    assert run(calendar(event("DTSTART:20260302T120000Z")), now=now) == {"existing": 1}
    # And is moved like any other until then, cancelled and brought back too.
    assert run(calendar(event("DTSTART:20260303T120000Z")), now=now) == {"moved": 1}
    assert ledger.due() == ["03-03T12:00"]
    gone = calendar(event("DTSTART:20260303T120000Z", "STATUS:CANCELLED"))
    assert run(gone, now=now)["cancelled"] == 1
    assert ledger.due() == []
    assert run(calendar(event("DTSTART:20260302T120000Z")), now=now) == {"moved": 1}
    assert ledger.due() == ["03-02T12:00"]


@pytest.fixture
def purge(database):
    """All reminders that have ended are purged; entries stay for as long after their own time, by the real clock."""

    def call():
        with database.transaction() as connection, connection.cursor() as cursor:
            cursor.execute(
                "UPDATE reminders.reminders SET created_at = clock_timestamp() - interval '401 days', "
                "finished_at = finished_at - interval '400 days'"
            )
        for _ in range(3):
            purge_reminders(database, 90 * 86400.0, patience=60.0)
        assert count(database) == count(database, "due")

    return call


@pytest.mark.parametrize("pruned", [False, True])
def test_an_event_that_moves_after_its_reminder_was_purged_rings_again(run, ledger, purge, database, pruned):
    first, second = calendar(event("DTSTART:20260301T120000Z")), calendar(event("DTSTART:20260402T120000Z"))
    run(first)
    ledger.end()
    purge()
    now = "2026-03-20T00:00Z" if pruned else "2026-03-01T13:00Z"
    assert run(first, now=now) == ({"skipped": 1} if pruned else {"existing": 1})
    assert count(database, "calendar_entries") == (0 if pruned else 1)
    assert run(second, now=now) == ({"scheduled": 1} if pruned else {"moved": 1})
    assert run(second, now=now) == {"existing": 1}
    assert ledger.due() == ["04-02T12:00"]


def test_an_event_that_comes_back_after_its_reminder_was_purged_rings(run, ledger, purge):
    both = calendar(event(ONE), event(ONE, uid="two"))
    run(both)
    assert run(calendar(event(ONE, uid="two"))) == {"existing": 1, "cancelled": 1}
    purge()
    assert run(both) == {"existing": 1, "moved": 1}
    assert run(both) == {"existing": 2}
    assert ledger.due() == ["04-01T09:00", "04-01T09:00"]


def test_what_a_person_cancelled_stays_cancelled_once_it_is_purged(run, ledger, purge):
    run(calendar(event(ONE)))
    ledger.cancel_all()
    purge()
    assert run(calendar(event(ONE))) == {"existing": 1}
    assert ledger.due() == []


def test_what_a_person_cancelled_stays_cancelled(run, ledger):
    run(calendar(event(ONE)))
    ledger.cancel_all()
    assert run(calendar(event(ONE))) == {"existing": 1}
    assert run(calendar(event("DTSTART:20260402T090000Z"))) == {"existing": 1}
    assert run(calendar(event(ONE, uid="other")), "--calendar", "") == {"scheduled": 1}
    assert ledger.due() == ["04-01T09:00"]


def test_only_its_own_reminders_are_cancelled(run, ledger):
    """Another calendar of the same user, another user's, and what was scheduled otherwise."""
    home, work = calendar(event(ONE, uid="home")), calendar(event(ONE, uid="work"))
    assert run(home, "--calendar", "home") == {"scheduled": 1}
    assert run(work, "--calendar", "work") == {"scheduled": 1}
    bob = [each if each != "ada" else "bob" for each in WHOSE]
    assert run(home, whose=bob) == {"scheduled": 1}
    assert run(calendar(), "--calendar", "work") == {"cancelled": 1}
    assert ledger.rows("r.user_id, r.reference, r.status", "1, 2") == [
        ("ada", "home", "live"), ("ada", "work", "cancelled"), ("bob", "home", "live"),
    ]  # fmt: skip


def test_the_same_event_in_two_calendars_belongs_to_the_first(run, ledger):
    assert run(calendar(event(ONE)), "--calendar", "one") == {"scheduled": 1}
    assert run(calendar(event(ONE)), "--calendar", "two") == {"existing": 1}
    assert run(calendar(event("DTSTART:20260402T090000Z")), "--calendar", "two") == {"rejected": 1}
    assert run(calendar(), "--calendar", "two") == {}
    assert ledger.due() == ["04-01T09:00"]


def test_another_calendar_by_mistake_cancels_nothing(invoke, run, ledger, tmp_path):
    run(calendar(event(ONE, uid="home")))
    path = tmp_path / "work.ics"
    path.write_text(calendar(event(ONE, uid="work")))
    result = invoke(path, *WHOSE, "--now", NOW)
    assert result.exit_code == 1
    assert "--calendar" in result.stderr
    assert ledger.rows("r.reference, r.status") == [("home", "live")]


def test_calendars_that_name_themselves_are_kept_apart(run):
    assert run(calendar(event(ONE, uid="home"), head=("X-WR-CALNAME:Home",))) == {"scheduled": 1}
    assert run(calendar(event(ONE, uid="work"), head=("X-WR-CALNAME:Work",))) == {"scheduled": 1}


def test_broken_events_are_rejected_by_line_and_keep_their_reminders(run, ledger, tmp_path):
    run(calendar(event(ONE, uid="one"), event(ONE, uid="two"), event(ONE, uid="three")))
    broken = calendar(event("DTSTART:yesterday", uid="one"), event(ONE, uid="two"))
    assert run(broken) == {"rejected": 1, "existing": 1, "cancelled": 1}
    assert rejects(tmp_path / "a.ics.rejects.jsonl") == [
        (5, "DTSTART", "'yesterday' is no date or time; write 20260501, 20260501T093000 or 20260501T073000Z")
    ]
    assert ledger.rows("r.reference", "1") == [("one",), ("three",), ("two",)]
    assert len(ledger.due()) == 2


def test_a_file_that_was_cut_off_cancels_nothing(run, ledger):
    text = calendar(event(ONE, uid="one"), event(ONE, uid="two"))
    run(text)
    assert run(text[: text.rindex("UID")])["existing"] == 1
    assert len(ledger.due()) == 2


def test_messages_about_single_events_touch_no_others(run, ledger):
    run(calendar(event(*DAILY, uid="one"), event(ONE, uid="two")))
    request = event(
        f"RECURRENCE-ID;{BERLIN}:20260328T090000", f"DTSTART;{BERLIN}:20260328T110000", "SEQUENCE:3", uid="one"
    )
    assert run(calendar(request, head=("METHOD:REQUEST",))) == {"moved": 1}
    assert ledger.due() == ["03-27T08:00", "03-28T10:00", "03-29T07:00", "03-30T07:00", "04-01T09:00"]
    stale = request.replace("SEQUENCE:3", "SEQUENCE:2").replace("T110000", "T120000")
    assert run(calendar(stale, head=("METHOD:REQUEST",))) == {"skipped": 1}
    one_turn = event(
        f"RECURRENCE-ID;{BERLIN}:20260330T090000", f"DTSTART;{BERLIN}:20260330T090000", "SEQUENCE:4", uid="one"
    )
    assert run(calendar(one_turn, head=("METHOD:CANCEL",))) == {"skipped": 1, "cancelled": 1}
    assert ledger.due() == ["03-27T08:00", "03-28T10:00", "03-29T07:00", "04-01T09:00"]
    assert run(calendar(event(*DAILY, "SEQUENCE:5", uid="one"), head=("METHOD:CANCEL",))) == {
        "skipped": 1,
        "cancelled": 3,
    }
    assert ledger.due() == ["04-01T09:00"]


def test_a_dry_run_says_the_same_and_writes_nothing(run, ledger, database, tmp_path):
    first = calendar(event(*DAILY), event("DTSTART:no", uid="bad"))
    assert run(first, "--dry-run") == {"scheduled": 4, "rejected": 1}
    assert count(database) == count(database, "calendars") == 0
    assert not (tmp_path / "a.ics.rejects.jsonl").exists()
    assert run(first) == {"scheduled": 4, "rejected": 1}
    before = ledger.written()
    second = calendar(event(DAILY[0], "RRULE:FREQ=DAILY;COUNT=2"), event(ONE, uid="two"))
    assert run(second, "--dry-run") == {"scheduled": 1, "existing": 2, "cancelled": 2}
    assert ledger.written() == before
    assert run(second) == {"scheduled": 1, "existing": 2, "cancelled": 2}


@pytest.mark.parametrize(
    ("overdue", "expected"), [("skip", {"skipped": 1}), ("reject", {"rejected": 1}), ("send", {"scheduled": 3})]
)
def test_instants_long_past(run, overdue, expected):
    text = calendar(event("DTSTART:20260101T090000Z", "RRULE:FREQ=DAILY;COUNT=3"))
    assert run(text, "--overdue", overdue) == expected


def test_an_import_gives_way_to_a_newer_one(services, settings, database):
    from reminders.domain.errors import RemindersError
    from reminders.intake.ical.comparing import Changes, Owner
    from reminders.intake.ical.writing import CalendarWriter
    from reminders.ledger.calendars import Entry

    owner = Owner("acme", "ada", "calendar", "log", "anywhere")
    now = datetime(2026, 3, 1, tzinfo=UTC)
    old, new = (
        CalendarWriter(database.transaction, "reminders", owner, deduplicates=False, now=now, dry=False)
        for _ in range(2)
    )
    old.known()
    new.known()
    gone = Changes(gone=[Entry(b"1", b"1", "", 0, b"", now, owner.calendar_id)])
    with pytest.raises(RemindersError, match="newer import"):
        old.write(gone)


@pytest.mark.parametrize("fails_at", [1, 2, 3, 4])
def test_an_import_that_is_broken_off_is_finished_by_the_next(run, ledger, monkeypatch, fails_at):
    from reminders.intake.ical import writing

    monkeypatch.setattr(writing, "BATCH", 2)
    run(calendar(event(*DAILY, uid="old"), event(ONE, uid="moves")))
    saves = []

    def save(*arguments):
        saves.append(arguments)
        original(*arguments)
        if len(saves) == fails_at:
            raise RuntimeError("killed before its commit")

    original = writing.calendars.save
    changed = calendar(event(*DAILY, uid="new"), event("DTSTART:20260402T090000Z", uid="moves"))
    with monkeypatch.context() as patched:
        patched.setattr(writing.calendars, "save", save)
        with pytest.raises(RuntimeError):
            run(changed)
    assert run(changed).get("rejected", 0) == 0
    assert ledger.due() == ["03-27T08:00", "03-28T08:00", "03-29T07:00", "03-30T07:00", "04-02T09:00"]
    assert run(changed) == {"existing": 5}


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ((*WHOSE[2:],), "--tenant is missing"),
        ((*WHOSE, "--horizon", "ever"), "horizon"),
        ((*WHOSE, "--all-day-at", "9"), "all-day-at"),
        ((*WHOSE, "--zone", "Mars"), "zone"),
        ((*WHOSE, "--calendar", "\udcff"), "calendar: has characters"),
        ((*WHOSE, "--now", "9998-12-30T00:00Z"), "horizon: reaches"),
        ((*WHOSE[:-4], "--channel", "pigeon", "--to", "x"), "pigeon"),
    ],
)
def test_what_the_command_gives_is_checked_first(invoke, tmp_path, options, part):
    path = tmp_path / "a.ics"
    path.write_text(calendar(event(ONE)))
    result = invoke(path, *options)
    assert result.exit_code in {1, 2}
    assert part in result.stderr


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (("--zone", "Europe/Berlin"), "--zone is for calendars; in CSV and JSON Lines each record says it"),
        (("--dry-run",), "--dry-run is for calendars, and FILE is none"),
    ],
)
def test_options_of_calendars_are_refused_for_other_files(invoke, tmp_path, option, said):
    path = tmp_path / "a.csv"
    path.write_text("tenant_id\n")
    result = invoke(path, *option)
    assert result.exit_code == 2
    assert said in result.stderr


def test_a_calendar_is_known_by_its_first_line(invoke, tmp_path):
    path = tmp_path / "feed"
    path.write_text(calendar(event(ONE)))
    result = invoke(path, *WHOSE, "--now", NOW)
    assert (result.exit_code, "1 reminder scheduled" in result.stdout) == (0, True), result.output


def test_a_missing_uid_is_mentioned_by_line(invoke, tmp_path):
    path = tmp_path / "a.ics"
    path.write_text(calendar(event(ONE, uid=None)))
    result = invoke(path, *WHOSE, "--now", NOW)
    assert result.exit_code == 0
    assert "Without UID, line 3:" in result.stderr
