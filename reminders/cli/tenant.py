"""`reminders tenant`: their modes, what they want otherwise than the installation, and which of their channels are held."""

from __future__ import annotations

from typing import Any, Literal

import click

from reminders.cli.lateness import lateness
from reminders.cli.printing import print_fields, print_json, print_table
from reminders.cli.session import session
from reminders.cli.tenant_allow import allow
from reminders.cli.tenant_cohort import cohort
from reminders.cli.tenant_kinds import kind_of_tenant
from reminders.cli.tenant_mode import change_mode, mode_options, modes, standing_fields, standing_for_people
from reminders.cli.values import json_option, limit_option
from reminders.domain.durations import parse_delays
from reminders.domain.errors import InvalidInput
from reminders.domain.request import checked_text
from reminders.ledger.destination_state import release_channel
from reminders.ledger.tenant_policies import ALL_CHANNELS, TenantChannel, known, set_policy
from reminders.ledger.tenant_standing import TenantStanding, standing
from reminders.providers import registry

DEFAULT: Literal["default"] = "default"
MOST_ROWS = 1_000_000


@click.group(short_help="Tenants: what each wants otherwise, and which channels are held.")
def tenant() -> None:
    """Tenants: what each wants otherwise than the installation, and which of their channels are held."""


tenant.add_command(lateness)
tenant.add_command(allow)
tenant.add_command(kind_of_tenant)
tenant.add_command(cohort)
tenant.add_command(modes)


@tenant.command("set", short_help="Turn tenants off, to shadow or live; or set a tenant's policies.")
@click.argument("tenant_id", metavar="[TENANT]", required=False)
@mode_options
@click.option("--channel", help="Over this channel only; without it, over all that have no word of their own.")
@click.option(
    "--on-unknown",
    type=click.Choice(["look_up", "review", DEFAULT]),
    help="What follows an unknown outcome at least; a destination can only be treated more strictly than it promises.",
)
@click.option("--retry-delays", metavar="5s,1m,...|default", help="Delays between attempts; the last one ever after.")
@json_option
@click.pass_context
def set_tenant(
    context: click.Context,
    /,
    tenant_id: str | None,
    *,
    channel: str | None,
    on_unknown: Literal["look_up", "review", "default"] | None,
    retry_delays: str | None,
    as_json: bool,
    **moving: Any,
) -> None:
    """Turn a tenant, or with --cohort all tenants of a cohort, off, to shadow or live; or set what happens after attempts.

    With --mode `off` nothing is claimed and what comes due is held; with `shadow` everything is decided and nothing sent:
    what would have been is written to the ledger of shadows, and is not sent when the tenant goes live. The command
    returns once nothing can be sent any more that the mode forbids, and says how many claims are open.

    The policies say what happens to a tenant's reminders after attempts that failed or whose outcome is unknown. Claims from now on go by it; what is left out stays as it is. Where a channel cannot look a key up, `look_up` means
    `review`. `review` for all channels is not softened by a channel's own word.
    """
    policies = any(given is not None for given in (channel, on_unknown, retry_delays))
    if moving["mode"] is not None and not policies:
        change_mode(context, tenant_id, as_json=as_json, **moving)
        return
    if any(given is not None for given in moving.values()):
        raise click.UsageError("Give --mode, with what belongs to it, or policies; not both.")
    if tenant_id is None:
        raise click.UsageError("Missing argument 'TENANT'.")
    if on_unknown is None and retry_delays is None:
        raise click.UsageError("Give --mode, --on-unknown or --retry-delays.")
    whose = checked_text("tenant_id", tenant_id)
    with session() as ledger:
        delays = _read_delays(retry_delays, ledger.settings.max_wait)
        set_policy(ledger.database, whose, _read_channel(channel), on_unknown=on_unknown, retry_delays=delays)
        found = known(ledger.database, tenant=whose, limit=MOST_ROWS)
    _print(whose, found, None, as_json=as_json)


