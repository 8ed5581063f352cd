"""Stories of tenants that are off, in shadow and handed over."""

from __future__ import annotations

import reminders
from integration.audit.aging import AGAIN, DAY, HOUR, LOST
from integration.ledger import pauses
from integration.ledger.tenants import GREEN, MAIN, WORD, handed, moded
from integration.ledger.world import ScriptedProvider
from reminders.ledger.shadow_release import release


def off(w):
    made = w.schedule()
    moded(w, "off")
    w.published()
    w.age(DAY)
    return made


def off_and_live_again(w):
    made = off(w)
    moded(w, "live")
    w.age(HOUR / 60)
    pauses.release(w)
    w.run(made)


def shadowed(w, *outcomes):
    made = w.ended(*outcomes) if outcomes else w.schedule()
    w.age(HOUR)
    moded(w, "shadow")
    assert w.run(made) == ("dead" if LOST in outcomes else "shadowed")
    return made


def live_after_shadow(w):
    made = shadowed(w, AGAIN)
    w.age(HOUR)
    moded(w, "live")
    done = release(w.database, made.id, **WORD)
    w.published()
    assert w.deliver(ScriptedProvider())(made.id, done.delivery_key) == "delivered"


def shadowed_while_disabled(w):
    made = w.schedule()
    moded(w, "shadow")
    w.sql(
        "INSERT INTO reminders.destinations (id, tenant_id, channel, address, disabled_at, disabled_reason)"
        " SELECT destination_id, tenant_id, channel, destination, now(), 'x' FROM reminders.reminders"
    )
    assert w.run(made) == "shadowed"


def handed_over_and_back(w):
    made = w.schedule()
    w.published()
    handed(w, "green")
    w.published(dispatcher=GREEN)
    handed(w, "main")
    w.published(dispatcher=MAIN)
    assert w.deliver(ScriptedProvider())(made.id, made.delivery_key) == "delivered"


TENANT_STORIES = {
    "off": off,
    "off and live again": off_and_live_again,
    "shadowed": shadowed,
    "shadowed while parked": lambda w: shadowed(w, AGAIN),
    "shadowed while uncertain": lambda w: shadowed(w, LOST),
    "shadowed while disabled": shadowed_while_disabled,
    "shadowed and cancelled": lambda w: w.committed(reminders.cancel, shadowed(w).id),
    "shadowed, live and released": live_after_shadow,
    "handed over and back": handed_over_and_back,
}
