"""`reminders rate` and `reminders drain`, and what `status`, `show` and `destination` say of turns, drains and breakers."""

from __future__ import annotations

import getpass
import signal
import socket
import time
from uuid import uuid4

import pytest

from integration.cli.stage import lines, only
from reminders.domain.pauses import PauseScope
from reminders.ledger.claiming import PostgresClaims
from reminders.ledger.draining import drain_of_scope
from reminders.ledger.rates import rates
from reminders.ledger.scanning import PostgresScan
from reminders.pipeline.ports import OnBroker
from reminders.pipeline.repair import RepairPolicy
from reminders.pipeline.scan import Scan, ScanPolicy

RATE_KEYS = {
    "v", "id", "tenant_id", "channel", "destination_id", "per_second", "burst", "concurrent", "reason", "actor", "host", "set_at",
    "removed_at", "removed_by", "removed_reason", "in_flight", "waiting", "waiting_since", "waiting_until",
}  # fmt: skip
DRAIN_KEYS = {
    "v", "id", "tenant_id", "destination_id", "rate", "actor", "reason", "began_at", "until", "stopped_at", "drained_at", "held",
    "found", "going", "oldest_since", "last_turn_at", "left", "oldest_age_seconds", "eta_seconds",
}  # fmt: skip
WHY = ("--reason", "their wish")


class Broker:
    def publish(self, messages):
        return len(messages)

    def in_flight(self):
        return OnBroker(0, 0)


class Kept(Broker):
    """A broker without workers."""

    def __init__(self):
        self.messages = []

    def publish(self, messages):
        self.messages += messages
        return len(messages)


class Worked(Broker):
    """A broker with workers, which claim at once what comes."""

    def __init__(self, stage):
        self.claims = PostgresClaims(stage.database, worker="w", formats={})

    def publish(self, messages):
        for each in messages:
            assert self.claims.claim(each.reminder_id, each.delivery_key, uuid4(), 600.0) is not None
        return len(messages)


def scan(stage, times=1, broker=None):
    """One pass of a scanner, or more."""
    policy = ScanPolicy(500, 10_000, 60.0, 120.0, RepairPolicy(8, 72 * 3600.0))
    broker = broker or Broker()
    for _ in range(times):
        Scan(PostgresScan(stage.database), broker, broker, policy).once()


def test_a_cap_is_set_listed_shown_and_removed(run, stage, broker):
    made = [stage.schedule() for _ in range(3)]
    said = run("rate", "set", "--tenant", "acme", "--per-second", "0.01", *WHY)
    assert (said.exit_code, said.stdout) == (0, "capped: tenant acme, 0.01 a second after 1 together\n")
    scan(stage)
    (listed,) = lines(run("rate", "list", "--json"))
    assert set(listed) == RATE_KEYS
    assert (listed["waiting"], listed["in_flight"], listed["per_second"], listed["burst"]) == (2, 1, 0.01, 1)
    assert (listed["actor"], listed["host"], listed["reason"]) == (
        getpass.getuser(),
        socket.gethostname(),
        "their wish",
    )
    assert "tenant acme" in run("rate", "list").stdout
    shown = only(run("show", made[1].id, "--json"))
    assert shown["status"] == "pending"
    assert shown["waits_for"] == f"cap {listed['id']} of tenant acme"
    assert "it waits for its turn under cap" in shown["why"]
    found = only(run("status", "--json"))
    assert (found["waiting_for_turns"], [each["id"] for each in found["rates"]]) == (2, [listed["id"]])
    assert found["oldest_due_age_seconds"] >= 5
    assert "tenant acme: 0.01 a second after 1 together; 2 wait for a turn" in run("status").stdout
    ended = only(run("rate", "remove", "--tenant", "acme", "--actor", "bo", "--reason", "no need", "--json"))
    assert (set(ended), ended["removed_by"], ended["removed_reason"]) == (RATE_KEYS, "bo", "no need")
    scan(stage)
    assert run("rate", "list").stdout == "Nothing is capped.\n"
    assert len(lines(run("rate", "list", "--removed", "--json"))) == 1


