"""The `reminders` command: which commands there are, loaded one at a time, and how every failure is told.

Exit codes: 0 done; 1 refused or failed; 2 wrong usage; 3 done in part, or only requested; 130 interrupted.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from importlib import import_module
from io import TextIOWrapper
from typing import Any, NoReturn

import click

from reminders.domain.errors import InvalidInput, RemindersError
from reminders.log_lines import words_only

SECTIONS: dict[str, dict[str, tuple[str, str]]] = {
    "Start": {
        "demo": ("reminders.cli.demo:demo", "See it work: a sample, delivered, in under a minute."),
        "up": ("reminders.cli.up:up", "Run everything in this terminal."),
        "env": ("reminders.cli.env:env", "Print DATABASE_URL, REDIS_URL and secrets of what `up` runs."),
        "worker": ("reminders.cli.worker:worker", "Consume tasks from queues, restarting what ends."),
        "receiver": ("reminders.cli.receiver:receiver", "Receive webhooks: verify, deduplicate, apply once."),
        "migrate": ("reminders.cli.migrate:migrate", "Bring the ledger's schema to this release's version."),
    },
    "Reminders": {
        "schedule": ("reminders.cli.schedule:schedule", "Schedule one reminder."),
        "import": ("reminders.cli.import_file:import_", "Schedule a file: CSV, JSON Lines, or a calendar."),
        "show": ("reminders.cli.show:show", "Show one reminder: its state, why, and what happened."),
        "list": ("reminders.cli.list_reminders:list_reminders", "List reminders."),
        "cancel": ("reminders.cli.cancel:cancel", "Cancel a reminder, or all about something."),
        "reschedule": ("reminders.cli.reschedule:reschedule", "Move a reminder to another time."),
        "snooze": ("reminders.cli.snooze:snooze", "Put one reminder off."),
        "series": ("reminders.cli.series:series", "Series: add, list, show, edit, pause, resume, skip, move, end."),
        "reconcile": (
            "reminders.cli.reconcile:reconcile",
            "Match a settlement file to the orders, and tell what follows.",
        ),
        "preview": (
            "reminders.cli.preview:preview",
            "Show when a series or a rule fires next, and at which local time.",
        ),
        "replan": ("reminders.cli.replan:replan", "Move what series have planned, after a change of the zones' data."),
    },
    "Operation": {
        "status": ("reminders.cli.status:status", "What is due, in flight, late, dead."),
        "late": ("reminders.cli.late:late", "What is late, why, who is affected, and whether it grows."),
        "metrics": ("reminders.cli.metrics:metrics", "Metrics for Prometheus: once, or as an endpoint."),
        "scan": ("reminders.cli.scan:scan", "Lease and publish what is due, without waiting for a tick."),
        "dlq": ("reminders.cli.dlq:dlq", "Dead letters: list, show, redrive, discard, resolve."),
        "pause": ("reminders.cli.pause:pause", "Stop sending: all, a tenant, channel, kind or destination; list."),
        "resume": ("reminders.cli.pause:resume", "End pauses; what they hold is sent, at a rate."),
        "drain": ("reminders.cli.drain:drain", "Work off a backlog oldest first, at a set rate."),
        "rate": ("reminders.cli.rate:rate", "Caps of tenants, channels and destinations: set, list, remove."),
        "destination": (
            "reminders.cli.destination:destination",
            "Destinations: list, show, set, disable, enable, release.",
        ),
        "tenant": ("reminders.cli.tenant:tenant", "Tenants: off, shadow or live; cohorts; policies; channels held."),
        "shadow": (
            "reminders.cli.shadow:shadow",
            "What tenants in shadow would be sent: list, report, release.",
        ),
        "handover": ("reminders.cli.handover:handover", "Give tenants to another dispatcher."),
        "secret": ("reminders.cli.secret:secret", "Signing secrets: rotate, revoke, list, history; keys at rest."),
        "template": ("reminders.cli.template:template", "Templates: add, list, show, preview, activate, check."),
        "notice": ("reminders.cli.notice:notice", "What a person should be told once: list, seen."),
        "recipient": ("reminders.cli.recipient:recipient", "Recipients: zone, locale, quiet hours, preferences."),
        "suppress": ("reminders.cli.suppress:suppress", "Send nothing any more to a user or address; list; import."),
        "purge": ("reminders.cli.purge:purge_", "Delete what ended long ago; its keys are kept."),
        "erase": ("reminders.cli.erase:erase_", "Erase a user; the proof of what was sent stays."),
        "retention": ("reminders.cli.retention:retention", "How long a tenant's things are kept: set, list, remove."),
        "capacity": ("reminders.cli.capacity:capacity_", "What a load needs, with the arithmetic shown."),
        "quarantine": ("reminders.cli.quarantine:quarantine", "After a restore: judge what may have been sent."),
        "twice": ("reminders.cli.twice:twice", "Did anyone get two? What the record of attempts proves."),
        "audit": ("reminders.cli.audit:audit", "Check what the ledger can prove; lists violations."),
        "doctor": ("reminders.cli.doctor:doctor", "Check the installation; each finding says how to mend it."),
        "drill": ("reminders.cli.drill:drill", "Rehearse the guarantees: kill, empty, freeze, and see them hold."),
    },
}
"""Per section: a command's name, where it is, and its line in the overview (shown without loading the command)."""
COMMANDS = {name: entry for section in SECTIONS.values() for name, entry in section.items()}


