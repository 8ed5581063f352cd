"""Values from the command line that need no ledger."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from reminders.cli.values import read_data, read_due_at, read_filters, read_id
from reminders.domain.errors import InvalidInput

ID = "019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b"


@pytest.mark.parametrize(
    ("text", "wait"),
    [
        ("+10s", timedelta(seconds=10)),
        ("+5m", timedelta(minutes=5)),
        ("+2h", timedelta(hours=2)),
        ("+0s", timedelta()),
        ("+1h30m", timedelta(minutes=90)),
        ("+2d1h5.5s", timedelta(days=2, hours=1, seconds=5.5)),
        ("+90", timedelta(seconds=90)),
    ],
)
def test_times_from_now(text, wait):
    before = datetime.now(UTC)
    found = read_due_at(text)
    assert before + wait <= found <= datetime.now(UTC) + wait


@pytest.mark.parametrize(
    "text",
    [
        "+",
        "+x",
        "+-5s",
        "+5s ago",
        "+nan",
        "+inf",
        "++5s",
        "+٥s",
        "+1e3s",
        "+1h30",
        "+1h 30m",
        "+1h-5m",
        "+h1",
        "+1.2.3h4m",
        "-5s",
        "5m",
    ],
)
def test_what_is_no_time_from_now(text):
    with pytest.raises(InvalidInput, match=r"^expires_at: "):
        read_due_at(text, "expires_at")


def test_ids():
    assert read_id(ID) == read_id(ID.upper()) == UUID(ID)
    with pytest.raises(InvalidInput, match=r"^letter: 'x{64}' is no id"):
        read_id("x" * 100_000, "letter")


def test_filters_leave_out_what_is_not_given():
    assert read_filters({"tenant_id": "a", "kind": None}) == {"tenant_id": "a", "kind": None}


def test_data_is_optional_and_kept_as_given():
    assert read_data(None) is None
    assert read_data('{"b": [1, 2.5, null, true], "a": {"é": "\\u00e9"}}') == {
        "b": [1, 2.5, None, True],
        "a": {"é": "é"},
    }


def test_a_file_that_is_no_text(tmp_path):
    (tmp_path / "data").write_bytes(b'{"a": "\xff"}')
    with pytest.raises(InvalidInput, match="is not UTF-8 text"):
        read_data(f"@{tmp_path}/data")


def test_an_endless_file_is_not_read_to_its_end():
    with pytest.raises(InvalidInput, match="is too long"):
        read_data("@/dev/zero")
