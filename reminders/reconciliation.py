"""Reconciliation for application code: `reconcile` a file, and the words a matcher needs. INTERFACE ONLY for now."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from reminders.domain.settlement import Decision, Order, SettlementLine
from reminders.intake.settlement.matching import Decided, Matcher, MatcherFault
from reminders.intake.settlement.reporting import Report


def reconcile(
    file: str | Path | BinaryIO,
    config: str | Path,
    *,
    database_url: str | None = None,
    actor: str = "application",
    only_page: int | None = None,
    reminders: bool = True,
) -> Report:
    """Run a settlement file through all steps. A binary file must be seekable: it is read twice.

    Raises `MalformedFile`, `SettingsError`, `MatcherFault`, `ServiceUnavailable`; `Refused` while somebody else has the file.
    """
    raise NotImplementedError


__all__ = ["Decided", "Decision", "Matcher", "MatcherFault", "Order", "Report", "SettlementLine", "reconcile"]
