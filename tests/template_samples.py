"""A template of one part, filled in for a reminder of these tests."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from reminders.domain.delivery import Delivery
from reminders.domain.template import Template
from reminders.providers.templating import render_part

DATA: dict[str, Any] = {
    "secret": "SECRET-17",
    "order": {"total": 12.5, "number": 17, "lines": [{"name": "tea"}, {"name": "<b>&"}]},
    "many": ["x"] * 2000,
    "empty": [""] * 2000,
    "nothing": None,
    "items": [3, 1, 2],
}


def delivery_of(parts: dict[str, str], **changed: Any) -> Delivery:
    template = Template(UUID(int=3), "shop", "payment_due", "email", "de", 3, parts)
    given: dict[str, Any] = {
        "reminder_id": UUID(int=1),
        "delivery_key": "dk_1",
        "tenant_id": "shop",
        "user_id": "ada",
        "kind": "payment_due",
        "channel": "email",
        "destination_id": UUID(int=2),
        "destination": "ada@shop.example",
        "due_at": datetime(2030, 5, 1, 7, 5, tzinfo=UTC),
        "zone": "Europe/Berlin",
        "reference": "order-17",
        "slot": "",
        "data": DATA,
        "attempt": 1,
        "body_format": 1,
        "template": template,
    }
    return Delivery(**{**given, **changed})


def render(source: str, part: str = "text", *, html: bool = False, **changed: Any) -> str:
    return render_part(delivery_of({part: source}, **changed), part, html=html)
