"""The catchers say nothing about callers that die in the middle of what they say."""

import socket
import struct
import threading
from urllib.parse import urlsplit

import pytest

from reminders.receiver.mail_catcher import MailCatcher
from reminders.receiver.sms_catcher import SmsCatcher

FORM = b"To=%2B4915112345678&From=%2B15005550006&Body=hello"
PATH = b"POST /2010-04-01/Accounts/ACcatcher/Messages.json HTTP/1.1\r\n"
HEADERS = b"Authorization: Basic QUM6YW55\r\nContent-Length: %d\r\n\r\n" % len(FORM)
MAIL = b"EHLO x\r\nMAIL FROM:<a@shop.example>\r\nRCPT TO:<b@c.example>\r\nDATA\r\n"


def let_die(url, said, good, answer):
    """Callers that say so much and are gone as killed processes are: with a reset. Return once the catcher knows."""
    before = set(threading.enumerate())
    address = urlsplit(url).hostname, urlsplit(url).port
    for _ in range(20):
        with socket.create_connection(address) as caller:
            caller.sendall(said)
            caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    # Whoever is answered came after them, and each has a thread by then.
    with socket.create_connection(address, timeout=10) as caller, caller.makefile("rb") as answers:
        caller.sendall(good)
        assert answers.readline().startswith(answer)
    for thread in set(threading.enumerate()) - before:
        thread.join(30)
        assert not thread.is_alive()


@pytest.mark.parametrize("said", [b"", PATH, PATH + HEADERS, PATH + HEADERS + FORM, 50 * (PATH + HEADERS + FORM)])
def test_sms(said, capfd):
    with SmsCatcher(0) as catcher:
        let_die(catcher.url, said, PATH + HEADERS + FORM, b"HTTP/1.1 201 ")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("said", [b"", MAIL[:20], MAIL, MAIL + b"Subject: x\r\n\r\nhello\r\n.\r\nQUIT\r\n", 50 * MAIL])
def test_mail(said, capfd):
    with MailCatcher() as catcher:
        let_die(catcher.url, said, b"QUIT\r\n", b"220 ")
    assert capfd.readouterr() == ("", "")
