"""How late calls are: under a steady load, and in a burst.

    python -m benchmarks.lateness [--rate 300]... [--seconds 75] [--burst 20000] [--json FILE] [--quick]

Everything runs as the Procfile says, with the shipped settings and a beat of a minute, against a receiver that costs nothing.
Lateness is from a reminder's due time to the moment at which its call is at the receiver. Of a steady load also the processor
time of a call is told, in each part.

steady    RATE reminders a second of 50 tenants, due at random instants for SECONDS seconds, each at an address of its own
burst     BURST reminders of one tenant, to twenty addresses, are due at one instant, and a hundred of a second tenant with them
"""

from __future__ import annotations

import random
import time
from datetime import UTC, datetime
from typing import Any

from benchmarks.drained import cpu_by_part
from benchmarks.figures import arguments, hand_over, quantile, tell
from benchmarks.stack import PATIENCE, Stack, installation, until

LINES = ("beat", "scan", "deliver", "retry")
NEIGHBOURS = 100
PARTS = {"worker": "deliver", "scanner": "scan", "postgres": "postgres", "redis": "redis"}
"""What the parts of a call are called, by the line or server that is one."""


def late(scene: str, seconds: list[float], wanted: int) -> dict[str, Any]:
    row = {
        "scene": scene, "reminders": wanted, "called": len(seconds),
        **{name: round(quantile(seconds, part), 3) for name, part in (("p50 s", 0.5), ("p99 s", 0.99), ("max s", 1.0))},
    }  # fmt: skip
    tell(row)
    return row


def steady(stack: Stack, rate: float, seconds: float) -> list[dict[str, Any]]:
    count = int(rate * seconds)
    place = f"/steady-{rate:g}"
    drawn = random.Random(1)
    first = time.time() + 5 + count / 2000
    dues = {f"{place}/{number}": first + drawn.uniform(0, seconds) for number in range(count)}
    stack.schedule(
        [(f"tenant-{n % 50}", path, datetime.fromtimestamp(due, UTC)) for n, (path, due) in enumerate(dues.items())]
    )
    time.sleep(max(0.0, first - time.time()))
    before = cpu_by_part(stack.roots)
    time.sleep(max(0.0, first + seconds - time.time()))
    until(lambda: len(stack.calls(place)) == count, "all are called")
    after = cpu_by_part(stack.roots)
    scene = f"{rate:g}/s for {seconds:g} s"
    spent = {f"{part} ms": round((after[root] - before[root]) / count * 1e3, 2) for part, root in PARTS.items()}
    cost = {"load": scene, "CPU ms a call": round(sum(spent.values()), 2), **spent}
    tell(cost)
    return [late(scene, [min(at) - dues[path] for path, at in stack.calls(place).items()], count), cost]


def burst(stack: Stack, count: int) -> list[dict[str, Any]]:
    due = time.time() + 5 + count / 2000
    at = datetime.fromtimestamp(due, UTC)
    loud = [("loud", f"/loud/{number % 20}", at) for number in range(count)]
    quiet = [("quiet", f"/quiet/{number}", at) for number in range(NEIGHBOURS)]
    stack.schedule(loud[: count // 2] + quiet + loud[count // 2 :])
    patience = PATIENCE + count / 100
    until(lambda: sum(map(len, stack.calls("/loud").values())) >= count, "the burst is called", patience)
    return [
        late("burst", [each - due for times in stack.calls("/loud").values() for each in times], count),
        late("second tenant, in the burst", [min(times) - due for times in stack.calls("/quiet").values()], NEIGHBOURS),
    ]


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rate", type=float, action="append")
    parser.add_argument("--seconds", type=float, default=75.0)
    parser.add_argument("--burst", type=int, default=20_000)
    given = parser.parse_args()
    rates, seconds, size = given.rate or [100.0, 300.0], given.seconds, given.burst
    if given.quick:
        rates, seconds, size = [20.0], 2.0, 200
    with installation(LINES) as stack:
        told = [steady(stack, rate, seconds) for rate in rates]
        rows = [lateness for lateness, _ in told] + burst(stack, size) + [cost for _, cost in told]
    hand_over("lateness", rows, "Shipped settings, one worker line of 2 x 32 threads, beat each minute.", given.json)


if __name__ == "__main__":
    main()
