"""The reminder of a decision: whose it is, when it is due, and that its slot fits."""

from datetime import UTC, datetime, time, timedelta
from decimal import Decimal

import pytest

from reminders.domain.allowed_places import nothing_allowed
from reminders.domain.errors import InvalidInput
from reminders.domain.settlement import Decision, Order
from reminders.intake.settlement.config import Rule
from reminders.intake.settlement.telling import Teller
from reminders.settings import Settings

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
ORDER = Order("A", "shop", "anna", Decimal(50), "EUR", {"log": "anna's log"}, "Europe/Berlin")
SETTLED = Decision("settled", "A", None, "po_1", "EUR", Decimal("50.0"), expected=Decimal(50))


@pytest.fixture
def teller():
    return Teller(Settings(allow_private=True), "stripe")


def asked(teller, decision=SETTLED, order=ORDER, **rule):
    return teller.request(decision, order, Rule("k", "log", **rule), NOW, nothing_allowed)


def test_it_says_what_was_decided_and_nothing_of_the_person(teller):
    request = asked(teller)
    assert (request.tenant_id, request.user_id, request.destination) == ("shop", "anna", "anna's log")
    assert (request.reference, request.slot, request.zone) == ("A", "settled:stripe:po_1", "Europe/Berlin")
    assert request.data == (
        '{"amount":"50.00","currency":"EUR","decision":"settled","expected":"50.00","order":"A","payout":"po_1","v":1}'
    )
    assert asked(teller).request_hash == request.request_hash


def test_ids_too_long_for_a_slot_still_tell_decisions_apart(teller):
    slots = {
        asked(teller, Decision("settled", "A", None, "p" * 254 + last, "EUR", Decimal(1))).slot for last in ("1", "2")
    }
    assert len(slots) == 2
    assert all(slot.startswith("settled:") and len(slot) <= 64 for slot in slots)


@pytest.mark.parametrize("source", ["adyen", "a" * 63, "stripe-eu"])
@pytest.mark.parametrize("payout", ["po_1", "", "p" * 255])
def test_sources_do_not_share_their_slots(teller, source, payout):
    decision = Decision("settled", "A", None, payout, "EUR", Decimal(50))
    other = Teller(Settings(allow_private=True), source)
    requests = [asked(each, decision) for each in (teller, other)]
    assert len({request.identity_key for request in requests}) == 2
    assert all(len(request.slot) <= 64 for request in requests)


def test_an_unknown_order_is_told_to_the_operator_in_the_rules_zone(teller):
    unknown = Decision(
        "unknown_order", None, "l1", "po_1", "USD", Decimal(5), reason="order A is in EUR, the line in USD"
    )
    request = asked(
        teller, unknown, ORDER, tenant_id="ops", user_id="desk", destination="desk", at=time(9), zone="Asia/Tokyo"
    )
    assert (request.tenant_id, request.user_id, request.reference, request.zone) == ("ops", "desk", "l1", None)
    assert request.due_at == datetime(2026, 12, 1, 0, 0, tzinfo=UTC)
    with pytest.raises(InvalidInput, match=r"^destination: none is known for channel log$"):
        asked(teller, unknown, ORDER)


def test_a_time_of_day_is_the_next_one_and_the_same_instant_counts(teller):
    at = {"at": time(13, 0)}
    assert asked(teller, due=timedelta(0), **at).due_at == NOW
    assert asked(teller, due=timedelta(seconds=1), **at).due_at == NOW + timedelta(days=1)
    expiring = asked(teller, due=timedelta(hours=1), expires=timedelta(hours=2))
    assert (expiring.due_at, expiring.expires_at) == (NOW + timedelta(hours=1), NOW + timedelta(hours=3))
