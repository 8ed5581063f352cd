"""Servers that die under a user who watches them."""

from reminders.embedded import attach, kept_running, running


def test_a_killed_server_is_back_on_the_same_address_with_its_data(home, probe):
    with running(home) as services, kept_running(home, postgres=True, redis=True):
        urls = services.database_url, services.redis_url
        probe.sql(urls[0], "CREATE TABLE kept (n int)")
        probe.redis(urls[1], "SET", "kept", "1")
        before = probe.pids(urls)
        for pid in reversed(before):
            probe.kill(pid)
        probe.until(lambda: attach(home) == services, 60)
        assert set(probe.pids(urls)).isdisjoint(before)
        assert probe.sql(urls[0], "SELECT count(*) FROM kept") == [(0,)]
        # Written once a second.
        assert probe.redis(urls[1], "GET", "kept") in {"1", None}
    assert attach(home) is None


def test_a_server_that_nobody_asked_for_is_not_started(home, probe):
    with running(home, postgres=False) as services, kept_running(home, postgres=False, redis=True):
        pid = int(probe.redis(services.redis_url, "INFO", "server")["process_id"])
        probe.kill(pid)
        probe.until(lambda: attach(home) == services, 60)
        assert not (home / "postgres").exists()
