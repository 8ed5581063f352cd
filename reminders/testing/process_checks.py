"""Checks that one provider serves many threads, and a forked child."""

from __future__ import annotations

import os
import pickle
import select
import signal
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier

import pytest

from reminders.domain.delivery import Delivery
from reminders.domain.outcomes import Delivered
from reminders.pipeline.provider import Provider
from reminders.testing.calling import Called
from reminders.testing.far_side import FarSide
from reminders.testing.neighbour_checks import NeighbourChecks
from reminders.testing.rules import broken
from reminders.testing.scenes import Scene
from reminders.testing.subject import UNHURRIED

THREADS, EACH = 16, 4


class ProcessChecks(NeighbourChecks):
    """See `ProviderContract`."""

    def test_threads(self, far_side: FarSide) -> None:
        provider = self._play(far_side, Scene.ACCEPTS)
        if self._alone(provider, far_side) != "Delivered":
            pytest.skip("not even one thread delivers")
        plain = self._delivery(far_side, provider)
        carried = [self.key_on_the_wire(plain.delivery_key).encode() in call.raw for call in far_side.calls] == [True]
        as_rendered = [call.body for call in far_side.calls] == [self._body(provider, plain)]
        places = self._places(far_side, provider, plain)
        deliveries = [
            replace(
                plain,
                destination=places[n % len(places)],
                delivery_key=f"dk_kit_number_{n:03}",
                data={**plain.data, "order": n, "name": f"Person {n:03}"},
            )
            for n in range(THREADS * EACH)
        ]
        far_side.play(Scene.ACCEPTS)
        results = self._at_once(provider, deliveries)
        if bad := [one for one in results if not isinstance(one.value, Delivered)]:
            one = bad[0].error or bad[0].value
            broken("threads", f"of {len(results)} calls from {THREADS} threads {len(bad)} went wrong, one with {one!r}")
        if not self.calls_out:
            return
        keys = [self.key_on_the_wire(each.delivery_key).encode() for each in deliveries]
        if carried and any(sum(key in call.raw for call in far_side.calls) != 1 for key in keys):
            broken("threads", "keys were mixed up between threads: not each arrived in exactly one call")
        shown = [self.destination_on_the_wire(place).encode() for place in places]
        if carried and len(places) > 1:
            for n, key in enumerate(keys):
                (raw,) = [call.raw for call in far_side.calls if key in call.raw]
                if [text in raw for text in shown] != [place == deliveries[n].destination for place in places]:
                    broken("threads", "destinations were mixed up between threads: not each call arrived at its own")
        if len(far_side.calls) != len(deliveries):
            broken("threads", f"{len(deliveries)} calls were made, and {len(far_side.calls)} arrived")
        bodies = Counter(self._body(provider, each) for each in deliveries)
        if as_rendered and Counter(call.body for call in far_side.calls) != bodies:
            broken("threads", "bodies were mixed up between threads: not each arrived in exactly one call")

    def _places(self, far_side: FarSide, provider: Provider, plain: Delivery) -> list[str]:
        """Two destinations, if one thread that sends to them in turn is seen to reach each; else the one."""
        other = self.other_destination(far_side) if self.calls_out else None
        if other is None:
            return [plain.destination]
        known = plain, replace(plain, destination=other)
        far_side.play(Scene.ACCEPTS)
        for each in known:
            self._send(provider, each)
        return [each.destination for each in known[: 2 if self._all_to(far_side, [*known], *known) else 1]]

    def _at_once(self, provider: Provider, deliveries: list[Delivery]) -> list[Called]:
        """Send all, from many threads that begin together and change places often."""
        together = Barrier(THREADS)

        def work(thread: int) -> list[Called]:
            together.wait(10)
            return [self._send(provider, each) for each in deliveries[thread::THREADS]]

        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-5)
        try:
            with ThreadPoolExecutor(THREADS) as pool:
                return [one for each in pool.map(work, range(THREADS)) for one in each]
        finally:
            sys.setswitchinterval(interval)

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
    def test_fork(self, far_side: FarSide) -> None:
        provider = self._play(far_side, Scene.ACCEPTS)
        if self._alone(provider, far_side) != "Delivered":
            pytest.skip("it does not deliver")
        of_parent = {call.connection for call in far_side.calls}
        before = len(far_side.calls)
        became = self._in_child(provider, self._delivery(far_side, provider, delivery_key="dk_kit_of_the_child"))
        if became != "Delivered":
            broken("fork", f"in a forked child the call came to {became}")
        of_child = {call.connection for call in far_side.calls[before:]}
        if of_parent & of_child:
            broken("fork", "the child called over a connection that its parent had opened")
        became = self._alone(provider, far_side)
        if became != "Delivered":
            broken("fork", f"after a child was forked, its parent's next call came to {became}")

    def _alone(self, provider: Provider, far_side: FarSide) -> str:
        called = self._send(provider, self._delivery(far_side, provider))
        return type(called.error or called.value).__name__

    def _in_child(self, provider: Provider, delivery: Delivery) -> str:
        """What the call comes to in a forked child, by name."""
        body = self._body(provider, delivery)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                outcome: object = provider.send(delivery, body, max(self.deadline, UNHURRIED))
            except BaseException as error:  # noqa: BLE001 (the child must end here)
                outcome = error
            os.write(writing, pickle.dumps(type(outcome).__name__))
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as answer:
            answered, _, _ = select.select([answer], [], [], max(self.deadline, UNHURRIED) + self.slack)
            if not answered:
                os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            found = answer.read()
        return str(pickle.loads(found)) if found else "no outcome within the deadline"  # noqa: S301 (our child's)
