"""The reminder that a decision makes, by the configuration's rule for it, checked as `schedule` checks."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from reminders.calendar.zones import load_zone, to_instant
from reminders.domain.allowed_places import AllowedPlaces
from reminders.domain.errors import InvalidInput
from reminders.domain.identity import digest
from reminders.domain.money import amount_text
from reminders.domain.request import LIMITS, ReminderRequest
from reminders.domain.settlement import Decision, Order
from reminders.intake.settlement.config import Rule
from reminders.pipeline.provider import Provider
from reminders.pipeline.schedule import to_request
from reminders.providers import registry
from reminders.settings import Settings

Places: TypeAlias = Callable[[str], AllowedPlaces]
"""What a tenant is allowed although it is not public."""
_HASH = 40
"""Hexadecimal digits that stand in a slot for an id that is too long for it."""


class Teller:
    """Makes the requests of one process, for decisions of one source. `deduplicates` says it of each channel met so far."""

    def __init__(self, settings: Settings, source: str) -> None:
        self.deduplicates: dict[str, bool] = {}
        self._settings = settings
        self._source = source
        self._providers: dict[str, Provider] = {}

    def request(
        self,
        decision: Decision,
        order: Order | None,
        rule: Rule,
        decided_at: datetime,
        places: Places,
    ) -> ReminderRequest:
        """The same for the same decision, whenever it is asked for. Raises `InvalidInput`, `SettingsError`."""
        tenant, user, destination, zone = rule.tenant_id, rule.user_id, rule.destination, None
        if order is not None and decision.order_reference is not None:
            tenant, user, zone = order.tenant_id, order.user_id, order.zone
            destination = order.destinations.get(rule.channel)
        if tenant is None or user is None or destination is None:
            raise InvalidInput("destination", f"none is known for channel {rule.channel}")
        due_at = _due(rule, decided_at, zone)
        return to_request(
            self._provider,
            places,
            tenant_id=tenant,
            user_id=user,
            kind=rule.kind,
            channel=rule.channel,
            destination=destination,
            due_at=due_at,
            zone=zone,
            reference=decision.order_reference or decision.line_id,
            slot=_slot(self._source, decision),
            data=_data(decision),
            expires_at=None if rule.expires is None else due_at + rule.expires,
        )

    def _provider(self, channel: str) -> Provider:
        provider = self._providers.get(channel)
        if provider is None:
            provider = self._providers[channel] = registry.load(channel, self._settings)
            self.deduplicates[channel] = provider.deduplicates
        return provider


def _due(rule: Rule, decided_at: datetime, zone: str | None) -> datetime:
    earliest = decided_at + rule.due
    if rule.at is None:
        return earliest
    zone = zone or rule.zone or "UTC"
    day = earliest.astimezone(load_zone(zone)).date()
    due = to_instant(datetime.combine(day, rule.at), zone)
    return due if due >= earliest else to_instant(datetime.combine(day + timedelta(days=1), rule.at), zone)


def _slot(source: str, decision: Decision) -> str:
    """Tells decisions apart that have one reference: of another name, line or payout, or of another source."""
    what = decision.line_id or decision.payout_id
    slot = f"{decision.name}:{source}:{what}"
    if len(slot) <= LIMITS["slot"]:
        return slot
    return f"{decision.name}:{digest('slot', source, what).hex()[:_HASH]}"


def _data(decision: Decision) -> dict[str, Any]:
    """What a message may say: nothing of the person, amounts as text with their currency's digits, nothing that is none."""
    texts = {
        "decision": decision.name,
        "order": decision.order_reference,
        "payout": decision.payout_id or None,
        "line": decision.line_id,
        "currency": decision.currency,
        "amount": amount_text(decision.amount, decision.currency),
        "total": None if decision.total is None else amount_text(decision.total, decision.currency),
        "expected": None if decision.expected is None else amount_text(decision.expected, decision.currency),
    }
    return {"v": 1, **{name: text for name, text in texts.items() if text is not None}}
