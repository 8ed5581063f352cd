"""Locks, lifelines and logs of the embedded servers, without a server."""

import os
import signal
import sys

import pytest

from reminders.embedded.lifeline import Lifeline, _start_time
from reminders.embedded.locks import FileLock
from reminders.embedded.server import last_words


@pytest.fixture
def lock_path(tmp_path):
    return tmp_path / "some.lock"


@pytest.fixture
def locks(lock_path):
    made = [FileLock(lock_path) for _ in range(2)]
    yield made
    for lock in made:
        lock.close()


def test_users_share_and_the_last_one_gets_the_lock_alone(locks):
    first, second = locks
    assert first.take_shared_if_free()
    assert second.take_shared_if_free()
    assert not first.take_exclusive_if_free()
    assert second.take_exclusive_if_free()
    assert not first.take_shared_if_free()


def test_waiting_for_a_held_lock_is_bounded(locks):
    first, second = locks
    late = pytest.raises(TimeoutError, match=r"some\.lock was held by another process")
    with first.held(seconds=1), late, second.held(seconds=0.05):
        pass
    with second.held(seconds=0):
        assert not first.take_shared_if_free()
    assert first.take_exclusive_if_free()


def test_lookers_do_not_keep_each_other_out(locks):
    first, second = locks
    with first.held(shared=True, seconds=0), second.held(shared=True, seconds=0):
        pass


@pytest.fixture
def lifeline(lock_path):
    line = Lifeline(lock_path)
    yield line
    line.end([])
    line.close()


@pytest.fixture
def launch(lifeline, tmp_path):
    def launch(code):
        log = os.open(tmp_path / "server.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        command = [sys.executable, "-u", "-c", code]
        lifeline.launch(command, folder=tmp_path, log=log, account=None, environment=dict(os.environ))
        os.close(log)

    return launch


FOREVER = "import signal; print('up'); signal.pause()"
STUBBORN = "import signal; [signal.signal(n, signal.SIG_IGN) for n in (15, 2)]; print('up'); [signal.pause() for _ in iter(int, 1)]"


def test_what_is_launched_lives_until_it_is_ended(lifeline, launch):
    assert not lifeline.alive()
    launch(FOREVER)
    assert lifeline.alive()
    pid = lifeline.pid()
    assert os.getsid(pid) != os.getsid(0)
    assert lifeline.end([(signal.SIGTERM, 10.0)])
    assert not lifeline.alive()


def test_what_ignores_the_gentle_signal_is_killed(lifeline, launch, tmp_path):
    launch(STUBBORN)
    while not (tmp_path / "server.log").read_text():
        assert lifeline.alive()
    assert lifeline.end([(signal.SIGTERM, 0.1)])
    assert not lifeline.alive()


def test_a_second_launch_beside_a_living_server_is_refused(lifeline, launch):
    launch(FOREVER)
    with pytest.raises(BlockingIOError):
        launch(FOREVER)


def test_a_pid_whose_process_started_at_another_time_is_nobody(lifeline, launch, lock_path):
    launch(FOREVER)
    pid = lifeline.pid()
    recorded = lock_path.read_text()
    lock_path.write_text(f"{pid}\n{pid} (sh) S {'7 ' * 40}\n")
    assert lifeline.pid() is None
    lock_path.write_text(recorded)
    assert lifeline.pid() == pid


def test_a_program_that_cannot_start_leaves_its_reason_in_the_log(lifeline, launch, tmp_path):
    launch("raise SystemExit('FATAL: no')")
    while lifeline.alive():
        pass
    assert last_words(tmp_path / "server.log", 0) == "FATAL: no"


def test_the_start_time_is_found_behind_names_with_spaces_and_brackets():
    fields = ["S", *map(str, range(4, 22)), "151894", "23"]
    assert _start_time(["9178 (a) b (c) " + " ".join(fields)]) == "151894"
    assert _start_time([]) is None


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("one\ntwo\n\n", "two"),
        ("FATAL:  bad\nLOG:  database system is shut down\n", "FATAL:  bad"),
        ("", "it wrote nothing"),
        ("\udcff\n".encode("utf-8", "surrogateescape").decode("latin-1"), "ÿ"),
    ],
)
def test_the_last_words_of_a_log(tmp_path, written, words):
    log = tmp_path / "server.log"
    log.write_text("FATAL: of an earlier start\n")
    start = log.stat().st_size
    with log.open("a") as file:
        file.write(written)
    assert last_words(log, start) == words
