"""`reminders doctor` as a command: what it prints, how it exits, and what it sends."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from integration.doctor.plants_redis import REDIS
from integration.doctor.plants_settings import planted
from integration.doctor.scene import PROCFILE, STRONG, Scene
from reminders.cli.app import reminders
from reminders.operate.doctor import examine
from reminders.operate.doctor.examine import CHECKS

Run = Callable[..., Result]


@pytest.fixture
def run(scene: Scene, own_servers: tuple[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run `reminders doctor` with the settings of the healthy scene, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(examine, "SECOND_LOOK", 0.0)
    for name in ("REMINDERS_ALLOW_PRIVATE", "REMINDERS_ACCEPT"):
        monkeypatch.delenv(name)
    for name, value in {
        "DATABASE_URL": own_servers[0],
        "REDIS_URL": own_servers[1],
        "REMINDERS_WEBHOOK_SECRET": STRONG,
        "REMINDERS_FLOWER_AUTH": f"operator:{STRONG}",
    }.items():
        monkeypatch.setenv(name, value)

    def call(*arguments: str, **environ: str) -> Result:
        with scene.speaking():
            result = CliRunner(env=environ).invoke(reminders, ["doctor", *arguments])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return call


def said(result: Result) -> dict[str, Any]:
    (line,) = result.stdout.splitlines()
    found: dict[str, Any] = json.loads(line)
    return found


def test_where_nothing_is_wrong_it_says_so_and_exits_with_0(run: Run) -> None:
    result = run("--procfile", str(PROCFILE))

    assert (result.exit_code, result.stdout) == (0, f"Nothing is wrong: {len(CHECKS)} checks made\n")


def test_without_a_procfile_its_checks_are_not_made(run: Run) -> None:
    told = said(run("--json"))

    assert (told["v"], told["ok"], told["findings"], told["synthetic"]) == (1, True, [], None)
    assert all(name.startswith("procfile_") for name in told["skipped"])
    assert told["made"] + len(told["skipped"]) == len(CHECKS)


def test_the_procfile_of_the_folder_is_found(run: Run, tmp_path: Path) -> None:
    (tmp_path / "Procfile").write_text(PROCFILE.read_text().replace("worker retry", "worker delivr"))

    result = run("--json")

    assert result.exit_code == 1
    assert [each["name"] for each in said(result)["findings"]] == ["procfile_queue_unserved", "procfile_queue_unknown"]


def test_a_procfile_that_is_not_there_is_refused(run: Run) -> None:
    result = run("--procfile", "nowhere")

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "--procfile: 'nowhere' cannot be read: No such file or directory\n"


def test_a_warning_exits_with_3_a_note_with_0_and_what_is_accepted_too(run: Run) -> None:
    warned = run(REMINDERS_REDELIVER="11m")
    assert warned.exit_code == 3
    assert warned.stdout.splitlines() == [
        "warning timeouts_redeliver: REMINDERS_REDELIVER (660 s) is above REMINDERS_VISIBILITY (600 s)",
        "  Must hold: `REMINDERS_REDELIVER` is at most `REMINDERS_VISIBILITY`: a lost message comes back from the ledger, not from Redis.",
        "  To do: Lower the one or raise the other; the shipped values are 120 s and 10 min.",
        "",
        f"1 warning: {len(CHECKS) - 7} checks made, 7 not made",
    ]
    assert run(REMINDERS_FLOWER_AUTH="").exit_code == 0
    accepted = run("--json", REMINDERS_REDELIVER="11m", REMINDERS_ACCEPT="timeouts_redeliver")
    assert accepted.exit_code == 0
    assert [(each["name"], each["accepted"]) for each in said(accepted)["findings"]] == [("timeouts_redeliver", True)]


def test_a_fatal_finding_exits_with_1(run: Run, scene: Scene) -> None:
    with planted(REDIS["redis_evicts"][0], scene):
        result = run("--json", "--synthetic", REMINDERS_ALLOW_PRIVATE="1")

    assert said(result)["synthetic"] is None
    assert (result.exit_code, said(result)["ok"]) == (1, False)
    fatal = [each["name"] for each in said(result)["findings"] if each["severity"] == "fatal"]
    assert fatal == ["redis_evicts"]


def test_settings_that_do_not_fit_together_are_a_finding(run: Run) -> None:
    result = run("--json", REMINDERS_CLAIM="12s", REMINDERS_VISIBILITY="10s")

    assert result.exit_code == 1
    (finding,) = said(result)["findings"]
    assert (finding["name"], finding["severity"]) == ("settings_refused", "fatal")
    assert "REMINDERS_CLAIM (12 s) must be below REMINDERS_VISIBILITY (10 s)" in finding["found"]
    assert "must be below REMINDERS_CLAIM (12 s)" in finding["found"]


@pytest.mark.parametrize("variable", ["DATABASE_URL", "REDIS_URL"])
def test_a_server_that_is_away_is_a_finding_and_no_password_is_shown(run: Run, variable: str) -> None:
    scheme = "postgresql" if variable == "DATABASE_URL" else "redis"
    result = run("--synthetic", **{variable: f"{scheme}://reminders:very-secret-word@127.0.0.1:1/0"})

    assert result.exit_code == 1
    assert result.stdout.startswith(
        "fatal postgres_unreachable" if scheme == "postgresql" else "fatal redis_unreachable"
    )
    assert result.stdout.endswith("No synthetic reminder was sent: mend what is fatal first.\n")
    assert "very-secret-word" not in result.output


@pytest.mark.parametrize("option", [["--to", "http://h/hook"], ["--listen", "127.0.0.1:1"], ["--within", "9s"]])
def test_options_of_a_synthetic_reminder_go_with_it(run: Run, option: list[str]) -> None:
    assert run(*option).exit_code == 2


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--within", "soon"], "--within: 'soon' is no duration"),
        (["--within", "11m"], "--within: must be from 1 s to 600 s"),
        (["--listen", "8780"], "--listen: '8780' is no HOST:PORT"),
        (["--to", "ftp://h/hook"], "--to: "),
    ],
)
def test_wrong_ones_are_refused_by_name(run: Run, options: list[str], reason: str) -> None:
    result = run("--synthetic", *options)

    assert result.exit_code == 1
    assert result.stderr.startswith(reason)


def test_without_leave_for_http_its_receiver_is_refused_before_anything_is_sent(run: Run, scene: Scene) -> None:
    result = run("--synthetic")

    assert result.exit_code == 1
    assert "--to: must begin with https://" in result.stderr
    assert scene.sql("SELECT count(*) FROM reminders.reminders") == [(0,)]


def test_where_nobody_scans_it_says_so_in_time_and_leaves_nothing(run: Run, scene: Scene) -> None:
    scene.queues = ["deliver", "retry", "alone", "maintenance"]

    result = run(
        "--synthetic", "--within", "1s", "--json", REMINDERS_ALLOW_PRIVATE="1", REMINDERS_ACCEPT="queue_unserved"
    )

    passage = said(result)["synthetic"]
    assert result.exit_code == 1
    assert (passage["arrived"], passage["stalled_at"], passage["calls"], passage["kept"]) == (False, "leased", 0, False)
    assert passage["why"] == "no live worker consumes queue scan: start `reminders worker scan`"
    for table in ("reminders", "due", "destinations", "dead_letters", "notification_deliveries", "tenant_policies"):
        assert scene.sql(f"SELECT count(*) FROM reminders.{table}") == [(0,)], table


def test_a_tenant_that_is_off_is_not_sent_to(run: Run, scene: Scene) -> None:
    scene.sql(
        "INSERT INTO reminders.tenant_policies (tenant_id, channel, mode, dispatcher) VALUES ('reminders-doctor', '', 'off', 'main')"
    )

    result = run("--synthetic", "--within", "1s", REMINDERS_ALLOW_PRIVATE="1")
    scene.sql("DELETE FROM reminders.tenant_policies")

    assert result.exit_code == 1
    assert "Tenant reminders-doctor is off, and of dispatcher main" in result.stderr
