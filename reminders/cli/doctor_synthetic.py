"""`reminders doctor --synthetic`: what the command line says about it, and how its passage is told."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from reminders.broker.gauge import RedisGauge
from reminders.cli.printing import counted, for_people
from reminders.cli.session import postgres_faults_explained
from reminders.domain.durations import parse_duration
from reminders.domain.errors import InvalidInput, SettingsError
from reminders.ledger.database import Database
from reminders.operate.doctor.synthetic import STAGES, Passage, send
from reminders.receiver.report import Handled
from reminders.receiver.server import Receiver
from reminders.settings import Settings

LONGEST = 600.0
"""Seconds after which a synthetic reminder is given up, whatever was asked for."""
_WIDTH = max(map(len, STAGES))


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Where the receiver listens, the URL that leads there if it is another, and seconds of patience."""

    listen: tuple[str, int]
    to: str | None
    within: float


def read_arrangement(listen: str, to: str | None, within: str) -> Arrangement:
    """Read the options. Raises `InvalidInput`."""
    try:
        seconds = parse_duration(within)
    except ValueError:
        raise InvalidInput("--within", f"{within[:40]!r} is no duration; write 60s or 2m") from None
    if not 1 <= seconds <= LONGEST:
        raise InvalidInput("--within", f"must be from 1 s to {LONGEST:g} s")
    return Arrangement(read_address(listen), to, seconds)


def read_address(text: str) -> tuple[str, int]:
    """`HOST:PORT`. Raises `InvalidInput`."""
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdecimal() or int(port[:6]) > 65535:
        raise InvalidInput("--listen", f"{text[:40]!r} is no HOST:PORT")
    return host, int(port[:6])


def send_synthetic(settings: Settings, arrangement: Arrangement, *, as_json: bool) -> Passage:
    """Send it, telling each stage as it is passed unless it is told as JSON at the end.

    Raises `SettingsError` without a signing secret, and what `send` raises.
    """
    assert settings.database_url is not None
    with _listening(settings, arrangement) as receiver, ExitStack() as stack:
        database = Database(
            settings.database_url.reveal(), schema=settings.schema, pool_size=1, application_name="reminders-doctor"
        )
        stack.callback(database.close)
        gauge = RedisGauge(settings)
        stack.callback(gauge.close)
        stack.enter_context(postgres_faults_explained())
        return send(
            settings,
            database,
            receiver,
            within=arrangement.within,
            on_stage=_silent if as_json else _print_stage,
            served=lambda: sorted({queue for worker in gauge.workers() or () for queue in worker.queues}),
        )


class _Listening:
    """The reference receiver, and when its calls came."""

    def __init__(self, settings: Settings, arrangement: Arrangement) -> None:
        self._seen: list[tuple[float, Handled]] = []
        self.server = Receiver(
            *arrangement.listen,
            master=settings.webhook_secret,
            urls=() if arrangement.to is None else (arrangement.to,),
            on_delivery=lambda handled: self._seen.append((time.monotonic(), handled)),
        )

    @property
    def url(self) -> str:
        return self.server.urls[0]

    def calls(self) -> int:
        return len(self._seen)

    def signed(self) -> list[float]:
        return [at for at, handled in tuple(self._seen) if handled.message is not None]

    def refused(self) -> str | None:
        return next((handled.reason for _, handled in tuple(self._seen) if handled.message is None), None)

    def effects(self, key: str) -> int:
        return sum(each.effects for each in self.server.calls_by_key() if each.key == key)


@contextmanager
def _listening(settings: Settings, arrangement: Arrangement) -> Iterator[_Listening]:
    if settings.webhook_secret is None:
        raise SettingsError(
            "REMINDERS_WEBHOOK_SECRET is not set: a synthetic reminder is a webhook\nSet it, as for the workers"
        )
    try:
        listening = _Listening(settings, arrangement)
        listening.server.start()
    except InvalidInput as error:
        raise InvalidInput("--to" if error.field == "url" else error.field, error.reason) from error
    except OSError as error:
        host, port = arrangement.listen
        raise InvalidInput("--listen", f"{host}:{port} cannot be had: {error.strerror or error}") from error
    try:
        yield listening
    finally:
        listening.server.stop()


def _silent(_stage: str, _seconds: float) -> None:
    pass


def _print_stage(stage: str, seconds: float) -> None:
    print(f"synthetic  {stage:<{_WIDTH}}  {seconds:7.3f} s", flush=True)


def print_passage(passage: Passage) -> None:
    """Whether it arrived; its stages have been told."""
    if passage.why is None:
        print(
            f"synthetic  arrived: one logical send in {counted(passage.calls, 'call')}, reminder {passage.reminder_id}"
        )
    else:
        at = passage.stalled_at or "arrival"
        print(f"synthetic  NOT arrived, reminder {passage.reminder_id}; not passed: {at}")
        print(f"  To do: {for_people(passage.why)}")
    if passage.kept:
        print("  Its rows stay in the ledger until they are purged; what is still under way will not be tried again.")
