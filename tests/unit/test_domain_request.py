"""What the door refuses, with the field named, and what it makes of what it accepts."""

from __future__ import annotations

from collections import OrderedDict
from datetime import UTC, date, datetime, timedelta, timezone
from enum import StrEnum
from types import MappingProxyType
from zoneinfo import ZoneInfo

import pytest

from reminders.domain.errors import InvalidInput
from reminders.domain.request import LIMITS, MAX_DATA_BYTES, MAX_DATA_DEPTH, canonical_data
from reminders.pipeline.schedule import to_request
from reminders.providers import registry
from reminders.settings import Settings

DUE = datetime(2026, 6, 1, 9, 0, tzinfo=UTC)
PUBLIC = Settings()
NOT_TEXT = [None, 7, b"bytes", True, 1.5, ["x"], {"x": 1}, DUE]


def request(**changed):
    given = {
        "tenant_id": "t",
        "user_id": "u",
        "kind": "note",
        "channel": "log",
        "destination": "here",
        "due_at": DUE,
        "reference": "r",
    }
    return to_request(lambda channel: registry.load(channel, PUBLIC), **{**given, **changed})


def refused(**changed) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        request(**changed)
    return caught.value


TEXTS = ["tenant_id", "user_id", "kind", "destination", "reference", "slot"]


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize(
    "bad", ["a\x00b", "a\nb", "\x1b[31m", "\x7f", "\x85", "\x9b31m", "\ud800", "x\udfffy"], ids=ascii
)
def test_unstorable_text_names_the_field_and_the_place(name, bad):
    error = refused(**{name: bad})
    assert error.field == name
    assert "position" in error.reason


@pytest.mark.parametrize("name", ["tenant_id", "user_id", "kind", "channel", "destination"])
@pytest.mark.parametrize("bad", [*NOT_TEXT, ""], ids=ascii)
def test_required_text_of_a_wrong_type_or_empty_names_the_field(name, bad):
    assert refused(**{name: bad}).field == name


@pytest.mark.parametrize("name", ["reference", "slot", "zone"])
@pytest.mark.parametrize("bad", [each for each in NOT_TEXT if each is not None] + [0, False, [], b""], ids=ascii)
def test_optional_text_of_a_wrong_type_names_the_field(name, bad):
    assert refused(**{name: bad}).field == name


@pytest.mark.parametrize("name", TEXTS)
def test_text_is_taken_up_to_its_limit_and_not_beyond(name):
    if name != "destination":
        assert getattr(request(**{name: "x" * LIMITS[name]}), name) == "x" * LIMITS[name]
    error = refused(**{name: "x" * (LIMITS[name] + 1)})
    assert error.field == name
    assert f"{LIMITS[name]:,}" in error.reason


@pytest.mark.parametrize("fine", ["Zoë", "日本", "👩‍👩‍👧", "a b", "\u00a0", "..", "'; DROP TABLE x; --", "%s", ":now"])
def test_ordinary_text_is_kept_as_it_is(fine):
    made = request(user_id=fine, reference=fine)
    assert (made.user_id, made.reference) == (fine, fine)


def test_no_slot_and_the_empty_slot_are_the_same():
    assert request(slot=None).identity_key == request(slot="").identity_key
    assert request(slot="x").identity_key != request(slot="").identity_key


def test_an_empty_reference_is_no_reference_at_all():
    assert refused(reference="").field == "reference"


@pytest.mark.parametrize("bad", ["fax", "../log", "", "log\x00", "LOG"])
def test_an_unknown_channel_is_named_together_with_the_known_ones(bad):
    error = refused(channel=bad)
    assert error.field == "channel"
    assert "log" in error.reason


@pytest.mark.parametrize(
    "bad",
    ["", " ", "Mars/Olympus", "../etc/passwd", "../../etc/passwd", "/etc/localtime", "europe/berlin", "Europe/Berlin ",
     "UTC\x00", "\ud800", "tzdata.zi", "zone.tab", "Europe", "A" * 65, "+02:00"],
    ids=ascii,
)  # fmt: skip
@pytest.mark.parametrize("due_at", [DUE, DUE.replace(tzinfo=None)], ids=["aware", "naive"])
def test_an_unknown_zone_is_named(bad, due_at):
    assert refused(zone=bad, due_at=due_at).field == "zone"


@pytest.mark.parametrize("name", ["due_at", "expires_at"])
@pytest.mark.parametrize("bad", ["2026-06-01", 1780304400, 1.5, date(2026, 6, 1), b"", True, timedelta(1)], ids=ascii)
def test_an_instant_of_a_wrong_type_names_the_field(name, bad):
    assert refused(**{name: bad}).field == name


def test_no_due_at_is_named():
    assert refused(due_at=None).field == "due_at"


@pytest.mark.parametrize("name", ["due_at", "expires_at"])
def test_a_naive_time_without_a_zone_names_the_field(name):
    error = refused(**{name: datetime(2026, 6, 2)})
    assert error.field == name
    assert "zone" in error.reason


class Nowhere(timezone.__base__):
    """A tzinfo that does not know its offset."""

    def utcoffset(self, _):
        return None


