"""The reference receiver over real connections: whom it believes, and that an effect happens once."""

from __future__ import annotations

import http.client
import json
import sqlite3
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pytest

from reminders.domain.delivery import Delivery
from reminders.domain.outcomes import Delivered, Rejected, Retry, Unknown
from reminders.providers.signing import derive_secret, sign
from reminders.providers.webhook import WebhookProvider
from reminders.receiver.report import Handled, Report
from reminders.receiver.server import Receiver
from reminders.receiver.store import KeyCalls, Verdict
from reminders.settings import Secret, Settings

MASTER = Secret("a master secret for these tests")
EXPLICIT = b"e" * 32
KEY = "dk_0123456789"


@pytest.fixture
def events() -> list[Handled]:
    return []


@pytest.fixture
def receiver(events) -> Iterator[Receiver]:
    with Receiver(port=0, master=MASTER, on_delivery=events.append) as one:
        yield one


@pytest.fixture
def provider() -> WebhookProvider:
    return WebhookProvider(Settings(webhook_secret=MASTER, allow_private=True))


def delivery(url, **changes):
    plain = Delivery(
        reminder_id=UUID(int=1),
        delivery_key=KEY,
        tenant_id="acme",
        user_id="anna",
        kind="invoice",
        channel="webhook",
        destination_id=UUID(int=2),
        destination=url,
        due_at=datetime(2026, 11, 29, 12, tzinfo=UTC),
        zone=None,
        reference="order-7",
        slot="",
        data={"text": "grüße"},
        attempt=1,
        body_format=1,
    )
    return replace(plain, **changes)


def send(provider, url, *, deadline=10.0, **changes):
    one = delivery(url, **changes)
    return provider.send(one, provider.render(one), deadline)


def body_of(**changes):
    fields = {"v": 1, "key": KEY, "tenant_id": "acme", "user_id": "anna", "kind": "invoice", "reference": None, "due_at": "2026-11-29T12:00:00Z"}  # fmt: skip
    return json.dumps({**fields, **changes}).encode()


def signed(receiver, body, *, tenant_id="acme", url=None, at=None, key=KEY, secret=None):
    """Headers as the sender makes them, for whatever is signed."""
    secret = secret or derive_secret(MASTER.reveal().encode(), tenant_id, "webhook", url or receiver.urls[0])
    at = int(time.time()) if at is None else at
    return {"webhook-id": key, "webhook-timestamp": str(at), "webhook-signature": sign([secret], key, at, body)}


def call(receiver, method, target, body=None, headers=None):
    connection = http.client.HTTPConnection(*receiver.address, timeout=30)
    connection.request(method, target, body, headers or {})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, content, answer.headers


def post(receiver, body, headers, target="/hook"):
    status, content, _ = call(receiver, "POST", target, body, headers)
    return status, json.loads(content)


def test_our_own_sender_is_believed_and_a_repeat_gets_the_same_answer(receiver, provider, events):
    url = receiver.urls[0]
    assert url == f"http://127.0.0.1:{receiver.address[1]}/hook"
    assert send(provider, url) == Delivered("effect-1", 200)
    assert send(provider, url, attempt=2) == Delivered("effect-1", 200)
    assert send(provider, url, delivery_key="dk_other") == Delivered("effect-2", 200)
    assert receiver.report() == Report(received=3, effects=2, repeats=1, conflicts=0, refused=0)
    assert list(receiver.calls_by_key()) == [KeyCalls("acme", KEY, 2, 1), KeyCalls("acme", "dk_other", 1, 1)]
    assert [(one.verdict, one.effect_number, one.status) for one in events] == [(Verdict.APPLIED, 1, 200), (Verdict.REPEAT, 1, 200), (Verdict.APPLIED, 2, 200)]  # fmt: skip
    assert (events[0].message.user_id, events[0].message.reference) == ("anna", "order-7")
    assert events[0].message.due_at == "2026-11-29T12:00:00Z"


def test_the_answer_to_a_repeat_is_the_same_to_the_byte(receiver):
    body = body_of()
    first = call(receiver, "POST", "/hook", body, signed(receiver, body))
    again = call(receiver, "POST", "/hook", body, signed(receiver, body, at=int(time.time()) - 60))
    assert first[:2] == again[:2] == (200, b'{"v":1,"key":"dk_0123456789","reference":"effect-1"}')


