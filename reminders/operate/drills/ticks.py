"""Ticks that stop, come from several beats, or come in a burst: they wake the scan and decide nothing."""

from __future__ import annotations

import time

from reminders.operate.drills.drill import Drill
from reminders.operate.drills.scene import Scene
from reminders.operate.drills.stack import Stack

HOURS = 6
TICKS = 500
LATE = 3.0
"""Seconds from due time to call that a fresh reminder may take: the bound of one second, with a margin of three."""


def paused_trigger(stack: Stack) -> None:
    """Beat and scanner stood still while one reminder fell due every minute; then they go on."""
    missed = HOURS * 60
    stack.start("worker")
    made = stack.schedule_at([(f"minute-{number}", -60.0 * number) for number in range(missed)])
    stack.did(
        f"scheduled {missed} reminders that fell due in the last {HOURS} hours, one a minute, with no beat and no scanner"
    )
    stack.check("G8", stack.counts() == {"pending": missed}, "without a trigger all of them wait in the ledger")
    stack.start("scanner", "beat")
    stack.did("resumed the trigger")
    stack.ended({"delivered": missed})
    stack.check_called_once_each(made)
    (fresh,) = stack.schedule(["fresh"], due_in=2)
    stack.ended({"delivered": missed + 1})
    _check_punctual(stack, "fresh", fresh.due_at.timestamp())


def many_beats(stack: Stack) -> None:
    """Two scanners and three beats that tick every two seconds, over reminders that fall due meanwhile."""
    stack.start("scanner", "scanner", "beat", "beat", "beat", "worker")
    made = stack.schedule_at([(f"r{number}", number / 50) for number in range(400)])
    stack.did("started two scanners, three beats and a worker, with 400 reminders due over eight seconds")
    stack.ended({"delivered": 400})
    taken, _ = stack.ticks()
    stack.wait_until(lambda: stack.ticks()[0] >= 4, "the ticks of several beats are taken")
    stack.saw(f"{taken} ticks taken by then, {len(stack.attempts())} attempts for 400 reminders")
    stack.check_called_once_each(made)
    stack.check("G8", len(stack.attempts()) == 400, "no claim more than one for each reminder")


def tick_burst(scene: Scene) -> None:
    """500 ticks at once: nothing is sent twice, and what falls due meanwhile is punctual."""
    made = scene.schedule([f"r{number}" for number in range(150)])
    scene.ready()
    started = time.monotonic()
    scene.tick(TICKS)
    scene.did(
        f"sent {TICKS} ticks in {time.monotonic() - started:.1f} s; those that wait longer than a period are dropped"
    )
    scene.receiver.wait_for(lambda seen: len(seen.calls) >= 150, 60, "what was due is called")
    (fresh,) = scene.schedule(["fresh"], due_in=1)
    scene.ended({"delivered": 151})
    scene.check_called_once_each([*made, fresh])
    _check_punctual(scene, "fresh", fresh.due_at.timestamp())


def _check_punctual(scene: Scene, name: str, due_at: float) -> None:
    called_at = scene.receiver.called_at(scene.reference(name)) or 0.0
    late = called_at - due_at
    scene.check(
        "G8", 0 <= late < LATE, f"a fresh reminder was called {late:.1f} s after it was due (must be under {LATE:g} s)"
    )


DRILLS = (
    Drill(
        "paused-trigger",
        f"beat and scanner stand still for {HOURS} simulated hours, then go on",
        ("G2", "G4", "G8"),
        paused_trigger,
    ),
    Drill(
        "many-beats",
        "two scanners and three beats at once",
        ("G2", "G4", "G8"),
        many_beats,
        {"REMINDERS_SCAN_EVERY": "2s"},
    ),
    Drill(
        "tick-burst",
        f"a burst of {TICKS} ticks",
        ("G2", "G4", "G8"),
        tick_burst,
        here=tick_burst,
        long=False,
    ),
)
