"""Erasing an address, and a user's id, from what people and providers have written: reasons, notes, names, errors.

Such words belong to operators, to destinations and to reconciliation, and may name somebody all the same.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from reminders.ledger.caller import fetch
from reminders.ledger.database import Database
from reminders.ledger.erasure_records import Erasure, note, step
from reminders.ledger.statement import Statement

SHORTEST = 3
"""Characters of a user's id that is looked for in words: a shorter one is part of everything."""

WRITTEN: dict[str, tuple[tuple[str, ...], bool]] = {
    "pauses": (("reason", "actor", "ended_by", "ended_reason"), True),
    "rates": (("reason", "actor", "removed_by", "removed_reason"), True),
    "tenant_changes": (("reason", "actor"), True),
    "secret_changes": (("reason", "actor"), True),
    "allowed_places": (("reason", "actor", "ended_by", "ended_reason"), True),
    "retention_policies": (("reason", "actor"), True),
    "cohort_members": (("actor",), True),
    "notices": (("reason", "seen_by"), True),
    "destinations": (("hold_reason", "disabled_reason", "enabled_reason"), True),
    "channel_holds": (("hold_reason",), True),
    "preferences": (("source", "actor"), True),
    "suppressions": (("reason", "source", "actor", "lifted_by", "lifted_reason"), True),
    "shadow_deliveries": (("why", "released_by", "released_reason"), True),
    "series": (("fault",), True),
    "erasures": (("reason", "actor"), True),
    "quarantines": (("reason", "actor"), False),
    "dead_letters": (("reason", "actor", "action_reason", "note", "resolution_reference"), False),
    "reconciliation_files": (("name", "url", "etag", "actor", "asked_because", "reason"), False),
    "reconciliation_runs": (("file_name", "actor", "error"), False),
    "reconciliation_rejects": (("reason",), False),
    "reconciliation_decisions": (("reason", "told_reason"), False),
    "reconciliation_run_decisions": (("note",), False),
}
"""Per table its columns with words that people wrote, and whether its rows are a tenant's."""


def _erase_from(table: str, columns: Sequence[str], *, of_tenants: bool) -> Statement:
    changes = ", ".join(
        f"{each} = CASE WHEN x.{each} ~* ANY(:patterns) THEN 'erased' ELSE x.{each} END" for each in columns
    )
    found = " OR ".join(f"x.{each} ~* ANY(:patterns)" for each in columns)
    whose = "COALESCE(x.tenant_id = :tenant, true)" if of_tenants else ":tenant IS NOT NULL"
    return Statement(
        f"erasure_words_{table}",
        f"UPDATE {{s}}.{table} x SET {changes} WHERE {whose} AND ({found}) RETURNING 1",
        {"patterns": "text[]", "tenant": "text"},
    )


STATEMENTS = {
    table: _erase_from(table, columns, of_tenants=of_tenants) for table, (columns, of_tenants) in WRITTEN.items()
}

# The bytes as text: what is not ASCII in octal, a backslash doubled.
_HIT = "encode({0}, 'escape') ~* ANY(:patterns)"
_IN_FILE = f"""(COALESCE({_HIT.format("f.header")}, false) OR COALESCE({_HIT.format("f.tail")}, false) OR EXISTS (
        SELECT 1 FROM {{s}}.reconciliation_file_pages p WHERE p.file_id = f.id AND {_HIT.format("p.content")}))"""

FILES = Statement(
    "erasure_files",
    f"SELECT f.id::text, f.status IN ('done', 'refused') FROM {{s}}.reconciliation_files f WHERE {_IN_FILE} ORDER BY f.id",
    {"patterns": "text[]"},
)

DROP_FILE = Statement(
    "erasure_drop_file",
    "DELETE FROM {s}.reconciliation_files WHERE id = :id AND status IN ('done', 'refused') RETURNING 1",
    {"id": "uuid"},
)


def patterns(addresses: Sequence[str], user: str) -> tuple[list[str], list[str]]:
    """What to look for, as regular expressions: in words, and in bytes that Postgres has escaped."""
    in_words = [_address(each, _escaped(each)) for each in addresses if each]
    in_bytes = [_address(each, _escaped(_as_bytes(each)), after=_ESCAPE) for each in addresses if each]
    if len(user) >= SHORTEST:
        in_words.append(_whole(_escaped(user)))
        in_bytes.append(_whole(_escaped(_as_bytes(user))))
    return in_words, in_bytes


def erase_words(database: Database, of: Erasure, wanted: Sequence[str]) -> None:
    """Erase whatever matches one of `wanted`, as a whole, table by table. Each is read from end to end; only hits are locked."""
    if not wanted:
        return
    for table, statement in STATEMENTS.items():
        with step(database, by_index=False) as run:
            number = len(run(statement, patterns=list(wanted), tenant=of.tenant))
            note(run, of, {f"{table}.words": number})


def erase_files(database: Database, of: Erasure, wanted: Sequence[str]) -> int:
    """Delete kept settlement files that match and are done with; how many others match, which are still being read."""
    if not wanted:
        return 0
    with database.transaction() as connection:
        found = fetch(connection, database.schema, FILES, patterns=list(wanted))
    busy = 0
    for file, done in found:
        with step(database, by_index=True) as run:
            gone = run(DROP_FILE, id=file) if done else []
            note(run, of, {"reconciliation_files": len(gone)})
        busy += not gone
    return busy


def _address(address: str, pattern: str, *, after: str = "") -> str:
    """The address by itself: as a part of a longer one it is somebody else's. What only ends or begins a sentence is no part of it."""
    begins, goes_on = _OF_URL if "://" in address else _OF_OTHERS
    starts = rf"(?<![[:alnum:]_]|[[:alnum:]_]{begins})"
    return rf"({starts}{after and '|' + after}){pattern}(?![[:alnum:]_]|{goes_on}[[:alnum:]_])"


def _whole(pattern: str) -> str:
    return rf"(^|[^[:alnum:]_.@-]){pattern}($|[^[:alnum:]_@-])"


_OF_OTHERS = (r"[.+-]", r"[.@-]")
_OF_URL = (r"[.+-]", r"([.:@%&=+~-]|[/?#]+)")
"""What joins an address, on its left and on its right, to a letter or digit that makes it another one."""
_ESCAPE = r"(?<=\\[0-3][0-7]{2})"
"""After a byte that Postgres has escaped, which is no ASCII letter though it ends in a digit."""


def _escaped(text: str) -> str:
    return (
        re.sub(r"([^\w\s]|_)", r"\\\1", text, flags=re.ASCII)
        if text.isascii()
        else re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", text)
    )


def _as_bytes(text: str) -> str:
    raw = text.encode()
    return "".join("\\\\" if byte == 0x5C else chr(byte) if 0 < byte < 0x80 else f"\\{byte:03o}" for byte in raw)
