"""Templates: the text of a message, as one immutable version, and what a delivery says when it cannot be filled in."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from reminders.domain.errors import InvalidInput, RemindersError

_LOCALE = re.compile(r"[a-z]{2,3}(?:-[a-z0-9]{1,8}){0,4}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Template:
    """One version, never changed once it is stored, so that every attempt at a delivery says the same.

    `tenant_id` is empty for a template of all tenants, `locale` for the one that serves every locale without its own.
    `parts` is source text by name: `subject`, `text` and `html` for e-mail, `text` for SMS.
    """

    id: UUID
    tenant_id: str
    kind: str
    channel: str
    locale: str
    version: int
    parts: Mapping[str, str] = field(repr=False)

    @property
    def name(self) -> str:
        """What a person calls it: tenant, kind, channel, locale and version."""
        return template_name(self.tenant_id, self.kind, self.channel, self.locale, self.version)


def template_name(tenant_id: str, kind: str, channel: str, locale: str, version: int) -> str:
    """What a person calls a version: `shop/payment_due/email/de@3`, with `*` for all tenants and for the default locale."""
    return f"{tenant_id or '*'}/{kind}/{channel}/{locale or '*'}@{version}"


def read_locale(text: str) -> str:
    """A language tag in lower case, with hyphens: `pt_BR` is `pt-br`. Raises `InvalidInput`."""
    locale = text.lower().replace("_", "-")
    if not _LOCALE.fullmatch(locale):
        raise InvalidInput("locale", f"{text[:40]!r} is no language tag; write de, pt-BR or zh-Hant")
    return locale


def lacking(tenant_id: str, kind: str, channel: str, required: Iterable[str]) -> str:
    """What to tell operators when no template fits: which one is missing, and the command that adds it."""
    parts = " ".join(f"--{part} FILE" for part in required)
    named = f"--kind {shlex.quote(kind)} --channel {shlex.quote(channel)} {parts}"
    return (
        f"tenant {tenant_id} has no active template for kind {kind} on channel {channel}, nor have all tenants; nothing was sent. "
        f"`reminders template add --all-tenants {named}`, then redrive it"
    )


class TemplateFault(RemindersError):
    """A template that is missing, is no template, or needs a name that the reminder's data lack.

    The message names template, part and line, and holds no value of the data.
    """

    def __init__(self, where: str, part: str | None, line: int | None, message: str) -> None:
        place = where + (f", {part}" if part else "") + (f", line {line}" if line else "")
        super().__init__(f"{place}: {message}")
        self.where, self.part, self.line, self.reason = where, part, line, message
