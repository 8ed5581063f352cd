"""`reminders receiver`: the reference receiver of our webhooks, on this machine."""

from __future__ import annotations

import json
import logging
import signal
import sys
import threading
from dataclasses import asdict, fields
from pathlib import Path

import click

from reminders.calendar.instants import instant_text
from reminders.cli.printing import GAP, JSON_VERSION, for_people
from reminders.domain.errors import InvalidInput, SettingsError
from reminders.embedded_secret import with_laptop_defaults
from reminders.providers.signing import parse_secret
from reminders.receiver.lines import LineWriter
from reminders.receiver.message import Message
from reminders.receiver.report import Handled
from reminders.receiver.server import DEFAULT_HOST, DEFAULT_PORT, Receiver
from reminders.receiver.store import Verdict
from reminders.settings import Secret, load
from reminders.signalled import set_from_handler

_MESSAGE_FIELDS = [field.name for field in fields(Message)]
_COLOURS = {"applied": "green", "repeat": "yellow", "conflict": "red", "refused": "red"}


@click.command()
@click.option("--host", default=DEFAULT_HOST, show_default=True, help="Address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=DEFAULT_PORT, show_default=True, help="0: any free port."
)
@click.option("--url", "urls", multiple=True, help="URL that reminders name, if not http://HOST:PORT/hook. Repeatable.")
@click.option(
    "--secret",
    "secret_texts",
    multiple=True,
    envvar="RECEIVER_SECRET",
    show_envvar=True,
    help="whsec_... to verify with, whatever the tenant. Repeatable; in the variable separated by spaces, and not seen in `ps`.",
)
@click.option(
    "--store", type=click.Path(dir_okay=False, path_type=Path), help="SQLite file to remember keys in; else forgotten."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def receiver(
    *, host: str, port: int, urls: tuple[str, ...], secret_texts: tuple[str, ...], store: Path | None, as_json: bool
) -> None:
    """Receive our webhooks: verify the signature, apply each key once, answer a repeat like the first.

    POST /hook takes deliveries. GET /report has counts, GET /report?keys=1 calls and effects of each key. For
    demonstrations, /hook/fail-once, /hook/fail-twice, /hook/refuse and /hook/slow?ms=N misbehave as they say.

    Unless --secret is given, secrets are derived from REMINDERS_WEBHOOK_SECRET, or on a laptop from the one that is kept
    in REMINDERS_HOME.
    """
    logging.basicConfig(level=logging.WARNING, format="reminders: %(message)s")
    stop = threading.Event()
    master = _master(explicit=bool(secret_texts))
    lines = LineWriter(sys.stdout, JsonForm() if as_json else PlainForm(coloured=sys.stdout.isatty()), stop.set)
    try:
        server = Receiver(
            host,
            port,
            master=master,
            secrets=[parse_secret(text) for text in secret_texts],
            urls=urls,
            store=store,
            on_delivery=lines.add,
        )
        server.start()
    except InvalidInput as error:
        raise click.BadParameter(error.reason, param_hint=f"--{error.field}") from error
    except OSError as error:
        raise click.ClickException(
            f"Cannot listen on {host}, port {port}: {error.strerror or error}\nChoose another with --host or --port"
        ) from error
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, lambda *_: set_from_handler(stop))
    click.echo(f"Receiving at {server.urls[0]}; Ctrl-C stops", err=True)
    stop.wait()
    server.stop()
    try:
        lines.close()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise click.ClickException(f"Lines cannot be written any more: {error.strerror}") from error
    finally:
        counts = server.report()
        click.echo(
            f"Received {counts.received}: {counts.effects} applied, {counts.repeats} repeated, "
            f"{counts.conflicts} in conflict, {counts.refused} refused",
            err=True,
        )


def _master(*, explicit: bool) -> Secret | None:
    settings = load()
    if settings.webhook_secret is None and explicit:
        return None
    settings = with_laptop_defaults(settings)
    if settings.webhook_secret is None:
        raise SettingsError(
            "There is no secret to verify signatures with\n"
            "Set REMINDERS_WEBHOOK_SECRET to the sender's, or RECEIVER_SECRET to the secret of this destination"
        )
    return settings.webhook_secret


class PlainForm:
    """Lines for people: when, what became of it, whose, about what, which key."""

    def __init__(self, *, coloured: bool) -> None:
        self._coloured = coloured

    def line(self, handled: Handled) -> str:
        what = "refused" if handled.verdict is None else handled.verdict.value
        number = str(handled.status) if handled.effect_number is None else f"#{handled.effect_number}"
        label = f"{what:<8} {number:<6}"
        if self._coloured:
            label = click.style(label, fg=_COLOURS[what])
        words = [f"{handled.at:%Y-%m-%dT%H:%M:%SZ}", label]
        if (message := handled.message) is not None:
            words += map(for_people, (message.tenant_id, message.kind, message.reference, message.key))
        if handled.reason:
            words.append(f"({handled.reason})")
        return GAP.join(words)

    def left_out(self, count: int) -> str:
        return f"({count} lines left out: nobody read them in time)"


class JsonForm:
    """Lines for programs. The fields of a message are null unless its signature was good."""

    def line(self, handled: Handled) -> str:
        message = dict.fromkeys(_MESSAGE_FIELDS) if handled.message is None else asdict(handled.message)
        applied = handled.verdict is Verdict.APPLIED
        return _json(**message, effect=applied, status=handled.status, at=instant_text(handled.at))

    def left_out(self, count: int) -> str:
        return _json(lines_left_out=count)


def _json(**fields_: object) -> str:
    return json.dumps({"v": JSON_VERSION, **fields_})
