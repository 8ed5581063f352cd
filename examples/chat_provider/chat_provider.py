"""Channel `chat`: posts to the incoming webhook of a chat room, with the token of our integration."""

import json
from datetime import timedelta

from reminders import providers as p


class ChatProvider:
    channel = "chat"
    deduplicates = False  # a chat shows a message that comes twice twice
    body_format = 1

    def __init__(self, settings: p.Settings) -> None:
        self._token = settings.x("CHAT_TOKEN")  # REMINDERS_X_CHAT_TOKEN
        self._allow_private = settings.allow_private
        self._http = p.HttpClient(allow_private=settings.allow_private, idle_limit=settings.concurrency)

    def ready(self) -> None:
        if self._token is None:
            raise p.SettingsError("REMINDERS_X_CHAT_TOKEN is not set: the chat would refuse every message")

    def check_destination(self, destination: str) -> None:
        p.parse_destination(destination, allow_private=self._allow_private)

    def render(self, delivery: p.Delivery) -> bytes:
        if delivery.body_format != 1:
            raise ValueError(f"body format {delivery.body_format} is not known to this release")
        text = f"{delivery.kind.replace('_', ' ')}: {delivery.reference or delivery.due_at.date()}"
        return json.dumps({"text": text, "data": dict(delivery.data)}, sort_keys=True).encode()

    def send(self, delivery: p.Delivery, body: bytes, deadline: float) -> p.Outcome:
        if self._token is None:
            return p.Retry("not_configured", "REMINDERS_X_CHAT_TOKEN is not set; nothing was sent")
        try:
            target = p.parse_destination(delivery.destination, allow_private=self._allow_private)
        except p.InvalidInput as error:  # it was checked, by rules that may have changed since
            return p.Rejected("unsendable", error.reason)
        headers = {"content-type": "application/json", "authorization": f"Bearer {self._token}"}
        answer = self._http.post(target, headers, body, deadline)
        return outcome_of(answer) if isinstance(answer, p.Answer) else answer


def outcome_of(answer: p.Answer) -> p.Outcome:
    error, reason, status = f"http_{answer.status}", p.redact(answer.body), answer.status
    match status:
        case 200 | 201 | 204:
            return p.Delivered(status_code=status)
        case 401 | 403:  # nothing is wrong with this message: hold the channel until the token is put right
            return p.Blocked("provider", timedelta(minutes=5), error, reason, status)
        case 429:
            return p.Retry(error, reason, status, after=timedelta(minutes=1))
        case 404 | 410:  # the room is gone
            return p.Rejected(error, reason, status, gone=True)
        case _ if 400 <= status < 500:
            return p.Rejected(error, reason, status)
        case _:  # it may have been posted all the same
            return p.Unknown(error, reason, status)
