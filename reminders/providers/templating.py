"""Filling in templates: Jinja2 in its sandbox, strict about names, escaped as the part asks."""

from __future__ import annotations

from datetime import UTC
from functools import lru_cache
from typing import Any

from jinja2 import StrictUndefined, TemplateSyntaxError, UndefinedError
from jinja2 import Template as Compiled
from jinja2.sandbox import ImmutableSandboxedEnvironment

from reminders.domain.delivery import Delivery
from reminders.domain.template import TemplateFault

_PLAIN = ImmutableSandboxedEnvironment(undefined=StrictUndefined, autoescape=False, keep_trailing_newline=True)
_HTML = ImmutableSandboxedEnvironment(undefined=StrictUndefined, autoescape=True, keep_trailing_newline=True)


def render_part(delivery: Delivery, part: str, *, html: bool = False) -> str:
    """The part of the delivery's template, filled in. Raises `TemplateFault`."""
    template = delivery.template
    if template is None:
        raise TemplateFault(f"{delivery.tenant_id}/{delivery.kind}/{delivery.channel}", None, None, "no template")
    source = template.parts.get(part)
    if source is None:
        raise TemplateFault(template.name, part, None, "the template has no such part")
    try:
        return _compiled(source, html).render(_names(delivery))
    except TemplateSyntaxError as error:
        raise TemplateFault(template.name, part, error.lineno, error.message or "syntax error") from error
    except UndefinedError as error:
        raise TemplateFault(template.name, part, None, error.message or "undefined name") from error


@lru_cache(maxsize=512)
def _compiled(source: str, html: bool) -> Compiled:
    return (_HTML if html else _PLAIN).from_string(source)


def _names(delivery: Delivery) -> dict[str, Any]:
    return {
        "tenant_id": delivery.tenant_id,
        "user_id": delivery.user_id,
        "kind": delivery.kind,
        "reference": delivery.reference,
        "slot": delivery.slot,
        "due_at": delivery.due_at.astimezone(UTC),
        "zone": delivery.zone,
        "data": delivery.data,
    }
