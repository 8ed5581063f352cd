"""A real backup and its restore: what was done in between is forgotten, and nothing of it is done a second time or lost."""

from __future__ import annotations

import json
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg2
import pytest
from sqlalchemy import make_url

from acceptance.harness import BIN, ROOT, Stack, wait_until
from acceptance.scripted_receiver import ScriptedReceiver
from reminders.broker.publishing import KombuPublisher
from reminders.pipeline.ports import Message
from reminders.settings import load

LINES = ("beat", "scanner", "worker", "alone")
ONCE, PLAIN = "once", "plain"
"""Tenants: what `once` calls deduplicates, what `plain` calls does not."""
AHEAD = 1200
"""Reminders for much later: more than two pages of a quarantine."""


@contextmanager
def server(stack: Stack) -> Iterator[Any]:
    """A cursor outside the ledger's database, to which nobody is connected any more."""
    stack.database.close()
    url = make_url(stack.services.database_url).set(drivername="postgresql", database="postgres")
    connection = psycopg2.connect(url.render_as_string(hide_password=False))
    connection.autocommit = True
    with connection.cursor() as cursor:
        ended = "SELECT count(*) FROM pg_stat_activity WHERE datname = 'reminders'"
        wait_until(lambda: cursor.execute(ended) or cursor.fetchone() == (0,), 60, "nobody is connected to the ledger")
        yield cursor
    connection.close()


def back_up(stack: Stack) -> datetime:
    with server(stack) as cursor:
        cursor.execute("SELECT clock_timestamp()")
        (at,) = cursor.fetchone()
        cursor.execute("CREATE DATABASE backup TEMPLATE reminders")
    return at


def restore(stack: Stack) -> None:
    with server(stack) as cursor:
        cursor.execute("DROP DATABASE reminders")
        cursor.execute("ALTER DATABASE backup RENAME TO reminders")


def started(stack: Stack) -> None:
    stack.start(*LINES, REMINDERS_SCAN_EVERY="5s")


def killed(stack: Stack) -> None:
    """A whole installation vanishes; who was alive is noticed to be gone by the next command."""
    for name in list(stack.lines):
        stack.lines.pop(name).kill()
    wait_until(lambda: not alive(stack), 60, "nobody counts as alive")


def alive(stack: Stack) -> list[str]:
    stack.database.close()
    told = stack.cli("quarantine", "--since", "2026-01-01T00:00Z", "--dry-run", "--json").stdout
    return list(json.loads(told)["connected"])


