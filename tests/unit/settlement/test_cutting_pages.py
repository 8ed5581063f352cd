"""Pages of a file: the same for any split of its bytes, never cut inside a quoted value, and broken files by their line."""

from __future__ import annotations

import csv
import io
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reminders.intake.lines import LONGEST_RECORD
from reminders.intake.settlement import cutting
from reminders.intake.settlement.cutting import CutterState, FilePage, MalformedFile, RecordCutter
from reminders.intake.settlement.rows import rows_of

SMALL = 3
"""Records of a page in these tests."""


@pytest.fixture(autouse=True, scope="module")
def small_pages():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cutting, "PAGE_RECORDS", SMALL)
        yield


def cut(*feeds, **options):
    cutter = RecordCutter(**options)
    pages = [page for feed in feeds for page in cutter.feed(feed)] + cutter.finish()
    return cutter, pages


def texts_of(values):
    return [row for page in values for _, row in rows_of(page, ",")]


def test_pages_of_whole_records():
    cutter, pages = cut(b"a,b\r\n1,2\r\n\r\n3,4\r\n5,6\r\n7,8")
    assert cutter.header == b"a,b"
    assert pages == [
        FilePage(1, 2, 3, b"1,2\r\n\r\n3,4\r\n5,6\r\n"),
        FilePage(2, 6, 1, b"7,8\n"),
    ]
    assert (cutter.pages, cutter.records) == (2, 4)
    assert list(rows_of(pages[0], ",")) == [(2, ["1", "2"]), (4, ["3", "4"]), (5, ["5", "6"])]


def test_a_mark_and_blank_lines_before_the_header():
    cutter, pages = cut(b"\xef\xbb\xbf\r\n  \r\na,b\r\n1,2\r\n,\r\n ,\t\r\n")
    assert cutter.header == b"a,b"
    assert pages == [FilePage(1, 4, 1, b"1,2\r\n,\r\n ,\t\r\n")]
    assert texts_of(pages) == [["1", "2"]]


def test_a_header_alone_is_a_night_without_lines():
    assert cut(b"a,b")[1] == []
    assert cut(b"a,b\n\n\n")[1] == []


def test_a_quoted_value_is_never_cut():
    body = b'a,b\n1,"x\n\n""y"",\n"\n2,"\n"\n3,ab"c\n4,"d"\n5,"e"\n'
    _, pages = cut(body)
    assert [(page.first_line, page.records) for page in pages] == [(2, 3), (9, 2)]
    assert texts_of(pages) == [["1", 'x\n\n"y",\n'], ["2", "\n"], ["3", 'ab"c'], ["4", "d"], ["5", "e"]]


def test_a_quoting_mistake_costs_its_own_line_only():
    _, pages = cut(b'a,b\n1,"x"y\n2,z\n3,"open\n4,w\n5,"v"\n6,u\n')
    found = [row for page in pages for row in rows_of(page, ",")]
    assert [number for number, row in found if isinstance(row, str)] == [2, 4]
    assert "text after a closing quote" in found[0][1]
    assert [row for _, row in found if not isinstance(row, str)] == [["2", "z"], ["4", "w"], ["5", "v"], ["6", "u"]]


def test_mistakes_in_each_of_many_lines_cost_no_more_than_their_lines():
    # Each line closes the quote of the line before and opens one of its own; the last shows that all of it was wrong.
    count = 15_000
    _, pages = cut(b"a,b\n" + b'1",x,"y\n' * count + b'"z"z\n2,3\n')
    found = [row for page in pages for row in rows_of(page, ",")]
    assert [number for number, row in found if isinstance(row, str)] == list(range(2, count + 3))
    assert found[-1] == (count + 3, ["2", "3"])


def test_a_carriage_return_that_ends_no_line():
    _, pages = cut(b"a,b\n1,2\r3,4\n5,6\n")
    (number, fault), good = rows_of(pages[0], ",")
    assert (number, good) == (2, (3, ["5", "6"]))
    assert "carriage return" in fault


@pytest.mark.parametrize(
    ("body", "line", "what"),
    [
        (b"", None, "file is empty"),
        (b"\xef\xbb\xbf", None, "file is empty"),
        (b"\n \n\n", None, "file is empty"),
        (b'a,b\n1,2\n3,"x\n4,5\n', 3, "never closed"),
        (b'a,"b\n1,2\n', 1, "never closed"),
        (b"a,b\n1,2\n3,\xe9\n", 3, "no UTF-8 text .byte 0xE9"),
        (b"a,\xff\n1,2\n", 1, "no UTF-8 text"),
        (b"a,b\n1,2\n\n3,\x004\n", 4, "NUL"),
        ("a,b\n1,2\n".encode("utf-16"), 1, "UTF-16"),
        (b"a,b\n1,2\n3," + b"x" * LONGEST_RECORD + b"\n", 3, "longer than 131,072 bytes"),
        (b"a,b\n1,2\n3," + b"x" * LONGEST_RECORD, 3, "longer than 131,072 bytes"),
        (b'a,b\n1,"2\n' + b"x\n" * LONGEST_RECORD, 2, "a quote that opens there may never be closed"),
    ],
)  # fmt: skip
def test_a_malformed_file_by_its_line(body, line, what):
    for feeds in ([body], [body[at : at + 1000] for at in range(0, len(body), 1000)]):
        with pytest.raises(MalformedFile, match=what) as caught:
            cut(*feeds)
        assert caught.value.line == line


