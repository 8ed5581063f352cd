"""A small reference receiver for our webhooks: what we ask of everybody who receives them, in working code.

addresses.py      which URLs the receiver answers for
verification.py   who sent it: the signature over the raw body
message.py        what it says
store.py          the key under a unique constraint and its effect, in one transaction
group_commit.py   many such transactions in one write to the disk
hook.py           the answer to one delivery: all of the above, in order
server.py         HTTP/1.1 around it, in a thread of its own
report.py         counts, and lines for a terminal or a program
misbehaviour.py   scripted refusals for demonstrations; a real receiver has nothing of this
"""
