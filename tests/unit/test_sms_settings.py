"""`REMINDERS_SMS_URL`: which gateway, which account; what cannot work is said without repeating a secret."""

from __future__ import annotations

import pytest

from reminders.domain.errors import SettingsError
from reminders.providers.sms import SmsProvider
from reminders.providers.sms_gateway import gateway_of
from reminders.settings import Secret, Settings, load

TOKEN = "hunter22hunter22"
GOOD = f"twilio://AC17:{TOKEN}@api.twilio.com?from=%2B4915112345678"


def refusal(url: str, **settings: bool) -> str:
    with pytest.raises(SettingsError) as caught:
        SmsProvider(Settings(sms_url=Secret(url), **settings)).ready()
    assert TOKEN not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        GOOD,
        f"twilio://AC17:{TOKEN}@api.twilio.com?messaging_service=MG17",
        f"twilio://SK17:{TOKEN}@api.twilio.com:8443/api/laml/?account=AC17&from=Acme%20Shop",
        f"twilio+http://AC17:{TOKEN}@127.0.0.1:8781?from=12345",
        f"twilio+http://AC17:{TOKEN}@[::1]:8781?from=12345",
        f"twilio+http://AC17:{TOKEN}@localhost:8781?from=12345",
    ],
)
def test_what_works(url):
    settings = load({"REMINDERS_SMS_URL": url})
    SmsProvider(settings).ready()
    assert TOKEN not in repr(settings)
    assert TOKEN not in repr(gateway_of(settings).__dict__["_address"])


@pytest.mark.parametrize(
    ("url", "says"),
    [
        (f"http://AC17:{TOKEN}@api.twilio.com?from=Acme", "the name of no gateway"),
        (f"nexmo://AC17:{TOKEN}@api.nexmo.com?from=Acme", "the name of no gateway"),
        (f"parts://AC17:{TOKEN}@h?from=Acme", "the name of no gateway"),
        (f"../os://AC17:{TOKEN}@h?from=Acme", "the name of no gateway"),
        (f"twilio+ftp://AC17:{TOKEN}@h?from=Acme", "something other than +http"),
        (f"twilio+http://AC17:{TOKEN}@api.twilio.com?from=Acme", "plain HTTP"),
        (f"twilio+http://AC17:{TOKEN}@127.0.0.1.example.com?from=Acme", "plain HTTP"),
        (f"twilio://AC17:{TOKEN}@api.twilio.com:port?from=Acme", "its port"),
        (f"twilio://AC17:{TOKEN}@api.twilio.com?from", "what follows the ?"),
        ("twilio://AC17@api.twilio.com?from=Acme", "user, password and host"),
        ("twilio://api.twilio.com?from=Acme", "user, password and host"),
        (f"twilio://AC17:{TOKEN}@?from=Acme", "user, password and host"),
        (f"{GOOD}#x", "no fragment"),
        (f"twilio://AC17:{TOKEN}@api twilio?from=Acme", "malformed host"),
        (f"twilio://AC17:{TOKEN}@h/a%0d?from=Acme", "path"),
        (f"twilio://AC17:{TOKEN}@h", "exactly one of the options"),
        (f"{GOOD}&messaging_service=MG17", "exactly one of the options"),
        (f"{GOOD}&form=Acme", "has an option 'form'"),
        (f"{GOOD}&from=Acme", "the same option twice"),
        (f"twilio://AC17:{TOKEN}@h?from=+4915112345678", "no sender in from"),
        (f"twilio://AC17:{TOKEN}@h?from=A%20name%20too%20long", "no sender in from"),
        (f"twilio://AC%2F17:{TOKEN}@h?from=Acme", "no identifier"),
        (f"{GOOD}&account=a%2Fb", "no identifier"),
    ],
)
def test_what_cannot_work_says_why_without_the_secret(url, says):
    assert says in refusal(url)


def test_plain_http_to_another_machine_is_for_development():
    SmsProvider(Settings(sms_url=Secret(f"twilio+http://AC17:{TOKEN}@catcher?from=Acme"), allow_private=True)).ready()


def test_without_an_address_it_says_what_to_write():
    with pytest.raises(SettingsError, match=r"REMINDERS_SMS_URL is not set.*twilio://ACCOUNT_SID:AUTH_TOKEN@"):
        SmsProvider(Settings()).ready()


@pytest.mark.parametrize(
    "bad", [TOKEN, "twilio://api.twilio.com", f"twilio://{TOKEN}", "://a@b", f"TWILIO://AC:{TOKEN}@h"]
)
def test_what_is_no_address_is_refused_at_start_without_being_repeated(bad):
    with pytest.raises(SettingsError) as caught:
        load({"REMINDERS_SMS_URL": bad})
    assert str(caught.value).startswith("REMINDERS_SMS_URL: must be an address with credentials")
    assert TOKEN not in str(caught.value)


@pytest.mark.parametrize(("text", "taken"), [("1", 1), ("10", 10)])
def test_as_many_parts_as_are_set(text, taken):
    assert load({"REMINDERS_SMS_MAX_PARTS": text}).sms_max_parts == taken


@pytest.mark.parametrize("bad", ["0", "11", "many", "4.5"])
def test_a_number_of_parts_that_is_none_is_refused(bad):
    with pytest.raises(SettingsError, match="REMINDERS_SMS_MAX_PARTS"):
        load({"REMINDERS_SMS_MAX_PARTS": bad})
