"""What `reminders demo` shows: how far it is, what became of everything, and whether that is as it must be."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.live import Live
from rich.table import Table

from reminders.ledger.summary import Summary
from reminders.operate.sample import Expected
from reminders.receiver.mail_catcher import MailCatcher
from reminders.receiver.report import Report
from reminders.receiver.server import Receiver
from reminders.receiver.sms_catcher import SmsCatcher

STATES = ("pending", "leased", "published", "sending", "delivered", "cancelled", "dead")
ENDED = ("delivered", "cancelled", "dead", "expired")
LOOK_EVERY = 0.25
LINE_EVERY = 5.0
"""Seconds between two lines where there is no terminal to draw on."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What arrived at the far sides. `shown` is the mail and the text, a line each."""

    report: Report
    mails: int
    texts: int
    shown: Sequence[str]


@dataclass(frozen=True, slots=True)
class FarSides:
    """Where the demo's reminders go."""

    receiver: Receiver
    mails: MailCatcher
    texts: SmsCatcher

    def seen(self) -> Seen:
        """Everything that has arrived."""
        mails, texts = self.mails.mails(), self.texts.caught()
        shown = [f"Mail to {mail.recipient}: {mail.subject}" for mail in mails]
        shown += [f"SMS to {text.to}: {text.text}" for text in texts]
        return Seen(self.receiver.report(), len(mails), len(texts), shown)


def watch(console: Console, look: Callable[[], Summary], patience: float) -> Summary:
    """Show the counts until every reminder has ended, or `patience` seconds have passed."""
    give_up_at = time.monotonic() + patience
    total = Expected().total
    told, next_line = -1, time.monotonic() + LINE_EVERY
    with Live(console=console, refresh_per_second=8, transient=True) as live:
        while True:
            found = look()
            ended = sum(found.counts.get(status, 0) for status in ENDED)
            done = ended >= total or time.monotonic() > give_up_at
            if console.is_terminal:
                live.update(_progress(found, ended, total))
            elif done or (ended != told and time.monotonic() >= next_line):
                console.print(f"{ended} of {total} have ended")
                told, next_line = ended, time.monotonic() + LINE_EVERY
            if done:
                return found
            time.sleep(LOOK_EVERY)


def _progress(found: Summary, ended: int, total: int) -> Table:
    table = Table(title=f"{ended} of {total} have ended", title_justify="left")
    for state in STATES:
        table.add_column(state, justify="right", min_width=9)
    table.add_row(*[str(found.counts.get(state, 0)) for state in STATES])
    return table


def outcome_table(found: Summary, seen: Seen) -> Table:
    """What the ledger and the far sides say at the end."""
    table = Table(title="What became of them", title_justify="left", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    rows = [
        ("delivered", found.counts.get("delivered", 0)),
        ("  of them retried", found.retried),
        ("dead, for review", found.counts.get("dead", 0)),
        ("cancelled", found.counts.get("cancelled", 0)),
        ("applied by the receiver", seen.report.effects),
        ("repeats it saw", seen.report.repeats),
        ("mails caught", seen.mails),
        ("SMS caught", seen.texts),
        (f"lateness p50 of the {found.on_time} due ahead", _seconds(found.late_p50)),
        ("lateness p99", _seconds(found.late_p99)),
    ]
    for label, value in rows:
        table.add_row(label, str(value))
    return table


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f} s"


def faults(found: Summary, seen: Seen) -> list[str]:
    """What is not as it must be, one line each."""
    expected = Expected()
    compared = [
        ("delivered", found.counts.get("delivered", 0), expected.delivered),
        ("retried", found.retried, expected.retried),
        ("dead", found.counts.get("dead", 0), expected.dead),
        ("cancelled", found.counts.get("cancelled", 0), expected.cancelled),
        ("reminders in all", sum(found.counts.values()), expected.total),
        ("applied by the receiver", seen.report.effects, expected.posted),
        ("repeats", seen.report.repeats, 0),
        ("mails caught", seen.mails, expected.mailed),
        ("SMS caught", seen.texts, expected.texted),
    ]
    return [f"{what}: {number}, expected {wanted}" for what, number, wanted in compared if number != wanted]
