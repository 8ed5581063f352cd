"""Channel `webhook`: a signed HTTPS POST, with the contract that its receivers keep.

The receiver deduplicates on the delivery key, which is in `webhook-id`, in `Idempotency-Key` and in the body: it
applies a key once and answers every repeat like the first. `Idempotency-Key` carries the bare key, as the services
that made the header known do, and not the quoted string of its IETF draft (draft-ietf-httpapi-idempotency-key-header):
the value is then the same in all three places.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache, partial
from importlib.metadata import version
from typing import TYPE_CHECKING

from reminders.domain.allowed_places import AllowedPlaces, nothing_allowed
from reminders.domain.delivery import Delivery
from reminders.domain.errors import InvalidInput, NotPublic, ServiceUnavailable, SettingsError
from reminders.domain.outcomes import Outcome, Rejected, Retry
from reminders.pipeline.provider import Provider
from reminders.providers.allowance import Allowance
from reminders.providers.destination_url import Target, parse_destination
from reminders.providers.signing import derive_secret, sign
from reminders.settings import Settings

if TYPE_CHECKING:
    from reminders.providers.http_client import HttpClient

CHANNEL = "webhook"
BODY_FORMAT = 1


def provider(settings: Settings) -> Provider:
    """The factory behind the entry point."""
    return WebhookProvider(settings)


class WebhookProvider:
    """See `reminders.pipeline.provider.Provider`. `clock` gives Unix time in seconds, for the signature's timestamp."""

    channel = CHANNEL
    deduplicates = True
    signs = True
    body_format = BODY_FORMAT

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.time) -> None:
        self._allow_private = settings.allow_private
        self._idle_limit = 4 * settings.concurrency
        self._clock = clock
        self._allowed_to: Callable[[str], AllowedPlaces] = nothing_allowed
        self._secret_of: Callable[[str, str], bytes] | None = None
        if settings.webhook_secret is not None:
            master = settings.webhook_secret.reveal().encode()
            derive = partial(_derive, master)
            self._secret_of = lru_cache(maxsize=4096)(derive)
        self._user_agent = f"reminders/{version('reminders')}"
        self._lock = threading.Lock()
        self._client: HttpClient | None = None

    def ready(self) -> None:
        """Raise `SettingsError` unless this process can send. To be asked when a worker starts."""
        if self._secret_of is None:
            raise SettingsError(
                "REMINDERS_WEBHOOK_SECRET is not set: without it webhooks cannot be signed; "
                "set it to at least 24 random characters"
            )

    def go_by(self, allowed_to: Callable[[str], AllowedPlaces]) -> None:
        """See `reminders.pipeline.provider.GuardsPlaces`."""
        self._allowed_to = allowed_to

    def check_destination(self, destination: str) -> None:
        """Raise `InvalidInput("destination", ...)` unless it is a URL that may be posted to."""
        parse_destination(destination, allow_private=self._allow_private)

    def render(self, delivery: Delivery) -> bytes:
        """The body: compact JSON, the same for every attempt. Raises `ValueError` for a format it does not know."""
        if delivery.body_format != BODY_FORMAT:
            raise ValueError(f"body format {delivery.body_format} is not known to this release; deploy a newer one")
        if delivery.due_at.tzinfo is None:
            raise ValueError("due_at has no zone")
        head = {
            "v": 1,
            "id": str(delivery.reminder_id),
            "key": delivery.delivery_key,
            "tenant_id": delivery.tenant_id,
            "user_id": delivery.user_id,
            "kind": delivery.kind,
            "reference": delivery.reference,
            "slot": delivery.slot,
            "due_at": delivery.due_at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
            "zone": delivery.zone,
        }
        # Sorted, because a column of type jsonb does not promise an order that outlives a Postgres release.
        data = _json(dict(delivery.data), sort_keys=True)
        return f'{_json(head, sort_keys=False)[:-1]},"data":{data}}}'.encode()

    def send(self, delivery: Delivery, body: bytes, deadline: float) -> Outcome:
        """Post `body`, signed afresh. Returns within `deadline` seconds and never raises."""
        from reminders.providers.http_client import Answer  # noqa: PLC0415 (40 ms, for senders only)
        from reminders.providers.webhook_outcomes import outcome_of  # noqa: PLC0415 (the same)

        if self._secret_of is None:
            return Retry("not_configured", "REMINDERS_WEBHOOK_SECRET is not set; nothing was sent", blameless=True)
        allowance = Allowance(delivery.tenant_id, self._allowed_to)
        try:
            target = self._target(delivery.destination, allowance)
            secrets = delivery.secrets or (self._secret_of(delivery.tenant_id, delivery.destination),)
            timestamp = int(self._clock())
            headers = {
                "content-type": "application/json",
                "user-agent": self._user_agent,
                "webhook-id": delivery.delivery_key,
                "webhook-timestamp": str(timestamp),
                "webhook-signature": sign(secrets, delivery.delivery_key, timestamp, body),
                "Idempotency-Key": delivery.delivery_key,
                "reminders-attempt": str(delivery.attempt),
            }
        except InvalidInput as error:
            return Rejected("unsendable", str(error), blameless=True)
        except UnicodeError:
            return Rejected("unsendable", "the tenant or the delivery key is not valid text", blameless=True)
        except ServiceUnavailable:
            return Retry(
                "allowance_unknown", "what the tenant is allowed cannot be read; nothing was sent", blameless=True
            )
        answer = self._http().post(target, headers, body, deadline, allowance)
        if isinstance(answer, Answer):
            return outcome_of(answer.status, answer.headers, answer.body, now=datetime.now(UTC))
        return answer

    def _target(self, destination: str, allowance: Allowance) -> Target:
        try:
            return parse_destination(destination, allow_private=self._allow_private)
        except NotPublic as refusal:
            if not allowance.opens(refusal.host):
                raise
            return parse_destination(destination, allow_private=False, allow_inside=True)

    def _http(self) -> HttpClient:
        from reminders.providers.http_client import HttpClient  # noqa: PLC0415 (the same)

        with self._lock:
            if self._client is None:
                self._client = HttpClient(allow_private=self._allow_private, idle_limit=self._idle_limit)
            return self._client


def _derive(master: bytes, tenant_id: str, destination: str) -> bytes:
    return derive_secret(master, tenant_id, CHANNEL, destination)


def _json(value: dict[str, object], *, sort_keys: bool) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, sort_keys=sort_keys)
