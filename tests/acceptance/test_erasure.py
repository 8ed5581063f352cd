"""After an erasure nothing of the user is left in database, Redis and logs; and what is imported again is not sent."""

from __future__ import annotations

import csv
import io
import json
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from acceptance.harness import ROOT, Stack, wait_until
from acceptance.scripted_receiver import ScriptedReceiver
from traces import rows, traces

USER = "ada-lovelace-1815"
SECRET = "analytical engine"
WHY = ("--reason", "asked by letter", "--actor", "dpo")
COLUMNS = ("tenant_id", "user_id", "kind", "channel", "destination", "due_at", "reference", "data")
REFERENCES = ("sent", "refused", "again", "unknown", "open")


def in_redis(stack: Stack) -> list[tuple[str, str]]:
    """Every key of every type, with all that is in it."""
    read = {
        b"string": stack.redis.get,
        b"list": lambda key: stack.redis.lrange(key, 0, -1),
        b"set": stack.redis.smembers,
        b"hash": stack.redis.hgetall,
        b"zset": lambda key: stack.redis.zrange(key, 0, -1, withscores=True),
        b"stream": stack.redis.xrange,
        # Taken since it was listed, as the only message of a queue is.
        b"none": lambda _: None,
    }
    return [(f"redis {key!r}", f"{key!r} {read[stack.redis.type(key)](key)!r}") for key in stack.redis.scan_iter()]


def left(stack: Stack, texts: tuple[str, ...]) -> list[str]:
    with stack.database.transaction() as connection, connection.cursor() as cursor:
        kept = rows(cursor)
    logs = [(str(file), file.read_text(errors="replace")) for file in stack.home.rglob("*log*") if file.is_file()]
    assert len(kept) > 20
    assert any("scanner" in name for name, _ in logs)
    return traces(texts, [*kept, *in_redis(stack), *logs])


def answered(gate: threading.Event):
    def answer(key: str, call: int, body: dict[str, object]) -> int:
        match body["reference"]:
            case "refused":
                return 404
            case "again":
                return 503
            case "unknown":
                return 500
            case "open":
                return 200 if gate.wait(90) else 500
        return 200

    return answer


def file_of(tenant: str, destination: str, due: datetime, references: tuple[str, ...]) -> str:
    told = io.StringIO()
    writer = csv.writer(told)
    writer.writerow(COLUMNS)
    data = json.dumps({"note": SECRET})
    for each in references:
        writer.writerow((tenant, USER, "note", "webhook", destination, due.isoformat(), each, data))
    return told.getvalue()


def reconciled(stack: Stack, destination: str, folder: Path) -> None:
    """The shop's example, of which one order is hers and leads to a reminder in the morning, a day from now at the earliest."""
    made = (ROOT / "examples" / "shop" / "orders.sql").read_text()
    stack.execute(made)
    stack.execute(
        f"UPDATE shop.orders SET customer = '{USER}', webhook = '{destination}' WHERE reference = 'order-1006'"
    )
    config = folder / "reconcile.toml"
    example = (ROOT / "examples" / "shop" / "reconcile.toml").read_text()
    config.write_text(example.replace('at = "09:00"', 'due = "1d"\nat = "09:00"'))
    stack.cli("reconcile", str(ROOT / "examples" / "shop" / "payouts.csv"), "--config", str(config))


