"""The TOML of a reconciliation: what it may say, and every fault of it at once."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta

import pytest

from reminders.domain.errors import SettingsError
from reminders.intake.settlement.config import Nightly, Rule, SqlQueries, load_config
from reminders.intake.settlement.stripe import stripe_format

LEAST = """
source = "stripe"
format = "stripe"
grace = "3d"
matcher.entry = "shop.reconciling:matcher"
"""
WHOLE = """
source = "stripe-eu"
grace = "36h"
max_age = "30d"

[format]
name = "stripe"
order_reference = "payment_metadata[order]"
decimal_separator = ","
delimiter = ";"

[matcher]
query = "SELECT reference FROM orders WHERE reference = ANY(:references::text[])"
expected = "SELECT reference FROM orders WHERE due < :before AND reference > :after LIMIT :limit"

[decisions.settled]
kind = "order-settled"
channel = "email"
due = "10m"
at = "09:00"
zone = "Europe/Berlin"
expires = "7d"

[decisions.unknown_order]
kind = "order-unknown"
channel = "webhook"
at = 07:30:00
zone = "Europe/Berlin"
tenant_id = "shop"
user_id = "accounting"
destination = "https://shop.example/hook"

[nightly]
url = "https://files.example/payout_{date}.csv?signature=abc"
at = "05:30"
zone = "Europe/Berlin"
days_ago = 1
"""


@pytest.fixture
def load(tmp_path):
    def loaded(text, **files):
        for name, content in files.items():
            (tmp_path / f"{name}.toml").write_text(content, encoding="utf-8")
        path = tmp_path / "reconcile.toml"
        path.write_text(text, encoding="utf-8")
        return load_config(path)

    return loaded


def test_the_least_that_it_says(load):
    found = load(LEAST)
    assert (found.source, found.matcher, found.grace) == ("stripe", "shop.reconciling:matcher", timedelta(days=3))
    assert (found.max_age, found.rules, found.nightly) == (timedelta(days=14), {}, None)
    assert found.format.name == "stripe"
    columns = b",".join(name.encode() for name in stripe_format().values.columns.values())
    assert found.format.read_header(columns) == stripe_format().read_header(columns)


def test_all_that_it_says(load):
    found = load(WHOLE)
    assert (found.source, found.grace, found.max_age) == ("stripe-eu", timedelta(hours=36), timedelta(days=30))
    assert isinstance(found.matcher, SqlQueries)
    assert found.matcher.query.startswith("SELECT reference")
    assert found.matcher.expected.endswith(":limit")
    assert found.format.delimiter == ";"
    assert found.format.values.decimal_separator == ","
    assert found.format.values.columns["order_reference"] == "payment_metadata[order]"
    assert found.rules == {
        "settled": Rule("order-settled", "email", timedelta(minutes=10), time(9), "Europe/Berlin", timedelta(days=7)),
        "unknown_order": Rule(
            "order-unknown",
            "webhook",
            at=time(7, 30),
            zone="Europe/Berlin",
            tenant_id="shop",
            user_id="accounting",
            destination="https://shop.example/hook",
        ),
    }
    assert found.nightly == Nightly(
        "https://files.example/payout_{date}.csv?signature=abc", time(5, 30), "Europe/Berlin", 1
    )


def test_neither_a_signature_nor_a_destination_is_in_what_is_printed(load):
    shown = repr(load(WHOLE))
    assert "signature" not in shown
    assert "shop.example" not in shown


def test_the_date_of_a_nightly_file_is_one_of_its_zone():
    nightly = Nightly("https://files.example/{date}/{date}.csv", time(0, 30), "Europe/Berlin")
    late = datetime(2026, 11, 27, 23, 30, tzinfo=UTC)
    assert nightly.url_at(late) == "https://files.example/2026-11-28/2026-11-28.csv"
    before = Nightly("https://files.example/{date}.csv", time(0, 30), "Europe/Berlin", 1)
    assert before.url_at(late) == "https://files.example/2026-11-27.csv"


COLUMNS = """
columns = {line_id = "id", category = "type", gross = "amount", created_at = "at", payout_id = "payout"}
constants = {currency = "EUR"}
"""


def test_a_mapping_in_a_file_of_its_own_or_in_place(load):
    header = b"id,type,amount,at,payout"
    apart = load(LEAST.replace('format = "stripe"', 'format.mapping = "till.toml"'), till='name = "till"\n' + COLUMNS)
    assert apart.format.name == "till"
    within = load(LEAST.replace('format = "stripe"', "") + '[format]\nname = "till"\n' + COLUMNS)
    assert apart.format.read_header(header) == within.format.read_header(header)
    assert within.format.name == "till"


def test_every_fault_at_once(load):
    with pytest.raises(SettingsError) as caught:
        load("""
