"""Every command that README and docs show is run here, in their order, as a newcomer would: on a laptop without settings."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import pytest

from acceptance.forking_shell import ForkingShell
from acceptance.harness import BIN, ROOT, unset, wait_until
from held_ports import held_port

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SAMPLE = re.findall(r"```csv\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[0]
TEMPLATE = {
    "due.subject.txt": "Your payment is due\n",
    "due.txt": 'Dear customer, {{ data.amount | fixed(2) }} EUR for order {{ data.order }} are due on\n{{ due_at | local("%d.%m.%Y") }}.\n',
}
PREVIOUS = "reference,user_id,sent_at\norder-31,cleo,2030-05-01T09:00:00Z\n"
SUPPRESSIONS = "user_id,kind\nbea,newsletter\n"
CALENDAR = (
    "BEGIN:VCALENDAR\nVERSION:2.0\nBEGIN:VEVENT\nUID:one@example.org\nDTSTART;TZID=Europe/Berlin:20350101T090000\n"
    "BEGIN:VALARM\nACTION:DISPLAY\nTRIGGER:-PT15M\nEND:VALARM\nEND:VEVENT\nEND:VCALENDAR\n"
)
STAYS = ("reminders up", "reminders receiver", "reminders worker", "reminders metrics --serve")
"""These run until they are stopped."""
ELSEWHERE = {
    # The suite cannot run itself; the target must exist. What they install and start is proven by a fresh clone, and
    # what the demo shows by test_demo.py.
    "make test": "make --dry-run test",
    "make install": "make --dry-run install",
    "source .venv/bin/activate": "true",
    "make demo": "make --dry-run demo",
    # A shell's own word; test_cli_env.py has a shell.
    'eval "$(reminders env)"': "reminders env",
    # Half an hour; test_chaos.py runs a small one.
    "make chaos": "make --dry-run chaos",
}


def documented_commands() -> list[tuple[str, str]]:
    """(page, command) of each `$ ` line in a console block; a backslash at the end continues it."""
    found = []
    for page in PAGES:
        for block in re.findall(r"```console\n(.*?)```", page.read_text(), re.DOTALL):
            lines = re.sub(r"\\\n\s*", "", block).splitlines()
            found += [(page.name, line.removeprefix("$ ").strip()) for line in lines if line.startswith("$ ")]
    return found


class Newcomer:
    """A shell in an empty folder, with the virtual environment active and no setting made."""

    def __init__(self, folder: Path, home: Path, port: int) -> None:
        self.folder = folder
        self.port = port
        self.environ = {**unset(), "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "REMINDERS_HOME": str(home)}
        # What the page on monitoring asks for.
        self.environ["REMINDERS_METRICS_TOKEN"] = "a-token-that-is-long-enough"
        self.staying: list[subprocess.Popen[bytes]] = []
        self.shell = ForkingShell(self.environ, folder)

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        if command.startswith("reminders "):
            return self.shell.run(shlex.split(command))
        where = ROOT if command.startswith("make") else self.folder
        return subprocess.run(
            shlex.split(command), cwd=where, env=self.environ, capture_output=True, text=True, timeout=110, check=False
        )

    def start(self, command: str) -> None:
        log = (self.folder / f"{len(self.staying)}.log").open("wb")
        self.staying.append(
            subprocess.Popen(shlex.split(command), cwd=self.folder, env=self.environ, stdout=log, stderr=log)
        )

    def listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def first_is_delivered(self) -> bool:
        return "order-17" in self.run("reminders list --tenant shop --status delivered").stdout

    @cached_property
    def first_series(self) -> str:
        """The id that the pages call SERIES."""
        (line, *_) = self.run("reminders series list --json").stdout.splitlines()
        return str(json.loads(line)["id"])

    def first_shadowed(self) -> str | None:
        """The id that the pages call SHADOWED; None before a worker has decided."""
        told = self.run("reminders shadow list --tenant shop --json").stdout.splitlines()
        return str(json.loads(told[0])["reminder_id"]) if told else None

    def first_file(self) -> str:
        """The id that the pages call FILE_ID."""
        (line, *_) = self.run("reminders reconcile --files --json").stdout.splitlines()
        return str(json.loads(line)["file"])

    def leave(self) -> None:
        for process in reversed(self.staying):
            process.terminate()
        for process in self.staying:
            assert process.wait(40) == 0


@pytest.fixture
def port() -> Iterator[int]:
    """For the receiver, which a later page starts."""
    with held_port() as port:
        yield port


@pytest.fixture
def newcomer(home: Path, tmp_path: Path, port: int) -> Iterator[Newcomer]:
    (tmp_path / "reminders.csv").write_text(SAMPLE)
    (tmp_path / "calendar.ics").write_text(CALENDAR)
    for name, text in TEMPLATE.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "previous.csv").write_text(PREVIOUS)
    (tmp_path / "suppressions.csv").write_text(SUPPRESSIONS)
    shutil.copytree(ROOT / "examples" / "shop", tmp_path / "examples" / "shop")
    for file in (tmp_path / "examples" / "shop").iterdir():
        file.write_text(file.read_text().replace("8780", str(port)))
    newcomer = Newcomer(tmp_path, home, port)
    with newcomer.shell:
        yield newcomer
    newcomer.leave()


def as_run(command: str, port: int) -> str:
    """The command with a port of this test's own."""
    command = ELSEWHERE.get(command, command).replace("8780", str(port))
    if command == "reminders metrics --serve":
        return f"{command} --port 0"
    return f"{command} --port {port}" if command.startswith("reminders receiver") else command


@pytest.mark.timeout(600)
def test_every_documented_command_works_in_order(newcomer: Newcomer) -> None:
    commands = documented_commands()
    assert len(commands) >= 12
    for page, documented in commands:
        command = as_run(documented, newcomer.port)
        if " SERIES" in command:
            command = command.replace(" SERIES", f" {newcomer.first_series}")
        if "FILE_ID" in command:
            command = command.replace("FILE_ID", newcomer.first_file())
        if " SHADOWED" in command:
            command = command.replace(" SHADOWED", f" {newcomer.first_shadowed()}")
        if documented.startswith(STAYS):
            newcomer.start(command)
            if documented.startswith("reminders receiver"):
                wait_until(newcomer.listens, 30, "the receiver listens")
            continue
        done = newcomer.run(command)
        assert done.returncode == 0, f"{page}: $ {documented}\n{done.stdout}{done.stderr}"
        if "order-31" in documented:
            wait_until(newcomer.first_shadowed, 60, "the first reminder is shadowed", every=1.0)
        elif documented.startswith("reminders schedule"):
            # Each look is a command, which takes the time of the workers that it waits for.
            wait_until(newcomer.first_is_delivered, 60, "the first reminder is delivered", every=1.0)


def test_the_variables_of_the_readme_are_those_of_the_settings() -> None:
    shown = set(re.findall(r"`(REMINDERS_[A-Z_]+)`", (ROOT / "README.md").read_text()))
    from reminders import settings

    known = {settings.PREFIX + name.upper() for name in settings._PARSERS}
    assert shown - {"REMINDERS_HOME"} == known - {"REMINDERS_HOME"}
