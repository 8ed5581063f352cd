"""The tasks of reconciliation: a step a message, whatever is lost or comes twice; no address anywhere it could be read."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from uuid import UUID

import psycopg2
import pytest

from integration.cli.stage import Stage
from integration.file_server import FileServer
from reminders import InvalidInput, bootstrap, reconcile_tasks
from reminders.celery import app
from reminders.celery_options import options
from reminders.domain.errors import NotFound, Refused, SettingsError
from reminders.intake.settlement import fetching
from reminders.intake.settlement.config import Nightly
from reminders.intake.settlement.fetching import Access
from reminders.intake.settlement.files import check
from reminders.intake.settlement.reporting import runs
from reminders.intake.settlement.running import begin
from reminders.intake.settlement.stepping import last_night, tonight
from reminders.ledger import settlement_files as kept
from reminders.settings import Secret

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "shop"
CONTENT = (EXAMPLE / "payouts.csv").read_bytes()


@pytest.fixture
def stage(database, settings, services, migrated, monkeypatch):
    """A ledger that this process, as a worker, is set up for, with the orders of the example."""
    monkeypatch.setenv("DATABASE_URL", migrated)
    monkeypatch.setenv("REDIS_URL", services.redis_url)
    monkeypatch.setenv("REMINDERS_RECONCILE", str(EXAMPLE / "reconcile.toml"))
    reconcile_tasks.workshop.cache_clear()
    connection = psycopg2.connect(migrated)
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute("DROP SCHEMA IF EXISTS shop CASCADE")
        cursor.execute((EXAMPLE / "orders.sql").read_text())
        yield Stage(database, settings)
        cursor.execute("DROP SCHEMA shop CASCADE")
    connection.close()
    reconcile_tasks.workshop.cache_clear()
    bootstrap.database().close()


@pytest.fixture
def sent(monkeypatch):
    """The messages that the tasks leave, in order."""
    sent = []
    monkeypatch.setattr(
        reconcile_tasks.reconcile, "apply_async", lambda kwargs, countdown: sent.append((kwargs, countdown))
    )
    return sent


@pytest.fixture
def server():
    server = FileServer(CONTENT)
    yield server
    server.close()


def work_off(sent, *, twice=False):
    """What a worker does with the messages, each of them twice if so wanted. Returns how many there were."""
    taken = 0
    while sent:
        given, _ = sent.pop(0)
        taken += 1
        for _ in range(1 + twice):
            reconcile_tasks.reconcile(**given)
        # Two that say the same go on side by side for ever; one of them is enough here.
        sent[:] = [each for place, each in enumerate(sent) if each not in sent[:place]]
    return taken


def state(stage):
    found = runs(stage.database)
    return [(each.state, each.read, each.new) for each in found], stage.count("reminders")


def test_an_address_is_fetched_and_its_file_decided_over(stage, sent, server, caplog):
    with caplog.at_level(logging.INFO):
        answer = reconcile_tasks.reconcile(url=server.url, actor="ada", reason="a new report")
        (first,) = sent
        assert first == ({"file": answer["file"]}, None)
        assert work_off(sent) >= 5
    assert state(stage) == ([("finished", 11, 11)], 5)
    (file,) = kept.files(stage.database, 10)
    assert (file.status, file.name, file.actor, file.asked_because, file.url) == (
        "done", "127.0.0.1/payouts.csv", "ada", "a new report", None,
    )  # fmt: skip
    assert "s3cret" not in caplog.text
    assert next(each for each in caplog.messages if each.startswith("reconcile.done")).endswith(
        "read=11 new=11 changed=0 rejected=0 decisions=9 unmatched=1 payouts_off=0"
    )


def test_every_message_may_come_twice(stage, sent, server):
    reconcile_tasks.reconcile(url=server.url, actor="ada")
    work_off(sent, twice=True)
    assert state(stage) == ([("finished", 11, 11)], 5)


def test_an_uploaded_file(stage, sent, run_upload):
    file_id = run_upload()
    reconcile_tasks.reconcile(file=file_id, actor="bea")
    work_off(sent)
    assert state(stage) == ([("finished", 11, 11)], 5)
    assert runs(stage.database)[0].actor == "bea"
    reconcile_tasks.reconcile(file=file_id, actor="bea")
    work_off(sent)
    assert state(stage) == ([("finished", 11, 0), ("finished", 11, 11)], 5)


def test_what_somebody_runs_from_elsewhere_is_looked_at_again(stage, sent, run_upload):
    file_id = run_upload()
    workshop = reconcile_tasks.workshop()
    with (EXAMPLE / "payouts.csv").open("rb") as stream:
        checked = check(stream, "payouts.csv", workshop.config.format)
    other = begin(workshop, checked.file, actor="bea")
    reconcile_tasks.reconcile(file=file_id, actor="ada")
    assert sent == [({"file": file_id}, 60.0)]
    other.let_go("Ctrl-C")
    work_off(sent)
    assert state(stage) == ([("finished", 11, 11)], 5)
    assert kept.read(stage.database, UUID(file_id)).status == "done"


@pytest.fixture
def run_upload(stage):
    def call():
        from reminders.intake.settlement.receiving import upload

        config = reconcile_tasks.workshop().config
        with (EXAMPLE / "payouts.csv").open("rb") as stream:
            return str(
                upload(stage.database, stream, config.format, source=config.source, name="payouts.csv", actor="ada")
            )

    return call


def test_a_message_that_is_lost_is_made_up_for_once_nobody_worked_on_it_for_a_while(stage, sent, server, monkeypatch):
    reconcile_tasks.reconcile(url=server.url, actor="ada")
    sent.clear()
    assert reconcile_tasks.tick() == {"asked": 0, "gone_on": 0}
    monkeypatch.setattr(reconcile_tasks, "IDLE", -1.0)
    stages = 0
    while reconcile_tasks.tick()["gone_on"]:
        # A worker dies with each message that follows from this one; its lease ends.
        given, _ = sent.pop()
        reconcile_tasks.reconcile(**given)
        if sent:
            following, _ = sent.pop()
            reconcile_tasks.reconcile(**following)
        sent.clear()
        stage.rows(
            "UPDATE reconciliation_runs SET lease_until = now() - interval '1 second' WHERE status = 'running' RETURNING 1"
        )
        stages += 1
        assert stages < 20
    assert state(stage) == ([("finished", 11, 11)], 5)


def test_waits_stay_below_the_brokers_redelivery(stage, sent, server, monkeypatch):
    monkeypatch.setattr(fetching, "WAITS", (9999.0,))
    server.answers = [b"HTTP/1.1 503 Away\r\nContent-Length: 0\r\n\r\n"]
    reconcile_tasks.reconcile(url=server.url, actor="ada")
    given, _ = sent.pop()
    reconcile_tasks.reconcile(**given)
    ((again, countdown),) = sent
    assert (again, countdown) == (given, bootstrap.installation().visibility / 2)


def test_a_file_that_is_refused_is_logged_without_its_address(stage, sent, server, caplog):
    server.answers = [b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n"]
    reconcile_tasks.reconcile(url=server.url, actor="ada")
    given, _ = sent.pop()
    with caplog.at_level(logging.INFO):
        assert reconcile_tasks.reconcile(**given)["goes_on"] is False
        with pytest.raises(Refused, match="was refused: the far side answers 403"):
            reconcile_tasks.reconcile(**given)
    assert f"reconcile.file_refused file={given['file']} night=None: the far side answers 403" in caplog.messages
    assert "127.0.0.1" not in caplog.text
    assert sent == []


@pytest.mark.parametrize(
    ("given", "kind", "said"),
    [
        ({"actor": "ada"}, InvalidInput, "file: or url is needed"),
        ({"actor": "ada", "file": "x", "url": "https://files.example.com/s3cret"}, InvalidInput, "and not both"),
        ({"url": "https://files.example.com/s3cret"}, InvalidInput, "actor: is needed"),
        ({"url": "https://files.example.com/s3cret", "actor": "ada", "reason": 7}, InvalidInput, "reason: is needed"),
        ({"url": 7, "actor": "ada"}, InvalidInput, "url: must be text"),
        ({"url": "ftp://files.example.com/s3cret", "actor": "ada"}, InvalidInput, "url: must be an absolute URL"),
        ({"file": "seven"}, InvalidInput, "file: is no id"),
        ({"fille": "s3cret", "actor": "ada"}, InvalidInput, "message: may have actor, reason, file and url, and no"),
        ({"file": "019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b"}, NotFound, "there is no settlement file"),
    ],
)
@pytest.mark.usefixtures("stage", "sent")
def test_what_is_refused_is_logged_in_one_line(stage, caplog, given, kind, said):
    with caplog.at_level(logging.INFO, logger="reminders.reconcile_tasks"), pytest.raises(kind, match=said):
        reconcile_tasks.reconcile(**given)
    (line,) = caplog.messages
    assert line.startswith("reconcile.refused: ")
    assert said in line
    assert "s3cret" not in line
    assert stage.count("reconciliation_files") == 0


def test_a_file_of_another_source_is_refused(stage, sent):
    file_id = kept.add(stage.database, source="adyen", name="f.csv", actor="ada")
    with pytest.raises(Refused, match="is of source adyen, and the configuration of stripe"):
        reconcile_tasks.reconcile(file=str(file_id))


def test_without_a_configuration(stage, sent, monkeypatch):
    monkeypatch.delenv("REMINDERS_RECONCILE")
    bootstrap.installation.cache_clear()
    with pytest.raises(SettingsError, match="REMINDERS_RECONCILE is not set"):
        reconcile_tasks.reconcile(url="https://files.example.com/f", actor="ada")


def test_a_failing_matcher_stops_the_run_and_says_so(stage, sent, server, caplog):
    stage.rows("ALTER TABLE shop.orders RENAME TO away; SELECT 1")
    reconcile_tasks.reconcile(url=server.url, actor="ada")
    with caplog.at_level(logging.ERROR):
        work_off(sent)
    assert any(each.startswith("reconcile.matcher_fault") and "shop.orders" in each for each in caplog.messages)
    assert state(stage)[0][0][0] in {"running", "interrupted"}
    stage.rows("ALTER TABLE shop.away RENAME TO orders; SELECT 1")


def test_the_task_says_nothing_of_its_arguments(stage):
    message = app.amqp.create_task_message(
        "id", "reminders.reconcile", (), {"url": "https://h/?s3cret", "actor": "ada"}
    )
    assert message.headers["argsrepr"] == message.headers["kwargsrepr"] == "-"


def test_beat_looks_every_five_minutes_only_where_there_is_a_configuration(settings):
    assert "reconcile" not in options(settings)["beat_schedule"]
    entry = options(replace(settings, reconcile=Path("r.toml")))["beat_schedule"]["reconcile"]
    assert (entry["task"], entry["schedule"], entry["options"]["expires"]) == (reconcile_tasks.tick.name, 300, 300)
    for task in (reconcile_tasks.tick, reconcile_tasks.reconcile):
        assert app.amqp.router.route({}, task.name)["queue"].name == "maintenance"


NIGHTLY = Nightly("https://files.example.com/{date}.csv?s3cret", datetime(1, 1, 1, 5, 30).time(), "Europe/Berlin", 1)


@pytest.mark.parametrize(
    ("now", "night"),
    [
        ("2026-11-28T04:29:59", "2026-11-27"), ("2026-11-28T04:30:00", "2026-11-28"), ("2026-11-28T22:59:00", "2026-11-28"),
        ("2026-11-28T23:30:00", "2026-11-28"), ("2026-07-01T03:30:00", "2026-07-01"), ("2026-07-01T03:29:00", "2026-06-30"),
    ],
)  # fmt: skip
def test_the_night_is_the_last_whose_time_has_come(now, night):
    assert last_night(NIGHTLY, datetime.fromisoformat(now).replace(tzinfo=UTC))[0] == date.fromisoformat(night)


def test_the_file_of_a_night_is_asked_for_once_however_many_beats_there_are(stage, monkeypatch):
    workshop = reconcile_tasks.workshop()
    access = Access(allow_private=True, bearers={})
    first = datetime(2026, 11, 28, 5, tzinfo=UTC)
    asked = tonight(workshop, access, NIGHTLY, first)
    assert tonight(workshop, access, NIGHTLY, first.replace(hour=23)) is None
    file = kept.read(stage.database, asked.file)
    assert (file.url, file.name, file.night, file.actor) == (
        "https://files.example.com/2026-11-27.csv?s3cret", "files.example.com/2026-11-27.csv", date(2026, 11, 28), "beat",
    )  # fmt: skip
    assert tonight(workshop, access, NIGHTLY, first.replace(day=29)) is not None
    assert stage.count("reconciliation_files") == 2


def test_the_tick_asks_for_the_night_and_the_token_goes_to_its_host_alone(stage, sent, server, monkeypatch):
    made = reconcile_tasks.workshop()
    # Half a day from the next night's, which must not come between two ticks.
    nightly = Nightly(server.url, (datetime.now(UTC) - timedelta(hours=12)).time(), "UTC")
    with_nightly = replace(made, config=replace(made.config, nightly=nightly))
    monkeypatch.setattr(reconcile_tasks, "workshop", lru_cache(lambda: with_nightly))
    token = Secret("127.0.0.1:to-ken.22")
    settings = replace(bootstrap.installation(), reconcile_token=token)
    monkeypatch.setattr(bootstrap, "installation", lambda: settings)
    assert reconcile_tasks.tick() == {"asked": 1, "gone_on": 0}
    assert reconcile_tasks.tick() == {"asked": 0, "gone_on": 0}
    work_off(sent)
    assert state(stage) == ([("finished", 11, 11)], 5)
    assert [head["authorization"] for head in server.asked] == ["Bearer to-ken.22"]