@tenant.command("show", short_help="Show one tenant's policies and holds.")
@click.argument("tenant_id", metavar="TENANT")
@json_option
def show_tenant(tenant_id: str, *, as_json: bool) -> None:
    """Show one tenant's mode and dispatcher, what is set for it, and which of its channels are held. Nothing set is no error."""
    whose = checked_text("tenant_id", tenant_id)
    with session() as ledger:
        found = known(ledger.database, tenant=whose, limit=MOST_ROWS)
        stands = standing(ledger.database, tenant=whose, limit=1)
    _print(whose, found, stands[0] if stands else None, as_json=as_json)


@tenant.command("list", short_help="List policies and holds of all tenants.")
@limit_option(100, "lines")
@json_option
def list_tenants(*, limit: int, as_json: bool) -> None:
    """List what is set or held, a line for each tenant and channel. Tenants of which nothing is are left out."""
    with session() as ledger:
        found = known(ledger.database, tenant=None, limit=limit)
    if as_json:
        for each in found:
            print_json({"tenant_id": each.tenant_id, **_fields(each)})
    else:
        _print_rows(found)


@tenant.command("release", short_help="End the hold of a tenant's channel early.")
@click.argument("tenant_id", metavar="TENANT")
@click.option("--channel", required=True, help="Which of its channels.")
@json_option
def release_tenant(tenant_id: str, *, channel: str, as_json: bool) -> None:
    """End the hold of a channel whose credentials were refused, and let the tenant's waiting reminders go at once."""
    whose, which = checked_text("tenant_id", tenant_id), _read_channel(channel)
    with session() as ledger:
        woken, was_held = release_channel(ledger.database, whose, which)
    shown = {"tenant_id": whose, "channel": which, "was_held": was_held, "woken": woken}
    if as_json:
        print_json(shown)
    else:
        print_fields([(name.replace("_", " "), value) for name, value in shown.items()])


def _read_channel(channel: str | None) -> str:
    if channel is None:
        return ALL_CHANNELS
    if channel not in registry.channels():
        known_channels = ", ".join(registry.channels())
        raise InvalidInput("channel", f"{channel[:60]!r} is not installed; known channels: {known_channels}")
    return channel


def _read_delays(text: str | None, max_wait: float) -> tuple[float, ...] | Literal["default"] | None:
    if text is None:
        return None
    if text == DEFAULT:
        return DEFAULT
    try:
        delays = parse_delays(text)
    except ValueError as error:
        raise InvalidInput("--retry-delays", str(error)) from None
    if max(delays) > max_wait:
        raise InvalidInput(
            "--retry-delays", f"longest {max(delays):g} s; none may exceed REMINDERS_MAX_WAIT ({max_wait:g} s)"
        )
    return delays


def _fields(found: TenantChannel) -> dict[str, Any]:
    names = ("channel", "on_unknown", "retry_delays", "held_until", "hold_reason")
    return {name: getattr(found, name) for name in names}


def _print(whose: str, found: list[TenantChannel], stands: TenantStanding | None, *, as_json: bool) -> None:
    if as_json:
        about = {} if stands is None else standing_fields(stands)
        print_json({**about, "tenant_id": whose, "policies": [_fields(each) for each in found]})
        return
    if stands is not None:
        print_fields(standing_for_people(stands))
    if found:
        _print_rows(found)
    else:
        print(
            "Nothing is set or held for this tenant; the installation's settings and its destinations' promises hold."
        )


def _print_rows(found: list[TenantChannel]) -> None:
    headings = ("tenant", "channel", "on unknown", "retry delays", "held until", "why held")
    print_table(headings, [_row(each) for each in found])


def _row(found: TenantChannel) -> list[object]:
    delays = ",".join(f"{each:g}s" for each in found.retry_delays) if found.retry_delays else None
    return [found.tenant_id, found.channel or "(all)", found.on_unknown, delays, found.held_until, found.hold_reason]
