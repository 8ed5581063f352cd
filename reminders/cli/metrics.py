"""`reminders metrics`: the metrics once, or an endpoint that Prometheus scrapes."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import signal

import click

from reminders.cli.printing import for_people
from reminders.cli.session import Session, session
from reminders.domain.errors import SettingsError
from reminders.log_lines import set_up_log
from reminders.operate.metrics import Metrics
from reminders.operate.metrics_server import DEFAULT_HOST, DEFAULT_PORT, MetricsServer


@click.command(short_help="Metrics for Prometheus: once, or as an endpoint.")
@click.option("--serve", is_flag=True, help="Answer scrapes until stopped. Needs REMINDERS_METRICS_TOKEN.")
@click.option("--host", default=DEFAULT_HOST, show_default=True, help="With --serve: the address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=DEFAULT_PORT,
    show_default=True,
    help="With --serve; 0: any free port.",
)
def metrics(*, serve: bool, host: str, port: int) -> None:
    """Print the metrics in the text format of Prometheus, or answer scrapes of them at /metrics.

    They are drawn from Postgres and Redis when asked; any number of these may run. With --serve, whoever asks must send
    REMINDERS_METRICS_TOKEN, as a bearer token or as the password of basic authentication.
    """
    with session(broker=True) as ledger:
        found = Metrics(ledger.settings, ledger.database)
        try:
            if serve:
                asyncio.run(_serve(ledger, found, host, port))
            else:
                click.echo(found.text(), nl=False)
        finally:
            found.close()


async def _serve(ledger: Session, found: Metrics, host: str, port: int) -> None:
    token = ledger.settings.metrics_token
    if token is None:
        raise SettingsError(
            "The endpoint shows what the installation does, so it does not start without a token\n"
            "Set REMINDERS_METRICS_TOKEN to at least 24 random characters, and give them to Prometheus"
        )
    if ledger.settings.log == "json":
        set_up_log(ledger.settings, "metrics", logging.WARNING)
    else:
        logging.basicConfig(level=logging.WARNING, format="reminders: %(message)s")
    try:
        server = MetricsServer(found.text, token, host=host, port=port)
    except (OSError, UnicodeError) as error:  # the second for what can be no name of a host
        reason = getattr(error, "strerror", None) or error
        raise click.ClickException(
            f"Cannot listen on {for_people(host[:100])}, port {port}: {reason}\nChoose another with --host or --port"
        ) from error
    stop = asyncio.Event()
    for signum in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(signum, stop.set)
    if not _is_loopback(host):
        click.echo("Whoever listens on the way reads the token: put TLS in front of this port", err=True)
    click.echo(f"Answering at http://{host}:{server.port}/metrics; Ctrl-C stops", err=True)
    await server.serve(stop)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
