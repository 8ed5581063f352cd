"""Publishing: what arrives, what is promised about it, and how long it takes when nobody is there."""

import json
from base64 import b64decode
from time import monotonic
from uuid import uuid4

import pytest

from reminders.broker.publishing import PIPELINE, KombuPublisher
from reminders.pipeline.ports import Message
from reminders.settings import Secret, Settings


def messages(number, key="k" * 46, route="deliver"):
    return [Message(uuid4(), key, route) for _ in range(number)]


@pytest.fixture
def publisher(broker_settings):
    publisher = KombuPublisher(broker_settings)
    yield publisher
    publisher.close()


def test_messages_arrive_in_order_on_the_queue_of_their_route(publisher, server):
    sent = [*messages(3), *messages(2, route="alone")]

    assert publisher.publish(sent) == 5

    arrived = [json.loads(raw) for raw in reversed(server.client.lrange("reminders:deliver", 0, -1))]
    bodies = [json.loads(b64decode(message["body"]))[0] for message in arrived]
    assert bodies == [[str(message.reminder_id), message.delivery_key] for message in sent[:3]]
    assert server.waiting("alone") == 2
    assert len({message["headers"]["id"] for message in arrived}) == 3


def test_a_message_is_what_celery_would_send_itself(publisher, server, sender):
    message = messages(1)[0]
    publisher.publish([message])
    sender.send_task("reminders.deliver", (str(message.reminder_id), message.delivery_key))

    ours, celerys = (json.loads(raw) for raw in reversed(server.client.lrange("reminders:deliver", 0, -1)))

    for each in (ours, celerys):  # what differs between any two messages
        task_id = each["headers"].pop("id")
        assert each["headers"].pop("root_id") == task_id
        assert each["properties"].pop("correlation_id") == task_id
        assert each["properties"].pop("delivery_tag")
        each["headers"].pop("origin")
        each["properties"].pop("reply_to")  # where results would go; there are none
    assert ours == celerys


def test_a_message_is_small_and_repeats_no_argument(publisher, server):
    message = messages(1)[0]
    publisher.publish([message])

    raw = server.client.lindex("reminders:deliver", 0)

    assert len(raw) < 1100
    assert message.delivery_key.encode() not in raw  # only in the encoded body
    assert json.loads(raw)["headers"]["argsrepr"] == "-"


def test_a_broker_that_is_away_takes_nothing_and_no_time(publisher, server):
    publisher.publish(messages(1))
    server.kill()

    began = monotonic()
    assert publisher.publish(messages(5)) == 0
    assert monotonic() - began < 15

    server.start()
    assert publisher.publish(messages(5)) == 5
    assert server.waiting("deliver") == 5


def test_a_broker_that_restarted_between_two_calls_is_found_again(publisher, server):
    publisher.publish(messages(1))
    server.kill()
    server.start()

    assert publisher.publish(messages(7)) in {0, 7}  # the first may find the old connection dead
    assert publisher.publish(messages(7)) == 7


def test_only_whole_pipelines_before_a_refusal_are_accepted(publisher, server):
    publisher.publish(messages(1))
    server.client.config_set("maxmemory", 1)  # every write is refused: -OOM

    assert publisher.publish(messages(3)) == 0

    server.client.config_set("maxmemory", 0)
    assert publisher.publish(messages(PIPELINE + 1)) == PIPELINE + 1
    assert server.waiting("deliver") == PIPELINE + 2


def test_without_any_broker_nothing_is_accepted(tmp_path):
    publisher = KombuPublisher(Settings(redis_url=None, home=tmp_path / "none"))

    assert publisher.publish(messages(1)) == 0


def test_a_wrong_password_is_a_broker_that_is_away(server):
    publisher = KombuPublisher(Settings(redis_url=Secret(server.url.replace("secret-of-redis", "guess"))))

    assert publisher.publish(messages(1)) == 0
