"""A scanner: the real `Scan`, standing still after each of its commits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from model.model_broker import FAIR
from model.model_stage import SCANNING, Stage
from model.puppet import Puppet
from reminders.ledger.scanning import PostgresScan
from reminders.pipeline import scan
from reminders.pipeline.ports import Message
from reminders.pipeline.scan import Pass, Scan


class ModelScanner:
    """One scanner's process. A look stands still when rows are `leased`, when they are `marked`, and when messages
    are `sent`."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.weather = FAIR
        self.look: Puppet | None = None
        scan.time = stage.clock
        self._scan = Scan(_Ledger(self), self, stage.broker, SCANNING)

    def start(self) -> Puppet:
        self.look = Puppet(lambda _: self._scan.once())
        return self.look

    def once(self) -> Pass:
        """One look without a pause."""
        self.start().resume(through=True)
        self.finish()
        return self.last

    def finish(self) -> None:
        """Read the result of the look that is over."""
        assert self.look is not None
        if self.look.error is not None:
            raise self.look.error
        self.last: Pass = self.look.result
        self.look = None

    def publish(self, messages: Sequence[Message]) -> int:
        accepted = self.stage.broker.publish(messages, self.weather)
        self.weather = FAIR
        self.pause("sent")
        return accepted

    def pause(self, where: str) -> None:
        assert self.look is not None
        self.look.pause(where)


class _Ledger(PostgresScan):
    def __init__(self, scanner: ModelScanner) -> None:
        super().__init__(scanner.stage.database)
        self._scanner = scanner

    def lease(self, *given: Any, **named: Any) -> list[Message]:
        leased = super().lease(*given, **named)
        self._scanner.pause("leased")
        return leased

    def lease_from_lanes(self, *given: Any, **named: Any) -> list[Message]:
        leased = super().lease_from_lanes(*given, **named)
        self._scanner.pause("leased")
        return leased

    def mark_published_if_leased(self, *given: Any, **named: Any) -> Any:
        marked = super().mark_published_if_leased(*given, **named)
        self._scanner.pause("marked")
        return marked
