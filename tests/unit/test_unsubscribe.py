"""Tokens of unsubscribe links: sealed, not to be forged, and read by the application."""

from __future__ import annotations

import base64
import re
from datetime import UTC, datetime
from uuid import UUID

import pytest

import reminders
from reminders import api
from reminders.domain.delivery import Delivery
from reminders.domain.errors import InvalidInput, SettingsError
from reminders.providers.email_headers import attempt_lines
from reminders.providers.unsubscribe import Unsubscription, link_for, make_token, read_token
from reminders.settings_mail import LONGEST_UNSUBSCRIBE_URL, Sender

MASTER = b"a master secret for these tests"
ANNA = Unsubscription("acme", "anna@customer.example", "invoice", "email")


def delivery(**changes):
    given = {
        "reminder_id": UUID(int=1), "delivery_key": "rk_1", "tenant_id": "acme", "user_id": "anna", "kind": "invoice",
        "channel": "email", "destination_id": UUID(int=2), "destination": "anna@customer.example",
        "due_at": datetime(2026, 11, 29, tzinfo=UTC), "zone": None, "reference": None, "slot": "", "data": {},
        "attempt": 1, "body_format": 1,
    }  # fmt: skip
    return Delivery(**{**given, **changes})


@pytest.mark.parametrize(
    "who", [ANNA, Unsubscription("größe", '"],["', "\\", "email"), Unsubscription("a", "b", "c", "d")]
)
def test_a_token_names_whom_it_was_made_for(who):
    token = make_token(MASTER, who)
    assert read_token(MASTER, token) == who
    assert make_token(MASTER, who) == token
    assert re.fullmatch(r"[A-Za-z0-9_-]+", token)


def test_a_token_tells_nothing_to_others():
    raw = base64.urlsafe_b64decode(make_token(MASTER, ANNA) + "==")
    assert not any(text.encode() in raw for text in ("anna", "acme", "invoice", "email"))
    assert make_token(MASTER, ANNA) != make_token(b"another secret", ANNA)


def test_a_token_that_was_tampered_with_is_refused_in_every_character():
    token = make_token(MASTER, ANNA)
    for position in range(len(token)):
        for other in ("A", "b", "_"):
            if token[position] == other:
                continue
            changed = token[:position] + other + token[position + 1 :]
            with pytest.raises(InvalidInput):
                read_token(MASTER, changed)


@pytest.mark.parametrize(
    "token", ["", "x", "AQ", "AQ==", "é", "\x00", "A" * 100_000, "a b", None, make_token(MASTER, ANNA) + "="]
)
def test_what_is_no_token_is_refused(token):
    with pytest.raises(InvalidInput, match=r"^token: is none of ours"):
        read_token(MASTER, token)


def test_a_token_under_another_secret_is_refused():
    with pytest.raises(InvalidInput):
        read_token(b"another secret", make_token(MASTER, ANNA))


def test_the_application_reads_it_with_its_own_settings(monkeypatch):
    secret = "tests-only-signing-secret-0123456789"
    token = make_token(secret.encode(), ANNA)
    assert reminders.verify_unsubscribe(token) == ANNA
    monkeypatch.delenv("REMINDERS_WEBHOOK_SECRET")
    api._settings.cache_clear()
    with pytest.raises(SettingsError, match="REMINDERS_WEBHOOK_SECRET"):
        reminders.verify_unsubscribe(token)


@pytest.mark.parametrize(
    ("url", "joined"), [("https://a.example/u", "?token="), ("https://a.example/u?x=1", "&token=")]
)
def test_the_link_adds_the_token_to_the_url(url, joined):
    link = link_for(url, MASTER, delivery())
    assert link.startswith(url + joined)
    assert read_token(MASTER, link.partition("token=")[2]) == Unsubscription("acme", "anna", "invoice", "email")


def test_the_longest_ascii_names_fit_into_a_header_line():
    url = "https://a.example/".ljust(LONGEST_UNSUBSCRIBE_URL, "x")
    link = link_for(url, MASTER, delivery(tenant_id="t" * 128, user_id="u" * 256, kind="k" * 64))
    assert link is not None
    lines = attempt_lines(Sender("", "a@b.example"), "rk_1", datetime.now(UTC), link).split(b"\r\n")
    assert max(map(len, lines)) <= 998


def test_names_that_do_not_fit_leave_the_link_out_and_say_so(caplog):
    url = "https://a.example/".ljust(LONGEST_UNSUBSCRIBE_URL, "x")
    assert link_for(url, MASTER, delivery(user_id="\U0001f600" * 256)) is None
    assert "email.no_unsubscribe_link key=rk_1" in caplog.text
    assert "\U0001f600" not in caplog.text
