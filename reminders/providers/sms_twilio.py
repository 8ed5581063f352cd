"""Twilio, and gateways that speak its API (version 2010-04-01): `twilio://ACCOUNT:TOKEN@api.twilio.com?from=+...`.

Meanings of status codes and error codes: https://www.twilio.com/docs/api/errors, looked up one by one for each row here.
A create is not idempotent, and 20500's page says that repeating one may send twice; 429 says that nothing was processed.
"""

from __future__ import annotations

import json
import re
import time
from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from importlib.metadata import version
from types import MappingProxyType
from typing import Any
from urllib.parse import urlencode

from reminders.domain.errors import SettingsError
from reminders.domain.look_ups import Undecided
from reminders.domain.outcomes import Blocked, BlockScope, Delivered, Outcome, Rejected, Retry, Unknown
from reminders.providers.http_client import Answer, HttpClient
from reminders.providers.redaction import redact
from reminders.providers.retry_after import parse_retry_after
from reminders.providers.sms_gateway import GatewayAddress, Listed
from reminders.settings import Settings

CREDENTIALS_AGAIN_AFTER = timedelta(minutes=15)
"""How long the tenant's SMS wait after the account, its credentials or its sender were refused."""
REFUSED: Mapping[int, str] = MappingProxyType(
    {
        21211: "invalid_number",
        21408: "region_not_enabled",
        21606: "sender_cannot_reach",
        21608: "trial_account",
        21610: "unsubscribed",
        21612: "unroutable",
        21614: "not_mobile",
        21617: "too_long",
    }
)
"""Decisions about one text or number, by error code: trying again cannot succeed. Any other code is `twilio_CODE`."""
ACCOUNT_REFUSED: Mapping[int, str] = MappingProxyType(
    {
        10001: "account_not_active",
        20003: "credentials_refused",
        20005: "account_not_active",
        21212: "sender_refused",
        21701: "sender_refused",
        21705: "sender_refused",
    }
)
"""Faults of the account or of what the settings say, which every text would meet."""
PAUSES: Mapping[int, tuple[BlockScope, timedelta]] = MappingProxyType(
    {
        14107: ("destination", timedelta(seconds=30)),
        21611: ("provider", timedelta(minutes=10)),
        63038: ("provider", timedelta(hours=1)),
    }
)
"""Limits: what they hold, and for how long where no `Retry-After` says it."""
_ACCOUNT_STATUSES = frozenset({401, 403, 404})
_TRANSIENT = frozenset({408, 425, 429, 501, 505})
_GIVEN_UP = frozenset({"failed", "undelivered", "canceled"})
_PAGE_SIZE, MOST_PAGES = 20, 10
"""A page of so many fits into what is read of an answer; more texts to one number in two days decide nothing."""
_SID = re.compile(r"[A-Za-z0-9-]{1,64}", re.ASCII)
_QUERY = re.compile(r"[A-Za-z0-9=&%+:,;._~-]{1,2000}", re.ASCII)
_SENDER = re.compile(r"\+[1-9]\d{6,14}|\d{3,8}|[A-Za-z0-9 &._-]{1,11}", re.ASCII)
_OPTIONS = frozenset({"from", "messaging_service", "account"})


def gateway(address: GatewayAddress, settings: Settings) -> TwilioGateway:
    """See `reminders.providers.sms_gateway`."""
    options = address.options
    if unknown := sorted(options.keys() - _OPTIONS):
        raise SettingsError(
            f"REMINDERS_SMS_URL has an option {unknown[0][:30]!r}; known: {', '.join(sorted(_OPTIONS))}"
        )
    if ("from" in options) == ("messaging_service" in options):
        raise SettingsError("REMINDERS_SMS_URL must have exactly one of the options from and messaging_service")
    if "from" in options and not _SENDER.fullmatch(options["from"]):
        raise SettingsError(
            "REMINDERS_SMS_URL has no sender in from: a number (write + as %2B), a short code or a name"
        )
    account = options.get("account", address.user)
    if not _SID.fullmatch(account) or not _SID.fullmatch(options.get("messaging_service", "MG")):
        raise SettingsError("REMINDERS_SMS_URL has an account or a messaging service that is no identifier")
    return TwilioGateway(address, account, settings)


