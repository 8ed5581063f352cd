"""A file is fetched through the guard, in slices, and every way in which a far side can spoil it is told in a line."""

from __future__ import annotations

import socket
import ssl

import pytest
import trustme

from integration.file_server import FileServer
from integration.forbidden_hosts import HOSTS
from reminders.domain.errors import InvalidInput
from reminders.providers import file_fetch
from reminders.providers.file_fetch import FetchFailed, OutOfTime, fetched

CONTENT = b"id,amount\r\n" + b"".join(b"txn_%06d,1.00\r\n" % number for number in range(20_000))
MOST = 1 << 20
ENOUGH = 3.0
"""Seconds in which what a server sends before it says no more is there, on a busy machine too."""


@pytest.fixture
def serve():
    servers = []

    def start(content=CONTENT, **changes):
        servers.append(FileServer(content, **changes))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def fetch(url, **changed):
    """What came, the far side's word about it, and what ended it."""
    given = {"seconds": 30.0, "most": MOST, "allow_private": True, **changed}
    received = bytearray()
    try:
        with fetched(url, **given) as end:
            for piece in end.pieces():
                received += piece
    except FetchFailed as failure:
        end = failure
    assert "s3cret" not in str(end)
    assert "127.0.0.1" not in str(end)
    return bytes(received), end


def refused(url, **changed):
    received, failure = fetch(url, **changed)
    assert isinstance(failure, FetchFailed), "it was taken"
    return received, str(failure), failure.again


def asked(url):
    """As in production."""
    return fetched(url, seconds=10.0, most=MOST, allow_private=False)


def response(head, body=b""):
    return head.replace("\n", "\r\n").encode() + b"\r\n\r\n" + body


@pytest.mark.parametrize("chunked", [False, True])
def test_the_whole_file_in_one_slice(serve, chunked):
    server = serve(chunked=chunked)
    received, file = fetch(server.url)
    assert received == CONTENT
    assert (file.size, file.validator) == (None if chunked else len(CONTENT), '"one"')
    (head,) = server.asked
    assert head["line"] == "GET /payouts.csv?signature=s3cret HTTP/1.1"
    assert head["accept-encoding"] == "identity"
    assert {"range", "if-range", "authorization"}.isdisjoint(head)


def test_the_rest_follows_where_the_time_was_over(serve):
    server = serve(stall_after=100_000)
    first, failure = fetch(server.url, seconds=ENOUGH)
    assert isinstance(failure, OutOfTime)
    assert len(first) == 100_000
    server.stall_after = None
    rest, file = fetch(server.url, start=len(first), validator='"one"')
    assert first + rest == CONTENT
    assert (file.size, file.validator) == (len(CONTENT), '"one"')
    assert (server.asked[1]["range"], server.asked[1]["if-range"]) == ("bytes=100000-", '"one"')


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_that_is_cut_off_is_no_file(serve, chunked):
    received, reason, again = refused(serve(cut_after=150_000, chunked=chunked).url)
    of = "" if chunked else f" of {len(CONTENT):,}"
    assert (len(received), reason, again) == (150_000, f"the connection was lost after 150,000{of} bytes", True)


@pytest.mark.parametrize("heeds_if_range", [True, False])
def test_a_file_that_changed_between_slices_is_refused(serve, heeds_if_range):
    server = serve(etag='"two"', heeds_if_range=heeds_if_range)
    received, reason, again = refused(server.url, start=1000, validator='"one"')
    assert (received, again) == (b"", False)
    assert reason == "the file has changed, or ranges ended to be served, while it was fetched"


@pytest.mark.parametrize(
    ("changes", "validator"),
    [({"ranges": False}, None), ({"etag": None}, None), ({"etag": 'W/"one"'}, None), ({}, '"one"')],
)
def test_only_a_strong_tag_of_a_server_of_ranges_lets_it_go_on(serve, changes, validator):
    _, file = fetch(serve(**changes).url)
    assert file.validator == validator


