"""A small reference receiver for our webhooks: what we ask of everybody who receives them, in working code.

From the outside in:

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
"""
