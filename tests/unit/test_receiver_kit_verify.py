"""The kit's `verify` against what we sign; and the file alone, as a receiver copies it."""

from __future__ import annotations

import subprocess
import sys
import time
from email.message import Message

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reminders.providers.signing import format_secret, sign
from reminders.receiver import (
    InvalidSecret,
    MalformedHeaders,
    NotVerified,
    StaleTimestamp,
    Verified,
    WrongSignature,
    kit,
    verify,
)

SECRET, OTHER = b"s" * 32, b"o" * 32
BODY = '{"name":"gr\u00fc\u00dfe","n":1}'.encode()
NOW = 1_790_000_000


def headers(secrets=(SECRET,), key="dk_1", timestamp=NOW, body=BODY):
    return {
        "Webhook-Id": key,
        "webhook-timestamp": str(timestamp),
        "WEBHOOK-SIGNATURE": sign(secrets, key, timestamp, body),
    }


@pytest.mark.parametrize("skew", [-300, -1, 0, 300])
def test_what_was_signed_within_five_minutes_is_accepted(skew):
    assert verify(BODY, headers(), [SECRET], now=NOW + skew) == Verified("dk_1", NOW)


@pytest.mark.parametrize("skew", [-301, 301, float("nan"), float("inf")])
def test_what_was_signed_earlier_or_later_is_stale(skew):
    with pytest.raises(StaleTimestamp, match="more than 300 s away"):
        verify(BODY, headers(), [SECRET], now=NOW + skew)


def test_the_tolerance_can_be_chosen_and_one_that_is_no_number_accepts_nothing():
    assert verify(BODY, headers(), [SECRET], now=NOW + 900, tolerance=900).timestamp == NOW
    for tolerance in (10, 0, -1, float("nan")):
        with pytest.raises(StaleTimestamp):
            verify(BODY, headers(), [SECRET], now=NOW + 11, tolerance=tolerance)


def test_the_clock_is_this_machines_by_default():
    assert verify(BODY, headers(timestamp=int(time.time())), [SECRET]).key == "dk_1"
    with pytest.raises(StaleTimestamp):
        verify(BODY, headers(), [SECRET])


@pytest.mark.parametrize(
    ("secrets", "signed_with"),
    [
        ([OTHER, SECRET], [SECRET]),
        ([SECRET], [OTHER, SECRET]),
        ([format_secret(OTHER), format_secret(SECRET)], [SECRET]),
        (format_secret(SECRET), [SECRET]),
        (SECRET, [SECRET]),
        (iter([SECRET]), [SECRET]),
    ],
)
def test_any_of_several_secrets_and_signatures_is_enough(secrets, signed_with):
    assert verify(BODY, headers(signed_with), secrets, now=NOW).key == "dk_1"


@pytest.mark.parametrize(
    ("change", "body", "secrets"),
    [
        ({}, BODY + b"\n", [SECRET]),
        ({}, BODY.replace(b":1", b": 1"), [SECRET]),
        ({}, b"", [SECRET]),
        ({}, BODY, [OTHER]),
        ({"Webhook-Id": "dk_2"}, BODY, [SECRET]),
        ({"webhook-timestamp": str(NOW + 1)}, BODY, [SECRET]),
        ({"WEBHOOK-SIGNATURE": "v1,"}, BODY, [SECRET]),
        ({"WEBHOOK-SIGNATURE": "v1,\u00e9\u00e9"}, BODY, [SECRET]),
        ({"WEBHOOK-SIGNATURE": "v2" + sign((SECRET,), "dk_1", NOW, BODY)[2:]}, BODY, [SECRET]),
        ({"WEBHOOK-SIGNATURE": sign((SECRET,), "dk_1", NOW, BODY)[3:]}, BODY, [SECRET]),
        ({"WEBHOOK-SIGNATURE": "v1,x " * 16 + sign((SECRET,), "dk_1", NOW, BODY)}, BODY, [SECRET]),
    ],
)
def test_what_was_tampered_with_or_signed_by_others_is_refused(change, body, secrets):
    with pytest.raises(WrongSignature):
        verify(body, headers() | change, secrets, now=NOW)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"Webhook-Id": ""}, "webhook-id is missing"),
        ({"webhook-timestamp": ""}, "webhook-timestamp is missing"),
        ({"WEBHOOK-SIGNATURE": ""}, "webhook-signature is missing"),
        ({"webhook-id": "dk_2"}, "webhook-id is there twice"),
        ({"Webhook-Id": "dk.1"}, "without a full stop"),
        ({"Webhook-Id": "dk 1"}, "printable"),
        ({"Webhook-Id": "dk_\u00e9"}, "printable"),
        ({"Webhook-Id": "d" * 256}, "up to 255"),
        ({"webhook-timestamp": f"{NOW}.0"}, "not a Unix time"),
        ({"webhook-timestamp": f" {NOW}"}, "not a Unix time"),
        ({"webhook-timestamp": f"{NOW}\n"}, "not a Unix time"),
        ({"webhook-timestamp": "NaN"}, "not a Unix time"),
        ({"webhook-timestamp": "-1"}, "not a Unix time"),
        ({"webhook-timestamp": "9" * 5000}, "not a Unix time"),
        ({"webhook-timestamp": "\u0661"}, "not a Unix time"),
        ({"WEBHOOK-SIGNATURE": "v1,\ud800"}, "not valid text"),
    ],
)
def test_headers_that_are_not_what_they_must_be(change, words):
    with pytest.raises(MalformedHeaders, match=words):
        verify(BODY, headers() | change, [SECRET], now=NOW)


