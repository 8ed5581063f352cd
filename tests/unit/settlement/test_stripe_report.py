"""Stripe's report: columns in any order, byte-order mark, decimal comma, currencies without and with three digits, bad lines."""

from __future__ import annotations

import csv
import gc
import io
import time
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reminders.domain.settlement import CATEGORIES, SettlementLine
from reminders.intake.records import Reject
from reminders.intake.settlement.cutting import MalformedFile
from reminders.intake.settlement.stripe import CATEGORIES as WORDS
from reminders.intake.settlement.stripe import stripe_format

SAMPLE = (Path(__file__).parents[2] / "data/settlement/payout_2026-11-27.csv").read_bytes()
COLUMNS = SAMPLE.decode().splitlines()[0].split(",")
GOOD = dict(zip(COLUMNS, SAMPLE.decode().splitlines()[1].split(","), strict=True))


def read(data, form=None):
    form = form or stripe_format()
    cutter = form.cutter()
    pages = cutter.feed(data) + cutter.finish()
    header = form.read_header(cutter.header)
    return [found for page in pages for found in form.read_page(header, page)]


def written(rows, columns=COLUMNS, **options):
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, extrasaction="ignore", restval="", **options)
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def rows_of_sample():
    return list(csv.DictReader(io.StringIO(SAMPLE.decode())))


def test_a_line_of_the_sample():
    assert read(SAMPLE)[3] == SettlementLine(
        line_id="txn_0004",
        category="refund",
        reported_as="refund",
        currency="EUR",
        gross=Decimal("-20.00"),
        fee=Decimal("0.00"),
        net=Decimal("-20.00"),
        created_at=datetime(2026, 11, 25, 12, 22, 40, tzinfo=UTC),
        payout_id="po_0001",
        payout_at=datetime(2026, 11, 27, tzinfo=UTC),
        source_id="re_0001",
        charge_id="ch_0002",
        payment_id="pi_0002",
        order_reference="order-1002",
    )


@given(
    st.permutations([*COLUMNS, "description", "payment_metadata[shop]", ""]),
    st.booleans(),
    st.sampled_from(["\n", "\r\n"]),
)
def test_columns_in_any_order_say_the_same(columns, mark, line_end):
    data = written(rows_of_sample(), columns, lineterminator=line_end)
    assert read(b"\xef\xbb\xbf" * mark + data) == read(SAMPLE)


def test_a_decimal_comma():
    rows = rows_of_sample()
    for row in rows:
        row.update({name: row[name].replace(".", ",") for name in ("gross", "fee", "net")})
    assert read(written(rows)) == read(SAMPLE)
    assert read(written(rows, delimiter=";"), stripe_format(decimal_separator=",", delimiter=";")) == read(SAMPLE)
    assert {found.field for found in read(written(rows), stripe_format(decimal_separator="."))[:3]} == {"gross"}


def test_currencies_with_more_and_fewer_digits():
    rows = [
        GOOD | {"currency": "kwd", "gross": "1.234", "fee": "0.034", "net": "1.200"},
        GOOD | {"currency": "jpy", "gross": "4980", "fee": "179", "net": "4801"},
        GOOD | {"currency": "isk", "gross": "500.00", "fee": "0.00", "net": "500.00"},
        GOOD | {"currency": "jpy", "gross": "49.80", "fee": "0", "net": "49.80"},
    ]
    *found, refused = read(written(rows))
    assert [(line.currency, line.gross, line.fee, line.net) for line in found] == [
        ("KWD", Decimal("1.234"), Decimal("0.034"), Decimal("1.200")),
        ("JPY", Decimal(4980), Decimal(179), Decimal(4801)),
        ("ISK", Decimal(500), Decimal(0), Decimal(500)),
    ]
    assert refused == Reject(5, "gross", "'49.80' has 2 digits after '.', its currency none")


@pytest.mark.parametrize(
    ("changed", "field", "reason"),
    [
        ({"balance_transaction_id": " "}, "balance_transaction_id", "is empty"),
        ({"balance_transaction_id": "t" * 256}, "balance_transaction_id", "has 256 characters"),
        ({"balance_transaction_id": "t\x1b[2J"}, "balance_transaction_id", "cannot be printed"),
        ({"payment_metadata[order_id]": "o" * 513}, "payment_metadata[order_id]", "at most 512"),
        ({"payment_metadata[order_id]": "o\n1"}, "payment_metadata[order_id]", "cannot be printed"),
        ({"charge_id": "c" * 256}, "charge_id", "at most 255"),
        ({"reporting_category": ""}, "reporting_category", "is empty"),
        ({"currency": ""}, "currency", "is empty"),
        ({"currency": "euro"}, "currency", "'EURO' is no currency"),
        ({"gross": ""}, "gross", "is empty; write 0"),
        ({"gross": "49.90 EUR"}, "gross", "without"),
        ({"fee": "1.02x"}, "fee", "no plain number"),
        ({"net": "1.234,56"}, "net", "thousands"),
        ({"net": "48.87"}, "net", "48.87 is not gross less fee, which is 48.88"),
        ({"fee": "", "net": ""}, "net", "is empty, and so is the fee"),
        ({"gross": "-49.90", "net": "-50.92"}, "gross", "wrong sign: a line of category charge brings money"),
        ({"reporting_category": "refund"}, "gross", "wrong sign: a line of category refund takes money"),
        ({"created_utc": ""}, "created_utc", "no instant"),
        ({"created_utc": "2026-11-25"}, "created_utc", "write 2026-11-27 00:00:00, in UTC"),
        ({"created_utc": "2026-02-30 08:14:02"}, "created_utc", "no instant"),
        ({"created_utc": "2026-11-25 08:14:6x"}, "created_utc", "no instant"),
        ({"created_utc": "2026-11-25T08:14:02"}, "created_utc", "no instant"),
        ({"created_utc": "2026-11-25 08:14+01"}, "created_utc", "no instant"),
        ({"created_utc": "٢٠٢٦-11-25 08:14:02"}, "created_utc", "no instant"),
        ({"created_utc": "0001-11-25 08:14:02"}, "created_utc", "years 1970 to 9998"),
        ({"automatic_payout_effective_at_utc": "soon"}, "automatic_payout_effective_at_utc", "no instant"),
    ],
)
def test_a_bad_line_is_rejected_by_its_number_and_the_rest_goes_on(changed, field, reason):
    before, refused, after = read(written([GOOD, GOOD | changed, GOOD]))
    assert before == after == read(written([GOOD]))[0]
    assert (refused.line, refused.field) == (3, field)
    assert reason in refused.reason


