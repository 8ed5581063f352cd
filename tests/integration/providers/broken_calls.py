"""Providers that break a rule of the contract when they call: what they send, say and disclose."""

from __future__ import annotations

import http.client
import logging
import os
import threading
from dataclasses import replace

from integration.providers.sound_providers import Asked, Good, Recast
from reminders.providers import Absent, Answer, Delivered, Found, Rejected, Retry, Undecided, Unknown

logger = logging.getLogger(__name__)


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


class SharesAFieldBetweenThreads(Good):
    def send(self, delivery, body, deadline):
        self.now = delivery, body
        threading.Event().wait(0.002)
        return super().send(*self.now, deadline)


class SendsToTheFirstDestinationItSaw(Good):
    first = None

    def send(self, delivery, body, deadline):
        self.first = self.first or delivery.destination
        return super().send(replace(delivery, destination=self.first), body, deadline)


class SharesThePlaceBetweenThreads(Good):
    def send(self, delivery, body, deadline):
        self.place = delivery.destination
        threading.Event().wait(0.002)
        return super().send(replace(delivery, destination=self.place), body, deadline)


class CallsOneAfterTheOther(Good):
    lock = threading.Lock()

    def send(self, delivery, body, deadline):
        with self.lock:
            return super().send(delivery, body, deadline)


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
