"""What is asked while an answer is under way is asked together next; each hears its own answer, or its own fault."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event, Thread, current_thread

import pytest

from reminders.ledger import together
from reminders.ledger.together import Together


class Away(Exception):
    pass


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """Longer than any machine is busy."""
    monkeypatch.setattr(together, "PATIENCE", 60.0)


class Server:
    """Doubles numbers. The first call waits for `go`; of later ones `fail` makes some fail."""

    def __init__(self, fail=None):
        self.calls = []
        self.threads = []
        self.go = Event()
        self.fail = fail

    def __call__(self, asked):
        self.calls.append(list(asked))
        self.threads.append(current_thread())
        if len(self.calls) == 1:
            assert self.go.wait(10)
        if self.fail is not None and len(self.calls) > 1:
            self.fail(asked)
        return [2 * each for each in asked]


def ask_while_the_first_is_answered(server, numbers):
    """What each of `numbers` is answered, or raises; all but the first are asked while the first is under way."""
    asking = Together(server, faults=(Away,))
    with ThreadPoolExecutor(len(numbers)) as pool:
        first = pool.submit(asking, numbers[0])
        while not server.calls:
            pass
        others = [pool.submit(asking, each) for each in numbers[1:]]
        while len(asking._waiting) < len(others):
            pass
        server.go.set()
        return [each.exception(10) or each.result(10) for each in (first, *others)]


def test_whoever_comes_alone_is_answered_at_once():
    server = Server()
    server.go.set()
    asking = Together(server, faults=())

    assert [asking(1), asking(2)] == [2, 4]
    assert server.calls == [[1], [2]]
    assert set(server.threads) == {current_thread()}


def test_what_is_asked_meanwhile_goes_together_and_each_hears_its_own_answer():
    server = Server()

    assert ask_while_the_first_is_answered(server, range(1, 9)) == [2 * each for each in range(1, 9)]
    first, rest = server.calls
    assert first == [1]
    assert sorted(rest) == [2, 3, 4, 5, 6, 7, 8]


def test_no_more_than_the_most_go_together(monkeypatch):
    monkeypatch.setattr(together, "MOST", 3)
    server = Server()

    assert ask_while_the_first_is_answered(server, range(1, 9)) == [2 * each for each in range(1, 9)]
    assert [len(each) for each in server.calls] == [1, 3, 3, 1]


def test_all_whom_a_fault_concerns_are_told_and_the_next_are_answered():
    def fail(asked):
        raise Away

    server = Server(fail)
    answers = ask_while_the_first_is_answered(server, [1, 2, 3])

    assert answers[0] == 2
    assert [type(each) for each in answers[1:]] == [Away, Away]
    assert len(server.calls) == 2


def test_what_one_of_them_makes_fail_is_asked_one_by_one():
    def fail(asked):
        if 3 in asked:
            raise ValueError(asked)

    server = Server(fail)
    answers = ask_while_the_first_is_answered(server, [1, 2, 3, 4])

    assert answers[:2] == [2, 4]
    assert answers[3] == 8
    assert isinstance(answers[2], ValueError)
    assert sorted(map(len, server.calls)) == [1, 1, 1, 1, 3]


def test_whoever_fails_alone_is_asked_once():
    calls = []

    def run(asked):
        calls.append(asked)
        raise ValueError

    with pytest.raises(ValueError):
        Together(run, faults=())(1)
    assert calls == [[1]]


def test_after_a_fault_others_are_answered_as_ever():
    answers = iter([Away(), [7]])

    def run(asked):
        answer = next(answers)
        if isinstance(answer, Away):
            raise answer
        return answer

    asking = Together(run, faults=(Away,))
    with pytest.raises(Away):
        asking(1)
    thread = Thread(target=asking, args=(2,), daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()


def test_nobody_waits_long_for_a_statement_that_asks_for_others(monkeypatch):
    monkeypatch.setattr(together, "PATIENCE", 0.05)
    server = Server()
    asking = Together(server, faults=())
    with ThreadPoolExecutor(9) as pool:
        stuck = pool.submit(asking, 1)
        while not server.calls:
            pass
        others = [pool.submit(asking, each) for each in range(2, 10)]
        answers = [each.result(10) for each in others]
        was_stuck = not stuck.done()
        server.go.set()

        assert answers == [2 * each for each in range(2, 10)]
        assert was_stuck
        assert stuck.result(10) == 2
    assert sorted(each for call in server.calls for each in call) == list(range(1, 10))
    assert asking._leaders == 0


def test_however_impatient_each_is_asked_once_and_hears_its_own_answer(monkeypatch):
    monkeypatch.setattr(together, "PATIENCE", 0.0005)
    monkeypatch.setattr(together, "MOST", 3)
    asked = []
    pause = Event()

    def run(group):
        asked.extend(group)
        pause.wait(0.001 * (group[0] % 4))
        return [2 * each for each in group]

    asking = Together(run, faults=())
    with ThreadPoolExecutor(24) as pool:
        assert list(pool.map(asking, range(2000), timeout=60)) == [2 * each for each in range(2000)]
    assert sorted(asked) == list(range(2000))
    assert (asking._leaders, asking._waiting) == (0, [])
