"""Time moves: leases, claims, deadlines, expiries and windows end."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import rule

from model.rules import MachineRules

DAY = 86400.0
SPANS = (1.0, 6.0, 16.0, 31.0, 31.0, 61.0, 121.0, 121.0, 4100.0, DAY, 4 * DAY, 7.5 * DAY)
"""Seconds: little; a retry; the last moment for a call under a claim; a claim; a lease; a deadline; `DUE_IN`; of a budget's wait;
beyond it; beyond the deduplication window."""


class TimeRules(MachineRules):
    @rule(seconds=st.sampled_from(SPANS))
    def let_pass(self, seconds):
        self.clock.forward(seconds)