def test_calls_at_once_of_a_destination_and_a_channel(run, stage):
    place = uuid4()
    said = run("rate", "set", "--destination", place, "--concurrent", "2", *WHY)
    assert said.stdout == f"capped: destination {place}, 2 calls at once\n"
    said = only(
        run(
            "rate",
            "set",
            "--channel",
            "email",
            "--per-second",
            "20",
            "--burst",
            "5",
            "--concurrent",
            "9",
            *WHY,
            "--json",
        )
    )
    assert (said["channel"], said["per_second"], said["burst"], said["concurrent"]) == ("email", 20.0, 5, 9)
    assert len(rates(stage.database)) == 2


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("set", "--per-second", "1", *WHY), 2, "Give one of --tenant, --channel and --destination."),
        (("set", "--tenant", "a", "--channel", "b", "--per-second", "1", *WHY), 2, "Give one of"),
        (("set", "--tenant", "a", *WHY), 1, "or concurrent is needed"),
        (("set", "--tenant", "a", "--per-second", "0", *WHY), 1, "must be from 0.0000001 to 100,000"),
        (("set", "--tenant", "a", "--per-second", "1"), 2, "Missing option '--reason'"),
        (("set", "--destination", "no-id", "--per-second", "1", *WHY), 1, "is no id"),
        (("remove", "--tenant", "a", *WHY), 1, "no cap is set for exactly this: tenant a"),
    ],
)
def test_wrong_caps_are_refused_in_words(run, stage, arguments, code, told):
    said = run("rate", *arguments)
    assert (said.exit_code, said.stdout) == (code, "")
    assert told in said.stderr


def test_a_drain_is_begun_shown_stopped_and_let_go(run, stage, broker):
    made = [stage.schedule() for _ in range(30)]
    begun = only(run("drain", "--tenant", "acme", "--rate", "1/s", *WHY, "--no-watch", "--json"))
    assert set(begun) == DRAIN_KEYS | {"unknown"}
    assert (begun["rate"], begun["left"], begun["found"], begun["oldest_age_seconds"] >= 5) == (1.0, 30, 30, True)
    scan(stage, 2)
    (told,) = lines(run("drain", "--list", "--json"))
    assert (told["held"], told["left"]) == (19, 19)
    found = only(run("status", "--json"))
    assert ([each["id"] for each in found["drains"]], found["pauses"]) == ([begun["id"]], [])
    assert found["oldest_due_age_seconds"] >= 5
    assert "draining" in run("status").stdout
    stopped = run("drain", "--tenant", "acme", "--stop", "--reason", "too much")
    assert "tenant acme: stopped, 30 left, the oldest" in stopped.stdout
    held = next(each for each in made if only(run("show", each.id, "--json"))["status"] == "held")
    assert "that drain was stopped" in only(run("show", held.id, "--json"))["why"]
    assert run("pause", "list").stdout == "Nothing is paused.\n"
    assert run("resume", begun["id"]).exit_code == 0
    scan(stage, 2)
    assert drain_of_scope(stage.database, PauseScope(tenant_id="acme")).left == 0


def test_watching_ends_by_itself_and_interrupted_it_leaves_the_drain_going(run, start, stage):
    for _ in range(30):
        stage.schedule()
    run("drain", "--all", "--rate", "1/s", *WHY, "--no-watch")
    # How many of the turns have come by now depends on the machine; all that nobody has claimed are told.
    scan(stage, 2, kept := Kept())
    watching = start("drain", "--all")
    assert watching.stdout.readline().startswith("everything: 19 left, 11 more have their turns, the oldest ")
    watching.send_signal(signal.SIGINT)
    told = watching.communicate(timeout=60)[1]
    assert (watching.returncode, "the drain goes on without this command" in told) == (130, True)
    assert drain_of_scope(stage.database, PauseScope()).stopped_at is None
    Worked(stage).publish(kept.messages)
    watching = start("drain", "--all", "--rate", "1000/s", *WHY)
    end = time.monotonic() + 60
    while watching.poll() is None and time.monotonic() < end:
        scan(stage, 1, Worked(stage))
        time.sleep(0.05)
    assert watching.returncode == 0
    assert "drained" in watching.stdout.read().splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("--rate", "1/s", *WHY), 2, "Give one of --tenant, --destination and --all."),
        (("--all", "--tenant", "a"), 2, "Give one of"),
        (("--all", "--rate", "1/s", "--stop", *WHY), 2, "either --rate or --stop"),
        (("--all", "--rate", "1/s"), 2, "Missing option '--reason'"),
        (("--all", "--rate", "fast", *WHY), 1, "is no rate"),
        (("--all",), 1, "there was no drain of exactly this: everything"),
        (("--all", "--stop", *WHY), 1, "no drain of exactly this is under way: everything"),
        (("--list", "--tenant", "a", "--stop", *WHY), 2, "--list goes with none of"),
        (("--list", "--rate", "1/s", *WHY), 2, "--list goes with none of"),
    ],
)
def test_wrong_drains_are_refused_in_words(run, stage, arguments, code, told):
    said = run("drain", *arguments)
    assert (said.exit_code, said.stdout) == (code, "")
    assert told in said.stderr


