"""The options: what must hold for them to fit together and to the design."""

import importlib
import logging
import os
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
from celery import Celery
from flower.utils.broker import Broker
from kombu import Queue

from reminders.broker import transport
from reminders.celery_options import QUEUES, broker_url, options, split_tls, tell_if_unverified
from reminders.domain.errors import SettingsError
from reminders.settings import Secret, Settings


def settings(url="redis://localhost:6390/0", **more):
    return Settings(redis_url=Secret(url), **more)


def app_with(given):
    app = Celery("test", set_as_current=False, amqp="reminders.broker.transport:AMQP")
    app.conf.update(options(given))
    return app


def test_only_json_is_written_and_read():
    given = options(settings())
    assert given["task_serializer"] == "json"
    assert given["accept_content"] == ["json"]


def test_acknowledged_late_and_never_run_again_by_the_broker_itself():
    given = options(settings())
    assert given["task_acks_late"] is True
    assert given["task_reject_on_worker_lost"] is False
    assert given["worker_cancel_long_running_tasks_on_connection_loss"] is False


def test_every_process_has_the_same_visibility_timeout():
    assert options(settings(visibility=123.0))["broker_transport_options"]["visibility_timeout"] == 123


def test_there_are_more_connections_than_threads():
    given = options(settings(concurrency=64))
    assert given["broker_transport_options"]["max_connections"] > 2 * 64
    assert given["broker_pool_limit"] > 64


def test_an_uncertain_publish_is_not_repeated_unseen():
    with app_with(settings()).connection_for_write() as connection:
        assert connection.transport.supports_batch_publish


def test_queues_need_no_binding():
    queues = options(settings())["task_queues"]
    assert [queue.name for queue in queues] == list(QUEUES)
    assert all(isinstance(queue, Queue) and queue.exchange.name == "" for queue in queues)
    kept = app_with(settings()).amqp.queues
    assert {name: queue.exchange.name for name, queue in kept.items()} == dict.fromkeys(QUEUES, "")


@pytest.mark.parametrize(
    ("task", "queue"),
    [
        ("reminders.scan_due", "scan"),
        ("reminders.deliver", "deliver"),
        ("reminders.redrive_dead_letters", "maintenance"),
        ("reminders.added_one_day", "maintenance"),
    ],
)
def test_tasks_go_to_their_queue(task, queue):
    assert app_with(settings()).amqp.router.route({}, task)["queue"].name == queue


def test_an_unknown_queue_is_an_error():
    with pytest.raises(Exception, match="delivr"):
        app_with(settings()).amqp.router.route({"queue": "delivr"}, "reminders.deliver")


def test_a_tick_lives_as_long_as_its_period():
    entry = options(settings(scan_every=7.0))["beat_schedule"]["scan-due"]
    assert entry["schedule"] == 7.0
    assert entry["options"]["expires"] == 7.0


def test_beat_keeps_no_file():
    assert options(settings())["beat_scheduler"] == "celery.beat:Scheduler"


@pytest.mark.parametrize(("events", "expected"), [("all", None), ("control", False)])
def test_the_deliver_task_is_silent_when_events_are_for_control_only(events, expected):
    annotations = options(settings(flower_events=events))["task_annotations"]
    assert annotations.get("reminders.deliver", {}).get("send_events") is expected


def test_messages_repeat_no_argument_whoever_sends_them():
    app = app_with(settings())
    message = app.amqp.create_task_message("id", "reminders.deliver", ("private",), {"also": "private"})
    assert message.headers["argsrepr"] == message.headers["kwargsrepr"] == "-"


def test_the_password_does_not_show():
    app = app_with(settings("redis://user:hidden-word@localhost:6390/0"))
    assert "hidden-word" not in app.bugreport()
    assert "hidden-word" not in app.conf.humanize(with_defaults=True)
    assert "hidden-word" not in str(app.conf.table(with_defaults=True))  # what remote control and Flower show
    with app.connection_for_read() as connection:
        assert "hidden-word" not in connection.as_uri()


@pytest.mark.parametrize("url", ["redis://localhost:6390/3", "rediss://localhost:6390/3", "redis+socket:///run/r.sock"])
def test_every_scheme_gets_our_transport_and_an_address_that_flower_reads(url):
    app = app_with(settings(url))
    with app.connection_for_write() as connection:
        assert connection.get_transport_cls() is transport.Transport
        assert connection.clone().get_transport_cls() is transport.Transport
        shown = connection.as_uri(include_password=True)
    broker = Broker(shown, broker_options=app.conf.broker_transport_options, broker_use_ssl=app.conf.broker_use_ssl)
    assert broker.broker_prefix == "reminders:"
    assert list(broker.priority_steps) == [0]


