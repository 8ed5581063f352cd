"""Stories of channels that have templates."""

from __future__ import annotations

from typing import ClassVar

from integration.audit.aging import AGAIN, LOST, MINUTE
from integration.ledger.world import ScriptedProvider
from reminders.ledger.template_versions import TemplateVersions
from reminders.ledger.templates import add_template
from reminders.providers.templating import render_part


class Written(ScriptedProvider):
    """Sends what its template says."""

    template_parts: ClassVar = {"text": "required"}

    def render(self, delivery):
        return render_part(delivery, "text").encode()


def add(w, text, tenant="tenant-a"):
    given = {"tenant": tenant, "kind": "note", "channel": "log", "locale": ""}
    return add_template(w.database, **given, parts={"text": text}, actor="ada", host="desk").kept.template


def run(w, made, *outcomes):
    w.templated = ("log",)
    w.published()
    return w.deliver(Written(*outcomes), templates=TemplateVersions(w.database))(made.id, made.delivery_key)


def written(w, *outcomes):
    """Sent in the words of the first version, although there is a second one."""
    add(w, "one")
    made = w.schedule()
    for outcome in outcomes:
        assert run(w, made, outcome) == "parked"
        add(w, "two")
        w.age(10 * MINUTE)
    assert run(w, made) == "delivered"
    return made


def mended(w):
    made = w.schedule()
    assert run(w, made) == "dead"
    for text in ("{{ data.nothing }}", "something"):
        add(w, text)
        assert w.redrive(made) == [made.id]
        w.age(MINUTE)
        assert run(w, made) == ("dead" if "{" in text else "delivered")


TEMPLATE_STORIES = {
    "written": written,
    "written again": lambda w: written(w, AGAIN),
    "written again while uncertain": lambda w: written(w, LOST, AGAIN),
    "without a template, with a broken one, mended": mended,
}
