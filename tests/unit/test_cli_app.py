"""The `reminders` command itself: what it loads, and how failures are told."""

import subprocess
import sys
import types
from importlib.metadata import version

import click
import pytest
from click.testing import CliRunner

from reminders.cli import app
from reminders.domain.errors import InvalidInput, RemindersError, SettingsError

LOADED = """
import sys
from reminders.cli.app import reminders
before = set(sys.modules)
try:
    reminders.main(sys.argv[1:])
except SystemExit as end:
    pass
print(*sorted(set(sys.modules) - before), file=sys.stderr)
"""


USAGE = "Usage: reminders status [OPTIONS]\nTry 'reminders status --help' for help.\n\n"


def invoke(*arguments):
    return CliRunner().invoke(app.reminders, arguments)


@pytest.fixture
def command_that(monkeypatch):
    """Replace `status` by a command with this body."""

    def replace(body):
        module = types.ModuleType("reminders_command_under_test")
        module.status = click.Command("status", callback=body)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setitem(app.COMMANDS, "status", (f"{module.__name__}:status", ""))

    return replace


def raising(error):
    def body():
        raise error

    return body


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], [], ["shedule"]])
def test_the_overview_loads_no_command(arguments):
    ended = subprocess.run([sys.executable, "-c", LOADED, *arguments], capture_output=True, text=True, check=True)
    loaded = ended.stderr.splitlines()[-1].split()
    assert not [name for name in loaded if name.startswith("reminders")]
    assert {"sqlalchemy", "psycopg2", "alembic", "celery", "kombu", "redis", "rich"}.isdisjoint(loaded)


@pytest.mark.parametrize("name", app.COMMANDS)
def test_every_command_loads_and_has_help(name):
    result = invoke(name, "--help")
    assert result.exit_code == 0
    assert result.stdout.startswith(f"Usage: reminders {name} ")


def test_the_overview_names_every_command():
    shown = invoke("--help").stdout
    for name, (_, line) in app.COMMANDS.items():
        assert any(row.split()[:1] == [name] and row.endswith(line) for row in shown.splitlines())
    assert invoke("-h").stdout == shown


def test_the_version_is_the_packages():
    assert invoke("--version").stdout == f"reminders {version('reminders')}\n"


def test_a_mistyped_command_is_wrong_usage_with_the_nearest_one():
    result = invoke("shedule")
    assert result.exit_code == 2
    assert result.stderr.endswith("Error: No such command 'shedule'. Did you mean 'schedule'?\n")
    assert invoke("xyzzy").stderr.endswith("Error: No such command 'xyzzy'.\n")


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (InvalidInput("due_at", "is in the past"), 1, "--due-at: is in the past\n"),
        (InvalidInput("expires_at", "must be later than due_at"), 1, "--expires-at: must be later than --due-at\n"),
        (InvalidInput("due_at", "'due_at' is no instant"), 1, "--due-at: 'due_at' is no instant\n"),
        (SettingsError("A: wrong\nB: wrong"), 1, "A: wrong\nB: wrong\n"),
        (RemindersError("lone \udcff"), 1, "lone \\udcff\n"),
        (click.UsageError("say more"), 2, f"{USAGE}Error: say more\n"),
        (KeyboardInterrupt(), 130, "\n"),
        (KeyboardInterrupt("broken off"), 130, "\nbroken off\n"),
        (click.exceptions.Exit(3), 3, ""),
    ],
)
def test_failures_are_told_without_a_traceback(command_that, error, code, said):
    command_that(raising(error))
    result = invoke("status")
    assert isinstance(result.exception, SystemExit)
    assert (result.exit_code, result.stdout, result.stderr) == (code, "", said)


def test_a_fault_of_ours_shows_where_it_is(command_that):
    command_that(raising(ZeroDivisionError("ours")))
    assert isinstance(invoke("status").exception, ZeroDivisionError)


def test_a_command_that_ends_well_exits_0_whatever_it_returns(command_that):
    command_that(lambda: "something")
    assert invoke("status").exit_code == 0


def test_what_was_given_and_is_very_long_is_not_repeated_whole():
    long = "x" * 50_000
    for arguments in (
        ("tenant", "lateness", "shop", "--max-lateness", long),
        ("series", "edit", long, "--max-lateness", long),
        ("series", "edit", "1", "--catch-up", long),
        ("import", long),
        ("purge", "--older-than", long),
        ("list", "--limit", long),
        (long,),
    ):
        answer = invoke(*arguments)
        assert answer.exit_code in {1, 2}
        assert "xxxxx" in answer.stderr
        assert len(answer.stderr) < 2 * app.LONGEST_LINE, arguments[:2]


def test_begin_and_end_of_a_long_refusal_are_told(command_that):
    command_that(raising(RemindersError("It was " + "y" * 5000 + "\nwrite z" + "y" * 5000 + " instead")))
    told = invoke("status").stderr
    assert told == f"It was {'y' * 493}...{'y' * 250}\nwrite z{'y' * 493}...{'y' * 242} instead\n"