class TwilioGateway:
    """See `reminders.providers.sms_gateway.Gateway`."""

    def __init__(self, address: GatewayAddress, account: str, settings: Settings) -> None:
        self._address = address
        self._path = f"/2010-04-01/Accounts/{account}/Messages.json"
        names = {"from": "From", "messaging_service": "MessagingServiceSid"}
        self._sender = {names[name]: value for name, value in address.options.items() if name in names}
        login = f"{address.user}:{address.password.reveal()}"
        self._headers = {
            "authorization": "Basic " + b64encode(login.encode()).decode(),
            "accept": "application/json",
            "user-agent": f"reminders/{version('reminders')}",
        }
        # The operator's own gateway, which may well have a private address: the only place this client calls.
        self._http = HttpClient(allow_private=True, idle_limit=4 * settings.concurrency)

    def send(self, to: str, text: str, deadline: float) -> Outcome:
        """Create a message, once."""
        form = urlencode({"To": to, **self._sender, "Body": text}).encode()
        headers = {**self._headers, "content-type": "application/x-www-form-urlencoded"}
        answer = self._http.post(self._address.target(self._path), headers, form, deadline)
        if isinstance(answer, Answer):
            return outcome_of(answer.status, answer.headers, answer.body, now=datetime.now(UTC))
        return answer

    def sent_to(self, to: str, since: datetime, deadline: float) -> Sequence[Listed] | Undecided:
        """The messages to a number since a day began (UTC), page by page."""
        query = {"To": to, "DateSent>": f"{since.astimezone(UTC):%Y-%m-%d}", "PageSize": str(_PAGE_SIZE)}
        path = f"{self._path}?{urlencode(query)}"
        ends_at = time.monotonic() + deadline
        found: list[Listed] = []
        for _ in range(MOST_PAGES):
            answer = self._http.get(self._address.target(path), self._headers, max(ends_at - time.monotonic(), 0.0))
            if not isinstance(answer, Answer):
                return Undecided(answer.error_class, answer.reason, timed_out=getattr(answer, "timed_out", False))
            if answer.status != 200:
                return Undecided(f"http_{answer.status}", _reason(answer.status, answer.body), answer.status)
            page = _json_object(answer.body)
            if not isinstance(messages := page.get("messages"), list):
                return Undecided("malformed_list", "the gateway's list cannot be read", answer.status)
            try:
                found += [_listed(each) for each in messages if self._is_ours(each)]
                following = self._next(page)
            except (KeyError, TypeError, ValueError):
                return Undecided("malformed_list", "the gateway's list holds what cannot be read", answer.status)
            if following is None:
                return found
            path = following
        return Undecided("list_too_long", f"the gateway lists more than {MOST_PAGES} pages for the number", final=True)

    def _is_ours(self, message: Mapping[str, Any]) -> bool:
        ((name, value),) = self._sender.items()
        field = "from" if name == "From" else "messaging_service_sid"
        return message[field] == value and str(message.get("direction", "outbound-api")).startswith("outbound")

    def _next(self, page: Mapping[str, Any]) -> str | None:
        """The next page's path. Only one of the same list: whatever else an answer names is not asked."""
        given = page.get("next_page_uri")
        if not given:
            return None
        path, _, query = str(given).partition("?")
        if path.removeprefix(self._address.path) != self._path or not _QUERY.fullmatch(query):
            raise ValueError("another list")
        return f"{self._path}?{query}"


def outcome_of(status: int, headers: Mapping[str, str], body: bytes, *, now: datetime) -> Outcome:
    """Map an answer to a create to an outcome. `now` dates a `Retry-After` that is a date.

    201 says that the message was created, whatever its body is, unless that says that it was given up at once; another
    2xx does only with the message's name in it. An error code in a 4xx goes before the status. 5xx hide an effect, save
    501, 505, and a 503 that the gateway itself has written: with its error code, or with a `Retry-After`.
    """
    answer = _json_object(body)
    reason = _reason(status, body)
    code = _code(answer.get("code"))
    if 200 <= status <= 299:
        return _created(status, answer, reason)
    refusal = code if code is not None and 400 <= status <= 499 else 0
    if refusal in ACCOUNT_REFUSED:
        return Blocked("provider", CREDENTIALS_AGAIN_AFTER, ACCOUNT_REFUSED[refusal], reason, status)
    if refusal in REFUSED:
        return Rejected(REFUSED[refusal], reason, status)
    asked = next((value for name, value in headers.items() if name.lower() == "retry-after"), None)
    after = parse_retry_after(asked, now) if asked else None
    error_class = f"twilio_{code}" if code is not None else f"http_{status}"
    if refusal in PAUSES:
        scope, otherwise = PAUSES[refusal]
        return Blocked(scope, after or otherwise, error_class, reason, status, passing=True)
    if status in _ACCOUNT_STATUSES:
        return Blocked("provider", CREDENTIALS_AGAIN_AFTER, error_class, reason, status)
    if status in {429, 503} and after is not None:
        return Blocked("provider", after, error_class, reason, status, passing=True)
    if status in _TRANSIENT or (status == 503 and code is not None):
        return Retry(error_class, reason, status)
    if 300 <= status <= 499:
        return Rejected(error_class, reason, status)
    return Unknown(error_class, reason, status)


def _created(status: int, answer: Mapping[str, Any], reason: str) -> Outcome:
    sid = answer.get("sid")
    reference = sid if isinstance(sid, str) and _SID.fullmatch(sid) else None
    if str(answer.get("status")) in _GIVEN_UP:
        code = _code(answer.get("error_code"))
        error_class = f"twilio_{code}" if code is not None else "given_up_at_once"
        return Rejected(error_class, f"HTTP {status}, but the gateway could not deliver it", status)
    if status == 201 or reference is not None:
        return Delivered(reference, status)
    return Unknown(f"http_{status}", f"{reason} (no message is named)", status)


def _code(given: object) -> int | None:
    return given if isinstance(given, int) and 10_000 <= given <= 99_999 else None


def _json_object(body: bytes) -> Mapping[str, Any]:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return answer if isinstance(answer, dict) else {}


def _reason(status: int, body: bytes) -> str:
    message = _json_object(body).get("message")
    return redact(f"HTTP {status}: {message}" if isinstance(message, str) else f"HTTP {status}")


def _listed(message: Mapping[str, Any]) -> Listed:
    created = parsedate_to_datetime(message["date_created"])
    sid, text = message["sid"], message["body"]
    if not isinstance(text, str) or not _SID.fullmatch(sid):
        raise ValueError("no message")
    return Listed(
        sid, text, created if created.tzinfo else created.replace(tzinfo=UTC), message.get("status") in _GIVEN_UP
    )
