"""Physical lines: numbers, marks, encodings, bounds."""

import io

import pytest

from reminders.domain.errors import RemindersError
from reminders.intake.lines import LONGEST_RECORD, Lines, RecordTooLong


def lines_of(raw: bytes) -> Lines:
    return Lines(io.BytesIO(raw), "some.csv")


def each(lines: Lines):
    """Every line as a record of its own: number, text, fault."""
    found = []
    while True:
        lines.start_record()
        text = next(lines, None)
        if text is None:
            return found
        found.append((lines.first, text, lines.fault))


def test_lines_are_numbered_and_keep_their_ends():
    assert each(lines_of(b"a\r\n\nb\xc3\xa4\nlast")) == [
        (1, "a\r\n", None),
        (2, "\n", None),
        (3, "bä\n", None),
        (4, "last", None),
    ]


def test_a_line_separator_of_unicode_ends_no_line():
    assert len(each(lines_of("a\u2028b\x0bc\x85d\n".encode()))) == 1


def test_the_utf8_mark_is_dropped_at_the_start_only():
    assert each(lines_of(b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n")) == [(1, "a\n", None), (2, "\ufeffb\n", None)]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-16-le", "utf-32"])
def test_utf16_is_refused_by_name(encoding):
    mark = {"utf-16-be": b"\xfe\xff", "utf-16-le": b"\xff\xfe"}.get(encoding, b"")
    with pytest.raises(RemindersError, match=r"some\.csv is UTF-16.*\n.*iconv"):
        next(lines_of(mark + "tenant_id\n".encode(encoding)))


def test_bad_utf8_is_a_fault_of_its_line_alone():
    (first, second, third) = each(lines_of(b"a\nb\xe4c\nd\n"))
    assert (first, third) == ((1, "a\n", None), (3, "d\n", None))
    assert second[2] == "is no UTF-8 text (byte 0xE4 at position 2 of line 2)"


def test_a_line_too_long_is_a_fault_and_the_next_one_is_whole():
    raw = b"x" * (3 * LONGEST_RECORD) + b"\nnext\n"
    assert each(lines_of(raw)) == [(1, "", f"is longer than {LONGEST_RECORD:,} bytes"), (2, "next\n", None)]


def test_the_longest_line_is_allowed():
    assert each(lines_of(b"x" * (LONGEST_RECORD - 1) + b"\n"))[0][2] is None


def test_a_record_of_many_lines_is_bounded():
    lines = lines_of(b"x" * 999 + b"\n" + (b"y" * 999 + b"\n") * 200)
    lines.start_record()
    with pytest.raises(RecordTooLong):
        list(lines)
    assert lines.number == LONGEST_RECORD // 1000 + 1


def test_lines_given_back_come_again_with_their_numbers_and_faults():
    lines = lines_of(b"1\n2\xff\n3\n4\n")
    lines.start_record()
    assert [next(lines) for _ in range(3)][::2] == ["1\n", "3\n"]
    lines.give_back()
    assert [(number, fault is None) for number, _, fault in each(lines)] == [(2, False), (3, True), (4, True)]


def test_peek_consumes_nothing():
    lines = lines_of(b"\xef\xbb\xbf{}\nb\n")
    assert lines.peek() == lines.peek() == "{}\n"
    assert each(lines) == [(1, "{}\n", None), (2, "b\n", None)]
    assert lines_of(b"").peek() == ""


def test_a_disk_that_fails_is_told_with_the_line():
    class Failing(io.BytesIO):
        def readline(self, size=-1):
            if self.tell():
                raise OSError(5, "Input/output error")
            return super().readline(size)

    lines = Lines(Failing(b"a\nb\n"), "some.csv")
    next(lines)
    with pytest.raises(RemindersError, match=r"some\.csv cannot be read after line 1: Input/output error"):
        next(lines)


def test_a_line_without_an_end_is_given_up():
    class Endless(io.BytesIO):
        def readline(self, size=-1):
            return b"x" * size

    with pytest.raises(RemindersError, match=r"^Line 1 of some\.csv has no end within 64 MiB\nA file of reminders is"):
        next(Lines(Endless(), "some.csv"))
