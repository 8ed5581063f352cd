"""What is said about a synthetic reminder that did not arrive."""

from __future__ import annotations

import pytest

from reminders.ledger.synthetic import Followed, Tried
from reminders.operate.doctor.stalled import why_stalled

ALL = ("scan", "deliver")


def seen(status: str = "pending", *attempts: Tried, held_for: str | None = None) -> Followed:
    return Followed(status, len(attempts), held_for, attempts)


@pytest.mark.parametrize(
    ("stage", "followed", "served", "words"),
    [
        ("leased", seen(), ("deliver",), "`reminders worker scan`"),
        ("leased", seen(), ALL, "no scanner leased it"),
        ("leased", seen("held", held_for="night"), ALL, "a pause holds it (night)"),
        ("published", seen("leased"), ALL, "Redis did not take its message"),
        ("claimed", seen("published"), ("scan",), "`reminders worker deliver`"),
        ("claimed", seen("published"), ALL, "its message waits"),
        ("called", seen("sending"), ALL, "no call came"),
        (
            "called",
            seen("pending", Tried("retry", "connect_refused", "refused")),
            ALL,
            "Workers do not reach the receiver",
        ),
        ("called", seen("dead", Tried("rejected", "unsendable", "http")), ALL, "REMINDERS_ALLOW_PRIVATE"),
        ("called", seen("pending", Tried("retry", "http_502", "bad")), ALL, "retry, http_502: bad. Look at the log"),
        ("retried", seen("pending", Tried("retry", "http_503", "once")), ("deliver",), "`reminders worker scan`"),
        ("retried", seen("pending", Tried("retry", "http_503", "once")), ALL, "no second one followed"),
        ("delivered", seen("sending", Tried("retry", "http_503", "once")), ALL, "its outcome was not recorded"),
        (
            "retried",
            seen("pending", Tried("retry", "http_503", "once"), Tried("retry", "dns", "no address")),
            ALL,
            "retry, dns: no address. Workers do not reach",
        ),
        (None, seen("delivered"), ALL, "2 logical sends"),
    ],
)
def test_it_says_what_to_look_at(stage: str | None, followed: Followed, served: tuple[str, ...], words: str) -> None:
    assert words in why_stalled(stage, followed, refused=None, served=served, effects=2)


def test_a_wrong_signature_goes_before_all() -> None:
    told = why_stalled("called", seen("dead"), refused="no signature fits", served=(), effects=0)
    assert "no signature fits" in told
    assert "REMINDERS_WEBHOOK_SECRET" in told