def test_every_name_of_this_machine_is_ours(receiver, provider):
    other = f"http://localhost:{receiver.address[1]}/hook?from=laptop"
    body = body_of()
    headers = signed(receiver, body, url=other)
    assert post(receiver, body, headers, "/hook?from=laptop")[0] == 200
    assert post(receiver, body, headers)[0] == 401


def at(seconds):
    return int(time.time()) + seconds


BODY = body_of()
FORGERIES = {
    "nothing signed": lambda _: {},
    "no signature": lambda r: {**signed(r, BODY), "webhook-signature": ""},
    "tampered body": lambda r: signed(r, body_of(user_id="eve")),
    "tampered key": lambda r: {**signed(r, BODY), "webhook-id": "dk_else"},
    "tampered time": lambda r: {**signed(r, BODY, at=at(-20)), "webhook-timestamp": str(at(-10))},
    "stale": lambda r: signed(r, BODY, at=at(-310)),
    "from the future": lambda r: signed(r, BODY, at=at(310)),
    "of another tenant": lambda r: signed(r, BODY, tenant_id="evil"),
    "for another URL": lambda r: signed(r, BODY, url="http://evil.example/hook"),
    "for a URL that it names": lambda r: {**signed(r, BODY, url="http://evil.example/hook"), "Host": "evil.example"},
    "for another path": lambda r: signed(r, BODY, url=r.urls[0] + "/slow"),
    "with no secret of ours": lambda r: signed(r, BODY, secret=b"x" * 32),
    "unprintable": lambda r: {**signed(r, BODY), "webhook-signature": "v1,\xff"},
}


@pytest.mark.parametrize("forged", FORGERIES.values(), ids=FORGERIES.keys())
def test_a_forgery_is_refused_and_leaves_nothing(receiver, events, forged):
    status, answer = post(receiver, BODY, forged(receiver))
    assert status == 401
    assert set(answer) == {"v", "error"}
    assert receiver.report() == Report(received=1, effects=0, repeats=0, conflicts=0, refused=1)
    assert list(receiver.calls_by_key()) == []
    assert (events[0].message, events[0].verdict, events[0].status) == (None, None, 401)


def test_a_signature_is_good_for_five_minutes(events):
    now = 1_790_000_299.9
    with Receiver(port=0, master=MASTER, clock=lambda: now, on_delivery=events.append) as receiver:
        headers = signed(receiver, BODY, at=1_790_000_000)
        assert post(receiver, BODY, headers)[0] == 200
        now = 1_790_000_300.1
        assert post(receiver, BODY, headers)[0] == 401
    assert events[0].at == datetime(2026, 9, 21, 14, 18, 19, 900_000, tzinfo=UTC)


def test_another_body_under_the_same_key_is_a_conflict(receiver, provider, events):
    assert send(provider, receiver.urls[0]) == Delivered("effect-1", 200)
    refused = send(provider, receiver.urls[0], data={"text": "other"})
    assert isinstance(refused, Rejected)
    assert refused.status_code == 409
    assert send(provider, receiver.urls[0]) == Delivered("effect-1", 200)
    assert receiver.report() == Report(received=3, effects=1, repeats=1, conflicts=1, refused=0)
    assert events[1].message.key == KEY


@pytest.mark.parametrize(
    "body",
    [b"not json", b"[]", b'{"v":1}', body_of(v=2), body_of(key="dk_else"), body_of(user_id=7), body_of(kind="\ud800")],
)
def test_what_is_signed_but_no_message_is_malformed(body):
    with Receiver(port=0, secrets=[EXPLICIT]) as receiver:
        assert post(receiver, body, signed(receiver, body, secret=EXPLICIT))[0] == 400
        assert receiver.report().refused == 1
        assert list(receiver.calls_by_key()) == []


def test_fifty_identical_requests_at_once_have_one_effect(receiver):
    body = body_of()
    headers = signed(receiver, body)
    together = threading.Barrier(50)

    def one(_):
        together.wait()
        return call(receiver, "POST", "/hook", body, headers)[:2]

    with ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(one, range(50)))
    assert set(answers) == {(200, b'{"v":1,"key":"dk_0123456789","reference":"effect-1"}')}
    assert receiver.report() == Report(received=50, effects=1, repeats=49, conflicts=0, refused=0)
    assert list(receiver.calls_by_key()) == [KeyCalls("acme", KEY, 50, 1)]


