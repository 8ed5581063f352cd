"""Settlement files that are CSV with a header: which column holds what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from operator import itemgetter

from reminders.domain.settlement import SettlementLine
from reminders.intake.records import Reject
from reminders.intake.settlement.cutting import START, CutterState, FilePage, MalformedFile, RecordCutter
from reminders.intake.settlement.formats import Header
from reminders.intake.settlement.line_reading import FIELDS, LineReader, Values
from reminders.intake.settlement.rows import names_of, rows_of

REQUIRED = ("line_id", "category", "currency", "gross", "created_at", "payout_id")
"""Fields that every format has a column or a constant for."""
_NAMES_SHOWN = 20
_NAME_SHOWN = 64


@dataclass(frozen=True)
class ColumnFormat:
    """A format by its columns. Satisfies `Format`.

    `values.columns` names the column of each field, `constants` gives the text of fields that have none. The columns of
    fields in `optional` may be missing from a file.
    """

    name: str
    values: Values
    constants: Mapping[str, str] = field(default_factory=dict)
    optional: frozenset[str] = frozenset()
    delimiter: str = ","
    encoding: str = "utf-8"

    def cutter(self, state: CutterState = START) -> RecordCutter:
        return RecordCutter(delimiter=self.delimiter, encoding=self.encoding, state=state)

    def read_header(self, header: bytes) -> Header:
        names = names_of(header, self.delimiter)
        columns = self.values.columns
        faults = [fault for name in columns if (fault := _fault(columns[name], names, name in self.optional))]
        if faults:
            hint = f"; columns are separated by {self.delimiter!r} in this format" if len(names) == 1 else ""
            raise MalformedFile(f"the columns are not those of format {self.name}: {'; '.join(faults)}{hint}")
        # Behind a row's own values stand the constants, and at the very end an empty text for what there is not.
        places = {name: len(names) + number for number, name in enumerate(self.constants)}
        places |= {name: names.index(column) for name, column in columns.items() if column in names}
        nowhere = len(names) + len(self.constants)
        return Header(len(names), tuple(places.get(name, nowhere) for name in FIELDS))

    def read_page(self, header: Header, page: FilePage) -> Iterator[SettlementLine | Reject]:
        pick = itemgetter(*header.positions)
        behind = [*self.constants.values(), ""]
        reader = LineReader(self.values)
        for number, row in rows_of(page, self.delimiter):
            if isinstance(row, str):
                yield Reject(number, None, row)
            elif len(row) != header.width:
                yield Reject(number, None, f"has {len(row)} values, but the header names {header.width} columns")
            else:
                yield reader.read(number, [text.strip() for text in pick(row + behind)])


def _fault(column: str, names: list[str], optional: bool) -> str | None:
    """What is wrong with a column that the format reads, in a file with these names."""
    times = names.count(column)
    if times == 1 or (optional and not times):
        return None
    if times:
        return f"{column} is there {times} times"
    near = get_close_matches(column, [name[:_NAME_SHOWN] for name in names], n=1)
    return f"{column} is missing" + (f" (there is {ascii(near[0])[1:-1]})" if near else "")
