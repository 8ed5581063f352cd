"""`reminders worker`: the supervising parent of a worker line."""

from __future__ import annotations

import os
import sys

import click

from reminders.celery_options import QUEUES
from reminders.domain.errors import InvalidInput, RemindersError
from reminders.log_lines import before_set_up, set_up_log
from reminders.process_lines import readiness_child, worker_children
from reminders.settings import load
from reminders.settings_addresses import check_addresses
from reminders.supervise import supervise


@click.command()
@click.argument("queues", metavar="QUEUE...", nargs=-1, required=True)
@click.option("--processes", type=click.IntRange(1, 64), help="Worker processes; by default what the queues need.")
@click.option("--concurrency", type=click.IntRange(1, 1000), help="Threads in each; by default what the queues need.")
@click.option(
    "--loglevel",
    type=click.Choice(["DEBUG", "INFO", "WARNING", "ERROR"], case_sensitive=False),
    default="INFO",
    show_default=True,
)
def worker(queues: tuple[str, ...], processes: int | None, concurrency: int | None, loglevel: str) -> None:
    """Consume tasks from each QUEUE, restarting worker processes that end.

    Waits, before it starts any, until the ledger can be reached and is at this release's version. Refuses to start
    where tasks would be delivered and no channel can send.

    Stops on SIGTERM or Ctrl-C: running tasks finish, at most for REMINDERS_GRACE.
    """
    before_set_up(os.environ, f"{'+'.join(queues)}-parent")
    try:
        settings = load()
        check_addresses(settings)
        children = worker_children(settings, queues, processes, concurrency, loglevel.upper())
    except InvalidInput as error:
        raise click.UsageError(str(error)) from error
    except RemindersError as error:
        raise click.ClickException(str(error)) from error
    set_up_log(settings, f"{'+'.join(queues)}-parent")
    sys.exit(supervise(children, settings.grace, first=readiness_child(queues)))


worker.epilog = f"Queues: {', '.join(QUEUES)}."