@pytest.mark.parametrize(
    ("answer", "reason", "again"),
    [
        ("HTTP/1.1 302 Found\nLocation: https://example.com/", "answers 302; redirects are not followed", False),
        ("HTTP/1.1 307 Again\nLocation: http://169.254.169.254/", "answers 307; redirects are not followed", False),
        ("HTTP/1.1 204 No Content", "answers 204", False),
        ("HTTP/1.1 206 Partial\nContent-Length: 0", "answers 206", False),
        ("HTTP/1.1 401 No\nContent-Length: 0", "answers 401", False),
        ("HTTP/1.1 403 No\nContent-Length: 0", "answers 403", False),
        ("HTTP/1.1 404 Not yet\nContent-Length: 0", "answers 404", True),
        ("HTTP/1.1 429 Slow\nContent-Length: 0", "answers 429", True),
        ("HTTP/1.1 503 Away\nContent-Length: 0", "answers 503", True),
        ("HTTP/1.1 200 OK\nContent-Length: 3\nContent-Encoding: gzip", "compressed", False),
        ("HTTP/1.1 200 OK\nContent-Length: 99999999999", "larger than 1,048,576 bytes", False),
        ("HTTP/1.1 200 OK\nConnection: close", "does not say where the file ends", False),
        ("HTTP/1.1 2_0 OK", "not HTTP", True),
        ("SSH-2.0-OpenSSH_9.2", "not HTTP", True),
        ("HTTP/1.1 200 OK\nX: " + "y" * 70_000, "its head is too large", True),
    ],
)  # fmt: skip
def test_answers_that_are_no_file(serve, answer, reason, again):
    received, told, later = refused(serve(answers=[response(answer)]).url)
    assert (received, later) == (b"", again)
    assert reason in told


def test_a_far_side_that_closes_without_an_answer(serve):
    assert refused(serve(answers=[b""]).url) == (
        b"", "the far side closed the connection without an answer", True,
    )  # fmt: skip


@pytest.mark.parametrize(
    "content_range",
    ["bytes 0-9/20", "bytes 11-19/20", "bytes 10-19/21", "bytes 10-18/20", "bytes 10-19", "lines 10-19/20"],
)
def test_another_range_than_was_asked_for(serve, content_range):
    head = f'HTTP/1.1 206 Partial\nETag: "one"\nContent-Range: {content_range}\nContent-Length: 10'
    server = serve(answers=[response(head, b"0123456789")])
    received, reason, again = refused(server.url, start=10, validator='"one"')
    assert (received, again) == (b"", False)
    assert "another range" in reason


def test_a_file_that_grows_beyond_the_bound_as_it_comes(serve):
    received, reason, again = refused(serve(chunked=True).url, most=200_000)
    assert len(received) <= 200_000
    assert (reason, again) == ("the file is larger than 200,000 bytes; split it, or read it where it lies", False)


def test_endless_heads_count_too(serve):
    endless = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1;" + b"x" * 60_000 + b"\r\n"
    _, reason, _ = refused(serve(answers=[endless]).url, most=1000)
    assert "lost after" in reason or "larger than" in reason


def test_a_dripping_far_side_is_left_at_the_deadline(serve):
    server = serve(stall_after=1)
    received, failure = fetch(server.url, seconds=ENOUGH)
    assert (received, type(failure)) == (CONTENT[:1], OutOfTime)


def test_nobody_listens():
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}/f.csv"
        assert refused(url)[1:] == ("the connection was refused", True)


def test_the_token_is_shown_to_its_host_alone(serve):
    server = serve()
    fetch(server.url, bearers={"files.example.com": "elsewhere"})
    fetch(server.url, bearers={"127.0.0.1": "mine"})
    assert [head.get("authorization") for head in server.asked] == [None, "Bearer mine"]


@pytest.mark.parametrize("host", [host for host in HOSTS if "[" not in str(host)][:40])
def test_places_that_are_not_public_are_refused(host):
    with pytest.raises((InvalidInput, FetchFailed)), asked(f"https://{host}/f.csv"):
        raise AssertionError("it was asked")


def test_a_name_that_leads_inside_is_refused(serve, monkeypatch):
    server = serve()
    inside = [(socket.AF_INET, ("127.0.0.1", server.port))]
    monkeypatch.setattr("reminders.providers.address_guard._look_up", lambda host, port, call: inside)
    with pytest.raises(FetchFailed, match="not public") as caught, asked("https://files.example.com/f.csv"):
        raise AssertionError("it was asked")
    assert not caught.value.again
    assert server.asked == []


@pytest.mark.parametrize(
    "url", ["http://files.example.com/f", "ftp://files.example.com/f", "https://u:p@files.example.com/f", "", "f.csv"]
)
def test_other_addresses_are_refused_without_being_repeated(url):
    with pytest.raises(InvalidInput) as caught, asked(url):
        raise AssertionError("it was asked")
    assert caught.value.field == "url"
    assert "files.example.com" not in str(caught.value)


@pytest.fixture
def authority():
    return trustme.CA()


@pytest.mark.parametrize("trusted", [True, False])
def test_over_tls_the_certificate_counts(serve, authority, monkeypatch, trusted):
    mine = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    (authority if trusted else trustme.CA()).issue_cert("127.0.0.1").configure_cert(mine)
    context = file_fetch.new_tls_context()
    authority.configure_trust(context)
    monkeypatch.setattr(file_fetch, "_tls_context", lambda: context)
    server = serve(context=mine)
    if trusted:
        assert fetch(server.url)[0] == CONTENT
    else:
        _, reason, again = refused(server.url)
        assert "no TLS connection" in reason
        assert again
