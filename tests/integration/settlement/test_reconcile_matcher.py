"""What a matcher does that it must not: it ends the process, or its query writes."""

from decimal import Decimal

import pytest

from integration.settlement.shop import EXPECTED, ORDERS, QUERY, Row
from reminders.domain.errors import SettingsError
from reminders.intake.settlement.auditing import audit
from reminders.intake.settlement.matching import AskedMatcher, MatcherFault, SqlMatcher, load_matcher
from reminders.intake.settlement.reporting import runs


class Leaving(SqlMatcher):
    """Ends the process, as a script that is used as a module may."""

    def match(self, connection, references):
        raise SystemExit(0)


def test_a_matcher_that_ends_the_process_is_at_fault(shop):
    with pytest.raises(MatcherFault, match=r"^Leaving.match raised SystemExit: "):
        shop.run([Row("a", "A")], matcher=Leaving(QUERY))
    assert [run.state for run in runs(shop.database)] == ["interrupted"]


def test_a_module_that_ends_the_process_is_no_matcher(tmp_path, monkeypatch):
    (tmp_path / "leaving_at_once.py").write_text("raise SystemExit(0)")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SettingsError, match="cannot be had: SystemExit"):
        load_matcher("leaving_at_once:matcher")


@pytest.mark.parametrize(
    ("amount", "currency", "fault"),
    [
        ("-0.01", "EUR", "amount is negative"),
        ("50.001", "EUR", "amount has more digits than EUR has"),
        ("4980.5", "JPY", "amount has more digits than JPY has"),
        ("0.00001", "KWD", "amount has more digits than KWD has"),
        ("50.0000", "EUR", None),
        ("4980.00", "JPY", None),
        ("1.234", "KWD", None),
        ("0", "EUR", None),
        ("1E+3", "EUR", None),
    ],
)
def test_an_amount_that_an_order_cannot_have_is_named_with_the_order(shop, amount, currency, fault):
    shop.order("A")
    asked = AskedMatcher(
        SqlMatcher(
            QUERY.replace("amount,", f"numeric '{amount}' AS amount,").replace(
                " currency,", f" '{currency}' AS currency,"
            )
        )
    )
    with shop.database.transaction() as connection:
        if fault is None:
            assert asked.match(connection, ["A"])["A"].amount == Decimal(amount)
        else:
            with pytest.raises(MatcherFault, match=rf"^SqlMatcher.match, order 'A': {fault}$"):
                asked.match(connection, ["A"])


class Interrupted(SqlMatcher):
    def match(self, connection, references):
        raise KeyboardInterrupt


def test_an_interrupt_within_a_matcher_stays_one(shop):
    with pytest.raises(KeyboardInterrupt):
        shop.run([Row("a", "A")], matcher=Interrupted(QUERY))


DELETING = f"DELETE FROM {ORDERS} WHERE reference = ANY (:references) RETURNING reference"
WRITING = {
    "DELETE": DELETING,
    "SELECT": f"WITH w AS (UPDATE {ORDERS} SET customer = 'x') {QUERY}",
    "nextval()": f"SELECT *, nextval('a_counter') FROM ({QUERY}) q",
    "SELECT FOR UPDATE": f"{QUERY} FOR UPDATE",
}


@pytest.mark.parametrize(("what", "query"), WRITING.items())
def test_a_query_that_writes_is_refused(shop, what, query):
    shop.sql("CREATE SEQUENCE IF NOT EXISTS a_counter")
    shop.order("A")
    shop.run([Row("a", "A")])
    before = shop.sql(f"SELECT * FROM {ORDERS}"), shop.decisions()
    said = rf"^SqlMatcher.match: query must only read: cannot execute {what} in a read-only transaction".replace(
        "()", r"\(\)"
    )
    with pytest.raises(MatcherFault, match=said):
        shop.run([Row("a", "A", "40.00")], matcher=SqlMatcher(query, EXPECTED))
    with pytest.raises(MatcherFault, match=said):
        audit(shop.workshop(SqlMatcher(query, EXPECTED)), actor="test")
    assert (shop.sql(f"SELECT * FROM {ORDERS}"), shop.decisions()) == before
    shop.sql("DROP SEQUENCE a_counter")


class Colourful(SqlMatcher):
    def match(self, connection, references):
        raise MatcherFault("\x1b[31mred\x07")


def test_control_characters_of_what_a_matcher_says_are_not_repeated(shop):
    with pytest.raises(MatcherFault) as raised:
        shop.run([Row("a", "A")], matcher=Colourful(QUERY))
    assert str(raised.value) == "Colourful.match: \ufffd[31mred\ufffd"
