"""What is sent: the template's text, whole and unchanged, or nothing."""

from __future__ import annotations

import pytest

from reminders.domain.outcomes import Retry
from reminders.domain.template import TemplateFault
from reminders.pipeline.provider import can_look_up
from reminders.providers import sms
from reminders.settings import Secret, Settings
from sms_samples import TEXT, delivery

PROVIDER = sms.SmsProvider(Settings())


def test_the_text_is_the_templates_whatever_the_attempt():
    first = PROVIDER.render(delivery())
    assert first == TEXT.encode()
    assert PROVIDER.render(delivery(attempt=7)) == first


@pytest.mark.parametrize(
    "text", ["“Grüße” – 10 € \U0001f600", "one\ntwo\r\nthree", " kept ", "\nkept", "a &amp; <b>", "ﬁ´`"]
)
def test_no_character_is_replaced(text):
    assert PROVIDER.render(delivery("{{ data.order }}", data={"order": text})).decode() == text


@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n", "\r"])
def test_line_ends_at_the_end_are_not_sent(end):
    provider = sms.SmsProvider(Settings(sms_max_parts=1))
    assert provider.render(delivery("a" * 160 + end)) == b"a" * 160
    assert provider.render(delivery("{{ data.order }}", data={"order": f"one\ntwo {end}"})) == b"one\ntwo "


@pytest.mark.parametrize(("text", "allowed"), [("a" * 612, 4), ("a" * 160, 1), ("ж" * 268, 4), ("\U0001f600" * 132, 4)])
def test_as_many_parts_as_allowed_are_sent(text, allowed):
    assert sms.SmsProvider(Settings(sms_max_parts=allowed)).render(delivery(text)).decode() == text


@pytest.mark.parametrize(
    ("text", "count", "allowed"),
    [("a" * 613, 5, 4), ("a" * 161, 2, 1), ("ж" * 269, 5, 4), ("\U0001f600" * 133, 5, 4), ("x" * 5000, 33, 10)],
)
def test_one_part_too_many_is_the_templates_fault_and_never_cut(text, count, allowed):
    provider = sms.SmsProvider(Settings(sms_max_parts=allowed))
    with pytest.raises(TemplateFault) as fault:
        provider.render(delivery(text))
    assert str(fault.value) == (
        f"acme/payment_due/sms/*@1, text: the text comes to {count} SMS parts; REMINDERS_SMS_MAX_PARTS allows {allowed}"
    )


@pytest.mark.parametrize("text", ["", " \n", "{{ '' }}"])
def test_an_empty_text_is_the_templates_fault(text):
    with pytest.raises(TemplateFault, match="the text is empty"):
        PROVIDER.render(delivery(text))


@pytest.mark.parametrize(
    ("character", "name"), [("\0", "0000"), ("\x1b", "001B"), ("\x85", "0085"), ("\ud800", "D800")]
)
def test_what_an_sms_cannot_carry_is_the_templates_fault(character, name):
    with pytest.raises(TemplateFault, match=f"holds U\\+{name}"):
        PROVIDER.render(delivery("{{ data.order }}", data={"order": f"a{character}b"}))


def test_a_missing_template_and_a_later_format_are_refused():
    with pytest.raises(TemplateFault, match="no template"):
        PROVIDER.render(delivery(template=None))
    with pytest.raises(ValueError, match="body format 2"):
        PROVIDER.render(delivery(body_format=2))


def test_without_a_gateway_nothing_is_sent_and_nothing_looked_up():
    outcome = PROVIDER.send(delivery(), b"x", 1.0)
    assert isinstance(outcome, Retry)
    assert outcome.error_class == "not_configured"
    assert can_look_up(PROVIDER) is None


def test_with_a_gateway_it_can_be_looked_up_a_minute_after_the_claims_end():
    provider = sms.provider(Settings(sms_url=Secret("twilio://AC1:token@api.twilio.com?from=Acme"), claim=40.0))
    assert (provider.channel, provider.deduplicates, provider.body_format) == ("sms", False, 1)
    looking = can_look_up(provider)
    assert looking is not None
    assert looking.settle == 100.0
