"""Whatever is killed, the next user finds the rows and keys that were acknowledged."""

import os
import signal
import threading

import psycopg2
import pytest

from reminders.domain.errors import ServiceUnavailable
from reminders.embedded import attach, running


@pytest.fixture
def crashed(used_home, user, probe):
    """Call it to kill the only user and the given servers, after a row was committed and a key set."""

    def crash(*, postgres, redis):
        holder = user(used_home)
        urls = holder.urls()
        pids = probe.pids(urls)
        probe.sql(urls[0], "DROP TABLE IF EXISTS kept")
        probe.sql(urls[0], "CREATE TABLE kept (id int)")
        probe.sql(urls[0], "INSERT INTO kept VALUES (42)")
        probe.redis(urls[1], "SET", "kept", "42")
        holder.kill()
        for pid, killed in zip(pids, (postgres, redis), strict=True):
            if killed:
                probe.kill(pid)
        return urls, pids

    return crash


def kept(probe, services):
    return probe.sql(services.database_url, "SELECT id FROM kept"), probe.redis(services.redis_url, "GET", "kept")


KEPT = ([(42,)], "42")


def test_servers_of_a_killed_user_are_adopted_and_then_stopped(used_home, crashed, probe):
    urls, pids = crashed(postgres=False, redis=False)
    with running(used_home) as services:
        assert (services.database_url, services.redis_url) == urls
        assert probe.pids(urls) == pids
        assert kept(probe, services) == KEPT
    assert [probe.lives(pid) for pid in pids] == [False, False]


@pytest.mark.parametrize(("postgres", "redis"), [(True, False), (True, True)])
def test_killed_servers_are_replaced_where_their_clients_look_for_them(used_home, crashed, probe, postgres, redis):
    urls, pids = crashed(postgres=postgres, redis=redis)
    with running(used_home) as services:
        assert (services.database_url, services.redis_url) == urls
        assert kept(probe, services) == KEPT
        now = probe.pids(urls)
        assert [new != old for new, old in zip(now, pids, strict=True)] == [postgres, redis]


def test_a_server_killed_under_a_living_user_is_replaced_for_both(used_home, user, probe):
    with running(used_home) as services:
        urls = (services.database_url, services.redis_url)
        for pid in probe.pids(urls):
            probe.kill(pid)
        assert user(used_home).urls() == urls
        assert probe.sql(urls[0], "SELECT 1") == [(1,)]


def test_a_busy_backend_that_outlives_its_postmaster_does_not_block_the_start(used_home, crashed, probe):
    urls, pids = crashed(postgres=False, redis=True)
    busy = psycopg2.connect(urls[0])
    backend = busy.info.backend_pid
    endless = threading.Thread(target=_run_until_killed, args=(busy,))
    endless.start()
    state = f"SELECT state FROM pg_stat_activity WHERE pid = {backend}"
    probe.until(lambda: probe.sql(urls[0], state) == [("active",)])
    probe.kill(pids[0])
    assert probe.lives(backend)
    with running(used_home) as services:
        assert kept(probe, services) == KEPT
        assert not probe.lives(backend)
    endless.join(timeout=10)
    busy.close()


def _run_until_killed(connection):
    with connection.cursor() as cursor, pytest.raises(psycopg2.OperationalError):
        cursor.execute("SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 1000000) b")


def test_a_stale_pid_file_that_names_a_living_stranger_does_not_stop_the_start(used_home, crashed, probe):
    crashed(postgres=True, redis=True)
    # The same user's process, which Postgres alone would take for its predecessor for ever.
    stale = used_home / "postgres" / "data" / "postmaster.pid"
    owner = stale.stat()
    stranger = os.fork()
    if not stranger:
        if os.geteuid() == 0:
            os.setuid(owner.st_uid)
        signal.pause()
    try:
        lines = stale.read_text().splitlines()
        stale.write_text("\n".join([str(stranger), *lines[1:]]) + "\n")
        for lock in ("postgres.lock", "redis.lock"):
            (used_home / lock).write_text(f"{stranger}\n{stranger} (sh) S {'0 ' * 40}\n")
        with running(used_home) as services:
            assert kept(probe, services) == KEPT
        assert probe.lives(stranger)
    finally:
        os.kill(stranger, signal.SIGKILL)
        os.waitpid(stranger, 0)


def test_a_user_killed_while_it_sets_postgres_up_leaves_no_half_made_cluster(home, user, probe):
    starter = user(home)
    probe.until(lambda: list(home.glob("postgres/data.new-*/*")))
    starter.kill()
    with running(home) as services:
        assert probe.sql(services.database_url, "SELECT 1") == [(1,)]
    with running(home, redis=False):
        names = {path.name for path in (home / "postgres").iterdir() if path.is_dir()}
        assert names == {"data"}


def test_an_append_only_file_with_a_torn_end_loads(used_home, crashed, probe):
    crashed(postgres=False, redis=True)
    with (used_home / "redis" / "appendonly.aof").open("ab") as file:
        file.write(b"*3\r\n$3\r\nSET\r\n$4\r\nto")
    with running(used_home) as services:
        assert kept(probe, services) == KEPT


def test_a_redis_that_does_not_know_our_password_is_replaced_on_its_data(used_home, crashed, probe):
    urls, pids = crashed(postgres=False, redis=False)
    (used_home / "redis" / "redis.conf").unlink()
    with running(used_home) as services:
        assert services.redis_url != urls[1]
        assert not probe.lives(pids[1])
        assert kept(probe, services) == KEPT


@pytest.mark.parametrize("server", ["postgres", "redis"])
def test_a_server_whose_lock_file_was_removed_is_not_started_twice(used_home, crashed, probe, server):
    crashed(postgres=False, redis=False)
    lock = used_home / f"{server}.lock"
    lock.rename(used_home / "away")
    wanted = {"postgres": server == "postgres", "redis": server == "redis"}
    with pytest.raises(ServiceUnavailable, match="somebody removed its lock file"), running(used_home, **wanted):
        pass
    (used_home / "away").rename(lock)
    with running(used_home) as services:
        assert kept(probe, services) == KEPT


def test_a_start_that_fails_shows_the_last_words_of_the_log(home):
    with running(home):
        pass
    (home / "postgres" / "data" / "PG_VERSION").write_text("99\n")
    with pytest.raises(ServiceUnavailable) as failed, running(home, redis=False):
        pass
    first, second = str(failed.value).splitlines()
    assert "FATAL:  database files are incompatible with server" in first
    assert str((home / "postgres").resolve() / "server.log") in second
    assert "DATABASE_URL" in second
    (home / "redis" / "appendonly.aof").write_text("this is no append-only file\n")
    with pytest.raises(ServiceUnavailable, match="Bad file format reading the append only file") as failed, running(home, postgres=False):  # fmt: skip
        pass
    assert str(home / "redis" / "server.log") in str(failed.value)
    assert "REDIS_URL" in str(failed.value)
    assert attach(home) is None
