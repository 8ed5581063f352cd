"""Providers that break no rule of the contract, which the broken ones are made from."""

from __future__ import annotations

import json
from datetime import timedelta

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


class Recast(Good):
    """Takes one outcome for another."""

    error_class = ""

    def instead(self, outcome):
        raise NotImplementedError

    def outcome_of(self, answer):
        outcome = super().outcome_of(answer)
        return self.instead(outcome) if outcome.error_class == self.error_class else outcome


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
