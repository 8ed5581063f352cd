"""The body is the same bytes for every attempt and every release."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import pytest

from reminders.domain.delivery import Delivery
from reminders.domain.errors import SettingsError
from reminders.domain.outcomes import Rejected, Retry
from reminders.providers.webhook import provider
from reminders.settings import Secret, Settings

DELIVERY = Delivery(
    reminder_id=UUID("01980000-0000-7000-8000-000000000001"),
    delivery_key="rk_abc",
    tenant_id="acme",
    user_id="u-1",
    kind="invoice",
    channel="webhook",
    destination_id=UUID("01980000-0000-7000-8000-000000000002"),
    destination="https://example.com/hook",
    due_at=datetime(2026, 11, 29, 12, 30, tzinfo=UTC),
    zone="Europe/Berlin",
    reference="order-7",
    slot="day-before",
    data={"z": 1, "a": {"y": [1.5, None, True], "b": 'gr\u00fc\u00dfe \U0001f600 "q" </script>'}},
    attempt=1,
    body_format=1,
)
GOLDEN = (
    '{"v":1,"id":"01980000-0000-7000-8000-000000000001","key":"rk_abc","tenant_id":"acme","user_id":"u-1",'
    '"kind":"invoice","reference":"order-7","slot":"day-before","due_at":"2026-11-29T12:30:00Z",'
    '"zone":"Europe/Berlin","data":{"a":{"b":"gr\u00fc\u00dfe \U0001f600 \\"q\\" </script>","y":[1.5,null,true]},"z":1}}'
).encode()
WEBHOOK = provider(Settings(webhook_secret=Secret("s" * 24)))


def test_golden_bytes():
    assert WEBHOOK.render(DELIVERY) == GOLDEN


@pytest.mark.parametrize(
    "changed",
    [
        {"attempt": 7},
        {"destination": "https://elsewhere.example/"},
        {"data": {"a": {"b": 'gr\u00fc\u00dfe \U0001f600 "q" </script>', "y": [1.5, None, True]}, "z": 1}},
        {"due_at": datetime(2026, 11, 29, 13, 30, tzinfo=timezone(timedelta(hours=1)))},
    ],
)
def test_what_may_differ_between_attempts_does_not_show(changed):
    assert WEBHOOK.render(replace(DELIVERY, **changed)) == GOLDEN


def test_absent_parts_and_fractions_of_a_second():
    bare = replace(
        DELIVERY, zone=None, reference=None, slot="", data={}, due_at=datetime(987, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
    )
    body = json.loads(WEBHOOK.render(bare))
    assert list(body) == [
        "v",
        "id",
        "key",
        "tenant_id",
        "user_id",
        "kind",
        "reference",
        "slot",
        "due_at",
        "zone",
        "data",
    ]
    assert (body["zone"], body["reference"], body["slot"], body["data"]) == (None, None, "", {})
    assert body["due_at"] == "0987-01-02T03:04:05.000678Z"


@pytest.mark.parametrize(
    "changed",
    [{"body_format": 0}, {"body_format": 2}, {"due_at": datetime(2026, 1, 1)}, {"data": {"n": float("nan")}}],
)
def test_what_cannot_be_rendered_raises_value_error(changed):
    with pytest.raises(ValueError):
        WEBHOOK.render(replace(DELIVERY, **changed))


def test_without_a_secret_everything_but_sending_works():
    unsigned = provider(Settings())
    unsigned.check_destination("https://example.com/hook")
    assert unsigned.render(DELIVERY) == GOLDEN
    with pytest.raises(SettingsError, match="REMINDERS_WEBHOOK_SECRET"):
        unsigned.ready()
    result = unsigned.send(DELIVERY, GOLDEN, 1.0)
    assert isinstance(result, Retry)
    assert result.error_class == "not_configured"
    WEBHOOK.ready()


@pytest.mark.parametrize(
    "changed",
    [
        {"destination": "not a url"},
        {"destination": "http://example.com/"},
        {"destination": "https://[::1]/"},
        {"destination": "https://127.0.0.1/"},
        {"destination": "https://2130706433/"},
        {"destination": "https://ex\ud800mple.com/"},
        {"delivery_key": "a\r\nx-injected: 1"},
        {"delivery_key": "a\nb"},
        {"delivery_key": "k\u20ac"},
        {"delivery_key": "\ud800"},
        {"tenant_id": "\ud800"},
    ],
)
def test_what_cannot_be_sent_is_an_outcome_not_an_exception(changed):
    result = WEBHOOK.send(replace(DELIVERY, **changed), GOLDEN, 1.0)
    assert isinstance(result, Rejected)
    assert result.error_class == "unsendable"


def test_a_call_whose_time_is_over_is_not_started():
    for deadline in (0.0, -1.0):
        result = WEBHOOK.send(replace(DELIVERY, destination="https://8.8.8.8/"), GOLDEN, deadline)
        assert result == Retry("deadline_before_send", "the deadline passed before anything was sent", timed_out=True)
