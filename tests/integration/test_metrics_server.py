"""The scrape endpoint: open to whoever knows the token, to nobody else, and to no other path."""

from __future__ import annotations

import asyncio
import base64
import socket
import threading
from collections.abc import Iterator
from http.client import HTTPConnection

import pytest
import requests

from reminders.operate import metrics_server
from reminders.operate.metrics_server import MetricsServer
from reminders.settings import Secret

TOKEN = "a-token-of-some-length-0123"


class Served:
    """The endpoint in a thread of its own, over a scrape that counts itself."""

    def __init__(self) -> None:
        self.scrapes = 0
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self._thread.start()
        assert self._started.wait(10)
        self.url = f"http://127.0.0.1:{self.port}/metrics"

    async def _serve(self) -> None:
        self._stop, self._loop = asyncio.Event(), asyncio.get_running_loop()
        server = MetricsServer(self._scrape, Secret(TOKEN), host="127.0.0.1", port=0)
        self.port = server.port
        self._loop.call_soon(self._started.set)
        await server.serve(self._stop)

    def _scrape(self) -> bytes:
        self.scrapes += 1
        return f"scrapes {self.scrapes}\n".encode()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)
        assert not self._thread.is_alive()


@pytest.fixture
def served() -> Iterator[Served]:
    served = Served()
    yield served
    served.stop()


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.mark.parametrize(
    "given", [f"Bearer {TOKEN}", f"bearer  {TOKEN} ", basic("prometheus", TOKEN), basic("", TOKEN)]
)
def test_whoever_knows_the_token_is_answered(served, given):
    answer = requests.get(served.url, headers={"Authorization": given}, timeout=10)
    assert (answer.status_code, answer.text) == (200, "scrapes 1\n")
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert answer.headers["Cache-Control"] == "no-store"
    assert "Server" not in answer.headers


@pytest.mark.parametrize(
    "given",
    [
        None, "", "Bearer", "Bearer ", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Token {TOKEN}", TOKEN,
        basic(TOKEN, ""), basic("u", "wrong"), "Basic !!!", "Basic " + TOKEN, f"Bearer {TOKEN} {TOKEN}", "Bearer \xe9",
    ],
)  # fmt: skip
def test_nobody_else_is_and_nothing_is_drawn_for_them(served, given):
    headers = {} if given is None else {"Authorization": given.encode("latin-1")}
    answer = requests.get(served.url, headers=headers, timeout=10)
    assert (answer.status_code, answer.text) == (401, "Unauthorized\n")
    assert "Bearer" in answer.headers["WWW-Authenticate"]
    assert served.scrapes == 0


@pytest.mark.parametrize("path", ["/", "/metrics/", "/metrics/../x", "/debug", "/favicon.ico"])
def test_there_is_nothing_else(served, path):
    connection = HTTPConnection("127.0.0.1", served.port, timeout=10)
    connection.request("GET", path, headers={"Authorization": f"Bearer {TOKEN}"})
    assert connection.getresponse().status == 404
    connection.close()
    assert served.scrapes == 0


def test_nothing_can_be_sent(served):
    headers = {"Authorization": f"Bearer {TOKEN}"}
    assert requests.post(served.url, headers=headers, timeout=10).status_code == 405
    assert served.scrapes == 0


def test_many_observers_cost_as_much_as_one(served, monkeypatch):
    headers = {"Authorization": f"Bearer {TOKEN}"}
    monkeypatch.setattr(metrics_server, "GOOD_FOR", 60.0)
    texts = {requests.get(served.url, headers=headers, timeout=10).text for _ in range(20)}
    assert (served.scrapes, texts) == (1, {"scrapes 1\n"})
    monkeypatch.setattr(metrics_server, "GOOD_FOR", 0.0)
    assert requests.get(served.url, headers=headers, timeout=10).text == "scrapes 2\n"


def test_who_sends_nothing_holds_nobody_up(served):
    with socket.create_connection(("127.0.0.1", served.port)):
        answer = requests.get(served.url, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=10)
    assert answer.status_code == 200
