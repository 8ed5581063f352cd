"""The Flask example: called by our own webhook provider, over a real socket; and run as its README says."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from werkzeug.serving import make_server

from held_ports import held_port
from integration.raw_receiver import MASTER, delivery, post
from reminders.domain.outcomes import Delivered, Rejected, Retry
from reminders.providers.signing import derive_secret, format_secret, sign
from reminders.providers.webhook import WebhookProvider
from reminders.receiver import kit
from reminders.settings import Secret, Settings

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "flask_receiver"
PROVIDER = WebhookProvider(Settings(webhook_secret=Secret(MASTER), allow_private=True))
OLD = b"o" * 32


def load_example():
    spec = spec_from_file_location("flask_receiver_example", EXAMPLE / "app.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def secret_of(url: str) -> str:
    return format_secret(derive_secret(MASTER.encode(), "acme", "webhook", url))


class Served:
    def __init__(self, database: Path) -> None:
        self.database = database
        # The socket first: the secret is that of the URL.
        listener = socket.create_server(("127.0.0.1", 0))
        self.port = listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/hook"
        example = load_example()
        example.BUSY_SECONDS = 0.05
        app = example.create_app(str(database), f"{format_secret(OLD)} {secret_of(self.url)}")
        self.server = make_server("127.0.0.1", 0, app, threaded=True, fd=listener.fileno())
        listener.close()  # the server has a copy
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def notices(self):
        with closing(sqlite3.connect(self.database)) as connection:
            return connection.execute("SELECT user_id, kind, reference FROM notices").fetchall()

    def call(self, body: bytes, key: str = "dk_raw", secret: bytes = OLD) -> int:
        now = int(time.time())
        headers = {
            "webhook-id": key,
            "webhook-timestamp": str(now),
            "webhook-signature": sign([secret], key, now, body),
        }
        try:
            with urlopen(Request(self.url, body, headers), timeout=10) as reply:
                return reply.status
        except HTTPError as error:
            with error:
                return error.code


@pytest.fixture
def served(tmp_path) -> Iterator[Served]:
    one = Served(tmp_path / "received.sqlite")
    yield one
    one.server.shutdown()
    one.server.server_close()


def test_each_key_is_applied_once_and_a_repeat_is_answered_like_the_first(served):
    assert post(PROVIDER, served.url) == Delivered(None, 200)
    assert post(PROVIDER, served.url, attempt=2) == Delivered(None, 200)
    assert served.notices() == [("anna", "invoice", "order-7")]
    assert post(PROVIDER, served.url, delivery_key="dk_2", reference=None) == Delivered(None, 200)
    assert served.notices() == [("anna", "invoice", "order-7"), ("anna", "invoice", None)]


def test_another_body_under_a_known_key_is_a_conflict(served):
    post(PROVIDER, served.url)
    result = post(PROVIDER, served.url, user_id="eve")
    assert isinstance(result, Rejected)
    assert (result.status_code, result.may_be_our_own) == (409, True)
    assert served.notices() == [("anna", "invoice", "order-7")]


def test_a_signature_of_another_tenant_or_secret_is_refused_and_nothing_is_stored(served):
    result = post(PROVIDER, served.url, tenant_id="evil")
    assert isinstance(result, Rejected)
    assert result.status_code == 401
    assert served.call(b"{}", secret=b"x" * 32) == 401
    assert served.notices() == []


def test_during_a_rotation_both_secrets_are_good(served):
    body = PROVIDER.render(delivery(served.url, delivery_key="dk_old"))
    assert served.call(body, key="dk_old") == 200
    assert post(PROVIDER, served.url) == Delivered(None, 200)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b"\xff",
        b'{"v":2,"key":"dk_raw","user_id":"a","kind":"k"}',
        b'{"v":1,"key":"dk_other","user_id":"a","kind":"k"}',
        b'{"v":1,"key":"dk_raw","user_id":7,"kind":"k"}',
        b'{"v":1,"key":"dk_raw","user_id":"a"}',
        b'{"v":1,"key":"dk_raw","user_id":"a","kind":"k","reference":7}',
    ],
)
def test_what_is_signed_but_no_message_is_refused(served, body):
    assert served.call(body) == 400
    assert served.notices() == []


def test_a_body_that_is_too_large_is_refused(served):
    assert served.call(b"x" * (64 * 1024 + 1)) == 413


def test_while_nothing_can_be_stored_it_asks_to_be_called_again(served):
    with closing(sqlite3.connect(served.database)) as other:
        other.execute("BEGIN IMMEDIATE")
        result = post(PROVIDER, served.url)
        assert isinstance(result, Retry)
        assert result.status_code == 503
    assert post(PROVIDER, served.url, attempt=2) == Delivered(None, 200)
    assert served.notices() == [("anna", "invoice", "order-7")]


@pytest.fixture
def port() -> Iterator[int]:
    with held_port() as port:
        yield port


def test_run_by_flask_with_a_copy_of_the_kit_and_without_our_package(tmp_path, port):
    text = (EXAMPLE / "app.py").read_text()
    (tmp_path / "app.py").write_text(text.replace("from reminders.receiver.kit import", "from webhook_kit import"))
    shutil.copy(kit.__file__, tmp_path / "webhook_kit.py")
    # A package of that name which cannot be imported stands before ours.
    (tmp_path / "reminders").mkdir()
    (tmp_path / "reminders" / "__init__.py").write_text("raise ImportError('not in this project')\n")
    url = f"http://127.0.0.1:{port}/hook"
    settings = {"RECEIVER_SECRETS": secret_of(url), "RECEIVER_DATABASE": "received.sqlite", "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-m", "flask", "--app", "app.py", "run", "--port", str(port)]
    with subprocess.Popen(
        command, cwd=tmp_path, env=os.environ | settings, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as process:
        try:
            for line in process.stderr:
                if re.search(rf"Running on http://127\.0\.0\.1:{port}", line):
                    break
            else:
                pytest.fail("it did not start")
            assert [post(PROVIDER, url), post(PROVIDER, url)] == [Delivered(None, 200)] * 2
        finally:
            process.send_signal(signal.SIGTERM)
            process.stderr.read()
    with closing(sqlite3.connect(tmp_path / "received.sqlite")) as connection:
        assert connection.execute("SELECT count(*) FROM notices").fetchone() == (1,)


def test_a_setting_that_is_missing_is_named(tmp_path, monkeypatch):
    monkeypatch.delenv("RECEIVER_SECRETS", raising=False)
    with pytest.raises(SystemExit, match="RECEIVER_SECRETS is not set: one or more whsec_"):
        load_example().create_app(str(tmp_path / "received.sqlite"))
