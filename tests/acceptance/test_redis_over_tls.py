"""Redis behind TLS: by an authority of one's own, or unverified, as Heroku's needs it; and by neither, nothing is sent."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import trustme

from acceptance.harness import Stack, installation, wait_until
from acceptance.scripted_receiver import ScriptedReceiver
from reminders.broker.link import BrokerAway, Link
from reminders.settings import Secret


class TlsInFront:
    """Ends TLS and passes on what comes to a plain Redis."""

    def __init__(self, port: int, authority: trustme.CA, *names: str) -> None:
        self._behind = port
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert(*names).configure_cert(self._context)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                plain, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(plain,), daemon=True).start()

    def _serve(self, plain: socket.socket) -> None:
        with suppress(OSError):
            ours = self._context.wrap_socket(plain, server_side=True)
            theirs = socket.create_connection(("127.0.0.1", self._behind))
            threading.Thread(target=self._carry, args=(theirs, ours), daemon=True).start()
            self._carry(ours, theirs)

    @staticmethod
    def _carry(source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError, ValueError):
            while part := source.recv(65536):
                sink.sendall(part)
        for each in (source, sink):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listening.close()


@pytest.fixture
def stack(home: Path) -> Iterator[Stack]:
    with installation(home, REMINDERS_PROCESSES="1", REMINDERS_CONCURRENCY="4") as stack:
        yield stack


@pytest.fixture
def authority(tmp_path: Path) -> tuple[trustme.CA, str]:
    made = trustme.CA()
    file = tmp_path / "ca.pem"
    made.cert_pem.write_to_path(str(file))
    return made, str(file)


def behind(stack: Stack, front: TlsInFront, host: str = "localhost") -> str:
    plain = urlsplit(stack.services.redis_url)
    return f"rediss://:{plain.password}@{host}:{front.port}{plain.path}"


@pytest.mark.timeout(150)
def test_an_installation_over_tls(stack: Stack, receiver: ScriptedReceiver, authority: tuple[trustme.CA, str]) -> None:
    ca, file = authority
    front = TlsInFront(int(urlsplit(stack.services.redis_url).port or 0), ca, "localhost")
    url = behind(stack, front)
    stack.start("beat", "scanner", REDIS_URL=url, REMINDERS_REDIS_CA=file)
    stack.start("worker", "web", REDIS_URL=url, REMINDERS_REDIS_CA="unverified", PORT="0")
    made = stack.schedule(receiver.url, [f"r{number}" for number in range(20)])
    stack.wait_all("delivered", len(made), 60)
    assert set(receiver.calls.values()) == {1}
    stack.environ |= {"REDIS_URL": url, "REMINDERS_REDIS_CA": file}
    told = stack.cli("status")
    assert "deliver1" in told.stdout
    assert "away" not in told.stdout
    stack.call("reminders.rate_list", "--kwargs", '{"actor": "a", "reason": "r"}')
    wait_until(lambda: "broker.unverified" in stack.log("web"), 30, "Flower says it too")
    assert "broker.unverified: the check of the broker's certificate is turned off" in stack.log("worker")
    assert "broker.unverified" not in stack.log("scanner") + stack.log("beat")
    stack.stop()
    front.close()


def test_whom_nobody_vouches_for_is_not_talked_to(stack: Stack, authority: tuple[trustme.CA, str]) -> None:
    ca, file = authority
    port = int(urlsplit(stack.services.redis_url).port or 0)
    right, wrong_name = TlsInFront(port, ca, "localhost"), TlsInFront(port, ca, "elsewhere.example")
    stranger = TlsInFront(port, trustme.CA(), "localhost")
    for front, given, may in (
        (right, file, True),
        (right, "unverified", True),
        (stranger, "unverified", True),
        (right, None, False),
        (stranger, file, False),
        (wrong_name, file, False),
    ):
        link = Link(replace(stack.settings, redis_url=Secret(behind(stack, front)), redis_ca=given))
        if may:
            with link.redis() as client:
                assert client.ping()
        else:
            with pytest.raises(BrokerAway, match="certificate"), link.redis() as client:
                client.ping()
        link.close()
    for front in (right, wrong_name, stranger):
        front.close()
