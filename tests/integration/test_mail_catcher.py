"""The catcher takes what channel `email` sends, and what any other program sends by SMTP."""

from __future__ import annotations

import smtplib
from dataclasses import replace

import pytest

from integration.mail_server import DELIVERY
from reminders.domain.outcomes import Delivered
from reminders.providers.email import EmailProvider
from reminders.receiver.mail_catcher import MailCatcher
from reminders.settings import load


@pytest.fixture
def catcher():
    with MailCatcher() as catcher:
        yield catcher


def test_it_keeps_and_counts_what_the_channel_sends(catcher):
    settings = load(
        {
            "REMINDERS_SMTP_URL": catcher.url,
            "REMINDERS_MAIL_FROM": "Shop <noreply@shop.example>",
            "REMINDERS_UNSUBSCRIBE_URL": "https://shop.example/unsubscribe",
            "REMINDERS_WEBHOOK_SECRET": "s" * 24,
        }
    )
    provider = EmailProvider(settings)
    provider.ready()
    for key, destination in (
        ("rk_1", "anna@customer.example"),
        ("rk_2", "grüße@customer.example"),
        ("rk_2", "b@c.example"),
    ):
        one = replace(DELIVERY, delivery_key=key, destination=destination)
        assert isinstance(provider.send(one, provider.render(one), 5.0), Delivered)
    assert catcher.counts_by_key() == {"rk_1": 1, "rk_2": 2}
    first, second, _ = catcher.mails()
    assert (first.sender, first.recipient) == ("noreply@shop.example", "anna@customer.example")
    assert first.subject == "Order 7 is due"
    assert first.message["from"] == "Shop <noreply@shop.example>"
    assert first.message["list-unsubscribe-post"] == "List-Unsubscribe=One-Click"
    assert first.message["list-unsubscribe"].startswith("<https://shop.example/unsubscribe?token=")
    text = first.message.get_body(("plain",)).get_content()
    assert text.splitlines() == ["Dear anna,", ".", "..two dots", "order 7 is due."]
    assert "Größe &amp; Söhne" in first.message.get_body(("html",)).get_content()
    assert second.message["to"] == second.recipient == "grüße@customer.example"


def test_any_program_may_send_to_it_and_it_takes_one_recipient(catcher):
    port = int(catcher.url.split(":")[2].partition("?")[0])
    with smtplib.SMTP("127.0.0.1", port) as client:
        refused = client.sendmail("a@shop.example", ["b@c.example", "d@e.example"], "Subject: x\r\n\r\nhello\r\n")
        assert refused == {"d@e.example": (452, b"one recipient a message")}
        assert client.docmd("DATA")[0] == 503
    (mail,) = catcher.mails()
    assert (mail.recipient, mail.subject, mail.key) == ("b@c.example", "x", "")
