"""Which reminder a turn of a series is."""

from __future__ import annotations

from reminders.domain.identity import identity_key
from reminders.ledger.series_rows import Series


def identity_of(series: Series, recurrence_id: str) -> bytes:
    """The identity of a turn: that of its series and of its first local time, wherever it is moved."""
    return identity_key(
        tenant_id=series.tenant_id,
        user_id=series.user_id,
        reference=str(series.id),
        kind=series.kind,
        channel=series.channel,
        slot=series.slot,
        due_at=series.created_at,
        recurrence_id=recurrence_id,
    )
