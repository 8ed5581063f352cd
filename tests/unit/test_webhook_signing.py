"""Signatures and derived secrets, with the public `standardwebhooks` library as the other side."""

from __future__ import annotations

import json
import time

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from reminders.domain.errors import InvalidInput
from reminders.providers.signing import derive_secret, format_secret, parse_secret, sign

MASTER = b"master secret of these tests only"
SECRET = derive_secret(MASTER, "t1", "webhook", "https://a.example/")
BODY = '{"name":"gr\u00fc\u00dfe","n":1}'.encode()
NOW = 1_790_000_000


def headers(secrets=(SECRET,), key="rk_1", timestamp=NOW, body=BODY):
    return {
        "Webhook-Id": key,
        "webhook-timestamp": str(timestamp),
        "WEBHOOK-SIGNATURE": sign(secrets, key, timestamp, body),
    }


def test_the_derived_secret_is_fixed_for_good():
    # Receivers store it: another value would make every one of them refuse us.
    assert SECRET.hex() == "0e638217c305271b782717873ba76255c45046ec320d51e15646bc40cceba843"


def test_no_two_destinations_share_a_secret():
    triples = [
        ("t1", "webhook", "https://a.example/"),
        ("t", "1webhook", "https://a.example/"),
        ("t1w", "ebhook", "https://a.example/"),
        ("t1", "webhookh", "ttps://a.example/"),
        ("", "t1webhook", "https://a.example/"),
        ("t2", "webhook", "https://a.example/"),
        ("t1", "sms", "https://a.example/"),
        ("t1", "webhook", "https://a.example"),
    ]
    secrets = {derive_secret(MASTER, *triple) for triple in triples}
    secrets |= {derive_secret(MASTER + b"!", *triples[0])}
    assert len(secrets) == len(triples) + 1


def test_the_written_secret_is_read_back():
    assert format_secret(b"\x00" * 24) == "whsec_" + "A" * 32
    assert parse_secret(format_secret(SECRET)) == SECRET


@pytest.mark.parametrize("text", ["", "whsec_", "whsec_%%%", "AAAA", "whsec_AAA", "whsec_\u00e9"])
def test_a_malformed_secret_is_refused_without_being_shown(text):
    with pytest.raises(InvalidInput) as refusal:
        parse_secret(text)
    assert str(refusal.value) == "secret: is not of the form whsec_ followed by base64"


def test_the_public_library_accepts_what_we_sign():
    now = int(time.time())
    webhook = Webhook(format_secret(SECRET))
    assert webhook.verify(BODY, headers(timestamp=now)) == json.loads(BODY)
    other = derive_secret(MASTER, "t2", "webhook", "https://a.example/")
    assert webhook.verify(BODY, headers(secrets=(other, SECRET), timestamp=now)) == json.loads(BODY)
    for broken in (headers(timestamp=now, body=BODY + b" "), headers(secrets=(other,), timestamp=now)):
        with pytest.raises(WebhookVerificationError):
            webhook.verify(BODY, broken)