def test_what_a_resume_still_lets_go_is_late_and_is_not_drained_besides(run, stage, broker):
    for _ in range(30):
        stage.schedule()
    run("pause", "--tenant", "acme", *WHY)
    scan(stage)
    run("resume", "--tenant", "acme", "--rate", "1/s")
    assert only(run("status", "--json"))["oldest_due_age_seconds"] >= 5
    said = run("drain", "--tenant", "acme", "--rate", "2/s", *WHY)
    assert (said.exit_code, said.stdout) == (1, "")
    assert "it was resumed, and still lets go what was held: tenant acme\n`reminders resume " in said.stderr


def test_what_is_paused_is_resumed_instead(run, stage):
    run("pause", "--tenant", "acme", *WHY)
    said = run("drain", "--tenant", "acme", "--rate", "1/s", *WHY)
    assert said.exit_code == 1
    assert "it is paused: tenant acme\n`reminders resume " in said.stderr


def test_an_open_breaker_is_shown_and_reset(run, stage, broker):
    made = stage.schedule()
    with stage.database.transaction() as connection, connection.cursor() as cursor:
        cursor.execute(
            """INSERT INTO reminders.destinations
                   (id, tenant_id, channel, address, breaker_opened_at, breaker_times, hold_until, hold_reason)
               SELECT destination_id, tenant_id, channel, destination, now(), 1, now() + interval '1 hour', 'breaker open, the last call: refused'
               FROM reminders.reminders WHERE id = %s RETURNING id::text""",
            (str(made.id),),
        )
        ((place,),) = cursor.fetchall()
    shown = only(run("destination", "show", place, "--json"))
    assert (shown["breaker"], shown["breaker_times"], shown["hold_reason"]) == (
        "open",
        1,
        "breaker open, the last call: refused",
    )
    assert "breaker open" in run("destination", "list").stdout
    assert only(run("status", "--json"))["breakers_open"] == 1
    assert "1 open: `reminders destination list`" in run("status").stdout
    assert run("destination", "release", place).exit_code == 0
    assert only(run("destination", "show", place, "--json"))["breaker"] == "closed"


@pytest.mark.parametrize(
    ("command", "unknown"),
    [
        (("pause", "--tenant", "acme", "--channel", "webhook"), []),
        (("pause", "--channel", "nochannel"), ["channel"]),
        (("pause", "--tenant", "acme", "--kind", "nokind"), ["kind"]),
        (("rate", "set", "--channel", "nochannel", "--per-second", "1"), ["channel"]),
        (
            ("rate", "set", "--destination", "019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b", "--per-second", "1"),
            ["destination"],
        ),
        (("drain", "--tenant", "acne", "--rate", "1/s", "--no-watch"), ["tenant"]),
        (("drain", "--tenant", "acme", "--rate", "1/s", "--no-watch"), []),
    ],
    ids=" ".join,
)
def test_a_name_that_nothing_here_has_is_accepted_and_told(run, stage, command, unknown):
    stage.schedule()
    said = run(*command, "--reason", "r", "--json")
    assert (said.exit_code, only(said)["unknown"]) == (0, unknown)
    assert ("is that what you meant?" in said.stderr) == bool(unknown)
    for each in unknown:
        assert each in said.stderr


@pytest.mark.parametrize(
    "command", [("pause",), ("rate", "set", "--per-second", "1"), ("drain", "--rate", "1/s")], ids=" ".join
)
def test_a_reminders_id_for_a_destinations_is_refused(run, stage, command):
    made = stage.schedule()
    said = run(*command, "--destination", str(made.id), "--reason", "r")
    assert said.exit_code == 1
    assert "is the id of a reminder, which goes to destination " in said.stderr
    assert run("pause", "list").stdout == "Nothing is paused.\n"
