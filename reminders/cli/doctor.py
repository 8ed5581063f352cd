"""`reminders doctor`: what is wrong with this installation, and how it is mended."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from reminders import bootstrap
from reminders.cli.doctor_synthetic import Arrangement, print_passage, read_arrangement, send_synthetic
from reminders.cli.printing import for_people, print_json
from reminders.cli.session import command_settings, located, signals_unwind
from reminders.cli.values import json_option
from reminders.domain.errors import InvalidInput, SettingsError
from reminders.embedded import attach
from reminders.embedded_secret import kept_at_home
from reminders.operate.doctor.check import Finding
from reminders.operate.doctor.examine import CHECKS, Diagnosis, Installation, diagnose, refused
from reminders.operate.doctor.procfile import Procfile, read_procfile
from reminders.operate.doctor.synthetic import Passage
from reminders.settings import Settings

WARNED = 3
"""The exit code where nothing is fatal, and something is to be looked at."""
_COLOURS = {"fatal": "red", "warning": "yellow", "note": "cyan", "accepted": "green"}


@click.command(short_help="Check the installation; each finding says how to mend it.")
@click.option(
    "--procfile",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Process lines to hold against the queues; by default the Procfile of this folder, if there is one.",
)
@click.option("--synthetic", is_flag=True, help="Then send one reminder through the whole path, with one retry.")
@click.option(
    "--listen",
    default="127.0.0.1:0",
    show_default=True,
    metavar="HOST:PORT",
    help="With --synthetic: where its receiver listens.",
)
@click.option("--to", metavar="URL", help="With --synthetic: the URL by which workers reach it, if that is another.")
@click.option(
    "--within",
    default="60s",
    show_default=True,
    metavar="DURATION",
    help="With --synthetic: when to give up; 10 minutes at most.",
)
@json_option
@click.pass_context
def doctor(
    context: click.Context,
    *,
    procfile: Path | None,
    synthetic: bool,
    listen: str,
    to: str | None,
    within: str,
    as_json: bool,
) -> None:
    """Check settings, Postgres, Redis, the ledger, workers and the Procfile. Changes nothing, save with --synthetic.

    Run it with the settings of the workers. Every finding has a name (docs/doctor.md), and says what to do. Names in
    REMINDERS_ACCEPT are told, and count for nothing. Exits 1 if a finding is fatal or the synthetic reminder did not
    arrive, 3 if there are warnings, and 0 otherwise, also with notes.
    """
    arrangement = read_arrangement(listen, to, within) if synthetic else None
    if arrangement is None and (to is not None or listen != "127.0.0.1:0" or within != "60s"):
        raise click.UsageError("--listen, --to and --within go with --synthetic.")
    lines = _read_procfile(procfile)
    try:
        settings = command_settings()
    except SettingsError as error:
        code = _tell(refused("; ".join(str(error).splitlines())), None, as_json=as_json)
    else:
        with signals_unwind(), located(settings, broker=True) as (found, _):
            code = _examine(found, lines, arrangement, as_json=as_json)
    context.exit(code)


def _read_procfile(path: Path | None) -> Procfile | None:
    if path is None:
        path = Path("Procfile")
        if not path.is_file():
            return None
    try:
        return read_procfile(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise InvalidInput("--procfile", f"{str(path)!r} cannot be read: {reason}") from error


def _examine(settings: Settings, lines: Procfile | None, arrangement: Arrangement | None, *, as_json: bool) -> int:
    diagnosis = diagnose(_installation(settings, lines))
    if arrangement is None or not diagnosis.may_send:
        return _tell(diagnosis, None, as_json=as_json, wanted=arrangement is not None)
    if not as_json:
        _print_findings(diagnosis)
    passage = send_synthetic(settings, arrangement, as_json=as_json)
    return _tell(diagnosis, passage, as_json=as_json, wanted=True)


def _installation(settings: Settings, lines: Procfile | None) -> Installation:
    assert settings.database_url is not None
    services = attach(settings.home)
    channels = bootstrap.channels(settings)
    return Installation(
        settings,
        os.environ,
        sorted(channels.ready),
        channels.faults,
        min(settings.concurrency + 2, bootstrap.MOST_CONNECTIONS),
        at_home=services is not None and services.database_url == settings.database_url.reveal(),
        home_secrets=kept_at_home(settings.home),
        procfile=lines,
    )


def _tell(diagnosis: Diagnosis, passage: Passage | None, *, as_json: bool, wanted: bool = False) -> int:
    """Print what has not been printed yet; the exit code."""
    arrived = passage is not None and passage.arrived
    failed = diagnosis.count("fatal") > 0 or (wanted and not arrived)
    if as_json:
        print_json(_as_json(diagnosis, passage, ok=not failed))
    else:
        if passage is None:
            _print_findings(diagnosis)
        else:
            print_passage(passage)
        if wanted and passage is None:
            print("No synthetic reminder was sent: mend what is fatal first.")
    if failed:
        return 1
    return WARNED if diagnosis.count("warning") else 0


def _print_findings(diagnosis: Diagnosis) -> None:
    for finding in diagnosis.findings:
        severity = _severity(finding)
        click.echo(f"{click.style(severity, fg=_COLOURS[severity])} {finding.check.name}: {for_people(finding.found)}")
        print(f"  Must hold: {finding.check.meaning}")
        print(f"  To do: {finding.check.remedy}\n")
    made = len(CHECKS) - len(diagnosis.skipped)
    counts = {severity: diagnosis.count(severity) for severity in ("fatal", "warning", "note")}
    told = ", ".join(f"{count} {severity}" for severity, count in counts.items() if count) or "Nothing is wrong"
    without = f", {len(diagnosis.skipped)} not made" if diagnosis.skipped else ""
    print(f"{told}: {made} checks made{without}")


def _severity(finding: Finding) -> str:
    return "accepted" if finding.accepted else finding.check.severity


def _as_json(diagnosis: Diagnosis, passage: Passage | None, *, ok: bool) -> dict[str, Any]:
    return {
        "ok": ok,
        "findings": [
            {
                "name": finding.check.name,
                "severity": finding.check.severity,
                "accepted": finding.accepted,
                "found": finding.found,
                "meaning": finding.check.meaning,
                "remedy": finding.check.remedy,
            }
            for finding in diagnosis.findings
        ],
        "made": len(CHECKS) - len(diagnosis.skipped),
        "skipped": list(diagnosis.skipped),
        "synthetic": None if passage is None else passage.fields(),
    }
