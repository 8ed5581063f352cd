"""A settlement file that a command reads: run, kept for a task, or only checked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import BinaryIO

from reminders.cli.input_file import STDIN, opened, size_of
from reminders.cli.printing import counted, for_people, print_json
from reminders.cli.reconcile_report import money, section
from reminders.cli.session import Session
from reminders.domain.errors import InvalidInput, RemindersError, ServiceUnavailable
from reminders.intake import progress
from reminders.intake.importing import Totals
from reminders.intake.records import Reject
from reminders.intake.settlement.config import Reconciliation
from reminders.intake.settlement.cutting import PAGE_RECORDS, MalformedFile
from reminders.intake.settlement.files import Checked, carry_out, check, open_workshop, pages
from reminders.intake.settlement.receiving import upload
from reminders.intake.settlement.reporting import Report
from reminders.intake.settlement.running import AlreadyRunning, Run, begin
from reminders.intake.settlement.steps import repeated_id
from reminders.ledger.settlement_runs import FIRST_PAGE

COMMAND = "reconcile"
LONGEST_NAME = 200
MOST_MET = 1_000_000
"""Ids that a dry run remembers, to notice one that comes again."""
_AGAIN = "run the same command again to go on: nothing is done twice"


class Shown:
    """An `Observer` that shows progress on stderr, by how much of the file has been read."""

    def __init__(
        self, shown: progress.PlainProgress | progress.BarProgress, source: BinaryIO, checked: Checked
    ) -> None:
        self._shown = shown
        self._source = source
        self._records = checked.file.records
        self._decided = 0

    def advance(self, run: Run) -> None:
        """See `Observer`."""
        if run.step == "lines":
            read = min((run.next_page - FIRST_PAGE) * PAGE_RECORDS, self._records)
            self._shown.advance(Totals(read=read), self._source.tell())
        else:
            self._decided += 1
            self._shown.now(
                f"{counted(self._records, 'record')} read; deciding, {counted(self._decided, 'page')} of orders"
            )


def read_file(
    ledger: Session, file: str, config: Path, *, actor: str, page: int | None, reminders: bool
) -> Report | AlreadyRunning:
    """Run it to its end, showing progress. Whatever breaks it off says how to go on."""
    with _readable_twice(file) as source, progress.shown(size_of(source), COMMAND) as shown:
        workshop = open_workshop(ledger.database, ledger.settings, config, shown.tell)
        form = workshop.config.format
        checked = check(source, shown_name(file), form)
        shown.now(f"{counted(checked.file.records, 'record')} on {counted(checked.file.pages, 'page')} checked")
        _check_page(page, checked.file.pages)
        source.seek(0)
        run = begin(workshop, checked.file, actor=actor, only_page=page, reminders=reminders)
        if isinstance(run, AlreadyRunning):
            return run
        try:
            return carry_out(run, checked.header, pages(source, form, checked), Shown(shown, source, checked))
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"Broken off {_where(run, checked)}; {_AGAIN}") from None
        except ServiceUnavailable as error:
            raise ServiceUnavailable(f"{error}\nThe run stands {_where(run, checked)}; {_AGAIN}") from error


def keep_file(ledger: Session, file: str, config: Reconciliation, *, actor: str, as_json: bool) -> None:
    """Keep it in the ledger, and print its id and how a task is given it."""
    with _named_in_faults(file), opened(file) as source:
        file_id = upload(
            ledger.database, source, config.format, source=config.source, name=shown_name(file), actor=actor
        )
    if as_json:
        print_json({"file": str(file_id), "name": shown_name(file)})
        return
    print(f"Kept as {file_id}. To have a worker reconcile it:")
    print(f'  celery -A reminders call reminders.reconcile --kwargs \'{{"file": "{file_id}", "actor": "{actor}"}}\'')


def check_file(file: str, config: Reconciliation, limit: int, *, as_json: bool) -> int:
    """Read it without any ledger, and print what it holds. Returns how many lines would be rejected."""
    form = config.format
    sums: dict[tuple[str, str], list[Decimal]] = defaultdict(lambda: [Decimal(0)] * 4)
    rejects: list[Reject] = []
    rejected = 0
    met: dict[str, tuple[int, int]] = {}
    with _readable_twice(file) as source:
        checked = check(source, shown_name(file), form)
        source.seek(0)
        for page in pages(source, form, checked):
            for found in form.read_page(checked.header, page):
                line = found
                if not isinstance(line, Reject):
                    content = hash(line)
                    before = met.get(line.line_id)
                    if before is not None and before[0] == content:
                        continue
                    if before is not None:
                        line = repeated_id(line, f"in line {before[1]}")
                    elif len(met) < MOST_MET:
                        met[line.line_id] = content, line.at
                if isinstance(line, Reject):
                    rejected += 1
                    rejects += [line] if len(rejects) < limit else []
                else:
                    held = sums[line.category, line.currency]
                    sums[line.category, line.currency] = [
                        old + new for old, new in zip(held, (Decimal(1), line.gross, line.fee, line.net), strict=True)
                    ]
    if as_json:
        print_json(
            {
                "dry_run": True,
                "pages": checked.file.pages,
                "records": checked.file.records,
                "rejected": rejected,
                "categories": [
                    {"category": category, "currency": currency, "count": int(count), "gross": f"{gross:f}", "fee": f"{fee:f}", "net": f"{net:f}"}
                    for (category, currency), (count, gross, fee, net) in sorted(sums.items())
                ],
                "rejects": [{"line": each.line, "field": each.field, "reason": each.reason} for each in rejects],
            }
        )  # fmt: skip
        return rejected
    print(
        f"{counted(checked.file.records, 'record')} on {counted(checked.file.pages, 'page')}; {rejected:,} would be rejected. "
        "Nothing was written."
    )
    rows = [
        (category, currency, f"{int(count):,}", *(money(amount, currency) for amount in (gross, fee, net)))
        for (category, currency), (count, gross, fee, net) in sorted(sums.items())
    ]
    section("Lines", ("category", "currency", "count", "gross", "fee", "net"), rows)
    refused = [(f"{each.line:,}", each.field, each.reason) for each in rejects]
    section("Rejected lines", ("line", "field", "reason"), refused, rejected)
    return rejected


def shown_name(file: str) -> str:
    """The file's name without its folder, fit to be stored and printed whatever bytes it has."""
    return for_people(Path(file).name)[:LONGEST_NAME]


def _check_page(page: int | None, of: int) -> None:
    if page is not None and page > of:
        has = counted(of, "page") if of else "no page: no record is below its header"
        raise InvalidInput("page", f"the file has {has}")


def _where(run: Run, checked: Checked) -> str:
    if run.step == "lines":
        return f"behind page {run.next_page - FIRST_PAGE} of {checked.file.pages}"
    return "where all is read, while deciding"


@contextmanager
def _readable_twice(file: str) -> Iterator[BinaryIO]:
    with _named_in_faults(file), opened(file) as source:
        if file == STDIN or not source.seekable():
            raise RemindersError(
                f"{for_people(file)} can be read only once; a settlement file is checked to its end before anything is written\n"
                "Save it to a file first, or keep it in the ledger with --upload."
            )
        yield source


@contextmanager
def _named_in_faults(file: str) -> Iterator[None]:
    try:
        yield
    except MalformedFile as error:
        raise RemindersError(f"{for_people(file)}: {error}\nNothing was changed.") from error
