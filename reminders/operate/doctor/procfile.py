"""The Procfile: what it would start, against the queues that there are."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from reminders.celery_options import QUEUES
from reminders.operate.doctor.check import Check, listed
from reminders.process_lines import APART

_BETWEEN = frozenset("&|;")
"""What stands between the commands of a line."""
_REDIRECTION = re.compile(r"\d*[<>]+&?\s*\S+")


@dataclass(frozen=True, slots=True)
class Procfile:
    """The process lines of a Procfile, by name."""

    commands: Mapping[str, str]

    def queues(self) -> list[tuple[str, tuple[str, ...]]]:
        """The queues of each command that consumes any, with the name of its line."""
        found = [(name, queues_of(one)) for name, line in self.commands.items() for one in _commands(line)]
        return [(name, queues) for name, queues in found if queues]


def read_procfile(text: str) -> Procfile:
    """What a Procfile says; what is no process line is passed over."""
    lines = re.findall(r"^([A-Za-z0-9_-]+):[ \t]*(\S.*?)\s*$", text, re.MULTILINE)
    return Procfile(dict(lines))


def queues_of(command: str) -> tuple[str, ...]:
    """The queues that a command consumes: those of `reminders worker`, `reminders up` or a bare `celery worker`."""
    words = _words(command)
    if _follow(words, "reminders", "up"):
        return QUEUES
    if _bare_celery(words):  # ahead of the next: `celery -A reminders worker` has those words too
        return tuple(queue for queue in _bare_queues(words) if queue)
    if (at := _follow(words, "reminders", "worker")) is not None:
        return tuple(_arguments(words[at:]))
    return ()


def _commands(line: str) -> list[str]:
    """The commands that a line's shell runs, one after another or beside each other."""
    words = shlex.shlex(_REDIRECTION.sub(" ", line), posix=True, punctuation_chars="&|;")
    words.whitespace_split = True
    words.commenters = ""
    try:
        read = list(words)
    except ValueError:
        return [line]
    found: list[list[str]] = [[]]
    for word in read:
        if word and set(word) <= _BETWEEN:
            found.append([])
        else:
            found[-1].append(word)
    return [shlex.join(each) for each in found if each]


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()


def _follow(words: Sequence[str], program: str, command: str) -> int | None:
    """The place behind `program command`, wherever it stands."""
    for at in range(len(words) - 1):
        if words[at].rpartition("/")[2] == program and words[at + 1] == command:
            return at + 2
    return None


def _arguments(words: Sequence[str]) -> list[str]:
    """Those of a command, without options and their values."""
    found: list[str] = []
    skip = False
    for word in words:
        if skip or word.startswith("-"):
            skip = not skip and word.startswith("--") and "=" not in word
            continue
        found.append(word)
    return found


def _bare_celery(words: Sequence[str]) -> bool:
    program = any(word.rpartition("/")[2] in {"celery", "reminders.supervised"} for word in words)
    return program and "worker" in words


def _bare_queues(words: Sequence[str]) -> Sequence[str]:
    for at, word in enumerate(words):
        if word in {"-Q", "--queues"} and at + 1 < len(words):
            return words[at + 1].split(",")
        if word.startswith("--queues="):
            return word.removeprefix("--queues=").split(",")
    return QUEUES  # Celery's own default: all that are configured


def _not_served(procfile: Procfile) -> str | None:
    served = {queue for _, queues in procfile.queues() for queue in queues}
    missing = [queue for queue in QUEUES if queue not in served]
    return f"no line serves {listed(missing)}" if missing else None


def _names_unknown(procfile: Procfile) -> str | None:
    unknown = _by_line(procfile, lambda queue, _: queue not in QUEUES)
    return f"no such queue: {listed(unknown)}" if unknown else None


def _mixed(procfile: Procfile) -> str | None:
    # `up` starts a worker for each of them.
    mixed = _by_line(procfile, lambda queue, queues: queue in APART and 1 < len(queues) < len(QUEUES))
    return f"served together with others: {listed(mixed)}" if mixed else None


def _by_line(procfile: Procfile, wrong: Callable[[str, Collection[str]], bool]) -> list[str]:
    return [f"{queue} ({name})" for name, queues in procfile.queues() for queue in queues if wrong(queue, queues)]


def _no_beat(procfile: Procfile) -> str | None:
    beats = any(_words(command)[-1:] == ["beat"] or _beats(_words(command)) for command in procfile.commands.values())
    return None if beats else "no line runs beat"


def _beats(words: Sequence[str]) -> bool:
    return _follow(words, "reminders", "up") is not None or "beat" in words or "-B" in words


def _no_release(procfile: Procfile) -> str | None:
    migrates = any(_follow(_words(command), "reminders", "migrate") for command in procfile.commands.values())
    return None if migrates else "no line runs `reminders migrate`"


def _unsupervised(procfile: Procfile) -> str | None:
    bare = [name for name, command in procfile.commands.items() if _bare_celery(_words(command))]
    return listed(bare) if bare else None


def _behind_shell(procfile: Procfile) -> str | None:
    behind = [name for name, command in procfile.commands.items() if not command.startswith("exec ")]
    return listed(behind) if behind else None


PROCFILE: tuple[Check[Procfile], ...] = (
    Check(
        "procfile_queue_unserved",
        "fatal",
        "Every queue is served by a line of the Procfile.",
        "Add `reminders worker QUEUE` to a line, or a line of its own.",
        _not_served,
    ),
    Check(
        "procfile_queue_unknown",
        "fatal",
        f"Every queue that a line names exists: {', '.join(QUEUES)}.",
        "Correct the name: the line does not start, or consumes what nobody sends.",
        _names_unknown,
    ),
    Check(
        "procfile_queue_mixed",
        "fatal",
        f"{' and '.join(APART)} have processes of their own: deliveries must not starve the scan, and poison must die alone.",
        "Serve them by lines of their own. A small dyno runs several commands in one line, joined by `&`.",
        _mixed,
    ),
    Check(
        "procfile_beat_missing",
        "warning",
        "A line runs beat.",
        "Add `beat: exec python -m reminders.supervise beat`.",
        _no_beat,
    ),
    Check(
        "procfile_release_missing",
        "note",
        "Each release migrates the ledger before its workers start.",
        "Add `release: exec reminders migrate`, or run it in the pipeline of the deploy.",
        _no_release,
    ),
    Check(
        "procfile_unsupervised",
        "warning",
        "Workers are started by `reminders worker`, which restarts what ends and bounds the stop.",
        "Replace `celery ... worker -Q QUEUE` by `reminders worker QUEUE`.",
        _unsupervised,
    ),
    Check(
        "procfile_behind_shell",
        "note",
        "Each line replaces its shell (`exec`), so that signals reach the process.",
        "Begin the command with `exec`.",
        _behind_shell,
    ),
)
"""Checks of a Procfile."""
