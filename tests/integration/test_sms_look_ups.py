"""Looking a text up at a gateway that knows no key of ours: exactly one that can be it decides, nothing else does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from email.utils import format_datetime
from typing import Any
from urllib.parse import parse_qs

import pytest

from integration.sms_scripted import PATH, SENDER, TOKEN, ScriptedGateway, http
from reminders.domain.look_ups import Absent, Found, LookUp, Undecided
from reminders.providers.sms import SmsProvider
from reminders.settings import Secret, Settings
from sms_samples import CLAIMED, TEXT, TO, delivery

MINUTE = timedelta(minutes=1)
SETTLED = timedelta(seconds=90)
"""Since the claim: a minute after the end of a claim of 30 s."""


@pytest.fixture
def gateway() -> Iterator[ScriptedGateway]:
    scripted = ScriptedGateway()
    yield scripted
    scripted.close()


def there(gateway: ScriptedGateway, body: str = TEXT, *, seconds: float = 1.0, **changes) -> str:
    """A message that the gateway has, created `seconds` after the claim; its name."""
    created = format_datetime(CLAIMED + timedelta(seconds=seconds))
    message = gateway.keep({"To": TO, "From": SENDER, "Body": body}, date_created=created, **changes)
    return str(message["sid"])


def look_up(
    gateway: ScriptedGateway, after: timedelta = SETTLED, *, deadline: float = 5.0, text: str | None = None
) -> LookUp:
    asked = delivery(text, uncertain_since=CLAIMED, claimed_at=CLAIMED + after)
    answer = gateway.provider().look_up(asked, deadline)
    assert not isinstance(answer, Absent)
    return answer


def undecided(answer: LookUp) -> tuple[str, bool]:
    assert isinstance(answer, Undecided)
    return answer.error_class, answer.final


def test_one_that_can_be_it_is_it(gateway):
    sid = there(gateway)
    assert look_up(gateway) == Found(sid)
    (request,) = gateway.lists
    assert request.line.split("?")[0] == f"GET {PATH}"
    query = parse_qs(request.line.split(" ")[1].partition("?")[2])
    assert query == {"To": [TO], "DateSent>": ["2026-11-29"], "PageSize": ["20"]}
    assert gateway.creates == []


@pytest.mark.parametrize(
    "change",
    [{}, {"seconds": -59}, {"seconds": 89}, {"body": f" {TEXT}\n"}, {"status": "delivered"}, {"direction": "outbound-reply"}],
)  # fmt: skip
def test_it_is_found_where_it_may_be(gateway, change):
    sid = there(gateway, **change)
    assert look_up(gateway) == Found(sid)


@pytest.mark.parametrize(
    "change",
    [
        {"body": "Your order 18 is due."},
        {"body": TEXT.lower()},
        {"body": ""},
        {"seconds": -61},
        {"seconds": 91},
        {"seconds": -86400},
        {"from": "+4930999999"},
        {"from": None, "messaging_service_sid": "MG9"},
        {"direction": "inbound"},
    ],
)
def test_what_cannot_be_it_is_not_it(gateway, change):
    changes = dict(change)
    there(gateway, changes.pop("body", TEXT), seconds=changes.pop("seconds", 1.0), **changes)
    assert undecided(look_up(gateway)) == ("none_found", False)


def test_one_among_others_is_it(gateway):
    there(gateway, "Your order 16 is due.")
    sid = there(gateway)
    there(gateway, "from", **{"from": "+4930999999"})
    assert look_up(gateway) == Found(sid)


def test_of_two_nobody_can_tell_and_a_person_decides_at_once(gateway):
    there(gateway)
    there(gateway, seconds=40)
    answer = look_up(gateway)
    assert undecided(answer) == ("several_found", True)
    assert isinstance(answer, Undecided)
    assert answer.reason == "the gateway has 2 texts that can be this one"


@pytest.mark.parametrize(
    ("after", "final"), [(SETTLED, False), (14 * MINUTE, False), (15 * MINUTE, True), (600 * MINUTE, True)]
)
def test_none_is_asked_for_again_for_a_quarter_of_an_hour_and_never_means_not_sent(gateway, after, final):
    assert undecided(look_up(gateway, after)) == ("none_found", final)


@pytest.mark.parametrize("status", ["failed", "undelivered", "canceled"])
def test_one_that_the_gateway_could_not_deliver_is_for_a_person(gateway, status):
    there(gateway, status=status)
    assert undecided(look_up(gateway)) == ("found_failed", True)


def test_a_messaging_service_is_the_sender(gateway):
    url = gateway.url.partition("?")[0] + "?messaging_service=MG9"
    provider = SmsProvider(Settings(sms_url=Secret(url)))
    there(gateway)
    sid = there(gateway, messaging_service_sid="MG9", **{"from": "+4930777777"})
    answer = provider.look_up(delivery(uncertain_since=CLAIMED, claimed_at=CLAIMED + SETTLED), 5.0)
    assert answer == Found(sid)


def pages(gateway: ScriptedGateway, *contents: list[dict[str, Any]], path: str = PATH) -> list[str]:
    """A list of several pages, each of which leads to the next one by `path`; the targets that were asked for."""
    asked: list[str] = []

    def page(target: str) -> bytes:
        asked.append(target)
        following = f"{path}?To=%2B49&PageSize=20&Page={len(asked)}&PageToken=PASM{len(asked)}"
        last = len(asked) >= len(contents)
        messages = contents[len(asked) - 1]
        return http(200, json.dumps({"messages": messages, "next_page_uri": None if last else following}).encode())

    gateway.pages = page
    return asked


def test_the_second_page_is_read(gateway):
    sid = there(gateway)
    asked = pages(gateway, [], gateway.messages)
    assert look_up(gateway) == Found(sid)
    assert asked[1] == f"{PATH}?To=%2B49&PageSize=20&Page=1&PageToken=PASM1"


def test_a_second_one_on_the_last_page_counts(gateway):
    there(gateway)
    there(gateway)
    pages(gateway, gateway.messages[:1], [], gateway.messages[1:])
    assert undecided(look_up(gateway)) == ("several_found", True)


def test_the_same_message_on_two_pages_is_one(gateway):
    sid = there(gateway)
    pages(gateway, gateway.messages, gateway.messages)
    assert look_up(gateway) == Found(sid)


def test_pages_without_end_are_given_up(gateway):
    there(gateway)
    asked = pages(gateway, gateway.messages, *[[]] * 100)
    assert undecided(look_up(gateway)) == ("list_too_long", True)
    assert len(asked) == 10


@pytest.mark.parametrize(
    "path", ["http://127.0.0.1:1/x", "//evil/x", "/2010-04-01/Accounts/AC18/Messages.json", f"{PATH}/..", "/"]
)
def test_a_next_page_elsewhere_is_not_asked_for(gateway, path):
    there(gateway)
    asked = pages(gateway, gateway.messages, [], path=path)
    assert undecided(look_up(gateway)) == ("malformed_list", False)
    assert len(asked) == 1


BROKEN = [
    (http(500, b"oops"), "http_500"),
    (http(401, b'{"code": 20003, "message": "Authenticate"}'), "http_401"),
    (http(429, b"", "Retry-After: 9\r\n"), "http_429"),
    (http(302, b"", "Location: http://127.0.0.1:1/\r\n"), "http_302"),
    (http(404, b""), "http_404"),
    (http(200, b"<html>"), "malformed_list"),
    (http(200, b"\x00\xff"), "malformed_list"),
    (http(200, b"{}"), "malformed_list"),
    (http(200, b'{"messages": [7]}'), "malformed_list"),
    (http(200, b'{"messages": [{"sid": "SM1"}]}'), "malformed_list"),
    (http(200, b'{"messages": [' + b" " * 300_000 + b"]}"), "malformed_list"),
    (b"HTTP/1.1 200 X\r\nContent-Length: 90\r\n\r\n{", "malformed_list"),
]


@pytest.mark.parametrize(("answer", "error_class"), BROKEN)
def test_an_answer_that_cannot_be_read_decides_nothing(gateway, answer, error_class):
    there(gateway)
    gateway.pages = lambda _: answer
    # The last of them is what only the deadline ends; it has begun before, on a busy machine too.
    assert undecided(look_up(gateway, deadline=2.5)) == (error_class, False)


def test_a_silent_gateway_decides_nothing_within_the_deadline(gateway):
    def silent(_: str) -> bytes:
        gateway.over.wait(30)
        return b""

    gateway.pages = silent
    answer = look_up(gateway, deadline=1.0)
    assert isinstance(answer, Undecided)
    assert (answer.error_class, answer.final, answer.timed_out) == ("deadline", False, True)


@pytest.mark.parametrize(
    "change",
    [{"date_created": "yesterday"}, {"date_created": None}, {"sid": "a b"}, {"sid": None}, {"body": None}, {"body": 7}],
)
def test_a_message_that_cannot_be_read_decides_nothing(gateway, change):
    there(gateway)
    there(gateway)
    gateway.messages[1].update(change)
    assert undecided(look_up(gateway)) == ("malformed_list", False)


def test_what_can_no_longer_be_written_is_not_asked_for(gateway):
    assert undecided(look_up(gateway, text="{{ data.gone }}")) == ("not_askable", False)
    assert gateway.lists == []


def test_a_limit_that_was_lowered_since_does_not_stop_a_look_up(gateway):
    sid = there(gateway, "a" * 400)
    provider = gateway.provider(sms_max_parts=1)
    asked = delivery("a" * 400, uncertain_since=CLAIMED, claimed_at=CLAIMED + SETTLED)
    assert provider.look_up(asked, 5.0) == Found(sid)


def test_nothing_in_doubt_is_nothing_to_look_up(gateway):
    answer = gateway.provider().look_up(delivery(), 5.0)
    assert undecided(answer) == ("nothing_in_doubt", True)


def test_a_look_up_logs_no_number_and_no_text(gateway, caplog):
    caplog.set_level(0)
    there(gateway)
    look_up(gateway)
    gateway.pages = lambda _: http(500, json.dumps({"message": f"{TO} {TOKEN}"}).encode())
    answer = look_up(gateway)
    assert isinstance(answer, Undecided)
    assert TO not in answer.reason
    assert not any(secret in caplog.text for secret in (TO, TOKEN, TEXT))
