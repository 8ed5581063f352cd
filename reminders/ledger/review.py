"""Dead letters: what was given up, for a person to look at; and the filter that every command and task chooses them by.

A letter that is closed never changes again. Whatever is done later to its reminder is on a letter of its own, which is
opened and closed at once: so each action keeps its actor, host and reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal
from uuid import UUID

from reminders.domain.durations import parse_duration
from reminders.domain.errors import InvalidInput, NotFound
from reminders.domain.rates import parse_rate
from reminders.domain.request import checked_text
from reminders.ledger.database import Database
from reminders.ledger.statement import Statement

LETTER_KINDS = ("destination", "unknown", "pipeline", "expired")
"""`expired` marks what had expired without a letter and was sent all the same; such a letter is never open."""
LONGEST_WORDS = 500
"""Characters of what an operator says: actor, reason, note, reference."""
LONGEST_AGE = 100 * 365 * 86400.0

Resolution = Literal["delivered", "not_sent"]


def matches(*, kind: str, error_class: str, since: str) -> str:
    """SQL: whether a filter's parameters fit reminder `r` and these expressions. `t` must have the time."""
    return f"""((:tenant IS NULL OR r.tenant_id = :tenant) AND (:channel IS NULL OR r.channel = :channel)
         AND (:destination IS NULL OR r.destination_id = :destination)
         AND (:kind IS NULL OR {kind} = :kind) AND (:error_class IS NULL OR {error_class} = :error_class)
         AND (:older_than IS NULL OR {since} <= (SELECT now FROM t) - make_interval(secs => :older_than))
         AND (:newer_than IS NULL OR {since} > (SELECT now FROM t) - make_interval(secs => :newer_than)))"""


FILTER_TYPES = {
    "ids": "uuid[]", "tenant": "text", "kind": "text", "channel": "text", "destination": "uuid", "error_class": "text",
    "older_than": "float8", "newer_than": "float8",
}  # fmt: skip

FILTERS = tuple(FILTER_TYPES)
"""The names that `read_filter` takes."""