def test_rows_of_another_width():
    first, second, third = read(written([GOOD]) + b"a,b\r\n" + b"," * 12 + b"x,\r\n")
    assert isinstance(first, SettlementLine)
    assert second == Reject(3, None, "has 2 values, but the header names 13 columns")
    assert third == Reject(4, None, "has 14 values, but the header names 13 columns")


def test_a_line_that_is_in_no_payout_yet():
    (line,) = read(written([GOOD | {"automatic_payout_id": "", "automatic_payout_effective_at_utc": ""}]))
    assert (line.payout_id, line.payout_at) == ("", None)


def test_a_word_that_nobody_knows_is_money_by_its_own_word():
    (line,) = read(written([GOOD | {"reporting_category": "moon_dust"}]))
    assert (line.category, line.reported_as, line.gross) == ("other", "moon_dust", Decimal("49.90"))


def test_each_category_that_concerns_somebody_is_a_word_of_stripe():
    assert set(WORDS.values()) == set(CATEGORIES)
    assert all(WORDS[category] == category for category in CATEGORIES if category != "other")
    assert len(WORDS) == 37


@pytest.mark.parametrize(
    ("header", "what"),
    [
        (",".join([*COLUMNS[:-1], "payment_metadata[orderid]"]), r"payment_metadata\[order_id\] is missing .there is payment_metadata\[orderid\]"),
        (",".join([*COLUMNS, "net"]), "net is there 2 times"),
        (",".join(COLUMNS[2:]), "automatic_payout_id is missing.*automatic_payout_effective_at_utc is missing"),
        (";".join(COLUMNS), "columns are separated by ','"),
        ("order,amount", "balance_transaction_id is missing"),
        ('"a"b,c', "after a closing quote"),
    ],
)  # fmt: skip
def test_a_header_that_does_not_fit(header, what):
    with pytest.raises(MalformedFile, match=what):
        read(header.encode() + b"\n")


def test_columns_that_nobody_needs_may_be_missing_or_twice():
    columns = [name for name in COLUMNS if name not in {"source_id", "payment_intent_id"}]
    (line,) = read(written([GOOD], [*columns, "description", "description"]))
    assert (line.line_id, line.source_id, line.payment_id) == ("txn_0001", None, None)


@given(
    st.dictionaries(
        st.sampled_from(COLUMNS),
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20),
    )
)
def test_whatever_stands_in_a_line_it_is_read_or_rejected(changed):
    first, *found, last = read(written([GOOD, GOOD | changed, GOOD]))
    assert isinstance(first, SettlementLine)
    assert isinstance(last, SettlementLine)
    assert len(found) == 1 or not "".join((GOOD | changed).values()).strip()
    for each in found:
        assert isinstance(each, SettlementLine) or each.line == 3


def test_a_hundred_thousand_lines_a_second():
    """Asserted with a threefold margin, in processor time: other programs may run here."""
    count = 30_000
    row = "po_{0},2026-11-27 00:00:00,txn_{0},2026-11-{1:02} 08:14:02,eur,{2}.{3:02},1.02,{4}.{3:02},charge,ch_{0},pi_{0},ch_{0},order-{0}"
    rows = [row.format(n, n % 28 + 1, n % 900 + 2, n % 98 + 2, n % 900 + 1) for n in range(count)]
    data = ("\n".join([",".join(COLUMNS), *rows]) + "\n").replace(".02,1.02,", ".04,1.02,").encode()
    form = stripe_format()
    rates = []
    for _ in range(3):
        gc.collect()
        started = time.process_time()
        cutter = form.cutter()
        pages = cutter.feed(data) + cutter.finish()
        header = form.read_header(cutter.header)
        assert sum(1 for page in pages for _ in form.read_page(header, page)) == count
        rates.append(count / (time.process_time() - started))
    assert max(rates) > 100_000 / 3
