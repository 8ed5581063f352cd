"""Stories of channels that have templates."""

from __future__ import annotations

from typing import ClassVar

import reminders
from integration.audit.aging import AGAIN, LOST, MINUTE
from integration.ledger.world import ScriptedProvider
from reminders.ledger.closing_letters import discard
from reminders.ledger.review import LetterFilter
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


def faulty(w, error_class):
    """Ends as a dead letter, since it cannot be filled in, or since there is nothing to fill in."""
    if error_class == "template_fault":
        add(w, "{{ data.nothing }}")
    made = w.schedule()
    assert run(w, made) == "dead"
    assert w.letters(made.id) == [("pipeline", "open", error_class)]
    return made


def mended(w):
    made = faulty(w, "no_template")
    for text in ("{{ data.nothing }}", "something"):
        assert w.violations() == []
        add(w, text)
        assert w.redrive(made) == [made.id]
        assert w.violations() == []
        w.age(MINUTE)
        assert run(w, made) == ("dead" if "{" in text else "delivered")


def discarded(w):
    made = faulty(w, "template_fault")
    assert discard(w.database, LetterFilter(ids=[made.id]), actor="ada", reason="too late").done == [made.id]


def gone(w):
    """It is back when the ledger is looked at."""
    add(w, "one")
    made = w.schedule()
    w.templated = ("log",)
    w.published()
    assert w.deliver(Written(), templates=lambda _: None)(made.id, made.delivery_key) == "dead"
    assert w.letters(made.id) == [("pipeline", "open", "template_gone")]


def changed(w):
    """As after a release that fills in the same template otherwise."""
    add(w, "one")
    made = w.schedule()
    assert run(w, made, AGAIN) == "parked"
    w.age(10 * MINUTE)
    w.published()
    provider = Written()
    provider.render = lambda _: b"one more"
    deliver = w.deliver(provider, templates=TemplateVersions(w.database))
    assert deliver(made.id, made.delivery_key) == "dead"
    assert w.letters(made.id) == [("pipeline", "open", "body_changed")]


TEMPLATE_STORIES = {
    "written": written,
    "written again": lambda w: written(w, AGAIN),
    "written again while uncertain": lambda w: written(w, LOST, AGAIN),
    "without a template": lambda w: faulty(w, "no_template"),
    "without a template, cancelled": lambda w: w.committed(reminders.cancel, faulty(w, "no_template").id),
    "with a broken template": lambda w: faulty(w, "template_fault"),
    "with a broken template, redriven": lambda w: w.redrive(faulty(w, "template_fault")),
    "with a broken template, discarded": discarded,
    "with a template that was gone": gone,
    "with a body that changed": changed,
    "without a template, with a broken one, mended": mended,
}
