"""Who starts the embedded servers, who joins them, and who stops them."""

import os
import signal
import time

import kombu
import psycopg2
import pytest
import redis
import sqlalchemy

from reminders.embedded import attach, running


def computing_seconds():
    """Of this process and of those that it has waited for, such as the one that sets Postgres up."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def test_a_cold_start_gives_servers_that_keep_what_they_acknowledge(home, probe):
    assert attach(home) is None
    started, computed = time.monotonic(), computing_seconds()
    with running(home) as services:
        # Aim: 2 s on two cores that have nothing else to do, about half of it computing; with a threefold margin. On a busy
        # machine the cores of others are waited for besides.
        assert computing_seconds() - computed < 4
        assert time.monotonic() - started < 60
        shown = {
            name: probe.sql(services.database_url, f"SHOW {name}")[0][0]
            for name in ("fsync", "synchronous_commit", "listen_addresses", "timezone", "max_connections")
        }
        assert shown == {
            "fsync": "on",
            "synchronous_commit": "on",
            "listen_addresses": "",
            "timezone": "UTC",
            "max_connections": "200",
        }
        encoding = "SELECT current_database(), pg_encoding_to_char(encoding), datlocale FROM pg_database WHERE datname = current_database()"
        assert probe.sql(services.database_url, encoding) == [("reminders", "UTF8", "C.UTF-8")]
        kept = {name: probe.redis(services.redis_url, "CONFIG", "GET", name) for name in ("appendonly", "appendfsync")}
        assert kept == {"appendonly": {"appendonly": "yes"}, "appendfsync": {"appendfsync": "everysec"}}
        assert probe.redis(services.redis_url, "CONFIG", "GET", "maxmemory-policy") == {
            "maxmemory-policy": "noeviction"
        }
        assert probe.redis(services.redis_url, "CONFIG", "GET", "bind") == {"bind": "127.0.0.1"}
        assert attach(home) == services
    assert attach(home) is None


def test_the_urls_suit_sqlalchemy_and_kombu_and_nobody_who_guesses_the_passwords(used_home, probe):
    with running(used_home) as services:
        engine = sqlalchemy.create_engine(services.database_url.replace("postgresql://", "postgresql+psycopg2://"))
        with engine.connect() as connection:
            assert connection.scalar(sqlalchemy.text("SELECT 41 + 1")) == 42
        engine.dispose()
        with kombu.Connection(services.redis_url) as broker:
            queue = broker.SimpleQueue("embedded-test")
            queue.put({"id": 7})
            assert queue.get(timeout=30).payload == {"id": 7}
            queue.close()
        password = services.database_url.split(":")[2].split("@")[0]
        with pytest.raises(psycopg2.OperationalError, match="password authentication failed"):
            psycopg2.connect(services.database_url.replace(password, "guess"))
        assert password not in repr(services)
        password = services.redis_url.split(":")[2].split("@")[0]
        with pytest.raises(redis.AuthenticationError):
            probe.redis(services.redis_url.replace(password, "guess"), "PING")
        assert password not in repr(services)


def test_a_second_user_joins_and_the_last_one_stops_the_servers(used_home, user, probe):
    first = user(used_home)
    urls = first.urls()
    pids = probe.pids(urls)
    second = user(used_home)
    assert second.urls() == urls
    started = time.monotonic()
    with running(used_home) as services:
        # Aim: half a second, with the threefold margin.
        assert time.monotonic() - started < 1.5
        assert (services.database_url, services.redis_url) == urls
    first.leave()
    assert probe.pids(urls) == pids
    second.leave()
    assert [probe.lives(pid) for pid in pids] == [False, False]


def test_two_that_come_at_once_share(home, user, probe):
    users = [user(home) for _ in range(2)]
    urls = [one.urls() for one in users]
    assert urls[0] == urls[1]
    pids = probe.pids(urls[0])
    # Both leave at once too.
    for one in users:
        one.process.stdin.close()
    assert [one.process.wait(timeout=60) for one in users] == [0, 0]
    assert [probe.lives(pid) for pid in pids] == [False, False]


def test_only_what_is_asked_for_is_started(home, user):
    with running(home, postgres=False) as services:
        assert services.database_url == ""
        assert attach(home) == services
        assert not (home / "postgres").exists()


def test_two_homes_do_not_know_of_each_other(home, used_home, user, probe):
    first = user(home)
    with running(used_home) as services:
        urls = first.urls()
        assert services.database_url != urls[0]
        assert services.redis_url != urls[1]
        probe.sql(urls[0], "CREATE TABLE only_in_one ()")
        probe.redis(urls[1], "SET", "only", "in one")
        assert probe.sql(services.database_url, "SELECT to_regclass('only_in_one')") == [(None,)]
        assert probe.redis(services.redis_url, "GET", "only") is None
    assert probe.redis(urls[1], "GET", "only") == "in one"


def test_ctrl_c_ends_the_servers(used_home, user, probe):
    holder = user(used_home)
    pids = probe.pids(holder.urls())
    holder.kill(signal.SIGINT)
    assert [probe.lives(pid) for pid in pids] == [False, False]


@pytest.mark.parametrize("seen", ["redis/redis.conf", "postgres/data.new-*"])
def test_ctrl_c_during_the_start_leaves_nothing_running(home, user, probe, seen):
    starter = user(home)
    probe.until(lambda: list(home.glob(seen)))
    starter.kill(signal.SIGINT)
    assert "KeyboardInterrupt" in starter.errors
    assert attach(home) is None
    with running(home) as services:
        assert attach(home) == services


FORKING = """
import json, os, sys
from pathlib import Path
import redis
from reminders.embedded import running
with running(Path(sys.argv[1]), postgres=False) as services:
    child = os.fork()
    if child:
        assert os.waitpid(child, 0)[1] == 0
        print(json.dumps(["pong", redis.Redis.from_url(services.redis_url).ping()]), flush=True)
if not child:
    os._exit(0)
"""


def test_a_forked_child_that_unwinds_the_block_stops_nothing(home, user):
    assert user(home, script=FORKING).urls() == ("pong", True)
