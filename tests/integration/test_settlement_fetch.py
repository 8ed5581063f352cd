"""A settlement file comes into the ledger in slices, and is the same file whatever way it came."""

from __future__ import annotations

import io
from datetime import timedelta
from types import SimpleNamespace

import pytest

from integration.file_server import FileServer
from reminders.domain.errors import Refused
from reminders.intake.settlement import fetching, receiving
from reminders.intake.settlement.cutting import MalformedFile
from reminders.intake.settlement.fetching import Access, Slice, fetch_slice, shown_name
from reminders.intake.settlement.files import check
from reminders.intake.settlement.receiving import upload
from reminders.intake.settlement.stripe import stripe_format
from reminders.ledger import settlement_files as kept

FORM = stripe_format()
HEADER = (
    "automatic_payout_id,automatic_payout_effective_at_utc,balance_transaction_id,created_utc,currency,gross,fee,net,"
    "reporting_category,source_id,payment_intent_id,charge_id,payment_metadata[order_id]\n"
)


def content(records):
    row = "po_1,2026-11-27 00:00:00,txn_{0},2026-11-25 08:14:02,eur,49.90,1.02,48.88,charge,ch_{0},pi_{0},ch_{0},order-{0}\n"
    return ("\ufeff" + HEADER + "".join(row.format(number) for number in range(records))).encode()


@pytest.fixture
def serve():
    servers = []

    def start(body, **changes):
        servers.append(FileServer(body, **changes))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def ask(database, monkeypatch):
    monkeypatch.setattr(receiving, "HELD_AT_MOST", 100_000)

    def add(server):
        return kept.add(database, source="stripe", name="payouts.csv", actor="ada", url=server.url)

    return add


def fetch(database, file_id, seconds=60.0):
    return fetch_slice(database, file_id, FORM, Access(allow_private=True, bearers={}), seconds=seconds)


def stored(database, file_id):
    return [(page.number, page.first_line, page.records) for page in kept.pages_after(database, file_id, 0, 100)]


def test_in_one_slice(database, serve, ask):
    body = content(2_500)
    file_id = ask(serve(body))
    assert fetch(database, file_id) == Slice("complete")
    file = kept.read(database, file_id)
    assert (file.status, file.size, file.total, file.pages, file.records, file.url) == (
        "ready", len(body), len(body), 3, 2_500, None,
    )  # fmt: skip
    assert stored(database, file_id) == [(1, 2, 1000), (2, 1002, 1000), (3, 2002, 500)]
    assert file.sha256.hex() == check(io.BytesIO(body), "f", FORM).file.sha256


@pytest.mark.parametrize("step", [70_001, 150_000])
def test_in_slices_it_is_the_same_file(database, serve, ask, step):
    body = content(2_500)
    server = serve(body)
    file_id = ask(server)
    states = []
    while kept.read(database, file_id).status == "receiving":
        left = len(body) - kept.read(database, file_id).size
        server.cut_after = step if left > step else None
        states.append(fetch(database, file_id).state)
    assert states == ["more"] * (len(body) // step) + ["complete"]
    assert stored(database, file_id) == [(1, 2, 1000), (2, 1002, 1000), (3, 2002, 500)]
    assert kept.read(database, file_id).sha256.hex() == check(io.BytesIO(body), "f", FORM).file.sha256
    assert fetch(database, file_id).state == "complete"
    assert len(server.asked) == len(states)


def test_time_that_is_over_is_no_fault(database, serve, ask):
    server = serve(content(2_500), stall_after=120_000)
    file_id = ask(server)
    assert fetch(database, file_id, seconds=3.0) == Slice("more")
    assert kept.read(database, file_id).size == 120_000
    server.stall_after = None
    assert fetch(database, file_id) == Slice("complete")


@pytest.mark.parametrize("chunked", [False, True])
def test_what_comes_late_in_its_slice_is_completed_in_the_next(database, serve, ask, chunked):
    server = serve(content(2_500), chunked=chunked)
    file_id = ask(server)
    begun_and_come = iter([0.0, 40.0])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(fetching, "time", SimpleNamespace(monotonic=lambda: next(begun_and_come)))
        assert fetch(database, file_id, seconds=60.0) == Slice("more")
    file = kept.read(database, file_id)
    assert (file.status, file.size, file.total) == ("receiving", len(server.content), len(server.content))
    assert fetch(database, file_id) == Slice("complete")
    assert len(server.asked) == 1


def refused(database, file_id, slice_):
    assert slice_.state == "over"
    file = kept.read(database, file_id)
    assert (file.status, file.reason, file.url) == ("refused", slice_.reason, None)
    assert stored(database, file_id) == []
    assert "s3cret" not in slice_.reason
    return slice_.reason


def test_without_ranges_it_must_come_in_time(database, serve, ask):
    file_id = ask(serve(content(2_500), ranges=False, stall_after=150_000))
    reason = refused(database, file_id, fetch(database, file_id, seconds=3.0))
    assert (
        reason
        == "it did not come within 3 s, and its server cannot send the rest alone (that takes ranges and a strong ETag)"
    )


def test_a_file_that_changes_between_slices(database, serve, ask):
    server = serve(content(2_500), cut_after=150_000)
    file_id = ask(server)
    assert fetch(database, file_id).state == "more"
    server.etag, server.cut_after = '"two"', None
    assert "has changed" in refused(database, file_id, fetch(database, file_id))


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "the file is empty"),
        (b"\x1f\x8b" + b"\x00" * 99, "the file is gzip"),
        (b"PK\x03\x04rest", "a zip archive or a workbook"),
        (b"a,b\n1,2\n", "balance_transaction_id"),
        (content(1_500) + b"\x00\n", "line 1502: contains a NUL byte"),
        (content(1_500) + b'"never closed\n', "opens a quote that is never closed"),
        (content(10) + b"x" * 200_000, "longer than"),
        (content(10) + b"\xff\xfe\n", "UTF-8"),
    ],
    ids=["empty", "gzip", "zip", "columns", "nul", "quote", "long", "utf-8"],
)  # fmt: skip
def test_a_malformed_file_leaves_nothing_but_its_reason(database, serve, ask, body, said):
    file_id = ask(serve(body))
    assert said in refused(database, file_id, fetch(database, file_id))
    with pytest.raises(MalformedFile):
        check(io.BytesIO(body), "f", FORM)