@pytest.mark.parametrize("name", ["due_at", "expires_at"])
@pytest.mark.parametrize(
    "bad",
    [
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC),
        datetime(1970, 1, 1, tzinfo=timezone(timedelta(hours=14))),
        datetime(9998, 12, 31, 23, tzinfo=timezone(timedelta(hours=-12))),
        datetime(9999, 1, 1, tzinfo=UTC),
        datetime.max.replace(tzinfo=UTC),
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-12))),
        datetime.min.replace(tzinfo=timezone(timedelta(hours=14))),
        datetime(2026, 1, 1, tzinfo=Nowhere()),
    ],
    ids=str,
)
def test_an_instant_out_of_range_names_the_field(name, bad):
    assert refused(**{name: bad}).field == name


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Etc/GMT+12", "UTC"])
@pytest.mark.parametrize("wall", [datetime.min, datetime.max, datetime(1969, 12, 30), datetime(9999, 1, 2)])  # noqa: DTZ901
def test_a_wall_time_out_of_range_names_the_field(zone, wall):
    assert refused(due_at=wall, zone=zone).field == "due_at"


def test_the_first_and_the_last_instant_are_taken():
    first, last = datetime(1970, 1, 1, tzinfo=UTC), datetime(9998, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
    assert request(due_at=first).due_at == first
    assert request(due_at=last).due_at == last
    assert request(due_at=datetime(1969, 12, 31, 22, tzinfo=timezone(timedelta(hours=-2)))).due_at == first


@pytest.mark.parametrize("late", [DUE, DUE - timedelta(microseconds=1)])
def test_an_expiry_not_after_the_due_time_is_named(late):
    assert refused(expires_at=late).field == "expires_at"


def test_a_wall_time_that_spring_skips_is_read_with_the_offset_before_the_gap():
    made = request(due_at=datetime(2026, 3, 29, 2, 30), zone="Europe/Berlin")
    assert made.due_at == datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
    assert made.due_at.astimezone(ZoneInfo("Europe/Berlin")).strftime("%H:%M") == "03:30"


@pytest.mark.parametrize("fold", [0, 1])
def test_a_wall_time_that_autumn_repeats_means_the_first(fold):
    made = request(due_at=datetime(2026, 10, 25, 2, 30, fold=fold), zone="Europe/Berlin")
    assert made.due_at == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)


def test_an_aware_time_keeps_its_own_offset_whatever_the_zone_beside_it():
    made = request(due_at=datetime(2026, 6, 1, 9, 0, tzinfo=timezone(timedelta(hours=2))), zone="Asia/Tokyo")
    assert (made.due_at, made.zone) == (datetime(2026, 6, 1, 7, 0, tzinfo=UTC), "Asia/Tokyo")


def test_instants_written_with_other_offsets_are_the_same_request():
    one, other = request(reference=None), request(reference=None, due_at=DUE.astimezone(timezone(timedelta(hours=5))))
    assert (one.identity_key, one.request_hash) == (other.identity_key, other.request_hash)


def nested(levels: int):
    value = {}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    "bad",
    [
        {"a": "\x00"},
        {"a\x00": 1},
        {"a": "\ud83d"},
        {"\udc00": 1},
        {"a": float("nan")},
        {"a": float("inf")},
        {"a": [1, {"b": float("-inf")}]},
        {"a": 2**63},
        {"a": -(2**63) - 1},
        {"a": 10**5000},
        {"a": DUE},
        {"a": b"x"},
        {"a": {1, 2}},
        {"a": object()},
        {1: "a"},
        {10**5000: "a"},
        {None: "a"},
        {"a": {2: 1}},
        nested(MAX_DATA_DEPTH + 1),
        {"a": [[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]},
        {"a": "x" * MAX_DATA_BYTES},
        {"a": "é" * (MAX_DATA_BYTES // 2)},
    ],
)
def test_data_that_json_and_postgres_do_not_both_keep_is_refused(bad):
    assert refused(data=bad).field == "data"


@pytest.mark.parametrize("bad", [[], [1], "text", "", 0, 7, b"{}", True, False, ()], ids=ascii)
def test_data_that_is_no_object_is_refused(bad):
    assert refused(data=bad).field == "data"


def test_data_that_contains_itself_is_refused():
    loop: dict[str, object] = {}
    loop["loop"] = loop
    assert refused(data=loop).field == "data"


class Size(StrEnum):
    LARGE = "large"


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (None, "{}"),
        ({}, "{}"),
        ({"b": 1, "a": [True, None, 1.5, "é\n"]}, '{"a":[true,null,1.5,"é\\n"],"b":1}'),
        (MappingProxyType({"a": MappingProxyType({"b": (1, 2)})}), '{"a":{"b":[1,2]}}'),
        (OrderedDict(b=1, a=2), '{"a":2,"b":1}'),
        ({"a": Size.LARGE}, '{"a":"large"}'),
        ({"a": -(2**63), "b": 2**63 - 1}, '{"a":-9223372036854775808,"b":9223372036854775807}'),
    ],
)
def test_data_becomes_canonical_json(given, text):
    assert canonical_data(given) == text


def test_data_may_be_as_deep_and_as_long_as_the_limits_say():
    assert canonical_data(nested(MAX_DATA_DEPTH)).count("{") == MAX_DATA_DEPTH
    exact = "x" * (MAX_DATA_BYTES - len('{"a":""}'))
    assert len(canonical_data({"a": exact})) == MAX_DATA_BYTES


def test_nothing_personal_shows_when_a_request_is_printed():
    shown = repr(request(destination="someone@example.org", data={"name": "Ada"}))
    assert "someone" not in shown
    assert "Ada" not in shown


@pytest.mark.parametrize(
    "bad", ["nonsense", "ftp://example.org/x", "https://", "https://user:pw@example.org/", "https://127.0.0.1/x", "//x"]
)
def test_a_destination_malformed_for_its_channel_is_named(bad):
    assert refused(channel="webhook", destination=bad).field == "destination"
