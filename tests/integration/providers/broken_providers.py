"""Providers that each break one rule of the contract, and a good one that they are made from."""

from __future__ import annotations

import http.client
import json
import logging
import os
import socket
import threading
import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from reminders.providers import (
    Absent,
    Answer,
    Blocked,
    Delivered,
    Found,
    HttpClient,
    InvalidInput,
    Rejected,
    Retry,
    SettingsError,
    Undecided,
    Unknown,
    parse_destination,
    redact,
)

logger = logging.getLogger(__name__)


class Good:
    """Breaks nothing."""

    channel = "fax"
    deduplicates = True
    body_format = 1

    def __init__(self, settings):
        self.token = settings.x("FAX_TOKEN")
        self.private = settings.allow_private
        self.http = HttpClient(allow_private=settings.allow_private, idle_limit=32)

    def ready(self):
        if self.token is None:
            raise SettingsError("REMINDERS_X_FAX_TOKEN is not set")

    def check_destination(self, destination):
        parse_destination(destination, allow_private=self.private)

    def render(self, delivery):
        if delivery.body_format != 1:
            raise ValueError("unknown body format")
        return json.dumps({"kind": delivery.kind, "data": dict(delivery.data)}, sort_keys=True).encode()

    def send(self, delivery, body, deadline):
        if self.token is None:
            return Retry("not_configured", "nothing was sent")
        return self.outcome_of(self.exchange(delivery, body, deadline))

    def exchange(self, delivery, body, deadline):
        try:
            target = parse_destination(delivery.destination, allow_private=self.private)
        except InvalidInput:
            return Rejected("unsendable", "no destination")
        headers = {"authorization": f"Bearer {self.token}", "idempotency-key": delivery.delivery_key}
        return self.http.post(target, headers, body, deadline)

    def outcome_of(self, answer):
        if not isinstance(answer, Answer):
            return answer
        code, error, reason = answer.status, f"http_{answer.status}", redact(answer.body)
        match code:
            case 200:
                return Delivered("far-side-1", code)
            case 401:
                return Blocked("provider", timedelta(minutes=5), error, reason, code)
            case 429:
                return Retry(error, reason, code)
            case 410:
                return Rejected(error, reason, code, gone=True)
            case _ if 400 <= code < 500:
                return Rejected(error, reason, code)
        return Unknown(error, reason, code)


class RaisesAtARefusal(Good):
    def outcome_of(self, answer):
        if isinstance(answer, Answer) and answer.status == 400:
            raise RuntimeError("refused")
        return super().outcome_of(answer)


class ReturnsNothingWhereItIsGone(Good):
    def outcome_of(self, answer):
        outcome = super().outcome_of(answer)
        return None if outcome.status_code == 410 else outcome


class RaisesForABadDestination(Good):
    def send(self, delivery, body, deadline):
        self.check_destination(delivery.destination)
        return super().send(delivery, body, deadline)


class RaisesWithoutTime(Good):
    def send(self, delivery, body, deadline):
        if deadline <= 0:
            raise ValueError("timeout value must be positive")
        return super().send(delivery, body, deadline)


class TimesOutByTheByte(Good):
    """Its time-out begins anew with every byte, as that of requests does."""

    def exchange(self, delivery, body, deadline):
        first = super().exchange(delivery, body, 0.0)
        if isinstance(first, Rejected) or deadline < 0.01:
            return first
        host = delivery.destination.split("/")[2]
        connection = http.client.HTTPConnection(host, timeout=deadline)
        try:
            connection.connect()
        except OSError:
            return Retry("connect", "nothing was sent")
        try:
            connection.request("POST", "/", body, {"idempotency-key": delivery.delivery_key})
            answer = connection.getresponse()
            return Answer(answer.status, {}, answer.read())
        except (OSError, http.client.HTTPException):
            return Unknown("lost", "no answer")
        finally:
            connection.close()


class AnswersByItsOwnTimeOut(Good):
    def exchange(self, delivery, body, deadline):
        return super().exchange(delivery, body, deadline + 30.0 if deadline > 0.01 else deadline)


class Recast(Good):
    """Takes one outcome for another."""

    error_class = ""

    def instead(self, outcome):
        raise NotImplementedError

    def outcome_of(self, answer):
        outcome = super().outcome_of(answer)
        return self.instead(outcome) if outcome.error_class == self.error_class else outcome


class TakesALostConnectionForARetry(Recast):
    error_class = "closed"

    def instead(self, outcome):
        return Retry("closed", outcome.reason)


class TakesATimeOutForARetry(Recast):
    error_class = "deadline"

    def instead(self, outcome):
        return Retry("timeout", outcome.reason)


class TakesAServerErrorForARetry(Recast):
    error_class = "http_500"

    def instead(self, outcome):
        return Retry("http_500", outcome.reason)


class TakesARefusedConnectionForUnknown(Recast):
    error_class = "connect_refused"

    def instead(self, outcome):
        return Unknown("connect_refused", outcome.reason)


class TakesBusyForARefusal(Recast):
    error_class = "http_429"

    def instead(self, outcome):
        return Rejected("http_429", outcome.reason)


