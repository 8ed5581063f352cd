"""Flower: closed to everybody without the password, which no process list shows."""

import re
import socket
import urllib.error
import urllib.request
from base64 import b64encode

import psutil
import pytest
from flower.urls import handlers

from held_ports import held_port, taken_port
from reminders.flower_port import PORTS

from .conftest import eventually

AUTH = "operator:with,comma:and-colon"
OPEN = {
    "/healthcheck",  # answers OK and nothing else; platforms ask it without credentials
    "/static/(.*)",  # Flower's own style sheets and scripts
    "/login/?",  # the page of other ways to log in; 404 with basic authentication
    "/logout",  # clears the caller's own cookie
    ".*",  # the page that says that there is no such page
}


def status(port, path, method="GET", auth=None):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method)
    if auth is not None:
        request.add_header("Authorization", "Basic " + b64encode(auth.encode()).decode())
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return None


def patterns():
    return [handler.regex.pattern.rstrip("$") if hasattr(handler, "regex") else handler[0] for handler in handlers]


@pytest.fixture
def taken():
    """A port of this machine that somebody listens on."""
    with taken_port() as port:
        yield port


def test_a_port_that_is_taken_when_flower_starts_is_said_in_one_line(probe, taken):
    argv = ["-m", "reminders.supervised", "--quiet", "-A", "reminders", "flower", f"--port={taken}"]
    process = probe.run([*argv, "--address=127.0.0.1"], REMINDERS_FLOWER_AUTH=AUTH)

    assert process.wait(30) == 1
    told = f"Flower cannot listen on port {taken}: Address already in use. Set PORT to another one"
    assert [line for line in probe.output().splitlines() if "INFO" not in line] == [told]


def test_flower_that_may_takes_the_next_port_each_time_it_starts(probe, taken):
    at_home = {"REMINDERS_FLOWER_AUTH": AUTH, PORTS: "50"}
    argv = ["-m", "reminders.supervised", "--quiet", "-A", "reminders", "flower", f"--port={taken}"]
    parent = probe.parent(("flower", [*argv, "--address=127.0.0.1"]), **at_home)

    said = re.compile(rf"Port {taken} is taken: Flower listens on http://127.0.0.1:([0-9]+)\n")
    first = int(eventually(lambda: said.search(probe.output()), 30)[1])
    assert taken < first < taken + 50
    eventually(lambda: status(first, "/", auth=AUTH) == 200, 30)
    (running,) = psutil.Process(parent.pid).children()
    running.kill()
    running.wait()
    with socket.create_server(("127.0.0.1", first)):
        eventually(lambda: len(said.findall(probe.output())) == 2, 30)
        second = int(said.findall(probe.output())[1])
        assert taken < second < taken + 50  # below the first, if one that was taken then is free again
        assert second != first
        eventually(lambda: status(second, "/", auth=AUTH) == 200, 30)
    assert "Traceback" not in probe.output()


@pytest.fixture
def port():
    """One that is Flower's, however long it takes to start."""
    with held_port() as port:
        yield port


@pytest.fixture
def flower(probe, port):
    process = probe.run(
        ["-m", "reminders.supervise", "flower"],
        REMINDERS_FLOWER_AUTH=AUTH,
        PORT=str(port),
        FLOWER_UNAUTHENTICATED_API="true",
        FLOWER_BASIC_AUTH="guest:guest",
    )
    eventually(lambda: status(port, "/healthcheck") == 200, 30)
    return process, port


def test_every_page_and_call_needs_the_password(flower, probe, broker_settings):
    process, port = flower
    closed = [pattern for pattern in patterns() if pattern not in OPEN]
    assert {"/", "/metrics", "/api/workers", "/api/task/send-task/(.+)"} <= set(closed)
    for pattern in closed:
        path = re.sub(r"\(.[+*]\)", "x", pattern)
        answers = {method: status(port, path, method) for method in ("GET", "POST")}
        assert set(answers.values()) <= {401, 405}, (pattern, answers)
        assert 401 in answers.values(), pattern

    for guess in ("guest:guest", "operator:with", "comma:and-colon", "operator:", "", AUTH + "x"):
        assert status(port, "/", auth=guess) == 401, guess
    assert status(port, "/", auth=AUTH) == 200
    assert status(port, "/broker", auth=AUTH) == 200

    family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    assert len(family) == 2
    assert not any("comma" in argument for each in family for argument in each.cmdline())
    listening = {c.laddr.ip for c in family[1].net_connections() if c.status == psutil.CONN_LISTEN}
    assert listening == {"0.0.0.0"}


def test_flower_started_by_hand_is_closed_too(probe, port):
    probe.run(
        ["-m", "celery", "-A", "reminders", "flower", f"--port={port}"],
        REMINDERS_FLOWER_AUTH=AUTH,
        FLOWER_BASIC_AUTH="guest:guest",
    )
    eventually(lambda: status(port, "/healthcheck") == 200, 30)
    assert status(port, "/", auth="guest:guest") == 401
    assert status(port, "/metrics") == 401
    assert status(port, "/", auth=AUTH) == 200


def test_flower_started_by_hand_refuses_as_well(probe, port):
    process = probe.run(["-m", "celery", "-A", "reminders", "flower", f"--port={port}"])

    assert process.wait(20) == 1
    assert probe.output().splitlines()[-1] == "Set REMINDERS_FLOWER_AUTH=user:password"
    assert "Traceback" not in probe.output()


@pytest.mark.parametrize(
    ("environ", "said"),
    [({}, "REMINDERS_FLOWER_AUTH=user:password"), ({"REMINDERS_FLOWER_AUTH": "operator:pässwörter"}, "ASCII")],
)
def test_flower_refuses_to_start_without_a_password_it_can_use(probe, environ, said):
    process = probe.run(["-m", "reminders.supervise", "flower"], **environ)

    assert process.wait(20) == 1
    assert said in probe.output()
    assert len(probe.output().strip().splitlines()) == 2