@pytest.mark.timeout(400)
def test_no_trace_is_left_and_the_same_again_is_not_sent(
    stack: Stack, receiver: ScriptedReceiver, tmp_path: Path
) -> None:
    destination = f"{receiver.url}/ada.lovelace@münchen?token=s3cr3t-path"
    texts = (destination, "ada.lovelace@", "s3cr3t-path", USER, SECRET)
    gate = threading.Event()
    receiver.answer = answered(gate)
    due = datetime.now(UTC) - timedelta(seconds=5)
    stack.cli("tenant", "set", "quiet", "--mode", "shadow", "--reason", "trial")
    stack.start(
        "beat",
        "scanner",
        "worker",
        "alone",
        "retry",
        "maintenance",
        REMINDERS_SCAN_EVERY="5s",
        REMINDERS_ALLOW_ERASE_TASKS="yes",
        # One call stays open while commands start on a busy machine.
        REMINDERS_HTTP_DEADLINE="100s",
        REMINDERS_CLAIM="120s",
        REMINDERS_GRACE="110s",
    )
    stack.cli(
        "destination", "set", "--tenant", "shop", "--channel", "webhook", "--to", destination, "--deduplicates", "no"
    )
    wanted = file_of("shop", destination, due, REFERENCES)
    (tmp_path / "hers.csv").write_text(wanted)
    (tmp_path / "quiet.csv").write_text(file_of("quiet", destination, due, ("decided",)))
    reconciled(stack, destination, tmp_path)
    for name in ("hers.csv", "quiet.csv"):
        stack.cli("import", str(tmp_path / name))
    stack.cli("schedule", "--tenant", "shop", "--user", USER, "--kind", "note", "--channel", "webhook", "--to", destination,
              "--due-at", "2090-01-01T09:00Z", "--reference", "later")  # fmt: skip
    stack.cli("series", "add", "--tenant", "shop", "--user", USER, "--kind", "pills", "--channel", "webhook", "--to", destination,
              "--start", "2035-01-01T09:00", "--zone", "Europe/Berlin", "--rule", "FREQ=DAILY", "--reference", "pills")  # fmt: skip
    stack.cli("recipient", "set", "--tenant", "shop", "--user", USER, "--zone", "Europe/Berlin")
    stack.cli("pause", "--tenant", "shop", "--kind", "offer", "--reason", f"{USER} at {destination} complained")
    receiver.wait_for(lambda r: len(r.calls) >= len(REFERENCES), 60, "all were called")
    ended = {"delivered": 1, "dead": 2, "sending": 1, "shadowed": 1}
    wait_until(
        lambda: ended.items() <= stack.counts().items(),
        60,
        lambda: f"each has come to its state; have {stack.counts()}",
    )
    assert left(stack, (destination,)) != []

    refused = stack.cli("erase", "--tenant", "shop", "--user", USER, *WHY, "--wait", "0s", check=False)
    assert (refused.returncode, "Being sent: 1 reminder of the user" in refused.stdout) == (3, True)
    threading.Timer(1.0, gate.set).start()
    told = json.loads(stack.cli("erase", "--tenant", "shop", "--user", USER, *WHY, "--json").stdout)
    assert told["complete"]
    assert told["touched"]["reminders"] >= len(REFERENCES) + 3
    given = {"tenant": "quiet", "user": USER, "actor": "dpo", "reason": "asked by letter"}
    stack.call("reminders.erase", "--kwargs", json.dumps(given), "--queue", "maintenance")
    finished = "SELECT count(*) FROM erasures WHERE finished_at IS NOT NULL"
    wait_until(lambda: stack.query(finished) == [(2,)], 60, "the task has erased the other tenant's")

    called = receiver.calls.total()
    # What a commit's moment leaves on its way is gone a look later.
    wait_until(lambda: left(stack, texts) == [], 60, "nothing of the user is left")
    proof = "SELECT count(*) FROM delivery_attempts a JOIN reminders r ON r.id = a.reminder_id WHERE a.outcome = 'delivered' AND r.user_id LIKE 'erased-%%'"
    assert stack.query(proof) == [(2,)]

    again = json.loads(stack.cli("import", str(tmp_path / "hers.csv"), "--json").stdout)
    assert (again["existing"], again["scheduled"], again["rejected"]) == (len(REFERENCES), 0, 0)
    marker = stack.schedule(receiver.url, ["marker"], tenant="bea")
    wait_until(
        lambda: stack.query("SELECT status FROM reminders WHERE id = %s", str(marker[0].id)) == [("delivered",)],
        60,
        "another is sent",
    )
    assert receiver.calls.total() == called + 1
    assert left(stack, texts) == []