def quarantine(stack: Stack, since: datetime) -> dict[str, Any]:
    stack.database.close()
    done = stack.cli("quarantine", "--since", since.isoformat(), "--reason", "restored", "--json", check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def killed_in_the_middle(stack: Stack, since: datetime, last: str) -> None:
    """kill -9 while it waits for a reminder of its last page, which somebody holds."""
    url = make_url(stack.services.database_url).set(drivername="postgresql").render_as_string(hide_password=False)
    holder, watch = psycopg2.connect(url), psycopg2.connect(url)
    watch.autocommit = True
    waits = (
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = 'reminders-cli'"
    )
    with holder.cursor() as held, watch.cursor() as cursor:
        held.execute("SELECT 1 FROM reminders.reminders WHERE id = %s FOR UPDATE", (last,))
        stack.database.close()
        command = [f"{BIN}/reminders", "quarantine", "--since", since.isoformat(), "--reason", "restored"]
        with subprocess.Popen(command, env=stack.environ, cwd=ROOT) as running:
            wait_until(lambda: cursor.execute(waits) or cursor.fetchone() == (1,), 30, "it waits for the last page")
            running.kill()
    holder.close()
    watch.close()
    ((reached, ended),) = stack.query("SELECT reached IS NOT NULL, ended_at IS NOT NULL FROM quarantines")
    assert (reached, ended) == (True, False)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_nothing_that_was_called_after_the_backup_is_done_again_and_nothing_is_lost(
    stack: Stack, receiver: ScriptedReceiver
) -> None:
    plain = ScriptedReceiver()
    destination = ["--tenant", PLAIN, "--channel", "webhook", "--to", plain.url]
    stack.cli("destination", "set", *destination, "--deduplicates", "no")
    gate = threading.Event()
    both = {ONCE: receiver, PLAIN: plain}
    for each in both.values():
        each.answer = lambda key, call, body: 200 if "open" not in body["reference"] or gate.wait(60) else 500
    made: dict[str, list[Any]] = {}

    def schedule(name: str, count: int, due_in: float) -> None:
        for tenant, each in both.items():
            made[f"{tenant} {name}"] = stack.schedule(
                each.url, [f"{name}-{n}" for n in range(count)], due_in=due_in, tenant=tenant
            )

    # Before the backup: some are delivered, two calls are open, and the rest is still to come.
    started(stack)
    schedule("before", 3, 0)
    for each in both.values():
        each.wait_for(lambda r: len(r.calls) == 3, 40, "what was due is called")
    schedule("open", 1, 0)
    for each in both.values():
        each.wait_for(lambda r: len(r.calls) == 4, 40, "a call is open")
    wait_until(lambda: stack.counts().get("delivered") == 6, 60, "the others are delivered")
    killed(stack)
    due_at = datetime.now(UTC) + timedelta(seconds=15)
    for name in ("soon", "queued", "moved", "cancelled"):
        later = 86400 if name in {"moved", "cancelled"} else (due_at - datetime.now(UTC)).total_seconds()
        schedule(name, 3, later)
    stack.schedule(receiver.url, [f"ahead-{n}" for n in range(AHEAD)], due_in=2 * 86400, tenant=ONCE)
    ((last,),) = stack.query("SELECT id FROM reminders ORDER BY id DESC LIMIT 1")
    backed_up = back_up(stack)
    remembered = dict(stack.query("SELECT id::text, delivery_key FROM reminders"))

    # After the backup: calls, cancels, moves and schedules that the backup knows nothing of.
    for tenant in both:
        for each in made[f"{tenant} cancelled"]:
            assert stack.cli("cancel", str(each.id)).returncode == 0
        for each in made[f"{tenant} moved"]:
            stack.cli("reschedule", str(each.id), "--due-at", datetime.now(UTC).isoformat())
    gate.set()
    started(stack)
    schedule("new", 3, 0)
    # soon, queued, moved and new, beside what was before; the open call is repeated, or in review.
    for tenant, each in both.items():
        each.wait_for(lambda r: len(r.calls) == 16, 60, f"everything is called for {tenant}")
    wait_until(lambda: stack.counts().get("sending", 0) == 0, 60, "every call is recorded")
    called = {tenant: Counter(each.calls) for tenant, each in both.items()}
    killed(stack)
    # Messages that nobody had taken, of reminders that the backup shows as still to be sent, and of some it does not know.
    names = [f"{tenant} {name}" for tenant in both for name in ("queued", "new")]
    messages = [Message(each.id, each.delivery_key, "deliver") for name in names for each in made[name]]
    publisher = KombuPublisher(load(stack.environ))
    assert publisher.publish(messages) == len(messages) == 12

    restore(stack)
    # What was cancelled is said again before anything else; what was moved to a time that is over is not.
    for tenant in both:
        for each in made[f"{tenant} cancelled"]:
            assert stack.cli("cancel", str(each.id)).returncode == 0
    assert stack.redis.llen("reminders:deliver") >= 12
    killed_in_the_middle(stack, backed_up, str(last))
    # A worker that is started too early sends nothing.
    started(stack)
    wait_until(lambda: stack.counts().get("held", 0) == 7, 60, "what is due is held, and the open calls are put right")
    killed(stack)
    assert {tenant: Counter(each.calls) for tenant, each in both.items()} == called
    told = quarantine(stack, backed_up)
    assert (told["already"], told["repeat"], told["review"], told["open_claim"]) == (False, 6, 6, 2)
    assert told["ahead"] == AHEAD + 6
    assert quarantine(stack, backed_up)["already"]
    # The scanner of that worker has put the open calls right: one is for review, the other is repeated with the rest.
    due = stack.query("SELECT count(*) FROM due WHERE wake_at <= now() OR wake_at IS NULL")[0][0]
    assert due == 7

    started(stack)
    receiver.wait_for(lambda r: all(r.calls[each.delivery_key] == 2 for each in made["once soon"]), 60, "repeated once")
    wait_until(lambda: not stack.query("SELECT 1 FROM due WHERE wake_at <= now() + interval '1 hour' OR wake_at IS NULL"), 60,
               "nothing is left to be done")  # fmt: skip
    # Where nothing deduplicates there was no further call whatever.
    assert plain.calls == called[PLAIN]
    assert set(plain.calls.values()) == {1}
    # Where it does, each key that is called again is one it knows, with the same body.
    assert set(receiver.calls) == set(called[ONCE])
    assert {len(bodies) for bodies in receiver.bodies.values()} == {1}
    again = {key for key, number in receiver.calls.items() if number > called[ONCE][key]}
    assert again == {each.delivery_key for name in ("soon", "queued", "open") for each in made[f"once {name}"]}
    standing = dict(stack.query("SELECT id::text, status FROM reminders_v1"))
    assert set(standing) == set(remembered)
    letters = dict(stack.query("SELECT reminder_id::text, kind FROM dead_letters WHERE state = 'open'"))
    for tenant, ends in ((ONCE, "delivered"), (PLAIN, "dead")):
        for name in ("soon", "queued", "open"):
            for each in made[f"{tenant} {name}"]:
                assert standing[str(each.id)] == ends
                assert (letters.get(str(each.id)) == "unknown") == (tenant == PLAIN)
        assert {standing[str(each.id)] for each in made[f"{tenant} cancelled"]} == {"cancelled"}
        assert {standing[str(each.id)] for each in made[f"{tenant} before"]} == {"delivered"}
        for each in made[f"{tenant} moved"]:
            assert standing[str(each.id)] == "pending"

    # What was scheduled anew after the backup has the key it had: where that is known, saying it again does nothing.
    before = receiver.effects.copy()
    replayed = stack.schedule(receiver.url, ["new-0"], tenant=ONCE)
    assert replayed[0].delivery_key == made["once new"][0].delivery_key
    receiver.wait_for(lambda r: r.calls[replayed[0].delivery_key] == 2, 40, "it is called under the key it had")
    assert set(receiver.effects) == set(before)
    # What was moved before is moved again under a key of its own.
    moved = made["once moved"][0]
    stack.cli("reschedule", str(moved.id), "--due-at", datetime.now(UTC).isoformat())
    receiver.wait_for(lambda r: len(r.calls) == len(called[ONCE]) + 1, 40, "it is called under a new key")
    wait_until(lambda: stack.counts().get("sending", 0) == 0, 30, "every call is recorded")
    plain.close()
