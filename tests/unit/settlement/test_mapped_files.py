"""Any CSV through a mapping: separators, encodings, zones, units, signs, constants, and mappings that do not hold."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from reminders.domain.errors import SettingsError
from reminders.domain.settlement import SettlementLine
from reminders.intake.records import Reject
from reminders.intake.settlement.cutting import MalformedFile
from reminders.intake.settlement.mapping import mapping_format

GERMAN = """
name = "kasse"
delimiter = ";"
encoding = "windows-1252"
decimal_separator = ","
time_format = "%d.%m.%Y %H:%M"
payout_time_format = "%d.%m.%Y"
zone = "Europe/Berlin"
fees = "negative"
unsigned = ["Erstattung", "Gebühr"]

[columns]
line_id = "Nr."
category = "Vorgang"
gross = "Betrag"
fee = "Gebühr"
created_at = "Zeit"
payout_id = "Auszahlung"
payout_at = "Ausgezahlt am"
order_reference = "Bestellung"

[constants]
currency = "EUR"

[categories]
Zahlung = "charge"
Erstattung = "refund"
"""
GERMAN_FILE = """Nr.;Vorgang;Betrag;Gebühr;Zeit;Auszahlung;Ausgezahlt am;Bestellung;Kunde
1;Zahlung;49,90;-1,02;25.10.2026 02:30;A1;27.11.2026;1001;Jörg
2;Erstattung;20,00;0;29.03.2026 02:30;A1;27.11.2026;1001;Jörg
3;Gebühr;3,00;;27.11.2026 00:00;A1;;;
4;Spende;1,00;0;27.11.2026 00:00;A1;;;
"""

MINIMAL = {
    "columns": {
        "line_id": "id",
        "category": "type",
        "currency": "cur",
        "gross": "amount",
        "created_at": "at",
        "payout_id": "payout",
    }
}


def read(form, text):
    cutter = form.cutter()
    pages = cutter.feed(text.encode(form.encoding)) + cutter.finish()
    header = form.read_header(cutter.header)
    return [found for page in pages for found in form.read_page(header, page)]


def test_a_german_file(tmp_path):
    path = tmp_path / "kasse.toml"
    path.write_text(GERMAN, encoding="utf-8")
    form = mapping_format(path)
    assert form.name == "kasse"
    charge, refund, fee, gift = read(form, GERMAN_FILE)
    assert charge == SettlementLine(
        line_id="1",
        category="charge",
        reported_as="Zahlung",
        currency="EUR",
        gross=Decimal("49.90"),
        fee=Decimal("1.02"),
        net=Decimal("48.88"),
        # 02:30 happens twice that night: the first is meant. The payout's day begins in Berlin.
        created_at=datetime(2026, 10, 25, 0, 30, tzinfo=UTC),
        payout_id="A1",
        payout_at=datetime(2026, 11, 26, 23, tzinfo=UTC),
        order_reference="1001",
    )
    # 02:30 does not happen that night.
    assert (refund.gross, refund.created_at) == (Decimal("-20.00"), datetime(2026, 3, 29, 1, 30, tzinfo=UTC))
    # The fee's own amount is written without sign, and it costs nothing more.
    assert (fee.category, fee.gross, fee.fee, fee.net) == ("other", Decimal("-3.00"), Decimal(0), Decimal("-3.00"))
    assert (gift.category, gift.reported_as, gift.payout_at) == ("other", "Spende", None)


def test_the_least_that_a_mapping_says():
    form = mapping_format(MINIMAL)
    (line,) = read(form, "id,type,cur,amount,at,payout\n1,refund,jpy,-500,2026-11-25T08:14:02+09:00,p\n")
    assert (line.category, line.gross, line.fee, line.net) == ("refund", Decimal(-500), Decimal(0), Decimal(-500))
    assert line.created_at == datetime(2026, 11, 24, 23, 14, 2, tzinfo=UTC)
    assert line.order_reference is None


def test_minor_units_and_digits_that_a_provider_counts_otherwise():
    form = mapping_format(MINIMAL | {"amounts": "minor", "digits": {"ISK": 2}})
    found = read(
        form,
        "id,type,cur,amount,at,payout\n"
        "1,charge,EUR,4990,2026-11-25 08:14Z,p\n2,charge,JPY,4980,2026-11-25 08:14Z,p\n"
        "3,charge,KWD,1234,2026-11-25 08:14Z,p\n4,charge,ISK,50000,2026-11-25 08:14Z,p\n5,charge,EUR,49.90,2026-11-25 08:14Z,p\n",
    )
    assert [line.gross for line in found[:4]] == [Decimal("49.90"), Decimal(4980), Decimal("1.234"), Decimal(500)]
    assert "minor units" in found[4].reason


def test_a_column_for_each_direction():
    more = {"gross": "in", "gross_debit": "out", "net": "net in", "net_debit": "net out"}
    form = mapping_format({"columns": MINIMAL["columns"] | more})
    found = read(
        form,
        "id,type,cur,in,out,net in,net out,at,payout\n"
        "1,charge,EUR,10.00,,9.50,,2026-11-25 08:14,p\n2,refund,EUR,,10.00,,10.25,2026-11-25 08:14,p\n3,charge,EUR,,,,,2026-11-25 08:14,p\n",
    )
    assert [(line.gross, line.fee, line.net) for line in found[:2]] == [
        (Decimal("10.00"), Decimal("0.50"), Decimal("9.50")),
        (Decimal("-10.00"), Decimal("0.25"), Decimal("-10.25")),
    ]
    assert found[2] == Reject(4, "in", "is empty; write 0 if there is none")


@pytest.mark.parametrize(
    ("at", "reason"),
    [("", "is empty"), ("2026-11-25", "no time of day"), ("25.11.2026 08:14", "no instant"), ("0001-01-01 00:00", "year"), ("9999-12-31 23:59", "year")],
)  # fmt: skip
def test_an_instant_that_is_none(at, reason):
    (refused,) = read(
        mapping_format(MINIMAL | {"zone": "Asia/Tokyo"}), f"id,type,cur,amount,at,payout\n1,charge,EUR,1,{at},p\n"
    )
    assert (refused.line, refused.field) == (2, "at")
    assert reason in refused.reason


def test_a_file_that_the_mapping_does_not_fit():
    with pytest.raises(MalformedFile, match=r"format mapping: type is missing .there is typ.; payout is missing"):
        read(mapping_format(MINIMAL), "id,typ,cur,amount,at\n")
    cutter = mapping_format(MINIMAL).cutter()
    cutter.feed("id,type,cur,amount,at,payout\n1,Gebühr".encode("latin-1"))
    with pytest.raises(MalformedFile, match="no UTF-8 text"):
        cutter.finish()


@pytest.mark.parametrize(
    ("mapping", "faults"),
    [
        ({}, ["columns: line_id has neither a column nor a constant", "columns: payout_id has neither"]),
        (MINIMAL | {"delimeter": ";"}, ["delimeter: is not known; did you mean delimiter?"]),
        (MINIMAL | {"delimiter": "::"}, ["delimiter: must be one of"]),
        (MINIMAL | {"encoding": "utf-16"}, ["encoding: 'utf-16' is none of the encodings that are read"]),
        (MINIMAL | {"encoding": "shift_jis"}, ["encoding: 'shift_jis' is none"]),
        (MINIMAL | {"zone": "Europe/Berln"}, ["zone: 'Europe/Berln' is no IANA zone"]),
        (MINIMAL | {"time_format": "%H:%M"}, ["time_format: '%H:%M' must give year, month and day"]),
        (MINIMAL | {"time_format": "%d.%m.%Y %"}, ["time_format: "]),
        (MINIMAL | {"time_format": "%Y-%m-%d %z"}, ["and no zone"]),
        (MINIMAL | {"amounts": "cents"}, ["amounts: must be one of 'major', 'minor'"]),
        (MINIMAL | {"categories": {"Sale": "charg"}}, ["categories.Sale: must be one of"]),
        (MINIMAL | {"digits": {"XXX": 2, "ISK": 9}}, ["digits.XXX: 'XXX' is no currency", "digits.ISK: must be a whole number from 0 to 4"]),
        (MINIMAL | {"unsigned": "Refund"}, ["unsigned: must be a list of texts"]),
        (MINIMAL | {"constants": {"currency": "EUR", "line_id": "1"}}, ["constants.currency: has a column as well", "constants.line_id: must differ"]),
        (MINIMAL | {"constants": {"nett": "1"}}, ["constants.nett: is not known; did you mean net?"]),
        ({"columns": MINIMAL["columns"] | {"fee": "amount"}}, ["columns.fee: column 'amount' is gross already"]),
        ({"columns": MINIMAL["columns"] | {"net_debit": "x"}}, ["net_debit is what goes out beside net"]),
        ({"columns": MINIMAL["columns"] | {"gross": 5}}, ["columns.gross: must be a text in quotes"]),
        ({"columns": 5}, ["columns: must be a table"]),
    ],
)  # fmt: skip
def test_a_mapping_that_does_not_hold_tells_all_its_faults(mapping, faults):
    with pytest.raises(SettingsError) as caught:
        mapping_format(mapping)
    for fault in faults:
        assert fault in str(caught.value)


def test_a_mapping_that_cannot_be_read(tmp_path):
    with pytest.raises(SettingsError, match="cannot be read"):
        mapping_format(tmp_path / "none.toml")
    broken = tmp_path / "broken.toml"
    broken.write_bytes(b"name = ")
    with pytest.raises(SettingsError, match="is no TOML"):
        mapping_format(broken)
    broken.write_bytes(b"name = '\xff'")
    with pytest.raises(SettingsError, match="no UTF-8"):
        mapping_format(broken)