def test_a_signature_is_good_for_one_split_of_its_bytes_only():
    text = f'{{"text":"a.{NOW}.rm -rf"}}'
    captured = headers(body=text.encode())
    forged = captured | {"Webhook-Id": f'dk_1.{NOW}.{{"text":"a'}
    with pytest.raises(MalformedHeaders):
        verify(b'rm -rf"}', forged, [SECRET], now=NOW)


def test_a_name_that_comes_twice_in_one_message_is_refused():
    message = Message()
    for name, value in headers().items():
        message[name] = value
    assert verify(BODY, message, [SECRET], now=NOW).key == "dk_1"
    message["webhook-id"] = "dk_2"
    with pytest.raises(MalformedHeaders, match="twice"):
        verify(BODY, message, [SECRET], now=NOW)


@pytest.mark.parametrize(
    "secrets", [[], "", b"", [b""], "whsec_", "whsec_%%%", "c2VjcmV0", ["whsec_AAA"], "whsec_\u00e9"]
)
def test_a_fault_of_our_own_configuration_is_not_the_senders(secrets):
    with pytest.raises(InvalidSecret) as fault:
        verify(BODY, headers(), secrets, now=NOW)
    assert not isinstance(fault.value, NotVerified)
    assert "AAA" not in str(fault.value)


@pytest.mark.parametrize("body", ["{}", None, {"a": 1}])
def test_a_body_that_was_parsed_is_a_mistake_of_the_caller(body):
    with pytest.raises(TypeError, match="raw bytes"):
        verify(body, headers(), [SECRET], now=NOW)


@given(
    st.dictionaries(st.sampled_from(["webhook-id", "webhook-timestamp", "webhook-signature"]), st.text()), st.binary()
)
def test_nothing_but_not_verified_comes_of_any_headers(given_headers, body):
    with pytest.raises(NotVerified):
        verify(body, given_headers, [SECRET], now=NOW)


def test_the_file_alone_needs_nothing_but_the_standard_library():
    script = (
        "import runpy, sys\n"
        "kit = runpy.run_path(sys.argv[1], run_name='copied')\n"
        "assert callable(kit['verify']) and callable(kit['apply_once'])\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} - sys.stdlib_module_names - {'__main__'}))\n"
    )
    command = [sys.executable, "-I", "-S", "-c", script, kit.__file__]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_importing_the_kit_imports_nothing_of_the_sender():
    script = (
        "import sys, reminders.receiver\n"
        "print(sorted(name for name in sys.modules if name.startswith('reminders')))\n"
        "print({'celery', 'sqlalchemy', 'tornado', 'psycopg2', 'redis', 'kombu'} & set(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.splitlines() == [
        "['reminders', 'reminders.domain', 'reminders.domain.errors', 'reminders.receiver', 'reminders.receiver.kit']",
        "set()",
    ]