LIST = Statement(
    "dlq_list",
    f"""
WITH t AS MATERIALIZED (SELECT COALESCE(:now, clock_timestamp()) AS now)
SELECT l.id::text, l.reminder_id::text, l.delivery_key, l.kind, l.error_class, l.reason, l.attempts, l.state, l.opened_at,
       l.closed_at, l.actor, l.host, l.action_reason, l.checked, l.lifted_expiry, l.resolution, l.resolution_reference,
       l.note, r.tenant_id, r.user_id, r.kind, r.channel, r.destination_id::text, r.reference
FROM {{s}}.dead_letters l JOIN {{s}}.reminders r ON r.id = l.reminder_id
WHERE (:ids IS NULL OR l.id = ANY(:ids) OR l.reminder_id = ANY(:ids)) AND (:state IS NULL OR l.state = :state)
  AND {matches(kind="l.kind", error_class="l.error_class", since="l.opened_at")}
ORDER BY l.opened_at, l.id LIMIT :limit
""",
    {**FILTER_TYPES, "now": "timestamptz", "state": "text", "limit": "integer"},
)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One dead letter, with enough of its reminder to recognise it. Instants are UTC.

    `actor` and `host` closed it: who they claimed to be, and where it ran. `checked` is the word of whoever redrove it
    that an unknown outcome was looked into; `lifted_expiry` the expiry that the redrive took away; `resolution` is
    `delivered` or `not_sent`, with the reference and note given for it.
    """

    id: UUID
    reminder_id: UUID
    delivery_key: str
    kind: str
    error_class: str
    reason: str
    attempts: int
    state: str
    opened_at: datetime
    closed_at: datetime | None
    actor: str | None
    host: str | None
    action_reason: str | None
    checked: bool
    lifted_expiry: datetime | None
    resolution: Resolution | None
    resolution_reference: str | None
    note: str | None
    tenant_id: str
    user_id: str
    reminder_kind: str
    channel: str
    destination_id: str
    reference: str | None


@dataclass(frozen=True, slots=True)
class LetterFilter:
    """Which dead letters; everything left out matches all.

    `ids` may be letters' or reminders' ids; `kind` is the letter's; ages are seconds since the letter was opened.
    """

    ids: Sequence[UUID] = ()
    tenant: str | None = None
    kind: str | None = None
    channel: str | None = None
    destination: UUID | None = None
    error_class: str | None = None
    older_than: float | None = None
    newer_than: float | None = None

    def chooses(self) -> bool:
        """Whether it leaves anything out."""
        return any(value is not None for value in self.parameters().values())

    def parameters(self) -> dict[str, Any]:
        """For statements that are typed by `FILTER_TYPES`."""
        return {
            "ids": [str(each) for each in dict.fromkeys(self.ids)] or None,
            "tenant": self.tenant,
            "kind": self.kind,
            "channel": self.channel,
            "destination": None if self.destination is None else str(self.destination),
            "error_class": self.error_class,
            "older_than": self.older_than,
            "newer_than": self.newer_than,
        }


def read_filter(
    *,
    ids: Sequence[str] = (),
    tenant: str | None = None,
    kind: str | None = None,
    channel: str | None = None,
    destination: str | None = None,
    error_class: str | None = None,
    older_than: str | float | None = None,
    newer_than: str | float | None = None,
) -> LetterFilter:
    """The filter as a command or a message gives it: ids as text, ages as `90s`, `2h`, `7d`. Raises `InvalidInput`."""
    if not isinstance(ids, list | tuple):
        raise InvalidInput("ids", "must be a list of ids")
    if kind is not None and kind not in LETTER_KINDS:
        raise InvalidInput("kind", f"must be one of {', '.join(LETTER_KINDS)}")
    return LetterFilter(
        ids=[_id("id", each) for each in ids],
        tenant=None if tenant is None else checked_text("tenant_id", tenant),
        kind=kind,
        channel=None if channel is None else checked_text("channel", channel),
        destination=None if destination is None else _id("destination_id", destination),
        error_class=None if error_class is None else checked_words("error_class", error_class),
        older_than=_age("older_than", older_than),
        newer_than=_age("newer_than", newer_than),
    )


def read_rate(text: str) -> float:
    """How many per second `10/s`, `300/m` or `50/h` means. Raises `InvalidInput`."""
    try:
        return parse_rate(text)
    except (ValueError, AttributeError):
        raise InvalidInput("rate", f"{str(text)[:40]!r} is no rate; write 10/s, 300/m or 50/h") from None


def checked_words(name: str, value: object) -> str:
    """What an operator says, stripped: it is needed, printable and short. Raises `InvalidInput`."""
    if not isinstance(value, str) or not value.strip() or len(value) > LONGEST_WORDS or not value.isprintable():
        raise InvalidInput(name, f"is needed: 1 to {LONGEST_WORDS} printable characters")
    return value.strip()


def letters(
    database: Database,
    wanted: LetterFilter,
    *,
    state: str | None = "open",
    limit: int = 100,
    now: datetime | None = None,
) -> list[DeadLetter]:
    """Dead letters, oldest first. `now` replaces the database's clock in tests."""
    rows = database.fetch(LIST, **wanted.parameters(), state=state, limit=limit, now=now)
    return [_letter(row) for row in rows]


def letter(database: Database, either_id: UUID) -> DeadLetter:
    """The letter with this id, or the latest one of the reminder with this id. Raises `NotFound`."""
    found = letters(database, LetterFilter(ids=[either_id]), state=None, limit=1_000_000)
    if not found:
        raise NotFound(f"there is no dead letter {either_id}, nor one of a reminder with that id")
    return found[-1]


def _id(name: str, text: object) -> UUID:
    try:
        return UUID(text)  # type: ignore[arg-type] # whatever a message holds
    except (ValueError, TypeError, AttributeError):
        # Not what was given: whoever does not know better writes an address, and a task's refusal is logged.
        raise InvalidInput(name, "is no id; ids look like 019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b") from None


def _age(name: str, value: object) -> float | None:
    if value is None:
        return None
    try:
        seconds = parse_duration(value) if isinstance(value, str) else float(value)  # type: ignore[arg-type]
    except (ValueError, TypeError):
        raise InvalidInput(name, f"{str(value)[:40]!r} is no age; write 90s, 5m, 2h or 7d") from None
    if not 0 <= seconds <= LONGEST_AGE:
        raise InvalidInput(name, "must be an age of at most a hundred years")
    return seconds


def _letter(row: tuple[Any, ...]) -> DeadLetter:
    columns: list[Any] = [value.astimezone(UTC) if isinstance(value, datetime) else value for value in row[2:]]
    return DeadLetter(UUID(row[0]), UUID(row[1]), *columns)
