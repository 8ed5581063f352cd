"""Which template a command means, and the parts of one as files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from reminders.cli.input_file import fault_of, open_file
from reminders.cli.printing import for_people
from reminders.cli.template_trial import NOBODY, certain_fault, of_file
from reminders.domain.errors import InvalidInput, RemindersError
from reminders.domain.request import checked_text
from reminders.domain.template import Template, TemplateFault, read_locale
from reminders.ledger.templates import Kept
from reminders.pipeline.provider import Provider, template_parts
from reminders.providers import registry
from reminders.providers.template_work import LONGEST_SOURCE
from reminders.providers.templating import PARTS, check_part
from reminders.settings import Settings

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
_LONGEST_FILE = 4 * LONGEST_SOURCE


def place_options(command: Decorated) -> Decorated:
    """Whose template it is, for what, and in which language."""
    for option in (
        click.option(
            "--locale", help="Language tag, such as de or pt-BR; without it, for all that have none of their own."
        ),
        click.option("--channel", help="The channel, such as email."),
        click.option("--kind", help="The kind of reminder."),
        click.option("--all-tenants", is_flag=True, help="The installation's, for tenants without one of their own."),
        click.option("--tenant", help="This tenant's own."),
    ):
        command = option(command)
    return command


def part_options(command: Decorated) -> Decorated:
    """The parts, as files."""
    for part in reversed(PARTS):
        command = click.option(f"--{part}", metavar="FILE", help=f"The {part}, as a file.")(command)
    return command


def read_place(
    *, tenant: str | None, all_tenants: bool, kind: str | None, channel: str | None, locale: str | None
) -> dict[str, str]:
    """`tenant`, `kind`, `channel` and `locale` of exactly one place. Raises `InvalidInput`, or click's usage error."""
    if (tenant is not None) == all_tenants:
        raise click.UsageError("Give either --tenant or --all-tenants.")
    if kind is None or channel is None:
        raise click.UsageError("Give --kind and --channel.")
    return {
        "tenant": "" if tenant is None else checked_text("tenant_id", tenant),
        "kind": checked_text("kind", kind),
        "channel": checked_text("channel", channel),
        "locale": "" if locale is None else read_locale(locale),
    }


def parts_of_channel(channel: str, settings: Settings) -> Mapping[str, str]:
    """The parts that the channel's templates have. Raises `InvalidInput` if it has no templates."""
    parts = template_parts(registry.load(channel, settings))
    if not parts:
        raise InvalidInput("channel", f"{channel} has no templates: what it sends is not written by people")
    return parts


def templated_channels(settings: Settings) -> dict[str, Provider]:
    """Every installed channel that has templates, with its provider; those that cannot be loaded are left out."""
    found: dict[str, Provider] = {}
    for channel in registry.channels():
        try:
            provider = registry.load(channel, settings)
        except RemindersError:
            continue
        if template_parts(provider):
            found[channel] = provider
    return found


def read_parts(files: Mapping[str, str | None], channel: str, settings: Settings) -> dict[str, str]:
    """The files' texts by part, as a template of the channel. Raises `InvalidInput`, and `TemplateFault` with the file's name.

    A fault is also what the channel would refuse whatever the reminders say.
    """
    known = parts_of_channel(channel, settings)
    given = {part: name for part, name in files.items() if name is not None}
    for part in given:
        if part not in known:
            raise InvalidInput(f"--{part}", f"templates of {channel} have no {part}; they have {', '.join(known)}")
    for part, word in known.items():
        if word == "required" and part not in given:
            raise InvalidInput(f"--{part}", f"is missing; templates of {channel} must have it")
    parts = {part: _read(part, name) for part, name in given.items()}
    for part, source in parts.items():
        check_part(given[part], part, source)
    fault = certain_fault(registry.load(channel, settings), Template(NOBODY, "", "-", channel, "", 0, parts))
    if fault is not None:
        raise of_file(fault, given)
    return parts


def _read(part: str, name: str) -> str:
    try:
        with open_file(name) as file:
            raw = file.read(_LONGEST_FILE + 1)
        if len(raw) > _LONGEST_FILE:
            raise InvalidInput(f"--{part}", f"{name!r} is too long; at most {LONGEST_SOURCE:,} characters are allowed")
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidInput(f"--{part}", f"{name!r} is not UTF-8 text") from None
    except (OSError, ValueError) as error:
        raise InvalidInput(f"--{part}", f"{name!r} cannot be read: {fault_of(error)}") from None
    if "\0" in text:
        raise InvalidInput(f"--{part}", f"{name!r} contains a NUL character")
    # One source, whichever editor has saved it.
    return text.replace("\r\n", "\n")


def faults_of(template: Template, channels: Mapping[str, Provider]) -> list[TemplateFault]:
    """What would keep the template from being sent, as far as it can be told without a reminder."""
    provider = channels.get(template.channel)
    if provider is None:
        return [TemplateFault(template.name, None, None, "its channel is not installed here, or has no templates")]
    known = template_parts(provider)
    found = []
    for part, word in known.items():
        if word == "required" and part not in template.parts:
            found.append(TemplateFault(template.name, part, None, "it is missing"))
    for part in sorted(template.parts):
        source = template.parts[part]
        if part not in known:
            found.append(TemplateFault(template.name, part, None, "the channel has no such part"))
            continue
        try:
            check_part(template.name, part, source)
        except TemplateFault as fault:
            found.append(fault)
    certain = None if found else certain_fault(provider, template)
    return found if certain is None else [certain]


def _place_of(part: str) -> int:
    return PARTS.index(part) if part in PARTS else len(PARTS)


def fields(kept: Kept) -> dict[str, Any]:
    """What every command's JSON says of a version."""
    template = kept.template
    return {
        "id": template.id,
        "name": template.name,
        "tenant_id": template.tenant_id or None,
        "kind": template.kind,
        "channel": template.channel,
        "locale": template.locale or None,
        "version": template.version,
        "active": kept.activated_at is not None,
        "added_at": kept.added_at,
        "added_by": kept.actor,
        "activated_at": kept.activated_at,
        "activated_by": kept.activated_by,
    }


def print_parts(parts: Mapping[str, str]) -> None:
    """Each part under its name, line by line; what would steer a terminal is shown as its escape."""
    for part in sorted(parts, key=_place_of):
        print(f"--- {part}")
        for line in parts[part].removesuffix("\n").split("\n"):
            print(for_people(line))
