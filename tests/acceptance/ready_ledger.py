"""A Postgres with a ledger in it, made once for the tests of a process: an installation begins with a copy of it."""

from __future__ import annotations

import subprocess
import tempfile
from functools import cache
from pathlib import Path

from reminders.bootstrap import open_database
from reminders.embedded import running
from reminders.ledger.migrations import migrate
from reminders.ledger.status import make_partitions
from reminders.settings import Secret, Settings


def give_ledger(home: Path) -> None:
    """Put a stopped Postgres with a migrated ledger into `home`, if there is none. Its servers may be started afterwards."""
    if home.exists():
        return
    home.mkdir(mode=0o711)
    kept = Path(_kept().name) / "home" / "postgres"
    subprocess.run(["cp", "-a", kept.resolve(), home / "postgres"], check=True)


@cache
def _kept() -> tempfile.TemporaryDirectory[str]:
    """Removed when the process ends. Not below a test's own folder, which goes sooner."""
    folder = tempfile.TemporaryDirectory(prefix="reminders-tests-")
    # Postgres's own user must reach what is in it.
    Path(folder.name).chmod(0o711)
    with running(Path(folder.name) / "home") as services:
        migrate(services.database_url, "reminders")
        database = open_database(Settings(database_url=Secret(services.database_url)))
        make_partitions(database)
        database.close()
    return folder
