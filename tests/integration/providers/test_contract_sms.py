"""Channel `sms` keeps the contract of providers, by a gateway that speaks Twilio's API."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import ClassVar
from urllib.parse import unquote_plus
from uuid import UUID

from reminders.domain.template import Template
from reminders.providers import sms
from reminders.testing import HttpFarSide, ProviderContract, Scene, http_answer

SENDER, TO = "+4930123456", "+12025550143"
CLAIMED = datetime(2030, 3, 31, 7, tzinfo=UTC)
WORDS = "{{ kind }} {{ reference }}: {{ data.order }}, {{ data.email }}"
MESSAGE = {"sid": "SM1", "to": TO, "from": SENDER, "body": "payment_due order-17: 17, ada.kit@example.org"}
LISTED = {"messages": [{**MESSAGE, "date_created": format_datetime(CLAIMED), "status": "sent"}]}


def refusing(call):
    said = unquote_plus(call.body.decode()) + "\0" + "and so on" * 100
    return http_answer(400, json.dumps({"code": 21211, "message": said}).encode())


class TestSms(ProviderContract):
    factory = sms.provider
    # A call has been sent within it, and is back soon after it, on a busy machine too.
    deadline = 1.0
    slack = 3.0
    bad_destinations = ("12025550143", "+49", "+1 202 555 0143", "ada@example.org")
    cannot: ClassVar = {Scene.IS_GONE: "a number that is no more is refused like any other that cannot be reached"}

    def new_far_side(self):
        return HttpFarSide(
            {
                Scene.ACCEPTS: http_answer(201, json.dumps(MESSAGE).encode()),
                Scene.REFUSES: refusing,
                Scene.KNOWS_THE_KEY: http_answer(200, json.dumps(LISTED).encode()),
                Scene.DOES_NOT_KNOW_THE_KEY: http_answer(200, b'{"messages": []}'),
            }
        )

    def environ(self, far_side):
        return {"REMINDERS_SMS_URL": f"twilio+http://AC17:hunter22-token@127.0.0.1:{far_side.port}?from=%2B4930123456"}

    def destination(self, far_side):
        return TO

    def other_destination(self, far_side):
        return "+12025550199"

    def destination_on_the_wire(self, destination):
        return destination.removeprefix("+")

    def sample(self):
        template = Template(UUID(int=7), "", "payment_due", "sms", "", 1, {"text": WORDS})
        return {
            "template": template,
            "uncertain_since": CLAIMED,
            "claimed_at": CLAIMED + timedelta(minutes=10),
        }
