"""0028 on a ledger in use: who disabled a destination is known by the notice that calls leave; in doubt an operator did."""

from __future__ import annotations

from reminders.ledger.migrations import migrate

SAID = "SELECT address, disabled_by_operator FROM reminders.destinations ORDER BY 1"


def test_what_a_call_has_disabled_is_told_from_what_an_operator_has(live):
    migrate(live.url, "reminders", "0027")
    live.query(
        """WITH made AS (INSERT INTO reminders.destinations (id, tenant_id, channel, address, disabled_at, disabled_reason)
           SELECT gen_random_uuid(), 't', 'log', a, CASE WHEN a <> 'well' THEN now() END, CASE WHEN a <> 'well' THEN 'r' END
           FROM unnest(ARRAY['call', 'operator', 'well']) a RETURNING id, address)
           INSERT INTO reminders.notices (id, kind, tenant_id, channel, destination_id, reason, noticed_at)
           SELECT gen_random_uuid(), 'destination_gone', 't', 'log', id, 'r', now() FROM made WHERE address = 'call'"""
    )
    assert migrate(live.url, "reminders", "0028") == ("0027", "0028")
    assert live.query(SAID) == [("call", False), ("operator", True), ("well", False)]
    migrate(live.url, "reminders", "0027")
    assert migrate(live.url, "reminders", "0028") == ("0027", "0028")
    assert live.query(SAID) == [("call", False), ("operator", True), ("well", False)]
