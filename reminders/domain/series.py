"""Words of series: what recurs by a rule, and what becomes of the turns that an outage let pass."""

from __future__ import annotations

from typing import Literal

CatchUp = Literal["latest", "skip", "all"]
"""Of the turns that were missed: only the newest is made, none is, or all are, as far as a cap."""
CATCH_UPS: tuple[CatchUp, ...] = ("latest", "skip", "all")

SeriesStatus = Literal["active", "paused", "ended", "cancelled"]
"""`ended`: no turn is left. An edit may give it new ones; nothing leads out of `cancelled`."""

SkipReason = Literal["superseded", "too_late", "cap", "missed", "paused"]
"""Why a turn was not made: a newer one had come due (`latest`); it was later than its series' lateness allows; it was
beyond the newest hundred (`all`); it was missed (`skip`); or the series was paused."""