def test_another_app_of_the_process_keeps_its_transport():
    other = Celery("other", set_as_current=False, broker="redis://localhost:6390/0")
    with other.connection_for_write() as connection:
        assert connection.get_transport_cls() is not transport.Transport


def test_a_unix_socket_may_be_written_as_redis_writes_it():
    assert (
        broker_url(settings("unix:///run/redis.sock?virtual_host=1")) == "redis+socket:///run/redis.sock?virtual_host=1"
    )


@pytest.mark.parametrize("url", ["amqp://localhost", "localhost:6379", "http://localhost"])
def test_other_brokers_are_refused(url):
    with pytest.raises(SettingsError, match="REDIS_URL"):
        broker_url(settings(url))


def test_without_any_redis_two_lines_say_what_to_do(tmp_path):
    with pytest.raises(SettingsError) as caught:
        broker_url(Settings(home=tmp_path))
    first, second = str(caught.value).splitlines()
    assert "REDIS_URL is not set" in first
    assert "reminders up" in second


def test_tls_is_verified_unless_the_address_says_otherwise(caplog):
    assert split_tls("rediss://h:1/0") == ("rediss://h:1/0", {"ssl_cert_reqs": ssl.CERT_REQUIRED})
    assert split_tls("redis://h:1/0") == ("redis://h:1/0", False)
    url, tls = split_tls("rediss://h:1/0?ssl_ca_certs=/etc/ca.pem&client_name=x")
    assert url == "rediss://h:1/0?client_name=x"
    assert tls == {"ssl_cert_reqs": ssl.CERT_REQUIRED, "ssl_ca_certs": "/etc/ca.pem"}

    _, off = split_tls("rediss://h:1/0?ssl_cert_reqs=none")
    assert off == {"ssl_cert_reqs": ssl.CERT_NONE, "ssl_check_hostname": False}
    with caplog.at_level(logging.WARNING):
        for other in (False, {"ssl_cert_reqs": ssl.CERT_REQUIRED}):
            tell_if_unverified(other)
        assert caplog.text == ""
        tell_if_unverified(off)
    assert "certificate" in caplog.text
    with pytest.raises(SettingsError, match="required, optional or none"):
        split_tls("rediss://h:1/0?ssl_cert_reqs=maybe")


def test_an_authority_of_ones_own_and_none_at_all(tmp_path):
    ca = tmp_path / "ca.pem"
    ca.write_text("certificates")
    assert split_tls("rediss://h:1/0", str(ca))[1] == {"ssl_cert_reqs": ssl.CERT_REQUIRED, "ssl_ca_certs": str(ca)}
    assert split_tls("rediss://h:1/0", "unverified")[1] == {"ssl_cert_reqs": ssl.CERT_NONE, "ssl_check_hostname": False}
    assert split_tls("redis://h:1/0", "unverified")[1] is False
    assert split_tls("rediss://h:1/0?ssl_cert_reqs=required", "unverified")[1] == {"ssl_cert_reqs": ssl.CERT_REQUIRED}
    with pytest.raises(SettingsError, match="REMINDERS_REDIS_CA: there is no file"):
        split_tls("rediss://h:1/0", "/nowhere/ca.pem")


def test_tls_reaches_the_connection():
    with app_with(settings("rediss://h:1/0")).connection_for_write() as connection:
        assert connection.ssl == {"ssl_cert_reqs": ssl.CERT_REQUIRED}


def test_the_app_reads_its_settings_late_and_again_after_a_failure(tmp_path):
    script = (
        "import os\n"
        "from reminders.celery import app\n"
        "try: app.conf.broker_url\n"
        "except Exception as error: print(type(error).__name__)\n"
        "os.environ['REDIS_URL'] = 'redis://localhost:6390/7'\n"
        "print(app.conf.broker_url)\n"
    )
    environ = {**os.environ, "REMINDERS_HOME": str(tmp_path)}
    run = subprocess.run([sys.executable, "-c", script], env=environ, capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == ["SettingsError", "redis://localhost:6390/7"]


def test_celeryconfig_is_the_same_options(monkeypatch):
    monkeypatch.setenv("REDIS_URL", "redis://localhost:6390/0")
    monkeypatch.syspath_prepend(Path(__file__).parents[2])
    module = importlib.import_module("celeryconfig")
    expected = options(settings())
    assert {name: getattr(module, name) for name in expected if name != "task_queues"} == {
        name: option for name, option in expected.items() if name != "task_queues"
    }
