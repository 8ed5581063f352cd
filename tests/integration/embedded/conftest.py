"""Homes that are cleaned up, and users of them that are processes of their own."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import psutil
import psycopg2
import pytest
import redis

from reminders.embedded import attach, running

USER = """
import json, signal, sys
from pathlib import Path
from reminders.embedded import running
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
with running(Path(sys.argv[1])) as services:
    print(json.dumps([services.database_url, services.redis_url]), flush=True)
    sys.stdin.read()
"""


class User:
    """A process inside `running(home)`. It leaves when its standard input is closed."""

    def __init__(self, home, script=USER):
        self.process = subprocess.Popen(
            [sys.executable, "-c", script, str(home)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def urls(self):
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        return tuple(json.loads(line))

    def leave(self):
        _, errors = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, errors

    def kill(self, number=signal.SIGKILL):
        self.process.send_signal(number)
        _, self.errors = self.process.communicate(timeout=60)


@pytest.fixture
def open_homes():
    """The homes of this test. What still runs there at its end is stopped."""
    homes = []
    yield homes
    for home in homes:
        services = attach(home)
        if services:
            with running(home, postgres=bool(services.database_url), redis=bool(services.redis_url)):
                pass


@pytest.fixture
def user(open_homes):
    """Makes users; those that a test left are killed before its homes are closed."""
    users = []

    def make(home, **options):
        users.append(User(home, **options))
        return users[-1]

    yield make
    for one in users:
        if one.process.poll() is None:
            one.kill()


@pytest.fixture
def throwaway():
    """Homes whose data goes when the test ends, also what lies outside of them."""
    homes = []
    yield homes
    for home in homes:
        _remove_outside(home)


@pytest.fixture
def make_home(tmp_path, throwaway, open_homes):
    """Makes fresh home folders."""

    def make(name="home"):
        home = tmp_path / name
        throwaway.append(home)
        open_homes.append(home)
        return home

    return make


@pytest.fixture
def home(make_home):
    """A fresh home."""
    return make_home()


@pytest.fixture(scope="session")
def seasoned(tmp_path_factory):
    home = tmp_path_factory.mktemp("seasoned") / "home"
    with running(home):
        pass
    yield home
    _remove_outside(home)


@pytest.fixture
def used_home(seasoned, open_homes):
    """A home that was used before and is at rest: saves setting Postgres up again for every test."""
    open_homes.append(seasoned)
    return seasoned


def _remove_outside(home):
    if (home / "postgres").is_symlink():
        shutil.rmtree((home / "postgres").readlink())


class Probe:
    """Looks at servers from outside, without the code under test."""

    @staticmethod
    def sql(url, statement):
        connection = psycopg2.connect(url)
        try:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(statement)
                return cursor.fetchall() if cursor.description else None
        finally:
            connection.close()

    @staticmethod
    def redis(url, *command):
        client = redis.Redis.from_url(url, decode_responses=True)
        try:
            return client.execute_command(*command)
        finally:
            client.close()

    def pids(self, urls):
        """The main processes of Postgres and Redis, as they name themselves."""
        postmaster = self.sql(urls[0], "SELECT pg_read_file('postmaster.pid')")[0][0].splitlines()[0]
        return int(postmaster), int(self.redis(urls[1], "INFO", "server")["process_id"])

    @staticmethod
    def lives(pid):
        try:
            return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    def kill(self, pid):
        """End one server as the kernel does when memory is short."""
        os.kill(pid, signal.SIGKILL)
        self.until(lambda: not self.lives(pid))

    @staticmethod
    def until(condition, seconds=30):
        """Look until the condition holds; fail when it does not within `seconds`."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline
            threading.Event().wait(0.005)


@pytest.fixture
def probe():
    return Probe()
