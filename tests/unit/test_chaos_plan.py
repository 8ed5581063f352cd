"""The chaos run's faults and answers: repeatable, of every kind, at the pace that was asked for."""

from __future__ import annotations

from itertools import islice, pairwise

import pytest

from benchmarks.chaos.manners import PATIENCE, manner
from benchmarks.chaos.plan import BEYOND_CLAIM, KINDS, faults, kill_share
from benchmarks.chaos.report import spread

CLAIM = 30.0


def test_the_same_seed_gives_the_same_faults():
    assert list(islice(faults(1, 2.0, CLAIM), 200)) == list(islice(faults(1, 2.0, CLAIM), 200))
    assert list(islice(faults(1, 2.0, CLAIM), 200)) != list(islice(faults(2, 2.0, CLAIM), 200))


def test_faults_come_at_the_pace_and_several_at_once():
    found = list(islice(faults(1, 2.0, CLAIM), 4000))
    assert found[-1].at / len(found) == pytest.approx(2.0, rel=0.1)
    assert sum(before.at == after.at for before, after in pairwise(found)) > 400
    assert sum(fault.is_kill for fault in found) / len(found) == pytest.approx(kill_share(), rel=0.1)


def test_every_kind_comes_in_a_run_of_the_recorded_size():
    assert {(fault.act, fault.target) for fault in islice(faults(1, 2.0, CLAIM), 680)} == set(KINDS)


def test_long_freezes_outlast_the_claim_and_short_ones_do_not():
    for fault in islice(faults(1, 2.0, CLAIM), 4000):
        if fault.act.endswith("long"):
            assert CLAIM + BEYOND_CLAIM[0] <= fault.seconds <= CLAIM + BEYOND_CLAIM[1]
        else:
            assert fault.seconds < CLAIM


def test_an_answer_depends_on_seed_key_and_call_alone():
    answers = [manner(1, "key", call, trouble=1.0, deadline=10.0) for call in range(1, PATIENCE)]
    assert answers == [manner(1, "key", call, trouble=1.0, deadline=10.0) for call in range(1, PATIENCE)]
    assert len({manner(1, f"key-{n}", 1, trouble=1.0, deadline=10.0).name for n in range(500)}) == 7


def test_the_share_of_troubles_is_as_asked_and_patience_ends_them():
    names = [manner(1, f"key-{n}", 1, trouble=0.2, deadline=10.0).name for n in range(4000)]
    assert 1 - names.count("well") / 4000 == pytest.approx(0.2, rel=0.15)
    assert {manner(1, f"key-{n}", PATIENCE, trouble=1.0, deadline=10.0).status for n in range(50)} == {200}


def test_what_refuses_has_no_effect_and_what_succeeds_has_one():
    for number in range(2000):
        found = manner(1, f"key-{number}", 1, trouble=1.0, deadline=10.0)
        if found.status in {429, 503}:
            assert not found.effect
            assert found.retry_after
        if found.status == 200:
            assert found.effect


def test_spread_of_seconds():
    assert spread([]) == {}
    assert spread([3.0]) == {"p50": 3.0, "p99": 3.0, "max": 3.0}
    assert spread(float(n) for n in range(1, 201)) == {"p50": 101.0, "p99": 199.0, "max": 200.0}
