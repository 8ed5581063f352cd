"""What `reminders status` says to people of what it has found."""

from __future__ import annotations

from reminders.cli.status import _print_for_people

FOUND = {
    "counts": {}, "oldest_due_age_seconds": 0.0, "in_flight": 0, "held": 0, "waiting_for_holds": {"destination": 3, "channel": 0}, "pauses": [], "tenants": {"off": 0, "shadow": 0, "live": 0},
    "dispatchers": {}, "dispatchers_away": [], "drains": [], "rates": [], "breakers_open": 0, "quiet": 0, "dead_letters_open": 0,
    "notices": {"dead_letter": 2, "breaker_opened": 1}, "reconciliation": None, "last_tick_at": None, "beat_ticks": False,
    "dropped_ticks": 0, "queues": {}, "unacknowledged": 0, "workers": [], "silent_workers": [], "dropped_messages": {},
}  # fmt: skip


def test_unseen_notices_are_told_once(capsys):
    _print_for_people(FOUND)
    (told,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("notices")]
    assert told.removeprefix("notices").strip() == (
        "3 unseen (1 breaker opened, 2 dead letter): `reminders notice list`"
    )


def test_what_waits_for_a_hold_is_told_beside_what_is_held(capsys):
    _print_for_people(FOUND)
    (told,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("wait for a hold")]
    assert told.endswith("  3 for their destination's: `reminders destination list`")
