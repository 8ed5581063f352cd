"""Whatever a provider puts into an outcome, what comes of it can be decided on; a success stays one."""

from __future__ import annotations

from dataclasses import fields
from datetime import timedelta

import pytest

from reminders.domain.answers import well_formed, well_formed_answer
from reminders.domain.look_ups import Absent, Found, Undecided
from reminders.domain.outcomes import Blocked, Delivered, Rejected, Retry, Unknown

MINUTE = timedelta(minutes=1)
WELL_FORMED = [
    Delivered("ref", 200, "words", "class"),
    Retry("class", "words", 503, MINUTE, blameless=True, timed_out=True),
    Rejected("class", "words", 410, gone=True, may_be_our_own=True, blameless=True),
    Unknown("class", "words", 504, timed_out=True, blameless=True),
    Blocked("destination", MINUTE, "class", "words", 429, passing=True),
    Blocked("provider", MINUTE, "class", "words", 401, passing=True),
]
ANSWERS = [Found("ref", 200), Absent("words", 404), Undecided("class", "words", 500, timed_out=True, final=True)]


def every_field_is_set(value):
    return all(getattr(value, each.name) not in {None, "", False} for each in fields(value))


@pytest.mark.parametrize("outcome", WELL_FORMED, ids=lambda one: one.name)
def test_what_is_well_formed_is_left_as_it_is(outcome):
    assert every_field_is_set(outcome), "a new field must be set here, or losing it would go unnoticed"
    assert well_formed(outcome) == outcome


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda one: type(one).__name__)
def test_a_well_formed_answer_of_a_look_up_is_left_as_it_is(answer):
    assert every_field_is_set(answer)
    assert well_formed_answer(answer) == answer


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (Delivered(b"ref", "200", None, 7), Delivered(None, None, "(NoneType in place of text)", "(int in place of text)")),
        (Delivered(4711), Delivered("4711")),
        (Delivered(10**5000), Delivered(None)),
        (Delivered(True), Delivered(None)),
        (Delivered(""), Delivered(None)),
        (Delivered.__new__(Delivered), Delivered()),
        (Retry("c", "r", True, 30), Retry("c", "r", None, None)),
        (Retry("c", "r", 5.5, "soon", blameless="yes"), Retry("c", "r", None, None)),
        (Rejected("c", "r", gone="no", may_be_our_own=1), Rejected("c", "r")),
        (Unknown("c", "r", timed_out="yes"), Unknown("c", "r")),
        (Blocked("tenant", MINUTE, "c", "r", 1), Retry("c", "r", 1)),
        (Blocked("provider", 30, "c", "r"), Retry("c", "r")),
    ],
    )  # fmt: skip
def test_wild_values_are_left_out(given, expected):
    assert well_formed(given) == expected


def test_a_subclass_becomes_what_it_is_a_kind_of():
    class Mine(Delivered):
        name = "mine"

    assert type(well_formed(Mine("ref"))) is Delivered


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (Found(b"x", "200"), Found(None, None)),
        (Found(7), Found("7")),
        (Absent(None, False), Absent("(NoneType in place of text)", None)),
        (Undecided(1, "r", None, "yes"), Undecided("(int in place of text)", "r")),
    ],
    ids=repr,
)
def test_wild_values_of_a_look_up_are_left_out(given, expected):
    assert well_formed_answer(given) == expected
