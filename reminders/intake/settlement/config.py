"""What a reconciliation is set up to do: whose files, in what form, against which orders, and who is told of what."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta
from pathlib import Path

from reminders.calendar.zones import load_zone
from reminders.domain.errors import InvalidInput, SettingsError
from reminders.domain.money import DECIMAL_SEPARATORS
from reminders.domain.request import checked_text
from reminders.domain.settlement import DECISIONS, DecisionName
from reminders.intake.settlement.formats import Format
from reminders.intake.settlement.mapping import DELIMITERS, mapping_format, read_mapping, zone_name
from reminders.intake.settlement.stripe import ORDER_REFERENCE, stripe_format
from reminders.intake.settlement.toml_tables import Table, read_toml

MAX_AGE = timedelta(days=14)
"""Default of `max_age`."""
_OPERATORS = ("tenant_id", "user_id", "destination")
_ENTRY = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
_DATE = "{date}"
_SOURCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Rule:
    """The reminder that one kind of decision makes.

    `due` counts from when the decision was first made; `at` moves it to the next such wall time in the order's zone
    (else in `zone`, else UTC); `expires` counts from there. Tenant, user and destination are an operator's, and given
    for `unknown_order` alone: all other decisions are told to the order's own user.
    """

    kind: str
    channel: str
    due: timedelta = timedelta(0)
    at: time | None = None
    zone: str | None = None
    expires: timedelta | None = None
    tenant_id: str | None = None
    user_id: str | None = None
    destination: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class SqlQueries:
    """The texts of the built-in matcher. `query` takes `:references`; `expected` takes `:before`, `:after`, `:limit`."""

    query: str
    expected: str | None = None


@dataclass(frozen=True, slots=True)
class Nightly:
    """The file that is fetched every night. `at` is a wall time in `zone`; `{date}` in the URL becomes a date there."""

    url: str = field(repr=False)
    """May carry a signature: it belongs into no log, error or message."""
    at: time
    zone: str
    days_ago: int = 0
    """Which date `{date}` is: 0 is the day on which the file is fetched."""

    def url_at(self, now: datetime) -> str:
        """The URL of the file that is fetched at `now`, an aware instant."""
        day = now.astimezone(load_zone(self.zone)).date() - timedelta(days=self.days_ago)
        return self.url.replace(_DATE, day.isoformat())


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """One provider's account: how its files are read, matched and told of.

    `matcher` is a `module:attribute`, or the queries of the built-in one. Decisions without a rule are recorded and not
    told. `grace` is how long a payout may be late; decisions whose payout was longer than `max_age` ago are not told.
    """

    source: str
    format: Format
    matcher: str | SqlQueries
    grace: timedelta
    max_age: timedelta
    rules: Mapping[DecisionName, Rule]
    nightly: Nightly | None


def load_config(path: Path) -> Reconciliation:
    """Read the TOML file of a reconciliation. Raises `SettingsError` that lists every fault of it."""
    values = read_toml(path)
    if isinstance(values.get("format"), str):
        values["format"] = {"name": values["format"]}
    table = Table(values)
    source = table.needed_text("source", _source)
    found = Reconciliation(
        source=source,
        format=_format(table.table("format"), path.parent),
        matcher=_matcher(table.table("matcher")),
        grace=_grace(table),
        max_age=table.duration("max_age", MAX_AGE),
        rules=_rules(table.table("decisions")),
        nightly=_nightly(table.table("nightly")) if "nightly" in table else None,
    )
    table.close(("nightly",))
    if table.faults:
        raise SettingsError("\n".join(f"{path}: {fault}" for fault in table.faults))
    return found


def _format(table: Table, folder: Path) -> Format:
    if "mapping" in table:
        name = table.needed_text("mapping")
        table.close()
        try:
            return mapping_format(folder / name)
        except SettingsError as error:
            table.faults += str(error).splitlines()
            return stripe_format()
    if "columns" in table:
        return read_mapping(table)
    if table.one_of("name", "", ("stripe",)) == "" and "name" not in table:
        table.fault("", 'is missing; write name = "stripe", or mapping = "FILE.toml", or the columns of a mapping')
    found = stripe_format(
        table.text("order_reference", ORDER_REFERENCE),
        table.one_of("decimal_separator", "auto", DECIMAL_SEPARATORS),
        table.one_of("delimiter", ",", DELIMITERS),
    )
    table.close(("mapping", "columns"))
    return found


def _matcher(table: Table) -> str | SqlQueries:
    entry = table.text("entry", None, _entry)
    query = table.text("query", None, _with_names(":references"))
    expected = table.text("expected", None, _with_names(":before", ":after", ":limit"))
    table.close()
    if ("entry" in table) == ("query" in table):
        table.fault("", 'needs either entry = "module:attribute" or query = "SELECT ..."')
    if "entry" in table and "expected" in table:
        table.fault("expected", "belongs to query; the matcher of entry brings its own")
    return entry or SqlQueries(query or "", expected)


def _grace(table: Table) -> timedelta:
    if "grace" not in table:
        table.fault("grace", 'is missing; say how long a payout may be late before its orders are missing, as "3d"')
    return table.duration("grace", timedelta(0))


def _rules(table: Table) -> dict[DecisionName, Rule]:
    rules: dict[DecisionName, Rule] = {}
    for name in DECISIONS:
        if name in table:
            rules[name] = _rule(table.table(name), name)
    table.close(DECISIONS)
    return rules


def _rule(table: Table, name: DecisionName) -> Rule:
    of_operator = name == "unknown_order"
    operators: dict[str, str | None] = dict.fromkeys(_OPERATORS)
    for key in _OPERATORS:
        if of_operator:
            operators[key] = table.needed_text(key, _text_of(key))
        elif key in table:
            table.text(key, "")
            table.fault(key, "belongs to unknown_order alone; all else is told to the user of the order")
    rule = Rule(
        kind=table.needed_text("kind", _text_of("kind")),
        channel=table.needed_text("channel", _text_of("channel")),
        due=table.duration("due", timedelta(0)),
        at=table.wall_time("at", None),
        zone=table.text("zone", None, zone_name),
        expires=table.duration("expires", None, least=timedelta(minutes=1)),
        tenant_id=operators["tenant_id"],
        user_id=operators["user_id"],
        destination=operators["destination"],
    )
    table.close(_OPERATORS)
    if of_operator and rule.at is not None and rule.zone is None:
        table.fault("at", "needs a zone beside it, since there is no order that has one")
    return rule


def _nightly(table: Table) -> Nightly:
    url = table.needed_text("url", _nightly_url)
    at = table.wall_time("at", None)
    zone = table.needed_text("zone", zone_name)
    days_ago = table.whole("days_ago", 0, 0, 31)
    if "at" not in table:
        table.fault("at", 'is missing; write a time of day such as "05:30"')
    table.close()
    return Nightly(url, at or time(0), zone, days_ago)


def _source(text: str) -> str:
    if not _SOURCE.fullmatch(text):
        raise ValueError("must be letters, digits, _, . and -, at most 63, as stripe or stripe-eu")
    return text


def _entry(text: str) -> str:
    if not _ENTRY.fullmatch(text):
        raise ValueError("must be module:attribute, as shop.reconciling:matcher")
    return text


def _with_names(*names: str) -> Callable[[str], str]:
    def check(text: str) -> str:
        for name in names:
            if not re.search(rf"(?<!:){name}\b", text, re.ASCII):
                raise ValueError(f"must use {', '.join(names)}; {name} is not there")
        return text

    return check


def _text_of(name: str) -> Callable[[str], str]:
    def check(text: str) -> str:
        try:
            return checked_text(name, text)
        except InvalidInput as error:
            raise ValueError(error.reason) from None

    return check


def _nightly_url(url: str) -> str:
    # The URL may carry a signature, so no message repeats any of it.
    if not url.startswith("https://") or not url.isprintable() or " " in url:
        raise ValueError("must be an https:// URL")
    if "{" in url.replace(_DATE, "") or "}" in url.replace(_DATE, ""):
        raise ValueError("may have {date} in braces, and nothing else")
    return url
