"""A tenant goes from live to shadow and back, and off, by commands against running processes; workers and scanners are killed."""

from __future__ import annotations

import json
import threading

import pytest

from acceptance.harness import PAST_A_LEASE, Stack, wait_until
from acceptance.scripted_receiver import ScriptedReceiver

LOUD = 250
WHY = ("--reason", "rehearsal", "--json")


def moded(stack: Stack, mode: str, *more: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(stack.cli("tenant", "set", "loud", "--mode", mode, *more, *WHY).stdout)
    return found


@pytest.mark.timeout(480)
def test_from_live_to_shadow_in_mid_drain_and_live_again_with_kills(stack: Stack, receiver: ScriptedReceiver) -> None:
    gate = threading.Event()
    receiver.answer = lambda key, call, body: 200 if gate.wait(60) else 500
    patient = {
        "REMINDERS_HTTP_DEADLINE": "40s",
        "REMINDERS_CLAIM": "60s",
        "REMINDERS_GRACE": "50s",
        "REMINDERS_IN_FLIGHT": "64",
    }
    stack.start("beat", "scanner", "worker", "alone", REMINDERS_SCAN_EVERY="5s", **patient)
    stack.schedule(receiver.url, [f"r{n}" for n in range(LOUD)], tenant="loud")
    receiver.wait_for(lambda r: len(r.calls) >= 32, 60, "many are in mid-call")
    opened = moded(stack, "shadow")["open_claims"]
    assert isinstance(opened, int)
    assert 32 <= opened < LOUD
    gate.set()
    wait_until(
        lambda: stack.counts().get("delivered") == opened, 60, lambda: f"what was open ends; have {stack.counts()}"
    )
    # No call is open now: what a kill cuts off is the shadow's own work.
    stack.lines["worker"].kill_children()
    stack.lines["scanner"].kill_children()
    stack.schedule(receiver.url, ["fresh"], tenant="quiet")
    done = {"delivered": opened + 1, "shadowed": LOUD - opened}
    wait_until(
        lambda: stack.counts() == done,
        PAST_A_LEASE,
        lambda: f"the rest is shadowed, others' are sent; have {stack.counts()}",
    )
    assert receiver.calls.total() == opened + 1
    assert stack.query("SELECT decision, count(*) FROM shadow_deliveries GROUP BY 1") == [("send", LOUD - opened)]

    assert moded(stack, "live")["changed"] == {"loud": "shadow"}
    ((one,),) = stack.query("SELECT reminder_id::text FROM shadow_deliveries ORDER BY 1 LIMIT 1")
    stack.cli("shadow", "release", one, "--reason", "rehearsal")
    stack.schedule(receiver.url, ["after"], tenant="loud")
    done = {"delivered": opened + 3, "shadowed": LOUD - opened - 1}
    wait_until(
        lambda: stack.counts() == done, 60, lambda: f"only what was released, and what is new; have {stack.counts()}"
    )
    assert set(receiver.calls.values()) == {1}

    moded(stack, "off")
    stack.schedule(receiver.url, ["while off"], tenant="loud")
    stack.lines["scanner"].kill_children()
    wait_until(
        lambda: stack.counts().get("held") == 1, PAST_A_LEASE, lambda: f"what is off is held; have {stack.counts()}"
    )
    moded(stack, "live")
    wait_until(
        lambda: stack.counts().get("delivered") == opened + 4,
        PAST_A_LEASE,
        lambda: f"and sent then; have {stack.counts()}",
    )
    assert set(receiver.calls.values()) == {1}
