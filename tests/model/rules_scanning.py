"""Scanners, and what becomes of the messages they send."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from model.model_broker import FAIR, Weather
from model.model_scanner import ModelScanner
from model.rules import MachineRules, number, rarely

WEATHER = st.sampled_from([FAIR, FAIR, Weather(taken=0), Weather(taken=1), Weather(admitted=0), Weather(admitted=1)])
"""Accepted; refused; the first only; taken, but not admitted."""


class ScanningRules(MachineRules):
    def __init__(self) -> None:
        super().__init__()
        self.scanners = [ModelScanner(self.stage), ModelScanner(self.stage)]

    def _looking(self):
        return [each for each in self.scanners if each.look is not None]

    def _idle(self):
        return [each for each in self.scanners if each.look is None]

    @rule(weather=WEATHER, pick=number)
    @precondition(lambda self: self._idle())
    def scan(self, weather, pick):
        """A look without a stop."""
        idle = self._idle()
        scanner = idle[pick % len(idle)]
        scanner.weather = weather
        scanner.once()

    @rule()
    @precondition(lambda self: self._idle())
    def begin_scan(self):
        """A look at the next wake that stands still when its leases are committed, if there are any."""
        self.clock.forward(self.stage.seconds_to_next_wake())
        scanner = self._idle()[0]
        if scanner.start().resume() == "end":
            scanner.finish()

    @rule(pick=number, weather=WEATHER, dies=rarely)
    @precondition(lambda self: self._looking())
    def go_on_scanning(self, pick, weather, dies):
        looking = self._looking()
        scanner = looking[pick % len(looking)]
        scanner.weather = weather
        if dies:
            scanner.look.kill()
            self.scanners[self.scanners.index(scanner)] = ModelScanner(self.stage)
        elif scanner.look.resume() == "end":
            scanner.finish()

    @rule(what=st.sampled_from(["lose", "repeat", "redeliver", "flush"]), pick=number)
    @precondition(lambda self: self.stage.broker.queued or self.stage.broker.unacknowledged)
    def trouble_on_the_broker(self, what, pick):
        broker = self.stage.broker
        if what == "flush":
            broker.flush()
        elif what == "redeliver" and broker.unacknowledged:
            broker.redeliver(pick)
        elif what == "lose" and broker.queued:
            broker.queued.pop(pick % len(broker.queued))
        elif broker.queued:
            broker.queued.append(broker.queued[pick % len(broker.queued)])
