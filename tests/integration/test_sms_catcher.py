"""The catcher takes what channel `sms` sends, and can be asked for it."""

from __future__ import annotations

import http.client
import json
from datetime import UTC, datetime, timedelta

import pytest

from reminders.domain.look_ups import Found
from reminders.domain.outcomes import Delivered
from reminders.providers.sms import SmsProvider
from reminders.receiver.sms_catcher import SENDER, SmsCatcher
from reminders.settings import load
from sms_samples import TEXT, TO, delivery

PLACE = "/2010-04-01/Accounts/ACcatcher/Messages.json"


@pytest.fixture
def catcher():
    with SmsCatcher(0) as started:
        yield started


def provider(catcher: SmsCatcher) -> SmsProvider:
    return SmsProvider(load({"REMINDERS_SMS_URL": catcher.url}))


def test_it_counts_what_it_has_taken_and_shows_it(catcher):
    sender = provider(catcher)
    outcomes = [sender.send(delivery(), f"{TEXT} {number} € \U0001f600".encode(), 5.0) for number in range(3)]
    caught = catcher.caught()
    assert outcomes == [Delivered(sms.sid, 201) for sms in caught]
    assert [(sms.to, sms.sender, sms.text) for sms in caught] == [
        (TO, SENDER, f"{TEXT} {number} € \U0001f600") for number in range(3)
    ]


def test_what_it_has_taken_is_found_again(catcher):
    sender = provider(catcher)
    sender.send(delivery(), b"another text", 5.0)
    outcome = sender.send(delivery(), TEXT.encode(), 5.0)
    now = datetime.now(UTC)
    asked = delivery(uncertain_since=now - timedelta(seconds=2), claimed_at=now + timedelta(seconds=90))
    assert sender.look_up(asked, 5.0) == Found(outcome.reference)


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (("POST", PLACE, {}, b"To=1&From=2&Body=3"), 401),
        (("POST", PLACE, {"authorization": "Basic eA=="}, b"To=1"), 400),
        (("POST", "/elsewhere", {"authorization": "Basic eA=="}, b"To=1&From=2&Body=3"), 404),
        (("GET", "/elsewhere", {"authorization": "Basic eA=="}, None), 404),
        (("POST", PLACE, {"content-length": "99999999"}, b""), 413),
    ],
)
def test_what_it_does_not_take(catcher, request_, status):
    host, _, port = catcher.url.partition("@")[2].partition("?")[0].partition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=5)
    method, path, headers, body = request_
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    assert (answer.status, json.loads(answer.read())["status"]) == (status, status)
    connection.close()
    assert catcher.caught() == []
