"""What a run of reconciliation came to, as tables for people and as one JSON object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from reminders.cli.printing import counted, for_people, print_json, print_table
from reminders.domain.money import amount_text
from reminders.intake.settlement.reporting import Report, RunSummary
from reminders.ledger.settlement_files import StoredFile

_NUMBERS = frozenset({"count", "lines", "amount", "gross", "fee", "net", "paid", "difference"})
"""Columns whose ends stand below each other."""
_STATES = {"given_up": "given up"}


def print_report(found: Report, *, as_json: bool) -> None:
    """All of it."""
    if as_json:
        print_json(as_json_fields(found))
        return
    run = found.run
    print(for_people(_headline(run)))
    if run.kind in {"file", "page"}:
        print(
            f"{counted(run.read, 'record')}: {run.new:,} new, {run.changed:,} changed, {run.unchanged:,} unchanged, {run.rejected:,} rejected"
        )
    if run.error:
        print(for_people(f"Broken off: {run.error}"))
    section(
        "Decisions",
        ("decision", "currency", "count", "amount"),
        [
            (each.decision, each.currency, f"{each.count:,}", money(each.amount, each.currency))
            for each in found.decisions
        ],
    )
    if found.outcomes:
        print(", ".join(f"{count:,} {name}" for name, count in found.outcomes.items() if count))
    section(
        "Lines",
        ("category", "currency", "count", "gross", "fee", "net"),
        [
            (
                each.category,
                each.currency,
                f"{each.count:,}",
                *(money(amount, each.currency) for amount in (each.gross, each.fee, each.net)),
            )
            for each in found.categories
        ],
    )
    section(
        "Payouts that do not add up",
        ("payout", "currency", "lines", "paid", "difference"),
        [
            (
                each.payout_id,
                each.currency,
                *(money(amount, each.currency) for amount in (each.lines, each.paid, each.difference)),
            )
            for each in found.payouts
        ],
        found.totals.get("payouts", 0),
    )
    section(
        "Lines without an order",
        ("line", "currency", "amount", "reason"),
        [(each.line_id, each.currency, money(each.amount, each.currency), each.reason) for each in found.unmatched],
        found.totals.get("unmatched", 0),
    )
    section(
        "Rejected lines",
        ("line", "field", "reason"),
        [(f"{each.line:,}", each.field, each.reason) for each in found.rejects],
        found.totals.get("rejects", 0),
    )
    section(
        "Corrected, withdrawn, repaired",
        ("what", "decision", "of", "payout", "currency", "amount", "its reminder"),
        [
            (each.outcome, each.decision, each.order or each.line_id, each.payout_id or None, each.currency, money(each.amount, each.currency), each.note)
            for each in found.changes
        ],
        found.totals.get("changes", 0),
    )  # fmt: skip
    _counts("Reminders", found.reminders, "none")
    _counts("Not told", found.not_told, None)


def print_runs(found: Sequence[RunSummary], *, as_json: bool) -> None:
    """One a line."""
    if as_json:
        for each in found:
            print_json(plain(each))
    elif not found:
        print("no run yet")
    else:
        headings = ("run", "started", "source", "what", "state", "read", "rejected")
        rows = [
            (each.run_id, each.started_at, each.source, each.file or each.kind, _state(each), f"{each.read:,}", f"{each.rejected:,}")
            for each in found
        ]  # fmt: skip
        print_table(headings, rows, spare=("rejected", "read", "source"))


def print_files(found: Sequence[StoredFile], *, as_json: bool) -> None:
    """One a line; addresses are not shown."""
    if as_json:
        for each in found:
            print_json(
                {
                    "file": each.id, "source": each.source, "name": each.name, "status": each.status, "size": each.size,
                    "pages": each.pages, "records": each.records, "night": each.night and each.night.isoformat(),
                    "run": each.run_id, "reason": each.reason, "actor": each.actor, "created_at": each.created_at,
                }
            )  # fmt: skip
    elif not found:
        print("no file is kept")
    else:
        rows = [
            (each.id, each.created_at, each.source, each.status, f"{each.size:,}", each.name, each.reason)
            for each in found
        ]
        print_table(
            ("file", "since", "source", "status", "bytes", "name", "reason"), rows, spare=("bytes", "source", "since")
        )


def as_json_fields(found: Report) -> dict[str, Any]:
    """The report under the names of its fields; amounts are text, as exact as they are."""
    fields_of = plain(found)
    assert isinstance(fields_of, dict)
    return fields_of


def plain(value: Any) -> Any:
    """Dataclasses as objects, decimals as text, tuples as lists; ids and instants as `print_json` writes them."""
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, str | int | float | datetime | UUID | None):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {_key(key): plain(each) for key, each in value.items()}
    return [plain(each) for each in value]


def money(amount: Decimal | None, currency: str) -> str | None:
    """With the places of its currency, or with more if it has more."""
    return None if amount is None else amount_text(amount, currency)


def _key(key: object) -> str:
    return "/".join(map(str, key)) if isinstance(key, tuple) else str(key)


def _headline(run: RunSummary) -> str:
    what = {"missing": "overdue payouts", "audit": "audit"}.get(run.kind, run.file or "a file")
    page = f", page {run.only_page} alone" if run.only_page is not None else ""
    told = "" if run.reminders else ", without reminders"
    return f"Run {run.run_id} of {run.source}: {what}{page}{told}, {_state(run)}"


def _state(run: RunSummary) -> str:
    if run.state in {"running", "interrupted"} and run.step == "lines":
        return f"{run.state} at page {run.page} of {run.pages}"
    return _STATES.get(run.state, run.state)


def section(title: str, headings: Sequence[str], rows: Sequence[Sequence[object]], total: int = 0) -> None:
    """A table with its title, unless it is empty; `total` is how many rows there are, of which these are the first."""
    if not rows:
        return
    more = f" (the first {len(rows):,} of {total:,})" if total > len(rows) else ""
    print(f"\n{title}{more}")
    texts = [[for_people(value) for value in row] for row in rows]
    widths = [max(len(text) for text in column) for column in zip(headings, *texts, strict=True)]
    print_table(
        [_placed(heading, heading, width) for heading, width in zip(headings, widths, strict=True)],
        [
            [_placed(name, text, width) for name, text, width in zip(headings, row, widths, strict=True)]
            for row in texts
        ],
    )


def _placed(heading: str, text: str, width: int) -> str:
    return text.rjust(width) if heading in _NUMBERS else text


def _counts(title: str, counts: Mapping[str, int], otherwise: str | None) -> None:
    told = ", ".join(for_people(f"{count:,} {name}") for name, count in counts.items() if count) or otherwise
    if told:
        print(f"\n{title}: {told}")
