"""Whose a tenant is, and what becomes of its reminders: what the claim, the look and the lease share.

A tenant's own row in `tenant_policies` is that of no channel. A tenant that no scan has met yet has no mode there; it belongs to
whom new tenants belong to, and before anybody has said who that is, to whoever asks.
"""

from __future__ import annotations

from reminders.domain.lanes import SEPARATOR

_FOR_NEW = "(SELECT w.dispatcher FROM {s}.new_tenants w WHERE w.sole)"

OURS = f"(COALESCE(qt.dispatcher, {_FOR_NEW}, :dispatcher) = :dispatcher)"
"""Of the rows that `PLACE` joins: whether the tenant is `:dispatcher`'s."""

THIS_EPOCH = "(d.epoch IS NOT DISTINCT FROM qt.epoch)"
"""Whether row `d` of `due` was leased by who owns the tenant now. What was leased before a handover is nobody's to claim."""

LIVE = "(COALESCE(qt.mode, :new_tenants) = 'live')"

MAY_CALL = f"({LIVE} AND {OURS} AND {THIS_EPOCH})"
"""Whether a claim may be taken by this dispatcher's workers, as far as the tenant is concerned."""

OWNER = {"dispatcher": "text", "new_tenants": "text"}
"""The parameters of `MAY_CALL`."""


def _of_lane(column: str) -> str:
    """SQL: what the row of the tenant says whose lane row `d` is in."""
    return f"""(SELECT q.{column} FROM {{s}}.tenant_policies q
     WHERE q.tenant_id = split_part(d.lane, chr({ord(SEPARATOR)}), 1) AND q.channel = '')"""


OWNS_LANE = f"(COALESCE({_of_lane('dispatcher')}, {_FOR_NEW}, :dispatcher) = :dispatcher)"
"""Of a row `d` with a `lane`: whether its tenant is `:dispatcher`'s. A probe for each row: ask only where it is `SHARED`."""

SHARED = f"""(EXISTS (SELECT 1 FROM {{s}}.tenant_policies WHERE dispatcher < :dispatcher)
    OR EXISTS (SELECT 1 FROM {{s}}.tenant_policies WHERE dispatcher > :dispatcher)
    OR COALESCE({_FOR_NEW} <> :dispatcher, false))"""
"""Whether anything in this ledger is another dispatcher's: two or three keys of small indexes."""

EPOCH_OF_LANE = f"""CASE WHEN EXISTS (SELECT 1 FROM {{s}}.tenant_policies WHERE epoch IS NOT NULL)
    THEN {_of_lane("epoch")} END"""
"""The epoch of the tenant of row `d`; null as long as no tenant has ever been handed over, at the cost of one key."""