sorce = "stripe"
format = "strip"
grace = "3 days"
max_age = -5
[matcher]
entry = "shop"
query = "SELECT 1"
[decisions.setled]
kind = "order-settled"
[decisions.disputed]
kind = 5
chanel = "email"
at = "25:00"
user_id = "customer"
expires = "1s"
[decisions.unknown_order]
kind = "order-unknown"
channel = "webhook"
at = "07:30"
[nightly]
url = "http://files.example/{date}.csv?signature=abc"
zone = "Europe/Berln"
""")
    faults = [line.partition("reconcile.toml: ")[2] for line in str(caught.value).splitlines()]
    assert faults == [
        "source: is missing",
        "format.name: must be one of 'stripe'",
        "matcher.entry: must be module:attribute, as shop.reconciling:matcher",
        "matcher.query: must use :references; :references is not there",
        'matcher: needs either entry = "module:attribute" or query = "SELECT ..."',
        "grace: '3 days' is no duration; write 90s, 5m, 2h, 7d or plain seconds",
        "max_age: '-5' is no duration; write 90s, 5m, 2h, 7d or plain seconds",
        "decisions.disputed.user_id: belongs to unknown_order alone; all else is told to the user of the order",
        "decisions.disputed.kind: must be a text in quotes",
        "decisions.disputed.channel: is missing",
        'decisions.disputed.at: must be a time of day such as "09:00"; the zone stands elsewhere',
        "decisions.disputed.expires: must be at least 60 seconds",
        "decisions.disputed.chanel: is not known; did you mean channel?",
        "decisions.unknown_order.tenant_id: is missing",
        "decisions.unknown_order.user_id: is missing",
        "decisions.unknown_order.destination: is missing",
        "decisions.unknown_order.at: needs a zone beside it, since there is no order that has one",
        "decisions.setled: is not known; did you mean settled?",
        "nightly.url: must be an https:// URL",
        "nightly.zone: 'Europe/Berln' is no IANA zone name, such as Europe/Berlin",
        'nightly.at: is missing; write a time of day such as "05:30"',
        "sorce: is not known; did you mean source?",
    ]


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        ('grace = "1d"\n', "is no TOML"),
        ('[format]\nname = "x"\n', "is no TOML"),
        ("decisions = 5\n", "decisions: must be a table"),
        ("decisions.settled = 5\n", "decisions.settled: must be a table"),
        ('decisions.settled = {kind = "a\\u0007", channel = "email"}\n', "decisions.settled.kind: contains a control"),
        (
            'decisions.settled = {kind = "a", channel = "email", at = 2026-11-27T09:00:00Z}\n',
            "at: must be a time of day",
        ),
        ('decisions.settled = {kind = "a", channel = "email", at = "09:00+01:00"}\n', "at: must be a time of day"),
        ('decisions.settled = {kind = "a", channel = "email", due = true}\n', "due: must be a duration"),
        ('nightly = {url = "https://x/{month}.csv", at = "01:00", zone = "UTC"}\n', "may have {date} in braces"),
        ('nightly = {url = "https://x/a b.csv", at = "01:00", zone = "UTC"}\n', "must be an https:// URL"),
        ('nightly = {url = "https://x/a.csv", at = "01:00", zone = "UTC", days_ago = 90}\n', "from 0 to 31"),
    ],
)
def test_what_is_refused(load, more, fault):
    with pytest.raises(SettingsError) as caught:
        load(LEAST + more)
    assert fault in str(caught.value)


@pytest.mark.parametrize(
    ("form", "fault"),
    [
        ("", 'format: is missing; write name = "stripe"'),
        ('format.mapping = "none.toml"', "none.toml cannot be read: No such file"),
        ('format.mapping = "a\\u0000b"', "a\\x00b' cannot be read: embedded null byte"),
        ('format.mapping = "till.toml"', "till.toml: columns: line_id has neither a column nor a constant"),
        (
            'format = {name = "stripe", order_ref = "x"}',
            "format.order_ref: is not known; did you mean order_reference?",
        ),
    ],
)
def test_formats_that_are_none(load, form, fault):
    with pytest.raises(SettingsError) as caught:
        load(LEAST.replace('format = "stripe"', form), till="[columns]\n")
    assert fault in str(caught.value)


def test_grace_must_be_stated(load):
    with pytest.raises(SettingsError, match="grace: is missing; say how long a payout may be late"):
        load(LEAST.replace('grace = "3d"', ""))


@pytest.mark.parametrize("far", ["3650.000012d", "9999999d", "999999999d", "87601h"])
def test_a_duration_longer_than_ten_years_is_refused_wherever_it_stands(load, far):
    rule = f'decisions.settled = {{kind = "a", channel = "email", due = "{far}", expires = "{far}"}}\n'
    with pytest.raises(SettingsError) as caught:
        load(LEAST.replace('"3d"', f'"{far}"') + f'max_age = "{far}"\n' + rule)
    faults = [line.partition("reconcile.toml: ")[2] for line in str(caught.value).splitlines()]
    assert faults == [
        f"{field}: must be at most 3,650 days"
        for field in ("grace", "max_age", "decisions.settled.due", "decisions.settled.expires")
    ]
    assert load(LEAST.replace('"3d"', '"3650d"')).grace == timedelta(days=3650)
