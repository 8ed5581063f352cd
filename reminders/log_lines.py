"""How every process of ours writes its log: one event a line, for people or as JSON, and never the text of an exception.

A line is `EVENT field=value ...: words`. The event is static, the fields are ids, names and numbers of ours. An
exception is shown by its type and the lines of code that it passed: its text may hold a destination, data or a secret.
What other libraries log keeps its words, at a level at which they show neither arguments nor addresses.
"""

from __future__ import annotations

import json
import logging
import re
import traceback
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from types import TracebackType

from reminders.pipeline.trail import bound_ids, trail
from reminders.settings import Settings

LINE = "REMINDERS_X_LINE"
"""Names what a supervised process is called in its log."""
OURS = "reminders"

_EVENT = r"(?P<event>[a-z_]+(?:\.[a-z_]+)+)"
_FORMAT = re.compile(_EVENT + r"(?P<fields>(?: [a-z_]+=%[^\s:]+)*)(?:: (?P<words>.*))?", re.DOTALL)
_WRITTEN = re.compile(_EVENT + r"(?P<fields>(?: [a-z_]+=\S*)*)(?:: (?P<words>.*))?", re.DOTALL)
_QUIET = {
    # At DEBUG it shows the arguments of every task, of which those of operators are words.
    "celery.pool": logging.INFO,
    # Two lines a task that say less than the ledger and cost more than the claim.
    "celery.worker.strategy": logging.WARNING,
    "celery.app.trace": logging.WARNING,
    # Names the address of what it calls, in its warnings too. What came of a call is the outcome's to say.
    "urllib3": logging.CRITICAL,
    "requests": logging.CRITICAL,
}
ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


class _Lines(logging.Formatter):
    def __init__(self, program: str) -> None:
        super().__init__()
        self._program = program

    def formatException(self, ei: ExcInfo) -> str:  # noqa: N802 - the name is logging's
        return "\n".join(_without_texts(ei[1]))

    def format(self, record: logging.LogRecord) -> str:
        event, fields, words = _parts(record)
        told = ": ".join(filter(None, [_told(event, fields).strip(), words]))
        line = f"{_at(record)} {record.levelname} {self._program}[{record.process}] {told}"
        if record.exc_info:
            line = f"{line}\n{self.formatException(record.exc_info)}"
        return line


class _Json(_Lines):
    def format(self, record: logging.LogRecord) -> str:
        event, fields, words = _parts(record)
        line: dict[str, object] = {
            "at": _at(record),
            "level": record.levelname,
            "line": self._program,
            "pid": record.process,
            "logger": record.name,
            "event": event or None,
            **fields,
        }
        if words:
            line["words"] = words
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


class _Words(logging.Formatter):
    """For a person who runs a command: what an event's line says, without the event."""

    def format(self, record: logging.LogRecord) -> str:
        event, fields, words = _parts(record)
        return words or _told(event, fields)


def _at(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _parts(record: logging.LogRecord) -> tuple[str, dict[str, str], str]:
    """Event, fields and words; of others' lines only the words. With what this thread's work is about."""
    if record.name.partition(".")[0] != OURS:
        return "", bound_ids(), record.getMessage()
    if isinstance(record.args, tuple) and record.args and (found := _FORMAT.fullmatch(str(record.msg))):
        names = [each.partition("=") for each in found["fields"].split()]
        fields = {name: form % (value,) for (name, _, form), value in zip(names, record.args, strict=False)}
        return found["event"], {**fields, **bound_ids()}, (found["words"] or "") % record.args[len(names) :]
    if found := _WRITTEN.fullmatch(record.getMessage()):
        return found["event"], {**_read(found["fields"]), **bound_ids()}, found["words"] or ""
    return "", bound_ids(), record.getMessage()


def _read(fields: str) -> dict[str, str]:
    return dict(each.partition("=")[::2] for each in fields.split())


def _told(event: str, fields: Mapping[str, str]) -> str:
    """In one line; what has blanks in it is quoted."""
    return " ".join(
        [event, *(f"{name}={json.dumps(value) if ' ' in value else value}" for name, value in fields.items())]
    )


def _without_texts(error: BaseException | None) -> Iterator[str]:
    while error is not None:
        yield type(error).__qualname__
        yield "".join(traceback.format_tb(error.__traceback__)).rstrip()
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        if error is not None:
            yield "which came after:"


def formatter_of(settings: Settings, program: str) -> logging.Formatter:
    """How a process called `program` writes its lines."""
    return (_Json if settings.log == "json" else _Lines)(program.replace(" ", "-"))


def set_up_log(settings: Settings, program: str, level: int = logging.INFO) -> None:
    """Have this process log to standard error as `settings` say. For a process that has no logging yet."""
    handler = logging.StreamHandler()
    handler.setFormatter(formatter_of(settings, program))
    root = logging.getLogger()
    root.addHandler(handler)
    set_levels(settings, root, level)


def set_levels(settings: Settings, root: logging.Logger, level: int) -> None:
    """Let our own code log from `level` on, others from INFO on at the lowest, and the trail if it is asked for.

    What libraries say at DEBUG holds arguments and addresses.
    """
    root.setLevel(max(level, logging.INFO))
    logging.getLogger(OURS).setLevel(level)
    trail.setLevel(logging.INFO if settings.trail or level <= logging.DEBUG else logging.WARNING)
    for name, lowest in _QUIET.items():
        logging.getLogger(name).setLevel(lowest)


def own_name(environ: Mapping[str, str], otherwise: str) -> str:
    """What a supervised process is called; `otherwise` if nobody has named it."""
    return environ.get(LINE) or otherwise


def before_set_up(environ: Mapping[str, str], program: str) -> None:
    """Have a process that will set up its log write what it logs before in the same form; nobody has read the settings yet."""
    if logging.lastResort is not None:
        form = _Json if environ.get("REMINDERS_LOG") == "json" else _Lines
        logging.lastResort.setFormatter(form(own_name(environ, program).replace(" ", "-")))


def words_only() -> None:
    """Have a command that sets up no log show its warnings to the person who runs it, in their words alone."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_Words())
