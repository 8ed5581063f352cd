"""What a matcher does that it must not: it ends the process, or its query writes."""

import pytest

from integration.settlement.shop import EXPECTED, ORDERS, QUERY, Row
from reminders.domain.errors import SettingsError
from reminders.intake.settlement.auditing import audit
from reminders.intake.settlement.matching import MatcherFault, SqlMatcher, load_matcher
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
