"""G2: when the faults are over, a bounded number of looks brings every reminder to its end."""

from __future__ import annotations

from model.checks import check
from model.model_stage import AUDITED, Stage
from reminders.domain.states import LIVE
from reminders.ledger.audit import audit

LOOKS_PER_REMINDER = 4
"""A look that repairs its claim or finds its lease ended, one that publishes it, and twice that for a row that waited for
room behind others."""
LOOKS_AT_LEAST = 3
_STATUS = "SELECT status, delivery_key FROM reminders.reminders WHERE id = %s"
_LIVE = "SELECT count(*) FROM reminders.due"


def look_until_all_have_ended(scanner, deliver_all, stage: Stage) -> int:
    """Look, deliver what goes out, move to the next wake, until nothing is live; return how many looks it took.

    Fails beyond `LOOKS_PER_REMINDER` for each that is live, and `LOOKS_AT_LEAST`.
    """
    live = stage.sql(_LIVE)[0][0]
    bound = LOOKS_PER_REMINDER * live + LOOKS_AT_LEAST
    for looks in range(1, bound + 1):
        done = scanner.once()
        deliver_all()
        check(stage)
        if stage.sql(_LIVE)[0][0] == 0:
            return looks
        if not done.full and not done.published:
            stage.clock.forward((done.seconds_to_next or 0.0) + 0.001)
    rows = stage.sql("SELECT status, delivery_key, wake_at, route FROM reminders.due")
    raise AssertionError(f"G2: {bound} looks at {live} reminders left {rows}")


def check_ends(stage: Stage) -> None:
    """What receivers got is what the ledger says, and its audit is clean."""
    for reminder in stage.beliefs.reminders:
        found = stage.sql(_STATUS, str(reminder.id))
        status, key = (reminder.ended, reminder.key) if reminder.purged else found[0]
        effects = [stage.receiver.effects(each) for each in reminder.keys]
        assert status not in LIVE, f"G2: {key} is {status}"
        if status == "delivered":
            assert effects[-1] == 1, f"G4: {key} is delivered and took effect {effects[-1]} times"
        elif status != "dead":
            assert effects[-1] == 0, f"G5: {key} is {status} and took effect {effects[-1]} times"
        assert not any(effects[:-1]), f"G4: {reminder.keys} took effect {effects} times"
    found = [
        f"{result.check.name}: {each.delivery_key} {each.detail}"
        for result in audit(stage.database, AUDITED, since=None, limit=3).results
        for each in result.shown
    ]
    assert found == [], found
