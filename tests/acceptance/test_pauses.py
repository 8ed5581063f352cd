"""A tenant is paused in the middle of a drain, and resumed at a rate, by commands against running processes; scanners are killed."""

from __future__ import annotations

import json
import threading
import time

import pytest

from acceptance.harness import PAST_A_LEASE, Stack, wait_until
from acceptance.scripted_receiver import ScriptedReceiver

LOUD, RATE = 300, 40


@pytest.mark.timeout(300)
def test_a_tenant_is_paused_in_mid_drain_and_resumed_at_a_rate_while_scanners_are_killed(
    stack: Stack, receiver: ScriptedReceiver
) -> None:
    gate = threading.Event()
    receiver.answer = lambda key, call, body: 200 if gate.wait(60) else 500
    # A call may stay open while the command starts on a busy machine, and spare processes may join meanwhile.
    patient = {"REMINDERS_HTTP_DEADLINE": "40s", "REMINDERS_CLAIM": "60s", "REMINDERS_GRACE": "50s"}
    stack.start("beat", "scanner", "worker", "alone", REMINDERS_SCAN_EVERY="5s", REMINDERS_IN_FLIGHT="64", **patient)
    stack.schedule(receiver.url, [f"r{n}" for n in range(LOUD)], tenant="loud")
    receiver.wait_for(lambda r: len(r.calls) >= 32, 60, "many are in mid-call")
    said = json.loads(stack.cli("pause", "--tenant", "loud", "--reason", "rehearsal", "--json").stdout)
    opened = said["open_claims"]
    assert said["created"]
    assert 32 <= opened < LOUD - RATE - 1
    stack.schedule(receiver.url, ["fresh"], tenant="quiet")
    gate.set()
    stack.lines["scanner"].kill_children()
    held = {"delivered": opened + 1, "held": LOUD - opened}
    wait_until(
        lambda: stack.counts() == held,
        PAST_A_LEASE,
        lambda: f"what is paused is held, the rest delivered; have {stack.counts()}",
    )
    assert receiver.calls.total() == opened + 1
    resumed_at = time.time()
    stack.cli("resume", said["id"], "--rate", f"{RATE}/s")
    receiver.wait_for(lambda r: r.calls.total() > opened + 1 + RATE, 40, "what was held is sent again")
    stack.lines["scanner"].kill_children()
    stack.wait_all("delivered", LOUD + 1, PAST_A_LEASE)
    assert set(receiver.calls.values()) == {1}
    assert max(at for at, _ in receiver.order) - resumed_at > (LOUD - opened - 1) / RATE