FLAGS = {
    "tenant_id": "--tenant",
    "user_id": "--user",
    "kind": "--kind",
    "channel": "--channel",
    "destination": "--to",
    "due_at": "--due-at",
    "zone": "--zone",
    "reference": "--reference",
    "slot": "--slot",
    "data": "--data",
    "expires_at": "--expires-at",
    "until": "--until",
    "by": "--by",
    "id": "ID",
    "start": "--start",
    "rule": "--rule",
    "extra": "--extra",
    "left_out": "--left-out",
    "catch_up": "--catch-up",
    "max_lateness": "--max-lateness",
    "turn": "TURN",
    "page": "--page",
    "locale": "--locale",
    "quiet_hours": "--quiet",
}
"""What a field is called on the command line; other fields' names stay. Those of a file's columns do too."""
_FIELDS_IN_TEXT = re.compile(r"(?<![\w'\"])(?:tenant_id|user_id|due_at|expires_at)(?![\w'\"])")
_ZONE_AS_ARGUMENT = re.compile(r"give zone as well, such as zone='([^']*)'")
_OUTPUT_FAILS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
INTERRUPTED = 130
LONGEST_LINE = 1000
"""Characters of one line of a refusal, of which begin and end are shown."""


class OneAtATime(click.Group):
    """Imports a command's module when it is chosen: the overview and mistakes answer at once."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - the same
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            near = get_close_matches(name, COMMANDS, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            ctx.fail(f"No such command {name!r}.{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - the same
        for section, commands in SECTIONS.items():
            with formatter.section(section):
                formatter.write_dl([(name, line) for name, (_, line) in commands.items()])

    def main(  # type: ignore[override] # click's overloads tell apart a mode that is fixed here
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> NoReturn:
        """Run, tell failures in a line or two on stderr, and exit. Only a fault of our own shows a traceback."""
        extra["standalone_mode"] = False
        try:
            code = _flushed(super().main, args, prog_name or "reminders", **extra)
        except click.ClickException as error:
            # click's own words repeat a wrong value whole.
            vars(error).update(message="\n".join(map(_short, error.message.split("\n"))))
            error.show()
            code = error.exit_code
        except RemindersError as error:
            from reminders.cli.printing import for_people

            print("\n".join(_short(for_people(line)) for line in str(error).split("\n")), file=sys.stderr)
            code = 1
        except (KeyboardInterrupt, click.Abort) as error:
            _tell_of_interruption(error)
            code = INTERRUPTED
        except BrokenPipeError:
            # Whoever read our output has seen enough.
            _give_up_output()
            code = 1
        except OSError as error:
            if error.errno not in _OUTPUT_FAILS:
                raise
            print(f"The output cannot be written: {error.strerror}", file=sys.stderr)
            _give_up_output()
            code = 1
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; what it refuses is told with the words of the command line."""
        try:
            return super().invoke(ctx)
        except InvalidInput as error:
            if ctx.invoked_subcommand == "import":
                raise
            raise RemindersError(_in_flags(error)) from error


def _short(line: str) -> str:
    """A line of a refusal with its middle left out, if it repeats something very long that was given."""
    return line if len(line) <= LONGEST_LINE else f"{line[: LONGEST_LINE // 2]}...{line[-LONGEST_LINE // 4 :]}"


def _in_flags(error: InvalidInput) -> str:
    reason = _FIELDS_IN_TEXT.sub(lambda found: FLAGS[found[0]], error.reason)
    reason = _ZONE_AS_ARGUMENT.sub(r"give it one, or add --zone \1", reason)
    return f"{FLAGS.get(error.field, error.field)}: {reason}"


def _flushed(run: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """What `run` returns or exits with, once all its output is written."""
    try:
        code = run(*arguments, **named)
    except SystemExit as end:
        code = end.code
    if sys.stdout is not None:
        sys.stdout.flush()
    return code


def _tell_of_interruption(error: BaseException) -> None:
    """What the command had to say when it was interrupted, if anything; click keeps the interruption as the cause."""
    for told in (error, error.__cause__):
        if isinstance(told, KeyboardInterrupt) and told.args:
            print(told, file=sys.stderr)


def _give_up_output() -> None:
    """Python would complain once more, while it exits, of what it could not write."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@click.group(cls=OneAtATime, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="reminders", message="%(prog)s %(version)s")
def reminders() -> None:
    """What every user must be told and when: told, never lost, never with a second effect.

    With DATABASE_URL and REDIS_URL unset, commands use a Postgres and a Redis of their own under REMINDERS_HOME.
    """


def main() -> None:
    """The entry point of the package."""
    if isinstance(sys.stdout, TextIOWrapper):
        # A terminal that lacks a letter gets its escape, not a traceback.
        sys.stdout.reconfigure(errors="backslashreplace")
    words_only()
    reminders.main()
