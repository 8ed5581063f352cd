"""Templates tried as a worker would send them, by the channel's own provider and its limits, with nothing sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from reminders.domain.delivery import Delivery
from reminders.domain.errors import RemindersError
from reminders.domain.template import Template, TemplateFault
from reminders.pipeline.provider import Provider
from reminders.providers.templating import always_written

NOBODY = UUID(int=0)
_SOMEBODY = {"email": "somebody@example.com", "sms": "+12015550123"}
"""Whom a delivery that no ledger has is for: no more than a recipient's line depends on it."""


def trial(template: Template, **known: Any) -> Delivery:
    """A delivery that no ledger has, in whose place `known` gives what is known of it."""
    given: dict[str, Any] = {
        "reminder_id": NOBODY,
        "delivery_key": "dk_preview",
        "tenant_id": template.tenant_id or "tenant-1",
        "user_id": "user-1",
        "kind": template.kind,
        "channel": template.channel,
        "destination_id": NOBODY,
        "destination": _SOMEBODY.get(template.channel, ""),
        "due_at": datetime(2030, 1, 1, tzinfo=UTC),
        "zone": None,
        "reference": None,
        "slot": "",
        "data": {},
        "attempt": 1,
        "body_format": 0,
        "template": template,
    }
    return Delivery(**{**given, **known})


def body_of(provider: Provider, delivery: Delivery) -> bytes:
    """What a worker would send. Raises what its dead letter would say, as `RemindersError`: most often `TemplateFault`."""
    assert delivery.template is not None
    channel = delivery.template.channel
    if delivery.channel != channel:
        delivery = replace(delivery, channel=channel, destination=_SOMEBODY.get(channel, ""), body_format=0)
    if not delivery.body_format:
        delivery = replace(delivery, body_format=provider.body_format)
    try:
        return provider.render(delivery)
    except RemindersError:
        raise
    except Exception as error:  # noqa: BLE001 (another package's)
        raise RemindersError(f"render_failed: {type(error).__name__} while rendering the body") from None


def certain_fault(provider: Provider, template: Template) -> TemplateFault | None:
    """What keeps the template from being sent whatever the reminders say: by what each part writes in any case."""
    parts = {part: _least(source) for part, source in template.parts.items()}
    try:
        body_of(provider, trial(replace(template, parts=parts)))
    except TemplateFault as fault:
        return fault
    except RemindersError:
        # Of an address, or of another package's making: nothing is known of the template.
        return None
    return None


def of_file(fault: TemplateFault, files: Mapping[str, str | None]) -> TemplateFault:
    """The fault with its file's name where its part came from one."""
    file = files.get(fault.part or "")
    return TemplateFault(file, fault.part, fault.line, fault.reason) if file else fault


def _least(source: str) -> str:
    written, whole = always_written(source)
    # Where more may be written, nothing is known to be empty.
    if whole:
        return source
    if not written.strip() or "endraw" in written:
        return "x"
    return "{% raw %}" + written + "{% endraw %}" if "{" in written else written
