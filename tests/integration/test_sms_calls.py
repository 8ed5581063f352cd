"""Channel `sms` against a gateway that answers every row of the outcome table, and counts what it has kept."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from base64 import b64encode
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from held_ports import held_port
from integration.sms_scripted import ACCOUNT, SENDER, TOKEN, ScriptedGateway, http, kept, raw, refused
from reminders.domain.outcomes import Blocked, Delivered, Outcome, Rejected, Retry, Unknown
from reminders.providers.sms import SmsProvider
from reminders.settings import Secret, Settings
from sms_samples import TEXT, TO, delivery

PAGE = Path(__file__).resolve().parents[2] / "docs" / "sms.md"
SID = f"SM{0:032x}"
HELD = timedelta(minutes=15)
PAUSE = "Retry-After: 90\r\n"
ASKED = timedelta(seconds=90)


@pytest.fixture
def gateway() -> Iterator[ScriptedGateway]:
    scripted = ScriptedGateway()
    yield scripted
    scripted.close()


def send(gateway: ScriptedGateway, *, deadline: float = 5.0) -> Outcome:
    provider = gateway.provider()
    return provider.send(delivery(), provider.render(delivery()), deadline)


def test_a_create_is_what_the_api_asks_for(gateway):
    assert send(gateway) == Delivered(SID, 201)
    (request,) = gateway.creates
    assert request.line == f"POST /2010-04-01/Accounts/{ACCOUNT}/Messages.json HTTP/1.1"
    assert parse_qs(request.body.decode()) == {"To": [TO], "From": [SENDER], "Body": [TEXT]}
    assert request.headers["authorization"] == "Basic " + b64encode(f"{ACCOUNT}:{TOKEN}".encode()).decode()
    assert request.headers["content-type"] == "application/x-www-form-urlencoded"


def test_a_messaging_service_and_a_key_of_another_name_than_the_account(gateway):
    url = f"twilio+http://SK1:p%40ss@127.0.0.1:{gateway.port}?account={ACCOUNT}&messaging_service=MG9"
    provider = SmsProvider(Settings(sms_url=Secret(url)))
    assert provider.send(delivery(), "10 € & \U0001f600".encode(), 5.0) == Delivered(SID, 201)
    (request,) = gateway.creates
    assert parse_qs(request.body.decode()) == {
        "To": [TO],
        "MessagingServiceSid": ["MG9"],
        "Body": ["10 € & \U0001f600"],
    }
    assert request.headers["authorization"] == "Basic " + b64encode(b"SK1:p@ss").decode()


# What the gateway does; what that means; how many messages it has kept.
ROWS = {
    "201": (kept(), Delivered, "", 1),
    "201, garbage": (raw(http(201, b"\x00\xff{"), keep=True), Delivered, "", 1),
    "201, huge": (raw(http(201, b"[" * 500_000), keep=True), Delivered, "", 1),
    "201, cut off": (raw(b"HTTP/1.1 201 X\r\nContent-Length: 4000\r\n\r\n{", keep=True, then="close"), Delivered, "", 1),
    "201, given up at once": (kept(status="failed", error_code=30007), Rejected, "twilio_30007", 1),
    "201, given up, no code": (kept(status="undelivered"), Rejected, "given_up_at_once", 1),
    "200 with a message": (kept(200), Delivered, "", 1),
    "200 of somebody else": (raw(http(200, b"<html>Welcome")), Unknown, "http_200", 0),
    "204": (raw(b"HTTP/1.1 204 X\r\n\r\n", keep=True), Unknown, "http_204", 1),
    "301": (raw(http(301, b"", "Location: http://127.0.0.1:1/\r\n")), Rejected, "http_301", 0),
    "302": (raw(http(302, b"", "Location: /2010-04-01/elsewhere\r\n")), Rejected, "http_302", 0),
    "307": (raw(http(307, b"", "Location: /2010-04-01/elsewhere\r\n")), Rejected, "http_307", 0),
    "400, 21211": (refused(400, 21211), Rejected, "invalid_number", 0),
    "400, 21408": (refused(400, 21408), Rejected, "region_not_enabled", 0),
    "400, 21606": (refused(400, 21606), Rejected, "sender_cannot_reach", 0),
    "400, 21608": (refused(400, 21608), Rejected, "trial_account", 0),
    "400, 21610": (refused(400, 21610), Rejected, "unsubscribed", 0),
    "400, 21612": (refused(400, 21612), Rejected, "unroutable", 0),
    "400, 21614": (refused(400, 21614), Rejected, "not_mobile", 0),
    "400, 21617": (refused(400, 21617), Rejected, "too_long", 0),
    "403, 21408": (refused(403, 21408), Rejected, "region_not_enabled", 0),
    "400, another code": (refused(400, 21999), Rejected, "twilio_21999", 0),
    "400 without a code": (raw(http(400, b"nonsense")), Rejected, "http_400", 0),
    "422": (refused(422), Rejected, "http_422", 0),
    "401": (raw(http(401, b"")), Blocked("provider", HELD, "http_401", "HTTP 401", 401), "", 0),
    "401, 20003": (refused(401, 20003), Blocked("provider", HELD, "credentials_refused", "HTTP 401: no", 401), "", 0),
    "403": (raw(http(403, b"")), Blocked("provider", HELD, "http_403", "HTTP 403", 403), "", 0),
    "403, 20005": (refused(403, 20005), Blocked("provider", HELD, "account_not_active", "HTTP 403: no", 403), "", 0),
    "400, 10001": (refused(400, 10001), Blocked("provider", HELD, "account_not_active", "HTTP 400: no", 400), "", 0),
    "404": (refused(404, 20404), Blocked("provider", HELD, "twilio_20404", "HTTP 404: no", 404), "", 0),
    "400, 21212": (refused(400, 21212), Blocked("provider", HELD, "sender_refused", "HTTP 400: no", 400), "", 0),
    "400, 21701": (refused(400, 21701), Blocked("provider", HELD, "sender_refused", "HTTP 400: no", 400), "", 0),
    "400, 21705": (refused(400, 21705), Blocked("provider", HELD, "sender_refused", "HTTP 400: no", 400), "", 0),
    "429, 20429": (refused(429, 20429), Retry, "twilio_20429", 0),
    "429, asked to wait": (refused(429, 20429, headers=PAUSE), Blocked("provider", ASKED, "twilio_20429", "HTTP 429: no", 429, passing=True), "", 0),
    "429, unreadable wait": (refused(429, 20429, headers="Retry-After: soon\r\n"), Retry, "twilio_20429", 0),
    "429, 14107": (refused(429, 14107), Blocked("destination", timedelta(seconds=30), "twilio_14107", "HTTP 429: no", 429, passing=True), "", 0),
    "429, 21611": (refused(429, 21611), Blocked("provider", timedelta(minutes=10), "twilio_21611", "HTTP 429: no", 429, passing=True), "", 0),
    "429, 63038": (refused(429, 63038), Blocked("provider", timedelta(hours=1), "twilio_63038", "HTTP 429: no", 429, passing=True), "", 0),
    "429, 63038, asked to wait": (refused(429, 63038, headers=PAUSE), Blocked("provider", ASKED, "twilio_63038", "HTTP 429: no", 429, passing=True), "", 0),
    "408": (refused(408), Retry, "http_408", 0),
    "425": (refused(425), Retry, "http_425", 0),
    "501": (refused(501), Retry, "http_501", 0),
    "505": (refused(505), Retry, "http_505", 0),
    "503 of the gateway": (refused(503, 20503), Retry, "twilio_20503", 0),
    "503, asked to wait": (raw(http(503, b"", PAUSE)), Blocked("provider", ASKED, "http_503", "HTTP 503", 503, passing=True), "", 0),
    "503 of somebody between": (raw(http(503, b"upstream reset"), keep=True), Unknown, "http_503", 1),
    "500": (refused(500, 20500, keep=True), Unknown, "twilio_20500", 1),
    "500, not kept": (refused(500, 20500), Unknown, "twilio_20500", 0),
    "500 with a code that is otherwise a refusal": (refused(500, 21610, keep=True), Unknown, "twilio_21610", 1),
    "502": (raw(http(502, b"<html>"), keep=True), Unknown, "http_502", 1),
    "504": (raw(http(504, b""), keep=True), Unknown, "http_504", 1),
    "599": (raw(http(599, b"")), Unknown, "http_599", 0),
    "101": (raw(b"HTTP/1.1 101 X\r\n\r\n"), Unknown, "http_101", 0),
    "700": (raw(http(700, b""), keep=True), Unknown, "http_700", 1),
    "silent": (raw(b"", keep=True, then="hang"), Unknown, "deadline", 1),
    "drips for ever": (raw(b"", keep=True, then="drip"), Unknown, "deadline", 1),
    "closes, kept": (raw(b"", keep=True, then="close"), Unknown, "closed", 1),
    "closes, not kept": (raw(b"", then="close"), Unknown, "closed", 0),
    "garbage": (raw(b"SMTP ready\r\n", keep=True, then="close"), Unknown, "malformed_answer", 1),
}  # fmt: skip


@pytest.mark.parametrize("row", ROWS)
def test_each_row_of_the_table(gateway, row):
    behaviour, wanted, error_class, count = ROWS[row]
    gateway.script = [behaviour]
    began = time.monotonic()
    # What nothing else ends has been read before the deadline, on a busy machine too; what else ends it is there long before.
    outcome = send(gateway, deadline=2.5 if row in {"silent", "drips for ever"} else 25.0)
    assert time.monotonic() - began < 12.0
    if isinstance(wanted, Blocked):
        assert outcome == wanted
    else:
        assert (type(outcome), outcome.error_class) == (wanted, error_class)
    # That the gateway fails says nothing about the number.
    assert getattr(outcome, "blameless", False) is (wanted in {Retry, Unknown})
    assert len(gateway.messages) == count
    assert len(gateway.creates) == 1


def as_documented(row: str) -> str:
    _, wanted, error_class, _ = ROWS[row]
    name, besides = (wanted.__name__, "") if isinstance(wanted, type) else ("Blocked", "")
    if isinstance(wanted, Blocked):
        place = "the number" if wanted.scope == "destination" else "the tenant's SMS"
        asked = " (as asked)" if "asked to wait" in row else ""
        besides = f": {place}, for {wanted.after}{asked}"
        error_class = wanted.error_class
    return f"| {row} | `{name}`{besides} | {f'`{error_class}`' if error_class else ''} |"


def test_the_page_shows_what_each_row_comes_to():
    match = re.search(r"<!-- rows -->\n(.*?)\n<!-- /rows -->", PAGE.read_text(), re.DOTALL)
    assert match is not None
    head = "| the gateway answers | outcome | class |\n|---|---|---|\n"
    assert match[1] == head + "\n".join(map(as_documented, ROWS))


def test_a_redirect_is_not_followed(gateway):
    elsewhere = ScriptedGateway()
    gateway.script = [raw(http(307, b"", f"Location: http://127.0.0.1:{elsewhere.port}/x\r\n"))]
    send(gateway)
    elsewhere.close()
    assert (elsewhere.creates, len(gateway.creates)) == ([], 1)


def test_before_anything_was_sent_it_is_a_retry():
    with held_port() as port:
        url = f"twilio+http://{ACCOUNT}:{TOKEN}@127.0.0.1:{port}?from=Acme"
        outcome = SmsProvider(Settings(sms_url=Secret(url))).send(delivery(), b"x", 5.0)
    assert (type(outcome), outcome.error_class) == (Retry, "connect_refused")


def accept_and_close(listener: socket.socket) -> None:
    listener.accept()[0].close()


def test_a_connection_closed_before_the_request_is_read_is_never_called_delivered():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"twilio+http://{ACCOUNT}:{TOKEN}@127.0.0.1:{listener.getsockname()[1]}?from=Acme"
        provider = SmsProvider(Settings(sms_url=Secret(url)))
        threading.Thread(target=accept_and_close, args=(listener,), daemon=True).start()
        outcome = provider.send(delivery(), b"x", 5.0)
    assert isinstance(outcome, Retry | Unknown)


def test_a_second_text_uses_the_same_connection(gateway):
    provider = gateway.provider()
    for _ in range(3):
        assert isinstance(provider.send(delivery(), b"x", 5.0), Delivered)
    assert gateway._receiver.accepted == 1


@pytest.mark.parametrize("sid", ["", "SM 1", "a" * 65, 7, None, ["x"], "+4915123456789"])
def test_a_name_that_is_none_is_no_reference(gateway, sid):
    gateway.script = [raw(http(201, json.dumps({"sid": sid, "status": ["odd"]}).encode()))]
    assert send(gateway) == Delivered(None, 201)


def test_what_is_kept_and_logged_of_an_answer_names_no_number_and_no_secret(gateway, caplog):
    caplog.set_level(0)
    words = f"The 'To' number {TO} with token {TOKEN} is not valid \0 a@example.com"
    gateway.script = [refused(400, 21211, words)]
    outcome = send(gateway)
    assert TO not in outcome.reason
    assert "a@example.com" not in outcome.reason
    assert "[redacted]" in outcome.reason
    assert not any(secret in caplog.text for secret in (TO, TOKEN, TEXT))


@pytest.mark.parametrize(
    "body",
    [b"[]", b"7", b'{"code": "21610"}', b'{"code": true}', b'{"code": 1e400}', b"[" * 9000, b'{"code": ' + b"9" * 5000],
)
def test_a_body_that_is_no_error_object_leaves_the_status(gateway, body):
    gateway.script = [raw(http(400, body))]
    outcome = send(gateway)
    assert (type(outcome), outcome.error_class) == (Rejected, "http_400")
