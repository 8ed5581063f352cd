"""What an author tells the kit about a provider, and how the checks make and call it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar
from urllib.parse import urlsplit

import pytest

from reminders.domain.delivery import Delivery
from reminders.pipeline.provider import Provider, can_look_up
from reminders.settings import Settings, load
from reminders.testing.calling import Called, watched
from reminders.testing.far_side import FarSide, NoFarSide
from reminders.testing.http_far_side import HttpFarSide
from reminders.testing.sample import sample_delivery, texts
from reminders.testing.scenes import ANSWERS, LOOK_UPS, Scene

UNHURRIED = 5.0
"""Seconds that a call has at least which is not about time: a busy machine must not decide what it comes to."""
_BARE = {"REMINDERS_ALLOW_PRIVATE": "yes"}


class Subject:
    """The hooks. Only `factory` must be set, and `destination` written where `far_side.url` is none."""

    factory: ClassVar[Callable[[Settings], Provider]]
    """What the entry point names."""
    bad_destinations: ClassVar[Sequence[str]] = ()
    """Texts that the channel cannot deliver to, as people get them wrong."""
    cannot: ClassVar[Mapping[Scene, str]] = {}
    """Answers that the far side's protocol has no words for, each with the reason."""
    calls_out: ClassVar[bool] = True
    """False for a provider that calls nobody: what concerns the far side is passed over."""
    installed: ClassVar[bool] = True
    """False where the tests run without the package being installed: its entry point is not looked for."""
    deadline: ClassVar[float] = 1.0
    """Seconds that a call is given where the far side keeps it waiting."""
    slack: ClassVar[float] = 3.0
    """Seconds by which it may overrun them, on a machine that is busy."""

    def new_far_side(self) -> FarSide:
        """A far side for one check."""
        return HttpFarSide() if self.calls_out else NoFarSide()

    def environ(self, far_side: Any) -> Mapping[str, str]:  # noqa: ARG002 (for those who write it)
        """The environment with which the provider can send to the far side; `REMINDERS_ALLOW_PRIVATE` is set besides."""
        return {}

    def destination(self, far_side: Any) -> str:
        """A destination that leads to the far side, as its scene wants it."""
        return str(far_side.url)

    def other_destination(self, far_side: Any) -> str | None:
        """A second destination that leads to the far side; None if there is none. By default another path of a URL."""
        parts = urlsplit(self.destination(far_side))
        return (
            parts._replace(path=f"/other-{parts.path.lstrip('/')}").geturl() if parts.scheme and parts.netloc else None
        )

    def destination_on_the_wire(self, destination: str) -> str:
        """The text that stands for a destination in a request: the path of a URL, else the destination."""
        return urlsplit(destination).path if "://" in destination else destination

    def sample(self) -> Mapping[str, Any]:
        """Fields of `Delivery` that the sample must have for this channel, such as a `template`."""
        return {}

    def key_on_the_wire(self, delivery_key: str) -> str:
        """The text that stands for the delivery key in a request, where it is not the key itself."""
        return delivery_key

    @pytest.fixture
    def far_side(self) -> Iterator[FarSide]:
        """The far side of the running check."""
        one = self.new_far_side()
        yield one
        one.close()

    # What follows is the kit's own.

    def _factory(self) -> Callable[[Settings], Provider]:
        found = inspect.getattr_static(type(self), "factory", None)
        if found is None:
            raise pytest.UsageError(f"{type(self).__name__} needs `factory = your_module.YourProvider`")
        made: Callable[[Settings], Provider] = getattr(found, "__func__", found)
        return made

    def _environ(self, far_side: FarSide | None) -> dict[str, str]:
        return {**_BARE, **(self.environ(far_side) if far_side is not None else {})}

    def _provider(self, far_side: FarSide | None) -> Provider:
        """A new provider; without a far side one without settings."""
        return self._factory()(load(self._environ(far_side)))

    def _play(self, far_side: FarSide, scene: Scene) -> Provider:
        """Set the scene; return a provider that has not called anybody yet."""
        if unfit := [each for each in self.cannot if each not in (*ANSWERS, *LOOK_UPS)]:
            raise pytest.UsageError(f"`cannot` may not name {', '.join(unfit)}: every network can do that")
        if not self.calls_out and scene is not Scene.ACCEPTS:
            pytest.skip("this provider calls nobody")
        if scene in self.cannot:
            pytest.skip(self.cannot[scene])
        far_side.play(scene)
        return self._provider(far_side)

    def _can_play(self, scene: Scene) -> bool:
        return scene not in self.cannot and (self.calls_out or scene is Scene.ACCEPTS)

    def _delivery(self, far_side: FarSide, provider: Provider, **changes: Any) -> Delivery:
        plain = {"body_format": provider.body_format, **self.sample(), **changes}
        destination = plain.pop("destination", None)
        if destination is None:
            destination = self.destination(far_side) if self.calls_out else self._destination_of_nobody(far_side)
        return sample_delivery(provider.channel, destination, **plain)

    def _destination_of_nobody(self, far_side: FarSide) -> str:
        written = type(self).destination is not Subject.destination
        return self.destination(far_side) if written else "kit-destination"

    def _body(self, provider: Provider, delivery: Delivery) -> bytes:
        """Its body; where `render` is at fault, which is another check's, any other."""
        try:
            body = provider.render(delivery)
        except Exception:  # noqa: BLE001
            return b"{}"
        return body if type(body) is bytes else b"{}"

    def _send(
        self, provider: Provider, delivery: Delivery, deadline: float | None = None, body: bytes | None = None
    ) -> Called:
        body = self._body(provider, delivery) if body is None else body
        given = max(self.deadline, UNHURRIED) if deadline is None else deadline
        return watched(lambda: provider.send(delivery, body, given), max(given, 0.0) + self.slack)

    def _look_up(self, provider: Provider, delivery: Delivery, deadline: float | None = None) -> Called:
        asked = can_look_up(provider)
        if asked is None:
            pytest.skip("its far side cannot be asked for a key")
        given = max(self.deadline, UNHURRIED) if deadline is None else deadline
        return watched(lambda: asked.look_up(delivery, given), given + self.slack)

    def _secrets(self, far_side: FarSide) -> set[str]:
        found = set()
        for name, value in self.environ(far_side).items():
            if "://" not in value:
                found |= {value} if len(value) >= 8 and name != "REMINDERS_ALLOW_PRIVATE" else set()
            elif password := urlsplit(value).password:
                found |= {value, password}
        return found

    def _private(self, far_side: FarSide, delivery: Delivery) -> set[str]:
        """Texts that must not come to light."""
        path = urlsplit(delivery.destination).path if "://" in delivery.destination else ""
        places = {delivery.destination} | ({path} if len(path) >= 8 else set())
        return places | set(texts(delivery.data)) | self._secrets(far_side)
