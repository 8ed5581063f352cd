"""What of a configuration is wrong where it is to be used: a channel, an operator's destination, the address of a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from reminders.domain.allowed_places import nothing_allowed
from reminders.domain.errors import InvalidInput, NotPublic, SettingsError
from reminders.intake.settlement.config import Reconciliation, Rule
from reminders.pipeline.schedule import check_place
from reminders.providers import registry
from reminders.providers.file_fetch import check_url
from reminders.settings import Settings


def check_reach(path: Path, config: Reconciliation, settings: Settings) -> None:
    """Raise `SettingsError` with all of it. A private destination is left to the run, which asks what its tenant is allowed."""
    faults = [*_of_rules(config, settings)]
    if config.nightly is not None:
        try:
            check_url(config.nightly.url, allow_private=settings.allow_private)
        except InvalidInput as error:
            faults.append(f"nightly.url: {error.reason}")
    if faults:
        raise SettingsError("\n".join(f"{path}: {fault}" for fault in faults))


def _of_rules(config: Reconciliation, settings: Settings) -> Iterator[str]:
    for name, rule in config.rules.items():
        try:
            _check(rule, settings)
        except InvalidInput as error:
            yield f"decisions.{name}.{error.field}: {error.reason}"
        except SettingsError as error:
            yield f"decisions.{name}.channel: {error}"


def _check(rule: Rule, settings: Settings) -> None:
    provider = registry.load(rule.channel, settings)
    if rule.tenant_id is None or rule.destination is None:
        return
    try:
        check_place(provider, rule.tenant_id, rule.destination, nothing_allowed)
    except NotPublic:
        return
