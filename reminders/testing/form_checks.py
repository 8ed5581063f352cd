"""Checks of what a provider is: how it is found, set up and asked whether it is ready."""

from __future__ import annotations

from importlib.metadata import entry_points

from reminders.domain.delivery import Delivery
from reminders.domain.errors import InvalidInput, SettingsError
from reminders.domain.outcomes import Blocked, Retry
from reminders.pipeline.provider import Provider, wrong_for_look_ups, wrong_for_templates
from reminders.settings import load
from reminders.testing.calling import no_network, watched
from reminders.testing.far_side import FarSide
from reminders.testing.other_process import render_elsewhere
from reminders.testing.rules import broken
from reminders.testing.subject import Subject

GROUP = "reminders.providers"
BAD_TEXTS = {
    "a line end": "{}\r\nX-Kit: 1",
    "a line feed before it": "\n{}",
    "NUL": "{}\0",
    "an escape": "\x1b{}",
    "a C1 control": "{}\x85",
    "DEL": "{}\x7f",
    "half a surrogate pair": "{}\ud800",
    "over 2,000 characters": "{}" + "1" * 2001,
}


class FormChecks(Subject):
    """See `ProviderContract`."""

    def test_entry_point(self, far_side: FarSide) -> None:
        factory, provider = self._factory(), self._provider(far_side)
        if "." in factory.__qualname__:
            broken(
                "entry-point", f"{factory.__qualname__} is not a name of its module, which an entry point could give"
            )
        place = f"{factory.__module__}:{factory.__qualname__}"
        if not self.installed:
            return
        names = {point.name for point in entry_points(group=GROUP) if point.value.replace(" ", "") == place}
        if not names:
            broken("entry-point", f'no installed package has an entry point of the group "{GROUP}" that names {place}')
        if names != {provider.channel}:
            known = ", ".join(sorted(names))
            broken("entry-point", f"the entry point is called {known}, and its provider's channel {provider.channel!r}")

    def test_import_brings_no_celery(self) -> None:
        if unwanted := render_elsewhere(self._factory(), {}, []).unwanted:
            broken("import", f"importing {self._factory().__module__} imports {', '.join(unwanted)}")

    def test_attributes(self, far_side: FarSide) -> None:
        provider = self._provider(far_side)
        deduplicates: object = provider.deduplicates
        body_format: object = provider.body_format
        if not isinstance(deduplicates, bool):
            broken("types", f"deduplicates is {deduplicates!r}, not a bool")
        if type(body_format) is not int or body_format < 1:
            broken("types", f"body_format is {body_format!r}, not a whole number from 1")
        if hasattr(provider, "look_up") and (wrong := wrong_for_look_ups(provider)):
            broken("types", wrong)
        if hasattr(provider, "template_parts") and (wrong := wrong_for_templates(provider)):
            broken("types", wrong)

    def test_without_settings(self, far_side: FarSide) -> None:
        delivery = self._delivery(far_side, self._provider(far_side))
        try:
            bare = self._provider(None)
            self._schedule(bare, delivery)
        except Exception as error:  # noqa: BLE001
            if self._can_schedule(far_side, delivery):
                broken("unconfigured", f"an application without settings could not schedule: {error!r} was raised")
            return
        try:
            bare.ready()
        except Exception:  # noqa: BLE001 (which one is another check's)
            called = self._send(bare, delivery)
            if far_side.calls or not isinstance(called.value, Retry | Blocked):
                broken("unconfigured", f"`ready` raises without settings, and yet `send` came to {called.value!r}")

    def _can_schedule(self, far_side: FarSide, delivery: Delivery) -> bool:
        """Whether it can with settings: if not, that is another check's."""
        try:
            self._schedule(self._provider(far_side), delivery)
        except Exception:  # noqa: BLE001
            return False
        return True

    @staticmethod
    def _schedule(provider: Provider, delivery: Delivery) -> None:
        provider.check_destination(delivery.destination)
        provider.render(delivery)

    def test_ready(self, far_side: FarSide) -> None:
        try:
            self._provider(far_side).ready()
        except Exception as error:  # noqa: BLE001
            broken("ready", f"with the settings of `environ` it raised {error!r}")
        try:
            bare = self._provider(None)
        except Exception:  # noqa: BLE001 (another check's)
            return
        try:
            bare.ready()
        except SettingsError:
            pass
        except Exception as error:  # noqa: BLE001
            broken("ready", f"without settings it raised {type(error).__name__}, which is no SettingsError")

    def test_good_destination(self, far_side: FarSide) -> None:
        provider = self._provider(far_side)
        destination = self._delivery(far_side, provider).destination
        try:
            provider.check_destination(destination)
        except Exception as error:  # noqa: BLE001
            broken("destination", f"{destination!r} is a good one, and {error!r} was raised")

    def test_bad_destinations(self, far_side: FarSide) -> None:
        provider = self._provider(far_side)
        for bad in self.bad_destinations:
            self._must_refuse(provider.check_destination, bad, "destination", repr(bad))

    def test_destinations_that_are_no_text_for_any_channel(self, far_side: FarSide) -> None:
        provider = self._provider(far_side)
        good = self._delivery(far_side, provider).destination
        self._must_refuse(provider.check_destination, "", "destination-text", "the empty text")
        for what, form in BAD_TEXTS.items():
            self._must_refuse(provider.check_destination, form.format(good), "destination-text", f"one with {what}")

    def test_no_network_before_sending(self, far_side: FarSide) -> None:
        factory = self._factory()
        settings = load(self._environ(far_side))
        destination = self._delivery(far_side, self._provider(far_side)).destination

        def schedule_and_render() -> None:
            provider = factory(settings)
            for each in (destination, *self.bad_destinations):
                watched(lambda each=each: provider.check_destination(each), self.deadline + self.slack)  # type: ignore[misc]
            self._body(provider, self._delivery(far_side, provider))

        with no_network() as tried:
            watched(schedule_and_render, 10.0)
        if tried:
            broken("offline", f"{tried[0]} was called before anything was to be sent")

    @staticmethod
    def _must_refuse(check: object, destination: str, rule: str, what: str) -> None:
        assert callable(check)
        try:
            check(destination)
        except InvalidInput as error:
            if error.field != "destination":
                broken("destination", f"{what} is refused for the field {error.field!r}, not 'destination'")
        except Exception as error:  # noqa: BLE001
            broken("destination", f"for {what} it raised {type(error).__name__}, which is no InvalidInput")
        else:
            broken(rule, f"{what} is accepted")
