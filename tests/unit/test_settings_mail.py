"""The settings of channel `email`: what is read from them, and what is refused without repeating a password."""

from __future__ import annotations

import pytest

from reminders.settings_mail import Sender, SmtpServer, sender, smtp_server, unsubscribe_url


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("smtp://shop:pw@mail.example:587", SmtpServer("mail.example", 587, "starttls", "shop", "pw")),
        ("smtp://mail.example", SmtpServer("mail.example", 587, "starttls")),
        ("smtp://mail.example:25/", SmtpServer("mail.example", 25, "starttls")),
        ("smtps://shop:pw@mail.example", SmtpServer("mail.example", 465, "tls", "shop", "pw")),
        ("smtps://mail.example:4650", SmtpServer("mail.example", 4650, "tls")),
        ("smtp://127.0.0.1:1025?starttls=never", SmtpServer("127.0.0.1", 1025, "none")),
        ("smtp://[::1]:1025/?starttls=never", SmtpServer("::1", 1025, "none")),
        ("smtp://a@shop.example:p@/?#:w@mail.example", SmtpServer("mail.example", 587, "starttls", "a@shop.example", "p@/?#:w")),
        ("smtp://a%40b:p%2Fw%25@mail.example", SmtpServer("mail.example", 587, "starttls", "a@b", "p/w%")),
    ],
)  # fmt: skip
def test_a_mail_servers_address_is_taken_apart(text, expected):
    assert smtp_server(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "", "mail.example", "http://u:hunter2@mail.example", "smtp://", "smtp://u:hunter2@", "smtp://u@mail.example",
        "smtp://:hunter2@mail.example", "smtp://u:@mail.example", "smtp://u:hunter2@mail.example:0",
        "smtp://u:hunter2@mail.example:65536", "smtp://u:hunter2@mail.example:port", "smtp://u:hunter2@mail.example/path",
        "smtp://u:hunter2@mail.example?starttls=always", "smtp://u:hunter2@mail.example?starttls",
        "smtp://u:hunter2@mail.example?starttls=never&x=1", "smtps://u:hunter2@mail.example?starttls=never",
        "smtp://u:hunter2%0A@mail.example", "smtp://u:hunter2@mail example", "smtp://u:hunter2@größe.example",
        "smtp://u:hunter2@mail.example\nx",
    ],
)  # fmt: skip
def test_what_is_no_mail_server_is_refused_without_its_password(text):
    with pytest.raises(ValueError, match=r"^(is no|has|needs)") as caught:
        smtp_server(text)
    assert "hunter2" not in str(caught.value)


def test_a_password_does_not_show():
    assert "hunter2" not in repr(smtp_server("smtp://u:hunter2@mail.example"))


@pytest.mark.parametrize(
    ("host", "loopback"), [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("LOCALHOST", True), ("localhost.example", False), ("10.0.0.1", False), ("0.0.0.0", False)],
)  # fmt: skip
def test_which_hosts_are_this_machine(host, loopback):
    assert SmtpServer(host, 25, "none").is_loopback is loopback


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Shop <noreply@shop.example>", Sender("Shop", "noreply@shop.example")),
        (" Shop  <noreply@shop.example> ", Sender("Shop", "noreply@shop.example")),
        ('"Shop, Inc." <noreply@shop.example>', Sender("Shop, Inc.", "noreply@shop.example")),
        ("Größe <noreply@größe.example>", Sender("Größe", "noreply@xn--gre-6ka8i.example")),
        ("<noreply@shop.example>", Sender("", "noreply@shop.example")),
        ("noreply@shop.example", Sender("", "noreply@shop.example")),
        ("noreply@shop.test", Sender("", "noreply@shop.test")),
    ],
)
def test_a_sender_is_taken_apart(text, expected):
    assert sender(text) == expected


@pytest.mark.parametrize(
    "text",
    ["Shop", "Shop noreply@shop.example", "a@b.example, c@d.example", "<a@b.example> Shop", "größe@shop.example", "a@localhost",
     "Shop <a@b.example> <c@d.example>", "Shop\t<a@b.example>", "=?utf-8?q?x?= <a@b.example>", "a@b.example\n"],
)  # fmt: skip
def test_what_is_no_sender_is_refused(text):
    with pytest.raises(ValueError, match=r"^(is no|has|contains)"):
        sender(text)


@pytest.mark.parametrize(
    "url", ["https://shop.example/u", "https://shop.example/u?list=1", "https://shop.example:8443/"]
)
def test_an_unsubscribe_url_is_taken(url):
    assert unsubscribe_url(url) == url


@pytest.mark.parametrize(
    "url",
    ["http://shop.example/u", "https://", "https:///u", "https://shop.example/u#x", "https://shop.example/a b", "shop.example",
     "https://shop.example/>", "https://größe.example/", "https://shop.example/" + "x" * 300, "https://shop.example/\n"],
)  # fmt: skip
def test_an_unsubscribe_url_that_is_none_is_refused(url):
    with pytest.raises(ValueError, match=r"^(is no|has)"):
        unsubscribe_url(url)
