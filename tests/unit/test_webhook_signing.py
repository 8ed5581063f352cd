"""Signatures and derived secrets, with the public `standardwebhooks` library as the other side."""

from __future__ import annotations

import json
import time

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from reminders.domain.errors import InvalidInput
from reminders.providers.signing import BadSignature, derive_secret, format_secret, parse_secret, sign, verify

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


@pytest.mark.parametrize("skew", [-300, -1, 0, 300])
def test_we_accept_what_was_signed_within_five_minutes(skew):
    verify([SECRET], headers(), BODY, NOW + skew)


def test_we_accept_any_of_several_secrets_and_signatures():
    old, new = SECRET, derive_secret(MASTER, "t1", "webhook", "https://b.example/")
    verify([new, old], headers(secrets=(old,)), BODY, NOW)
    verify([new], headers(secrets=(old, new)), BODY, NOW)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"Webhook-Id": ""}, "is missing"),
        ({"webhook-timestamp": ""}, "is missing"),
        ({"WEBHOOK-SIGNATURE": ""}, "is missing"),
        ({"Webhook-Id": "rk_2"}, "no signature matches"),
        ({"webhook-timestamp": str(NOW + 1)}, "no signature matches"),
        ({"webhook-timestamp": f"{NOW}.0"}, "not a Unix time"),
        ({"webhook-timestamp": "NaN"}, "not a Unix time"),
        ({"webhook-timestamp": "-1"}, "not a Unix time"),
        ({"webhook-timestamp": "9" * 5000}, "not a Unix time"),
        ({"webhook-timestamp": "\u0661"}, "not a Unix time"),
        ({"WEBHOOK-SIGNATURE": "v1,"}, "no signature matches"),
        ({"WEBHOOK-SIGNATURE": "v1,\u00e9\u00e9"}, "no signature matches"),
        ({"WEBHOOK-SIGNATURE": "v1,\ud800"}, "not valid text"),
        ({"WEBHOOK-SIGNATURE": "v2" + sign((SECRET,), "rk_1", NOW, BODY)[2:]}, "no signature matches"),
        ({"WEBHOOK-SIGNATURE": " ".join(["v1,x"] * 16) + " " + sign((SECRET,), "rk_1", NOW, BODY)}, "no signature"),
    ],
)
def test_we_refuse_what_is_missing_malformed_or_changed(change, words):
    with pytest.raises(BadSignature, match=words):
        verify([SECRET], headers() | change, BODY, NOW)


def test_we_refuse_stale_early_tampered_and_foreign_requests():
    cases = [
        ([SECRET], headers(), BODY, NOW + 301),
        ([SECRET], headers(), BODY, NOW - 301),
        ([SECRET], headers(), BODY + b"\n", NOW),
        ([b"x" * 32], headers(), BODY, NOW),
        ([], headers(), BODY, NOW),
        ([SECRET], {}, BODY, NOW),
    ]
    for secrets, given, body, now in cases:
        with pytest.raises(BadSignature):
            verify(secrets, given, body, now)
