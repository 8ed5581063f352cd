"""Shadow: decide everything up to the call, write down what would have been sent, send nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from reminders.domain.allowed_places import AllowedPlaces, nothing_allowed
from reminders.domain.errors import InvalidInput, NotHere, NotPublic, ServiceUnavailable
from reminders.domain.template import Template
from reminders.pipeline.provider import GuardsPlaces, Provider
from reminders.pipeline.shadow_ports import Shadowed, ShadowLedger
from reminders.pipeline.tracing import origin
from reminders.pipeline.writing import NotWritten, with_template, written

logger = logging.getLogger(__name__)

NO_PROVIDER_AGAIN_AFTER = 60.0
UNKNOWN_ALLOWANCE_AGAIN_AFTER = 5.0


@dataclass(frozen=True, slots=True)
class Shadow:
    """One worker process's way of delivering nothing."""

    ledger: ShadowLedger
    providers: Callable[[str], Provider | None]
    templates: Callable[[UUID], Template | None]
    allowed_to: Callable[[str], AllowedPlaces] = nothing_allowed
    """What a tenant may reach besides public hosts."""

    def __call__(self, reminder_id: UUID, delivery_key: str) -> str:
        """Carry one message through; in one word what became of it. `busy`: things have changed, ask again.

        Raises while the ledger is away: nothing has been done then.
        """
        shadowed = self.ledger.would_call(reminder_id, delivery_key)
        if shadowed is None:
            return "busy"
        provider = self.providers(shadowed.delivery.channel)
        if provider is None:
            logger.error("shadow.no_provider channel=%s: this worker lacks it", shadowed.delivery.channel)
            return "given_back" if self.ledger.wait_if_still_so(shadowed, NO_PROVIDER_AGAIN_AFTER) else "busy"
        # Crash here, before or after the commit inside: the row is as it was, and its message comes again; or it has ended.
        try:
            return "shadowed" if self._noted(provider, shadowed) else "busy"
        except ServiceUnavailable:
            again = UNKNOWN_ALLOWANCE_AGAIN_AFTER
            return "given_back" if self.ledger.wait_if_still_so(shadowed, again) else "busy"

    def _noted(self, provider: Provider, shadowed: Shadowed) -> bool:
        delivery = shadowed.delivery
        if (refused := self._refused(provider, shadowed)) is not None:
            return self.ledger.shadow_if_still_so(shadowed, "refused", why=refused)
        templated = with_template(provider, delivery, shadowed.template_id, self.templates)
        if isinstance(templated, NotWritten):
            return self._faulty(shadowed, templated)
        body = written(provider, templated, shadowed.body_hash)
        if isinstance(body, NotWritten):
            return self._faulty(shadowed, body)
        return self.ledger.shadow_if_still_so(shadowed, "send", body_hash=body.body_hash)

    def _faulty(self, shadowed: Shadowed, fault: NotWritten) -> bool:
        return self.ledger.shadow_if_still_so(shadowed, "fault", why=f"{fault.error_class}: {fault.reason}")

    def _refused(self, provider: Provider, shadowed: Shadowed) -> str | None:
        """Why the channel would not deliver there, without the address; None if it would. No name server is asked.

        Raises `ServiceUnavailable` where it cannot be known what the tenant is allowed.
        """
        delivery = shadowed.delivery
        try:
            provider.check_destination(delivery.destination)
        except NotPublic as refusal:
            if isinstance(provider, GuardsPlaces) and self.allowed_to(delivery.tenant_id).opens(refusal.host):
                return None
            return "forbidden_address: the host is not public, and the tenant is not allowed it"
        except NotHere:
            return "unsendable: the present settings do not let the channel deliver there"
        except InvalidInput:
            return "unsendable: the channel cannot deliver to such a destination"
        except ServiceUnavailable:
            raise
        except Exception as error:  # noqa: BLE001 (another package's)
            logger.error("shadow.check_raised channel=%s: %s", delivery.channel, origin(error))  # noqa: TRY400 (not its text)
        return None