class TakesBadCredentialsForARefusal(Recast):
    error_class = "http_401"

    def instead(self, outcome):
        return Rejected("http_401", outcome.reason)


class TakesGoneForARefusal(Recast):
    error_class = "http_410"

    def instead(self, outcome):
        return replace(outcome, gone=False)


class TakesARefusalForGone(Recast):
    error_class = "http_400"

    def instead(self, outcome):
        return replace(outcome, gone=True)


class TakesNonsenseForASuccess(Recast):
    error_class = "malformed_answer"

    def instead(self, outcome):
        return Delivered()


class TriesAgainByItself(Good):
    def send(self, delivery, body, deadline):
        outcome = super().send(delivery, body, deadline)
        return super().send(delivery, body, deadline) if outcome.error_class == "http_500" else outcome


class WritesTheAttemptIntoTheRequest(Good):
    def send(self, delivery, body, deadline):
        return super().send(delivery, body + str(delivery.attempt).encode(), deadline)


class AppendsTheAttemptToTheKey(Good):
    def send(self, delivery, body, deadline):
        other = replace(delivery, delivery_key=f"{delivery.delivery_key}-{delivery.attempt}")
        return super().send(other, body, deadline)


class SendsNoKey(Good):
    def send(self, delivery, body, deadline):
        return super().send(replace(delivery, delivery_key="none"), body, deadline)


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


class SharesAFieldBetweenThreads(Good):
    def send(self, delivery, body, deadline):
        self.now = delivery, body
        threading.Event().wait(0.002)
        return super().send(*self.now, deadline)


class KeepsItsParentsConnections(Good):
    def send(self, delivery, body, deadline):
        self.http._idle._pid = os.getpid()
        return super().send(delivery, body, deadline)


class LogsTheDestination(Good):
    def send(self, delivery, body, deadline):
        logger.info("to %s", delivery.destination)
        return super().send(delivery, body, deadline)


class LogsTheData(Good):
    def send(self, delivery, body, deadline):
        logger.warning("sending %s", body.decode())
        return super().send(delivery, body, deadline)


class ShowsItsToken(Good):
    def __repr__(self):
        return f"Fax(token={self.token!r})"


class NamesTheDestinationInAReason(Good):
    def send(self, delivery, body, deadline):
        outcome = super().send(delivery, body, deadline)
        return replace(outcome, reason=f"{delivery.destination}: no") if isinstance(outcome, Unknown) else outcome


class KeepsTheFarSidesWords(Recast):
    error_class = "http_400"

    def exchange(self, delivery, body, deadline):
        self.answer = super().exchange(delivery, body, deadline)
        return self.answer

    def instead(self, outcome):
        return replace(outcome, reason=self.answer.body.decode("utf-8", "replace").replace("\0", "")[:500])


class SaysTooMuch(Recast):
    error_class = "http_400"

    def instead(self, outcome):
        return replace(outcome, reason="x" * 501)


class SaysWhatCannotBeStored(Recast):
    error_class = "http_400"

    def instead(self, outcome):
        return replace(outcome, reason="a\0b")


class NumbersItsReference(Good):
    def outcome_of(self, answer):
        outcome = super().outcome_of(answer)
        return replace(outcome, reference=17) if isinstance(outcome, Delivered) else outcome


class CountsSecondsAsNumbers(Recast):
    error_class = "http_429"

    def instead(self, outcome):
        return Retry("http_429", "busy", 429, after=30)


class NamesNoError(Recast):
    error_class = "http_500"

    def instead(self, outcome):
        return replace(outcome, error_class="")


class Asked(Good):
    """Breaks nothing, and can be asked for a key."""

    looks_up = True
    settle = 0.0

    def look_up(self, delivery, deadline):
        answer = self.exchange(delivery, b"", deadline)
        if isinstance(answer, Answer):
            match answer.status:
                case 200:
                    return Found("far-side-1", 200)
                case 404:
                    return Absent("it says so", 404)
            return Undecided(f"http_{answer.status}", "no answer that decides", answer.status)
        return Undecided(answer.error_class, answer.reason)


class DoesNotSayWhenItSettles(Asked):
    settle = None


class RaisesWhenAsked(Asked):
    def look_up(self, delivery, deadline):
        answer = super().look_up(delivery, deadline)
        if answer.status_code == 500:
            raise RuntimeError("the far side failed")
        return answer


class TakesSilenceForAbsence(Asked):
    def look_up(self, delivery, deadline):
        answer = super().look_up(delivery, deadline)
        return Absent("nothing found") if answer == Undecided("deadline", "no answer before the deadline") else answer


class TakesAbsenceForAFind(Asked):
    def look_up(self, delivery, deadline):
        answer = super().look_up(delivery, deadline)
        return Found() if isinstance(answer, Absent) else answer


class AsksForEver(Asked):
    def look_up(self, delivery, deadline):
        return super().look_up(delivery, deadline + 30.0)


class AnswersInWords(Asked):
    def look_up(self, delivery, deadline):
        answer = super().look_up(delivery, deadline)
        return "yes" if isinstance(answer, Found) else answer
