"""For everybody who receives our webhooks: the kit to use, and a small reference receiver that uses it.

    kit.py            `verify` and `apply_once`, in one file of the standard library that may be copied

What stands here is the kit; importing it imports nothing else. The reference receiver, from the outside in:

    server.py         `Receiver`: all of it in a thread of its own
    exchange.py       HTTP/1.1
    hook.py           the answer to one delivery: all of the following, in order
    addresses.py      which URLs the receiver answers for
    verification.py   who sent it: the signature over the raw body
    message.py        what it says
    store.py          the key under a unique constraint and its effect, in one transaction
    group_commit.py   many such transactions in one write to the disk
    report.py         what it tells: an event for each delivery, and counts
    lines.py          those events as lines on a terminal or for a program
    misbehaviour.py   scripted refusals for demonstrations; a real receiver has nothing of this

    mail_catcher.py   for channel `email`: a mail server for this machine that delivers nothing
"""

from reminders.receiver.kit import (
    Applied,
    InvalidSecret,
    KeyConflict,
    MalformedHeaders,
    NotVerified,
    StaleTimestamp,
    Verified,
    WrongSignature,
    apply_once,
    create_table,
    verify,
)

__all__ = [
    "Applied",
    "InvalidSecret",
    "KeyConflict",
    "MalformedHeaders",
    "NotVerified",
    "StaleTimestamp",
    "Verified",
    "WrongSignature",
    "apply_once",
    "create_table",
    "verify",
]