@pytest.mark.parametrize("encoding", sorted(cutting.ENCODINGS))
def test_each_encoding_gives_utf8(encoding):
    letters = bytes(range(0x80, 0x100)).decode(encoding, "ignore") if encoding not in {"ascii", "utf-8"} else "x"
    _, pages = cut(f'a,b\n1,"{letters}\n"\n'.encode(encoding), encoding=encoding)
    assert pages == [FilePage(1, 2, 1, f'1,"{letters}\n"\n'.encode())]


@pytest.mark.parametrize("encoding", sorted(cutting.ENCODINGS))
def test_each_encoding_has_ascii_where_it_belongs(encoding):
    ascii_bytes = bytes(range(0x80))
    assert ascii_bytes.decode(encoding) == ascii_bytes.decode("ascii")
    if encoding != "utf-8":
        for high in range(0x80, 0x100):
            assert len(bytes([high, 0x22]).decode(encoding, "replace")) == 2


def test_pages_end_early_when_records_are_large(monkeypatch):
    monkeypatch.setattr(cutting, "LARGEST_PAGE", 20)
    _, pages = cut(b"a,b\n" + b"12345,67890\n" * 5)
    assert [page.records for page in pages] == [2, 2, 1]
    assert [page.first_line for page in pages] == [2, 4, 6]


# Texts that are full of what matters to a cutter.
pieces = st.lists(
    st.sampled_from(['"', '""', ",", "\n", "\r\n", "\r", " ", "x", "é", "1", '",', ',"', "\ufeff"]), max_size=40
)
bodies = pieces.map("".join).map(str.encode)


def split(data, draw_cuts):
    cuts = sorted({min(at, len(data)) for at in draw_cuts})
    return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]


def outcome_of(cutting_it):
    try:
        return cutting_it()
    except MalformedFile as error:
        return str(error)


def outcome(*feeds):
    def in_one_step():
        cutter, pages = cut(*feeds)
        return cutter.header, pages

    return outcome_of(in_one_step)


@given(bodies, st.lists(st.integers(0, 60), max_size=6))
def test_pages_do_not_depend_on_the_feeds(body, cuts):
    assert outcome(*split(body, cuts)) == outcome(body)
    assert outcome(*[bytes([byte]) for byte in body]) == outcome(body)


@given(bodies, st.integers(0, 60))
def test_another_cutter_goes_on_where_one_stood(body, at):
    def in_two_steps():
        first = RecordCutter()
        pages = first.feed(body[:at])
        kept = first.state
        assert isinstance(kept, CutterState)
        second = RecordCutter(state=kept)
        pages += second.feed(body[at:])
        pages += second.finish()
        assert second.records == sum(page.records for page in pages)
        return second.header, pages

    assert outcome_of(in_two_steps) == outcome(body)


def test_what_is_kept_between_feeds():
    first = RecordCutter()
    (page,) = first.feed(b"a,b\n1,2\n\n3,4\n5,6\n7,8\n9,")
    assert first.state == CutterState(1, 3, 6, b"a,b", b"7,8\n9,")
    second = RecordCutter(state=first.state)
    assert second.feed(b"0\n") == []
    assert second.finish() == [FilePage(2, 6, 2, b"7,8\n9,0\n")]
    assert (second.pages, second.records, page.number) == (2, 5, 1)


@given(bodies)
def test_nothing_is_lost_between_pages(body):
    try:
        _, pages = cut(b"a,b\n" + body)
    except MalformedFile:
        return
    joined = b"".join(page.content for page in pages)
    # Blank lines at the very end are in no page.
    assert (body + b"\n").startswith(joined)
    assert not (body + b"\n")[len(joined) :].strip(b" \t\r\n,")
    line = 2
    for number, page in enumerate(pages, 1):
        assert (page.number, page.first_line) == (number, line)
        line += page.content.count(b"\n")


values = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6) | pieces.map("".join)


@given(st.lists(st.lists(values, min_size=2, max_size=3), max_size=12), st.lists(st.integers(0, 200), max_size=5))
def test_what_a_writer_of_csv_wrote_is_read_back(rows, cuts):
    rows = [row for row in rows if "".join(row).strip()]
    written = io.StringIO(newline="")
    csv.writer(written).writerows([["a", "b"], *rows])
    _, pages = cut(*split(written.getvalue().encode(), cuts))
    assert texts_of(pages) == rows


@pytest.mark.long
def test_memory_is_flat(monkeypatch):
    monkeypatch.setattr(cutting, "PAGE_RECORDS", 1000)
    piece = b"".join(b'po_1,%08d,"49.90",eur\n' % number for number in range(2000))

    def peak(times):
        cutter = RecordCutter()
        tracemalloc.start()
        for _ in range(times):
            assert cutter.feed(piece) is not None
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    few, many = peak(5), peak(100)
    assert many < few * 1.5
