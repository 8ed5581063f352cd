"""Providers that break a rule of the contract before they call: bodies, destinations, settings, attributes."""

from __future__ import annotations

import json
import logging
import socket
import uuid
from dataclasses import replace
from datetime import UTC, datetime

from integration.providers.sound_providers import Good
from reminders.providers import (
    InvalidInput,
    SettingsError,
)

logger = logging.getLogger(__name__)


class WritesTheAttemptIntoTheBody(Good):
    def render(self, delivery):
        return super().render(delivery) + str(delivery.attempt).encode()


class WritesTheDayIntoTheBody(Good):
    def render(self, delivery):
        return super().render(delivery) + str(datetime.now(UTC).date()).encode()


class WritesTheMachinesTimeIntoTheBody(Good):
    def render(self, delivery):
        return super().render(delivery) + str(delivery.due_at.astimezone().hour).encode()


class WritesAHashIntoTheBody(Good):
    def render(self, delivery):
        return super().render(delivery) + str(hash(delivery.kind)).encode()


class KeepsTheOrderOfKeys(Good):
    def render(self, delivery):
        super().render(delivery)
        return json.dumps(dict(delivery.data)).encode()


class WritesChanceIntoTheBody(Good):
    def render(self, delivery):
        return super().render(delivery) + uuid.uuid4().bytes


class RendersText(Good):
    def render(self, delivery):
        return super().render(delivery).decode()


class RaisesWhenItRenders(Good):
    def render(self, delivery):
        raise KeyError("first_name")


class ChangesTheData(Good):
    def render(self, delivery):
        delivery.data["seen"] = True
        return super().render(delivery)


class ForgetsAnEarlierFormat(Good):
    body_format = 2

    def render(self, delivery):
        return super().render(replace(delivery, body_format=delivery.body_format - 1))


class RendersFormatsToCome(Good):
    def render(self, delivery):
        return super().render(replace(delivery, body_format=1))


class AcceptsWhatCannotBe(Good):
    def check_destination(self, destination):
        if not destination.isprintable() or not 1 <= len(destination) <= 2000:
            raise InvalidInput("destination", "no")


class AcceptsControls(Good):
    def check_destination(self, destination):
        super().check_destination("".join(each for each in destination if each.isprintable()))


class AcceptsTextWithoutEnd(Good):
    def check_destination(self, destination):
        super().check_destination(destination[:2000])


class RefusesWithAnotherError(Good):
    def check_destination(self, destination):
        try:
            super().check_destination(destination)
        except InvalidInput as error:
            raise ValueError(error.reason) from None


class RefusesAnotherField(Good):
    def check_destination(self, destination):
        try:
            super().check_destination(destination)
        except InvalidInput as error:
            raise InvalidInput("to", error.reason) from None


class RefusesWhatIsGood(Good):
    def check_destination(self, destination):
        raise InvalidInput("destination", "no")


class LooksTheNameUp(Good):
    def check_destination(self, destination):
        super().check_destination(destination)
        try:
            socket.getaddrinfo(destination.split("/")[2].partition(":")[0], 443)
        except OSError:
            logger.debug("no such name")


class ConnectsWhenItIsMade(Good):
    def __init__(self, settings):
        super().__init__(settings)
        with socket.socket() as sock:
            sock.connect_ex(("127.0.0.1", 9))


class NeedsItsTokenToSchedule(Good):
    def __init__(self, settings):
        super().__init__(settings)
        super().ready()


class SendsWithoutItsToken(Good):
    def send(self, delivery, body, deadline):
        return self.outcome_of(self.exchange(delivery, body, deadline))


class RaisesWhenAskedWhetherItIsReady(Good):
    def ready(self):
        if self.token is None:
            raise KeyError("REMINDERS_X_FAX_TOKEN")


class IsNeverReady(Good):
    def ready(self):
        raise SettingsError("REMINDERS_X_FAX_NUMBER is not set")


class SaysNotWhetherItDeduplicates(Good):
    deduplicates = None


class CountsItsFormatsInWords(Good):
    body_format = "1"

    def render(self, delivery):
        return super().render(replace(delivery, body_format=1))