def test_a_far_side_that_is_away_is_asked_again_at_growing_distances_and_then_given_up(
    database, serve, ask, monkeypatch
):
    monkeypatch.setattr(fetching, "MOST_TRIES", 7)
    server = serve(content(1))
    server.answers = [b"HTTP/1.1 404 Not yet\r\nContent-Length: 0\r\n\r\n"] * 7
    file_id = ask(server)
    slices = [fetch(database, file_id) for _ in range(7)]
    assert [each.wait for each in slices[:6]] == [15, 30, 60, 120, 240, 240]
    assert {each.state for each in slices[:6]} == {"later"}
    assert refused(database, file_id, slices[6]) == "the far side answers 404, 7 times"


def test_what_takes_hours_is_given_up(database, serve, ask, monkeypatch):
    monkeypatch.setattr(fetching, "LONGEST_FETCH", timedelta(seconds=-1))
    file_id = ask(serve(content(1)))
    assert "it did not arrive within" in refused(database, file_id, fetch(database, file_id))


def test_an_address_that_leads_inside_is_refused(database, serve, ask):
    server = serve(content(1))
    file_id = ask(server)
    came = fetch_slice(database, file_id, FORM, Access(allow_private=False, bearers={}))
    assert "must begin with https" in refused(database, file_id, came)
    assert server.asked == []


def test_of_two_that_receive_at_once_one_does(database, serve, ask, monkeypatch):
    server = serve(content(2_500))
    file_id = ask(server)
    first = kept.read(database, file_id)
    monkeypatch.setattr(kept, "read", lambda *_: first)
    assert fetch(database, file_id).state == "complete"
    late = fetch(database, file_id)
    assert (late.state, "another process" in late.reason) == ("over", True)
    monkeypatch.undo()
    assert kept.read(database, file_id).status == "ready"


def test_an_upload(database):
    body = content(1_200)
    file_id = upload(database, io.BytesIO(body), FORM, source="stripe", name="payouts.csv", actor="ada")
    file = kept.read(database, file_id)
    assert (file.status, file.pages, file.records) == ("ready", 2, 1_200)
    assert file.sha256.hex() == check(io.BytesIO(body), "f", FORM).file.sha256


def test_an_upload_of_what_is_no_file_or_too_large(database, monkeypatch):
    with pytest.raises(MalformedFile):
        upload(database, io.BytesIO(b"a,b\n"), FORM, source="stripe", name="payouts.csv", actor="ada")
    monkeypatch.setattr(receiving, "LARGEST_FILE", 100_000)
    with pytest.raises(Refused, match="larger than"):
        upload(database, io.BytesIO(content(5_000)), FORM, source="stripe", name="payouts.csv", actor="ada")
    assert [file.status for file in kept.files(database, 10)] == ["refused", "refused"]


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://files.example.com/a/payouts.csv?X-Signature=s3cret", "files.example.com/a/payouts.csv"),
        ("https://user:s3cret@files.example.com/a", "files.example.com/a"),
        ("https://[bad/s3cret", "a malformed address"),
        ("https://files.example.com/a\x1b[2J", "a malformed address"),
    ],
)
def test_an_address_is_shown_without_what_may_be_secret(url, name):
    assert shown_name(url) == name
