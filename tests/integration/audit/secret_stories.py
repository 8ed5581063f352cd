"""Stories of destinations and tenants with secrets of their own."""

from __future__ import annotations

from integration.audit.aging import DAY
from integration.ledger.world import ScriptedProvider
from own_keys import KEYRING
from reminders.ledger.reencrypting import reencrypt
from reminders.ledger.rotating import Said, SecretPlace, revoke, rotate

SAID = Said("ada", "leaked")
HOME = SecretPlace("tenant-a", "log", "somewhere")
TENANT = SecretPlace("tenant-a", "log")


def rotated(w, place=HOME, *, grace=DAY):
    return rotate(w.database, KEYRING, place, grace=grace, said=SAID)


def delivered_with_one(w):
    rotated(w)
    made = w.schedule()
    w.published()
    assert w.deliver(ScriptedProvider(), secrets=lambda _: (b"x",))(made.id, made.delivery_key) == "delivered"


def given_back_without_it(w):
    rotated(w)
    made = w.schedule()
    w.published()
    assert w.deliver(ScriptedProvider())(made.id, made.delivery_key) == "given_back"


def rotated_revoked_and_retired(w):
    rotated(w, TENANT)
    rotated(w)
    revoke(w.database, HOME, said=SAID)
    rotated(w, grace=0.0)
    w.age(2 * DAY)
    reencrypt(w.database, KEYRING)


SECRET_STORIES = {
    "signed with a secret of its own": delivered_with_one,
    "given back for want of a secret": given_back_without_it,
    "rotated, revoked and retired": rotated_revoked_and_retired,
}
