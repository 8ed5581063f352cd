"""Whatever is said about a message once its connection is gone is passed over, and the message comes again."""

import logging

import pytest
from redis import ConnectionError as RedisConnectionError

from reminders.broker.transport import BROKER_FAULTS

QUIET = logging.getLogger("test.late")
LATE = {
    "ack": lambda message: message.ack(),
    "ack of a request": lambda message: message.ack_log_error(QUIET, ()),
    "reject": lambda message: message.reject(),
    "reject of a request": lambda message: message.reject_log_error(QUIET, ()),
    "requeue": lambda message: message.requeue(),
    "recover": lambda message: message.channel.basic_recover(requeue=True),
    "restore what is overdue": lambda message: message.channel.qos.restore_visible(num=10),
    "restore once": lambda message: message.channel.qos.restore_unacked_once(),
    "prefetch": lambda message: message.channel.basic_qos(0, 4, False),
    "cancel": lambda message: message.channel.basic_cancel("1"),
    "close": lambda message: message.channel.close(),
}


@pytest.fixture(params=["closed", "forgotten"])
def gone(request, server, sender, reading):
    """A message, unacknowledged, whose broker was restarted and has it no more; and its channel, of either kind."""
    sender.send_task("reminders.deliver", ("reminder", "key"))
    connection = reading()
    message = connection.default_channel.basic_get("deliver")
    assert server.client.hlen("reminders:unacked") == 1
    server.kill()
    if request.param == "closed":
        message.channel.closed = True
        message.channel.connection.close_channel(message.channel)
    else:
        message.channel.connection.client = None  # what a first closing that failed leaves behind
    message.channel._disconnect_pools()
    server.start()
    return message


@pytest.mark.parametrize("late", LATE)
def test_nothing_said_late_fails(gone, server, late):
    LATE[late](gone)

    assert server.client.keys("*") == []


@pytest.mark.parametrize("said", [lambda message: message.ack(), lambda message: message.reject()])
def test_what_is_said_late_leaves_the_message_for_another_to_take(server, sender, reading, said):
    sender.send_task("reminders.deliver", ("reminder", "key"))
    message = reading().default_channel.basic_get("deliver")
    message.channel.connection.close_channel(message.channel)
    message.channel._disconnect_pools()

    said(message)

    assert server.client.hkeys("reminders:unacked") == [message.delivery_tag.encode()]
    assert message.acknowledged
    assert message.channel.qos.can_consume()


@pytest.mark.parametrize(
    "call",
    [
        lambda channel: channel.hand_back([*channel.qos._delivered]),
        lambda channel: channel.queue_purge("deliver"),
        lambda channel: channel.basic_get("deliver"),
    ],
)
def test_what_cannot_be_passed_over_fails_as_a_lost_connection_does(gone, call):
    with pytest.raises(RedisConnectionError) as raised:
        call(gone.channel)

    assert isinstance(raised.value, BROKER_FAULTS)
    assert isinstance(raised.value, gone.channel.connection_errors)
