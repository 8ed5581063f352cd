"""Filling in templates: a pure function of the delivery and its template, escaped as the part asks, and always ended."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC
from functools import lru_cache
from types import TracebackType
from typing import Any

from jinja2 import Template as Compiled
from jinja2 import TemplateSyntaxError, UndefinedError, nodes

from reminders.domain.delivery import Delivery
from reminders.domain.template import TemplateFault
from reminders.providers.template_language import Language, checked
from reminders.providers.template_work import LONGEST_OUTPUT, LONGEST_SOURCE, WORK, Misuse, Work

PARTS = (SUBJECT, TEXT, HTML) = ("subject", "text", "html")
_PLAIN_LANGUAGE, _HTML_LANGUAGE = Language(html=False), Language(html=True)
_LINE_BREAK = re.compile(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029\0]")
_FILE = "<template>"
"""What Jinja2 calls the file of what it has compiled."""


def render_part(delivery: Delivery, part: str, *, html: bool = False) -> str:
    """The part of the delivery's template, filled in. `html` escapes what the data say; part `html` always does.

    A subject is one line; the line break at its end, if there is one, is left out. Raises `TemplateFault`.
    """
    template = delivery.template
    if template is None:
        raise TemplateFault(f"{delivery.tenant_id}/{delivery.kind}/{delivery.channel}", None, None, "no template")
    source = template.parts.get(part)
    if source is None:
        raise TemplateFault(template.name, part, None, "the template has no such part")
    compiled = _compiled_or_fault(template.name, part, source, html=html)
    try:
        text = _filled_in(compiled, {**_names(delivery), "locale": template.locale, WORK: Work()})
    except (Misuse, UndefinedError) as error:
        raise TemplateFault(template.name, part, _line(compiled, error), str(error)) from None
    except Exception as error:  # noqa: BLE001 - whatever it is, the template asked for it; its text may quote the data
        raise TemplateFault(
            template.name, part, _line(compiled, error), f"its values do not fit together ({type(error).__name__})"
        ) from None
    if part != SUBJECT:
        return text
    text = text.removesuffix("\n")
    if _LINE_BREAK.search(text):
        raise TemplateFault(template.name, part, None, "it comes to more than one line")
    return text


def check_part(where: str, part: str, source: str) -> None:
    """Raise `TemplateFault`, with `where` as its place, unless the source is a template's part."""
    _compiled_or_fault(where, part, source, html=False)


def always_written(source: str) -> tuple[str, bool]:
    """What a part that has been checked writes whatever the reminder says; and whether that is all it ever writes."""
    pieces, whole = [], True
    for top in _PLAIN_LANGUAGE.parse(source).body:
        for node in top.nodes if isinstance(top, nodes.Output) else [top]:
            if isinstance(node, nodes.TemplateData):
                pieces.append(node.data)
            else:
                whole = False
    return "".join(pieces), whole


def _compiled_or_fault(where: str, part: str, source: str, *, html: bool) -> Compiled:
    try:
        return _compiled(source, html or part == HTML)
    except TemplateSyntaxError as error:
        raise TemplateFault(where, part, error.lineno, error.message or "syntax error") from None
    except (RecursionError, MemoryError, SyntaxError):
        raise TemplateFault(where, part, None, "it is nested too deeply") from None
    except (OverflowError, ValueError):
        raise TemplateFault(where, part, None, "it holds a number or a character that cannot be read") from None


@lru_cache(maxsize=256)
def _compiled(source: str, html: bool) -> Compiled:
    if len(source) > LONGEST_SOURCE:
        raise TemplateSyntaxError(f"it has {len(source):,} characters; at most {LONGEST_SOURCE:,} are allowed", 1)
    language = _HTML_LANGUAGE if html else _PLAIN_LANGUAGE
    tree = checked(language.parse(source), language)
    return Compiled.from_code(language, language.compile(tree), {}, None)


def _filled_in(compiled: Compiled, names: dict[str, Any]) -> str:
    pieces, length = [], 0
    for piece in compiled.root_render_func(compiled.new_context(names)):
        length += len(piece)
        if length > LONGEST_OUTPUT:
            raise Misuse(f"it comes to more than {LONGEST_OUTPUT:,} characters")
        pieces.append(piece)
    return "".join(pieces)


def _line(compiled: Compiled, error: BaseException) -> int | None:
    """The template's line at which it was: the last step of the traceback that lies in the compiled template."""
    line, step = None, error.__traceback__
    while isinstance(step, TracebackType):
        if step.tb_frame.f_code.co_filename == _FILE:
            line = compiled.get_corresponding_lineno(step.tb_lineno)
        step = step.tb_next
    return line


def _names(delivery: Delivery) -> dict[str, Any]:
    return {
        "tenant_id": delivery.tenant_id,
        "user_id": delivery.user_id,
        "kind": delivery.kind,
        "channel": delivery.channel,
        "reference": delivery.reference,
        "slot": delivery.slot,
        "due_at": delivery.due_at.astimezone(UTC),
        "zone": delivery.zone,
        "data": _ordered(delivery.data),
    }


def _ordered(value: Any) -> Any:
    """The same with the names of every object sorted: the order of jsonb is Postgres's own affair."""
    if isinstance(value, Mapping):
        return {name: _ordered(value[name]) for name in sorted(value)}
    if isinstance(value, list):
        return [_ordered(each) for each in value]
    return value
