"""The public `standardwebhooks` library, and our own kit, as judges of what really arrives at a receiver."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from integration.listening import end_listening
from integration.raw_receiver import MASTER, Receiver, Request, delivery, post
from reminders.domain.outcomes import Delivered
from reminders.providers.signing import derive_secret, format_secret
from reminders.providers.webhook import WebhookProvider
from reminders.receiver import NotVerified, StaleTimestamp, verify
from reminders.settings import Secret, Settings

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
AWKWARD = {
    "nested": {"b": [1, 2.5, None, True], "a": ""},
    "text": 'gr\u00fc\u00dfe \U0001f600 \u2028 \\ " / \x7f',
    "number": 10**20,
    "no-key": {},
}


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    one = Receiver(lambda connection, _: connection.sendall(OK))
    yield one
    end_listening(one.listener)


def arrive(receiver: Receiver, *, ago: float = 0.0, **changes: object) -> Request:
    """Send one delivery, signed `ago` seconds ago, and return what arrived."""
    settings = Settings(webhook_secret=Secret(MASTER), allow_private=True)
    provider = WebhookProvider(settings, clock=lambda: time.time() - ago)
    assert post(provider, receiver.url, **changes) == Delivered(None, 200)
    return receiver.requests[-1]


def public(url: str, tenant_id: str = "acme", master: str = MASTER) -> Callable[[bytes, dict[str, str]], object]:
    return Webhook(format_secret(derive_secret(master.encode(), tenant_id, "webhook", url))).verify


def kit(url: str, tenant_id: str = "acme", master: str = MASTER) -> Callable[[bytes, dict[str, str]], object]:
    secret = format_secret(derive_secret(master.encode(), tenant_id, "webhook", url))
    return lambda body, headers: verify(body, headers, [secret])


@pytest.fixture(params=[public, kit])
def judge(request):
    return request.param


REFUSED = (WebhookVerificationError, NotVerified)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"data": AWKWARD},
        {"data": {}, "reference": None, "zone": "Europe/Berlin", "slot": "s"},
        {"attempt": 7},
        {"delivery_key": "dk_" + "A-_9" * 10},
    ],
)
def test_what_we_send_is_accepted(receiver, judge, changes):
    request = arrive(receiver, **changes)
    judge(receiver.url)(request.body, request.headers)
    assert json.loads(request.body)["data"] == delivery(receiver.url, **changes).data


@pytest.mark.parametrize(
    "tamper",
    [
        lambda body: body + b" ",
        lambda body: body[:-1],
        lambda body: b"",
        lambda body: body.replace(b"anna", b"eve!"),
        lambda body: body.replace(b'"v":1', b'"v": 1'),
        lambda body: json.dumps(json.loads(body)).encode(),
    ],
)
def test_a_body_that_was_changed_is_refused(receiver, judge, tamper):
    request = arrive(receiver)
    with pytest.raises(REFUSED):
        judge(receiver.url)(tamper(request.body), request.headers)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("webhook-id", lambda value: value + "x"),
        ("webhook-timestamp", lambda value: str(int(value) + 1)),
        ("webhook-timestamp", lambda value: str(int(value) - 60)),
        ("webhook-signature", lambda value: value[:-5] + ("AAAA=" if value[-5:] != "AAAA=" else "BBBB=")),
        ("webhook-signature", lambda value: "v2" + value[2:]),
        ("webhook-signature", lambda value: ""),
    ],
)
def test_a_header_that_was_changed_is_refused(receiver, judge, name, change):
    request = arrive(receiver)
    with pytest.raises(REFUSED):
        judge(receiver.url)(request.body, request.headers | {name: change(request.headers[name])})


@pytest.mark.parametrize("name", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_a_header_that_is_missing_is_refused(receiver, judge, name):
    request = arrive(receiver)
    with pytest.raises(REFUSED):
        judge(receiver.url)(request.body, {key: value for key, value in request.headers.items() if key != name})


@pytest.mark.parametrize("ago", [310, 86_400, -310])
def test_what_is_stale_or_of_the_future_is_refused(receiver, judge, ago):
    request = arrive(receiver, ago=ago)
    with pytest.raises((WebhookVerificationError, StaleTimestamp)):
        judge(receiver.url)(request.body, request.headers)


@pytest.mark.parametrize("ago", [290, -290])
def test_a_clock_that_is_a_little_off_is_accepted(receiver, judge, ago):
    request = arrive(receiver, ago=ago)
    judge(receiver.url)(request.body, request.headers)


def test_a_signature_for_others_is_refused(receiver, judge):
    request = arrive(receiver)
    foreign = [
        judge(receiver.url, tenant_id="evil"),
        judge(receiver.url + "&b=2"),
        judge(receiver.url.replace("/hook", "/other")),
        judge(receiver.url, master=MASTER + "!"),
    ]
    for one in foreign:
        with pytest.raises(REFUSED):
            one(request.body, request.headers)
    for name in ("webhook-id", "webhook-timestamp", "webhook-signature"):
        other = arrive(receiver, ago=60, delivery_key="dk_other")
        with pytest.raises(REFUSED):
            judge(receiver.url)(request.body, request.headers | {name: other.headers[name]})
