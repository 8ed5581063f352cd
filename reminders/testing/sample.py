"""The delivery that the kit renders and sends."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from reminders.domain.delivery import Delivery

KEY = "dk_kitKIT0123456789abcdefghijklmnopqrstuvwxyz"
EMAIL, PHONE = "ada.kit@example.org", "+1 202 555 0143"
DATA: dict[str, Any] = {
    "name": "Ada Kit-Lovelace",
    "email": EMAIL,
    "phone": PHONE,
    "order": 17,
    "amount": 12.5,
    "paid": False,
    "note": 'gr\u00fc\u00dfe \U0001f600 "quoted" <b>&amp;</b>',
    "lines": [{"title": "A kit-made article", "count": 2, "gift": None}, {"title": "Another kit-made one", "count": 1}],
    "nested": {"zulu": 1, "alpha": 2, "mike": {"yankee": 3, "bravo": 4}},
    "link": "https://shop.example/kit-orders/17",
}


def sample_delivery(channel: str, destination: str, **changes: Any) -> Delivery:
    """A delivery with every field set, its data of every type that JSON has. `changes` replaces fields."""
    plain = Delivery(
        reminder_id=UUID("01980000-0000-7000-8000-000000000001"),
        delivery_key=KEY,
        tenant_id="kit-tenant",
        user_id="kit-user",
        kind="payment_due",
        channel=channel,
        destination_id=UUID("01980000-0000-8000-8000-000000000002"),
        destination=destination,
        due_at=datetime(2030, 3, 31, 7, 0, tzinfo=UTC),
        zone="Europe/Berlin",
        reference="order-17",
        slot="day-before",
        data=deepcopy(DATA),
        attempt=1,
        body_format=1,
    )
    return replace(plain, **changes)


def texts(value: object) -> Iterator[str]:
    """Every text in JSON data that is long enough to be told from others."""
    if isinstance(value, str) and len(value) >= 8:
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from texts(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from texts(each)


def turned_round(value: Any) -> Any:
    """The same JSON data with the keys of every object in the opposite order."""
    if isinstance(value, dict):
        return {key: turned_round(each) for key, each in reversed(value.items())}
    return [turned_round(each) for each in value] if isinstance(value, list) else value
