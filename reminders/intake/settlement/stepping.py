"""A settlement file that is kept in the ledger, worked on a step at a time: a slice, a page of lines, a page of orders.

What is to be done next is always in the ledger. A message that is lost, or comes twice, is made up for by the look at what
was left alone.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from uuid import UUID

from reminders.calendar.zones import load_zone, to_instant
from reminders.domain.errors import Refused
from reminders.intake.settlement.config import Nightly
from reminders.intake.settlement.cutting import FilePage, MalformedFile
from reminders.intake.settlement.fetching import Access, fetch_slice, shown_name
from reminders.intake.settlement.matching import MatcherFault
from reminders.intake.settlement.reporting import Report
from reminders.intake.settlement.running import LEASE, AlreadyRunning, LostRun, Run, RunFile, Workshop, begin, go_on
from reminders.ledger import settlement_file_work, settlement_files
from reminders.ledger.settlement_files import StoredFile
from reminders.providers.file_fetch import check_url

logger = logging.getLogger(__name__)

BEAT = "beat"
"""The actor of what runs by itself."""


@dataclass(frozen=True, slots=True)
class Next:
    """What the next message is to go on with, after `wait` seconds."""

    file: UUID
    run: UUID | None = None
    fence: int | None = None
    wait: float = 0.0


def ask_for(
    workshop: Workshop, access: Access, url: str, *, actor: str, because: str | None = None, night: date | None = None
) -> Next | None:
    """Note a file that is to be fetched; None if that of this night is on record. Raises `InvalidInput("url", ...)`."""
    check_url(url, allow_private=access.allow_private)
    file_id = settlement_files.add(
        workshop.database,
        source=workshop.config.source,
        name=shown_name(url),
        url=url,
        night=night,
        actor=actor,
        asked_because=because,
    )
    return None if file_id is None else Next(file_id)


def step(workshop: Workshop, access: Access, now: Next, *, actor: str | None = None) -> Next | None:
    """Do one step of what stands in the ledger; None when there is nothing to go on with.

    Raises `NotFound`; `Refused` for a file of another source, or one that was refused.
    """
    file = settlement_files.read(workshop.database, now.file)
    if file.source != workshop.config.source:
        raise Refused(f"file {file.id} is of source {file.source}, and the configuration of {workshop.config.source}")
    if file.status == "refused":
        raise Refused(f"file {file.id} was refused: {file.reason}")
    if file.status == "receiving":
        return _receive(workshop, access, file)
    if now.run is None or now.fence is None:
        return _begin(workshop, file, actor or file.actor)
    if file.status != "running" or file.run_id != now.run:
        return None
    return _go_on(workshop, file, now.run, now.fence)


def left_alone(workshop: Workshop, idle: float) -> list[Next]:
    """Files at which nobody has worked for so many seconds, though they are not done: their messages are lost."""
    return [Next(file_id) for file_id, _ in settlement_file_work.left_alone(workshop.database, idle)]


def tonight(workshop: Workshop, access: Access, nightly: Nightly, now: datetime) -> Next | None:
    """The file of the last night whose time has come, unless somebody has asked for it already."""
    night, instant = last_night(nightly, now)
    return ask_for(workshop, access, nightly.url_at(instant), actor=BEAT, night=night)


def last_night(nightly: Nightly, now: datetime) -> tuple[date, datetime]:
    """The latest day, in the zone of `nightly`, whose time has come; and when that was."""
    day = now.astimezone(load_zone(nightly.zone)).date()
    while (instant := to_instant(datetime.combine(day, nightly.at), nightly.zone)) > now:
        day -= timedelta(days=1)
    return day, instant


def _receive(workshop: Workshop, access: Access, file: StoredFile) -> Next | None:
    if file.url is None:
        raise Refused(f"file {file.id} is still being uploaded")
    came = fetch_slice(workshop.database, file.id, workshop.config.format, access)
    if came.state == "over":
        logger.warning("reconcile.file_refused file=%s night=%s: %s", file.id, file.night, came.reason)
        return None
    if came.reason is not None:
        logger.info("reconcile.fetch_later file=%s: %s", file.id, came.reason)
    return Next(file.id, wait=came.wait)


def _begin(workshop: Workshop, file: StoredFile, actor: str) -> Next | None:
    assert file.sha256 is not None
    assert file.header is not None
    try:
        workshop.config.format.read_header(file.header)
    except MalformedFile as error:
        # Kept under another configuration than it is read with.
        raise Refused(f"file {file.id} does not fit the configuration: {error}") from None
    run = begin(workshop, RunFile(file.name, file.sha256.hex(), file.pages, file.records), actor=actor)
    if isinstance(run, AlreadyRunning):
        logger.info("reconcile.already_running file=%s run=%s", file.id, run.run_id)
        # Of a file that nobody has begun, somebody runs the same content from elsewhere, and may break off.
        return Next(file.id, wait=LEASE.total_seconds()) if file.status == "ready" else None
    # Crash here: the run's lease ends, and the message, or the look at what was left alone, takes it over.
    settlement_file_work.start(workshop.database, file.id, run.id)
    return Next(file.id, run.id, run.fence)


def _go_on(workshop: Workshop, file: StoredFile, run_id: UUID, fence: int) -> Next | None:
    try:
        run = go_on(workshop, run_id, fence)
        done = _one_step(workshop, file, run)
    except LostRun:
        logger.info("reconcile.lost_run file=%s run=%s: another process goes on with it", file.id, run_id)
        return None
    except MatcherFault as error:
        logger.error("reconcile.matcher_fault file=%s run=%s: %s", file.id, run_id, " ".join(str(error).split()))  # noqa: TRY400
        return None
    settlement_file_work.step(workshop.database, file.id, run_id, done=done is not None)
    if done is None:
        return Next(file.id, run_id, fence)
    _log(file, done)
    return None


def _one_step(workshop: Workshop, file: StoredFile, run: Run) -> Report | None:
    if run.step == "lines":
        assert file.header is not None
        for page in settlement_files.pages_after(workshop.database, file.id, run.next_page - 1):
            header = workshop.config.format.read_header(file.header)
            run.page_of_lines(header, FilePage(page.number, page.first_line, page.records, page.content))
        return None
    if run.step == "decide":
        run.decide_next()
        return None
    if run.step == "missing":
        run.missing_next()
        return None
    return run.finish()


def _log(file: StoredFile, report: Report) -> None:
    run = report.run
    logger.info(
        "reconcile.done file=%s run=%s night=%s read=%d new=%d changed=%d rejected=%d decisions=%d unmatched=%d payouts_off=%d",
        file.id, run.run_id, file.night, run.read, run.new, run.changed, run.rejected,
        sum(each.count for each in report.decisions), report.totals.get("unmatched", 0), report.totals.get("payouts", 0),
    )  # fmt: skip