def test_a_path_that_fails_twice(receiver, provider):
    url = receiver.urls[0] + "/fail-twice"
    outcomes = [send(provider, url, attempt=attempt) for attempt in (1, 2, 3, 4)]
    assert [outcome.status_code for outcome in outcomes] == [503, 503, 200, 200]
    assert isinstance(outcomes[0], Retry)
    assert outcomes[2] == outcomes[3] == Delivered("effect-1", 200)
    assert receiver.report() == Report(received=4, effects=1, repeats=1, conflicts=0, refused=2)
    assert list(receiver.calls_by_key()) == [KeyCalls("acme", KEY, 4, 1)]


def test_a_path_that_refuses(receiver, provider, events):
    outcome = send(provider, receiver.urls[0] + "/refuse")
    assert isinstance(outcome, Rejected)
    assert outcome.status_code == 422
    assert list(receiver.calls_by_key()) == [KeyCalls("acme", KEY, 1, 0)]
    assert (events[0].message.key, events[0].verdict) == (KEY, None)


def test_a_path_that_answers_late_has_applied_the_effect(receiver, provider):
    url = receiver.urls[0] + "/slow?ms=60000"
    outcome = send(provider, url, deadline=0.5)
    assert isinstance(outcome, Unknown)
    assert send(provider, receiver.urls[0] + "/slow?ms=1") == Delivered("effect-1", 200)
    assert receiver.report() == Report(received=2, effects=1, repeats=1, conflicts=0, refused=0)


def test_an_answer_that_is_held_back_goes_out_when_the_receiver_stops():
    handled = threading.Event()
    receiver = Receiver(port=0, master=MASTER, on_delivery=lambda _: handled.set())
    receiver.start()
    target = "/hook/slow?ms=60000"
    headers = signed(receiver, BODY, url=receiver.urls[0].removesuffix("/hook") + target)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(post, receiver, BODY, headers, target)
        assert handled.wait(30)
        receiver.stop()
        assert answer.result()[0] == 200


def test_a_store_that_cannot_be_written_is_not_answered_with_success(provider, tmp_path, caplog):
    path = tmp_path / "store.db"
    with Receiver(port=0, master=MASTER, store=path) as receiver:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        outcome = send(provider, receiver.urls[0])
        other.execute("ROLLBACK")
        other.close()
        assert isinstance(outcome, Retry)
        assert outcome.status_code == 503
        assert send(provider, receiver.urls[0]) == Delivered("effect-1", 200)
    assert "the store cannot be written" in caplog.text


def test_a_bug_of_ours_is_answered_and_does_not_end_the_receiver(provider, caplog):
    def fail_once(handled):
        if handled.verdict is Verdict.APPLIED:
            raise RuntimeError("a bug")

    with Receiver(port=0, master=MASTER, on_delivery=fail_once) as receiver:
        assert send(provider, receiver.urls[0]).status_code == 500
        assert send(provider, receiver.urls[0]) == Delivered("effect-1", 200)
    assert "a delivery was not handled" in caplog.text


def test_the_report_over_http(receiver, provider):
    send(provider, receiver.urls[0])
    send(provider, receiver.urls[0] + "/refuse", delivery_key="dk_refused")
    status, content, headers = call(receiver, "GET", "/report")
    assert (status, headers["content-type"]) == (200, "application/json")
    assert json.loads(content) == {"v": 1, "received": 2, "effects": 1, "repeats": 0, "conflicts": 0, "refused": 1}
    status, content, headers = call(receiver, "GET", "/report?keys=1")
    assert (status, headers["transfer-encoding"]) == (200, "chunked")
    assert [json.loads(line) for line in content.splitlines()] == [
        {"v": 1, "tenant_id": "acme", "key": KEY, "calls": 1, "effects": 1},
        {"v": 1, "tenant_id": "acme", "key": "dk_refused", "calls": 1, "effects": 0},
    ]


def test_a_report_of_many_keys_is_whole(receiver, provider):
    with receiver._store.transaction():
        for number in range(1001):
            receiver._store.count_call("acme", f"dk_{number}")
    _, content, _ = call(receiver, "GET", "/report?keys=1")
    assert [json.loads(line)["key"] for line in content.splitlines()] == [f"dk_{number}" for number in range(1001)]


def test_without_deliveries_the_report_is_empty(receiver):
    assert call(receiver, "GET", "/report?keys=1")[:2] == (200, b"")
