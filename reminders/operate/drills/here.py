"""Drills on an installation that runs already: nothing is killed, emptied or stopped, and only what they made is touched."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from reminders.broker.gauge import RedisGauge
from reminders.domain.errors import InvalidInput, Refused, RemindersError, ServiceUnavailable
from reminders.ledger.database import Database
from reminders.ledger.rehearsal import Rehearsal
from reminders.operate.drills.audited import audited
from reminders.operate.drills.drill import Broken, Drill, Record
from reminders.operate.drills.scene import KIND, USER, Scene
from reminders.operate.drills.scripted_receiver import ScriptedReceiver
from reminders.settings import Settings


class Installation(Scene):
    """One drill's part of an installation: its own run's name is in every reference and in the destination."""

    def __init__(
        self,
        record: Record,
        settings: Settings,
        database: Database,
        receiver: ScriptedReceiver,
        *,
        tenant: str,
        to: str,
    ) -> None:
        self._run = secrets.token_hex(4)
        super().__init__(record, settings, database, receiver, tenant=tenant, to=f"{to}/drill-{self._run}")

    def reference(self, name: str) -> str:
        return f"drill/{self._run}/{name}"

    def ready(self) -> None:
        """Wake the scan. Raises `ServiceUnavailable` where nobody would scan or deliver."""
        gauge = RedisGauge(self.settings)
        try:
            workers = gauge.workers()
        finally:
            gauge.close()
        queues = {queue for worker in workers or () for queue in worker.queues}
        missing = [queue for queue in ("scan", "deliver") if queue not in queues]
        if missing:
            raise ServiceUnavailable(
                f"No worker of this installation consumes {' or '.join(missing)}\n"
                "Start its process lines first; a drill without --here brings its own"
            )
        self.tick()

    def cancel_live(self) -> None:
        """Cancel what the drill made and did not see to its end: its receiver is about to go."""
        for each in self.live():
            self.cancel(each)


def check_safe(drill: Drill) -> None:
    """Raise `InvalidInput` for a drill that kills or empties something."""
    if drill.here is None:
        raise InvalidInput(
            "NAME", f"{drill.name} kills processes or servers, and runs on a throw-away installation only"
        )


def check_tenant(database: Database, tenant: str) -> None:
    """Raise `Refused` if the tenant has a reminder that no drill made."""
    other = Rehearsal(database).another_of(tenant, user=USER, kind=KIND)
    if other is not None:
        raise Refused(
            f"Tenant {tenant} has reminders that no drill made, such as {other}\n"
            "Take a tenant of its own, or add --among-others"
        )


@contextmanager
def listening(host: str, port: int) -> Iterator[ScriptedReceiver]:
    """A receiver for the block. Raises `InvalidInput` if the address cannot be had."""
    try:
        receiver = ScriptedReceiver(host=host, port=port)
    except OSError as error:
        raise InvalidInput("--listen", f"{host}:{port} cannot be had: {error.strerror or error}") from error
    try:
        yield receiver
    finally:
        receiver.close()


def rehearse_here(
    drill: Drill,
    settings: Settings,
    database: Database,
    record: Record,
    *,
    tenant: str,
    listen: tuple[str, int],
    to: str | None,
) -> None:
    """Run one drill and the audit of its own reminders; what came of it is in `record`.

    `listen` is where its receiver listens, `to` the URL by which workers reach that, if it is another. Raises what
    `Installation.ready` and scheduling raise.
    """
    assert drill.here is not None
    broken = None
    with listening(*listen) as receiver:
        scene = Installation(record, settings, database, receiver, tenant=tenant, to=(to or receiver.url).rstrip("/"))
        started = datetime.now(UTC)
        try:
            drill.here(scene)
            audited(scene, since=datetime.now(UTC) - started)
        except (Broken, TimeoutError) as fault:
            broken = str(fault)
        finally:
            _tidy(scene)
    record.end(broken)


def _tidy(scene: Installation) -> None:
    try:
        scene.cancel_live()
    except RemindersError as error:
        scene.saw(f"not all of the drill's own reminders could be cancelled: {error}")
