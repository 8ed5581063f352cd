"""Every move of a status, as Postgres saw it: triggers that note it, and the comparison with the transition tables."""

from __future__ import annotations

from typing import Any

from reminders.domain.states import DELIVERY_TRANSITIONS, REMINDER_TRANSITIONS, Transition

INSTALL = """
CREATE SCHEMA audit;
CREATE TABLE audit.moves (
    number bigserial, transaction xid8 NOT NULL DEFAULT pg_current_xact_id(), sent_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    place text NOT NULL, thing text NOT NULL, old text, new text
);
CREATE FUNCTION audit.note() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    thing text := CASE TG_TABLE_NAME WHEN 'notification_deliveries' THEN 'delivery_key' ELSE 'id' END;
    before jsonb := CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) END;
    after jsonb := CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) END;
BEGIN
    INSERT INTO audit.moves (place, thing, old, new)
    VALUES (TG_TABLE_NAME, COALESCE(after, before) ->> thing, before ->> 'status', after ->> 'status');
    RETURN NULL;
END $$;
"""
TABLES = ("due", "reminders", "notification_deliveries")
TRIGGER = """CREATE TRIGGER audit AFTER INSERT OR DELETE OR UPDATE OF status ON reminders.{table}
             FOR EACH ROW EXECUTE FUNCTION audit.note()"""
REMOVE = "DROP SCHEMA audit CASCADE"
Move = tuple[str | None, str]


def install(run: Any) -> None:
    run(INSTALL)
    for table in TABLES:
        run(TRIGGER.format(table=table))


def remove(run: Any) -> None:
    run(REMOVE)


def allowed(transitions: tuple[Transition, ...]) -> set[Move]:
    return {(each.before, each.after) for each in transitions}


def reminder_moves(rows: list[tuple[Any, ...]]) -> list[tuple[str, Move]]:
    """From rows (transaction, sent_at, place, thing, old, new) in order: every reminder's moves, statement by statement.

    A reminder's status is that of its row in `due`, or else of its row in `reminders`, as the view has it. One statement
    may write both rows; what counts is where it began and where it ended.
    """
    live: dict[str, str | None] = {}
    ledger: dict[str, str | None] = {}
    moves: list[tuple[str, Move]] = []
    for _, group in _by_statement(rows):
        touched = {thing: _seen(live.get(thing), ledger.get(thing)) for _, thing, _, _ in group}
        again = {thing for place, thing, old, new in group if place == "due" and old is not None and new is not None}
        for place, thing, old, new in group:
            known = live if place == "due" else ledger
            assert known.get(thing) == old, f"{place} of {thing} was {known.get(thing)}, and moves from {old}"
            known[thing] = new
        for thing, before in touched.items():
            after = _seen(live.get(thing), ledger.get(thing))
            assert (ledger.get(thing) == "live") == (live.get(thing) is not None), (
                f"{thing} is {ledger.get(thing)} in reminders and {live.get(thing)} in due"
            )
            if after is not None and (before != after or thing in again):
                moves.append((thing, (before, after)))
    return moves


def delivery_moves(rows: list[tuple[Any, ...]]) -> list[tuple[str, Move]]:
    return [(row[3], (row[4], row[5])) for row in rows if row[2] == "notification_deliveries" and row[5] is not None]


def strays(rows: list[tuple[Any, ...]]) -> list[str]:
    """Moves that no table lists."""
    reminder, delivery = allowed(REMINDER_TRANSITIONS), allowed(DELIVERY_TRANSITIONS)
    found = [f"reminder {thing}: {move}" for thing, move in reminder_moves(rows) if move not in reminder]
    return found + [f"delivery {thing}: {move}" for thing, move in delivery_moves(rows) if move not in delivery]


def _seen(live: str | None, ledger: str | None) -> str | None:
    return live if live is not None else ledger


def _by_statement(rows: list[tuple[Any, ...]]) -> list[tuple[Any, list[tuple[Any, ...]]]]:
    groups: dict[Any, list[tuple[Any, ...]]] = {}
    for transaction, sent_at, place, thing, old, new in rows:
        if place != "notification_deliveries":
            groups.setdefault((transaction, sent_at), []).append((place, thing, old, new))
    return list(groups.items())
