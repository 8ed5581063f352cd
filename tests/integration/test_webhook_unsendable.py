"""What does not fit into a request's head is refused as input where it can be, and at send without a connection."""

from __future__ import annotations

import pytest

from integration.listening import end_listening
from integration.raw_receiver import MASTER, Receiver, post
from reminders.domain.errors import InvalidInput
from reminders.domain.outcomes import Delivered, Rejected
from reminders.domain.request import checked_text
from reminders.providers.webhook import WebhookProvider
from reminders.settings import Secret, Settings

INJECTED = ["a\r\nX-Evil: 1", "a\nb", "a\0b", "a\x7fb", "\u20ac", "a\ud800b", "\u65e5\u672c"]


@pytest.fixture
def receiver():
    def answer(connection, _):
        connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

    receiver = Receiver(answer)
    yield receiver
    end_listening(receiver.listener)


@pytest.fixture
def provider() -> WebhookProvider:
    return WebhookProvider(Settings(webhook_secret=Secret(MASTER), allow_private=True))


@pytest.mark.parametrize("key", INJECTED, ids=ascii)
def test_a_key_that_fits_into_no_header_is_not_sent(provider, receiver, key, monkeypatch):
    # The ledger makes keys of letters and digits; here somebody has written another one into it.
    monkeypatch.setattr(provider, "render", lambda _: b"{}")
    outcome = post(provider, receiver.url, delivery_key=key)
    assert isinstance(outcome, Rejected)
    assert (outcome.error_class, outcome.blameless) == ("unsendable", True)
    assert key not in outcome.reason
    assert receiver.accepted == 0


@pytest.mark.parametrize("tenant", ["a\r\nX-Evil: 1", "a\0b", "\u20ac", "\u65e5\u672c", "a\tb", "a b"], ids=ascii)
def test_a_tenant_of_any_characters_is_in_no_header(provider, receiver, tenant):
    assert post(provider, receiver.url, tenant_id=tenant) == Delivered(None, 204)
    (request,) = receiver.requests
    assert "x-evil" not in request.headers
    assert all(tenant not in value for value in request.headers.values())


def test_a_tenant_that_is_no_text_is_not_sent(provider, receiver, monkeypatch):
    monkeypatch.setattr(provider, "render", lambda _: b"{}")
    outcome = post(provider, receiver.url, tenant_id="a\ud800b")
    assert isinstance(outcome, Rejected)
    assert (outcome.error_class, receiver.accepted) == ("unsendable", 0)


@pytest.mark.parametrize("text", ["a\r\nX-Evil: 1", "a\nb", "a\0b", "a\x7fb", "a\x85b", "a\ud800b"], ids=ascii)
def test_control_characters_are_refused_when_it_is_scheduled(text):
    for name in ("tenant_id", "user_id", "kind", "destination", "reference", "slot"):
        with pytest.raises(InvalidInput, match="contains") as refusal:
            checked_text(name, text)
        assert refusal.value.field == name


@pytest.mark.parametrize("path", ["/\r\nX-Evil: 1", "/a b", "/a\x00", "/\u2028", "/a\\b", "/\ud800", "/#a"], ids=ascii)
def test_a_path_that_fits_into_no_request_line_is_refused_and_not_sent(provider, receiver, path):
    url = receiver.url.split("/hook")[0] + path
    with pytest.raises(InvalidInput, match="destination"):
        provider.check_destination(url)
    outcome = post(provider, url)
    assert isinstance(outcome, Rejected)
    assert (outcome.error_class, receiver.accepted) == ("unsendable", 0)


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("/gr\u00fc\u00dfe?q=\u20ac", "POST /gr%C3%BC%C3%9Fe?q=%E2%82%AC HTTP/1.1"),
        ("/%0d%0aX-Evil:%201", "POST /%0d%0aX-Evil:%201 HTTP/1.1"),
        ('/"<>^`{|}', "POST /%22%3C%3E%5E%60%7B%7C%7D HTTP/1.1"),
    ],
)
def test_other_characters_are_escaped(provider, receiver, path, line):
    assert post(provider, receiver.url.split("/hook")[0] + path) == Delivered(None, 204)
    (request,) = receiver.requests
    assert (request.line, "x-evil" in request.headers) == (line, False)
