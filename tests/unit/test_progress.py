"""A process gets on when it finishes something, when its scan looks, or when it is idle and asks for work; not by existing."""

from reminders.broker.progress import Progress


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def started() -> tuple[Progress, Clock]:
    clock = Clock()
    return Progress(clock), clock


def test_idle_and_listening_is_getting_on():
    progress, clock = started()
    for _ in range(200):
        clock.now += 1.0
        progress.note(finished=0, idle=True, looked_at=None)
        assert progress.age() == 0.0


def test_busy_without_an_end_is_not():
    progress, clock = started()
    for _ in range(200):
        clock.now += 1.0
        progress.note(finished=0, idle=False, looked_at=None)
    assert progress.age() == 200.0


def test_each_end_of_a_task_is():
    progress, clock = started()
    for second in range(90):
        clock.now += 1.0
        progress.note(finished=second // 30, idle=False, looked_at=None)
    assert progress.age() == 29.0


def test_a_scan_gets_on_as_long_as_it_looks():
    progress, clock = started()
    clock.now += 50.0
    progress.note(finished=0, idle=False, looked_at=clock.now - 2.0)
    assert progress.age() == 2.0
    clock.now += 30.0
    progress.note(finished=0, idle=False, looked_at=clock.now - 32.0)
    assert progress.age() == 32.0
