"""The part of PromQL that our rules and dashboard use, evaluated as Prometheus does. `promtool`, where there is one, is asked
whether it agrees (test_alert_rules.py).

Known: numbers, + - * /, comparisons that filter, `and`, `or`, `unless`, selectors with matchers and ranges, `sum`, `min`, `max`
and `count` with `by`, `rate`, `increase`, `absent`, `histogram_quantile`. Anything else is an error, not a guess.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

from promql_values import (
    AGGREGATES,
    Labels,
    Value,
    Vector,
    apply,
    divide,
    extrapolated,
    other,
    quantiles,
    unnamed,
    vector,
)

LOOKBACK = 300.0
_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?(?![\w.]))|(?P<duration>\d+[smhdw])|(?P<word>[a-zA-Z_:][\w:]*)"
    r'|(?P<text>"(?:[^"\\]|\\.)*")|(?P<sign>>=|<=|==|!=|=~|!~|[-+*/<>=(){}\[\],]))'
)
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt, "<": operator.lt, ">=": operator.ge, "<=": operator.le, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
_MATCH: dict[str, Callable[[str, str], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "=~": lambda text, pattern: re.fullmatch(pattern, text) is not None,
    "!~": lambda text, pattern: re.fullmatch(pattern, text) is None,
}


def samples(text: str) -> Vector:
    """One scrape; the name is a label, as in Prometheus."""
    return {
        frozenset({("__name__", each.name), *each.labels.items()}): each.value
        for family in text_string_to_metric_families(text)
        for each in family.samples
    }


@dataclass
class History:
    """Scrapes with their times, in seconds, oldest first."""

    scrapes: list[tuple[float, Vector]] = field(default_factory=list)

    def add(self, at: float, scrape: Vector) -> None:
        self.scrapes.append((at, scrape))

    def series(self, since: float, until: float) -> dict[Labels, list[tuple[float, float]]]:
        found: dict[Labels, list[tuple[float, float]]] = {}
        for at, scrape in self.scrapes:
            if since <= at <= until:
                for labels, value in scrape.items():
                    found.setdefault(labels, []).append((at, value))
        return found


def evaluate(expression: str, history: History, at: float) -> Value:
    """What the expression is at that time. Raises `ValueError` or `TypeError` for what is not known here."""
    parser = _Parser(_tokens(expression), history, at)
    value = parser.either()
    if parser.rest():
        raise ValueError(f"not understood: {parser.rest()!r} in {expression!r}")
    return value


def fires(expression: str, history: History, at: float) -> bool:
    """Whether an alert with this expression is active."""
    value = evaluate(expression, history, at)
    assert isinstance(value, dict), "an alert's expression is a vector"
    return bool(value)


def names(expression: str) -> set[str]:
    """The metrics it selects."""
    tokens = _tokens(expression)
    following = [*tokens[1:], ("end", "")]
    grouping = set()
    for number, (kind, text) in enumerate(tokens):
        if (kind, text) == ("word", "by"):
            end = next(n for n in range(number, len(tokens)) if tokens[n][1] == ")")
            grouping |= set(range(number, end))
    inside = False
    found = set()
    for number, ((kind, text), (_, after)) in enumerate(zip(tokens, following, strict=True)):
        inside = (inside or text == "{") and text != "}"
        if kind == "word" and not inside and number not in grouping and after != "(" and text not in _WORDS:
            found.add(text)
    return found


_WORDS = {"and", "or", "unless", "by", *AGGREGATES}


def _tokens(expression: str) -> list[tuple[str, str]]:
    found, place = [], 0
    text = expression.rstrip()
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise ValueError(f"not understood at {text[place:]!r}")
        found.append((str(match.lastgroup), match[match.lastgroup or 0]))
        place = match.end()
    return found


class _Parser:
    """Reads and evaluates at once, weakest binding first."""

    def __init__(self, tokens: Sequence[tuple[str, str]], history: History, at: float) -> None:
        self._tokens, self._place, self._history, self._at = tokens, 0, history, at

    def rest(self) -> str:
        return " ".join(text for _, text in self._tokens[self._place :])

    def _next(self) -> str:
        return self._tokens[self._place][1] if self._place < len(self._tokens) else ""

    def _take(self, *wanted: str) -> str:
        text = self._next()
        if text not in wanted:
            raise ValueError(f"{wanted} wanted, not {self.rest()!r}")
        self._place += 1
        return text

    def _kind(self) -> str:
        return self._tokens[self._place][0] if self._place < len(self._tokens) else "end"

    def either(self) -> Value:
        left = self._both()
        while self._next() == "or":
            self._place += 1
            right = vector(self._both())
            known = {unnamed(labels) for labels in vector(left)}
            left = {**vector(left), **{k: v for k, v in right.items() if unnamed(k) not in known}}
        return left

    def _both(self) -> Value:
        left = self._compared()
        while self._next() in {"and", "unless"}:
            wanted = self._take("and", "unless") == "and"
            others = {unnamed(labels) for labels in vector(self._compared())}
            left = {k: v for k, v in vector(left).items() if (unnamed(k) in others) is wanted}
        return left

    def _compared(self) -> Value:
        left = self._summed()
        while self._next() in _COMPARE:
            holds = _COMPARE[self._take(*_COMPARE)]
            right = self._summed()
            if isinstance(left, dict):
                left = {k: v for k, v in left.items() if (o := other(right, k)) is not None and holds(v, o)}
            else:
                left = {k: v for k, v in vector(right).items() if holds(left, v)}
        return left

    def _summed(self) -> Value:
        left = self._multiplied()
        while self._next() in {"+", "-"}:
            left = apply({"+": operator.add, "-": operator.sub}[self._take("+", "-")], left, self._multiplied())
        return left

    def _multiplied(self) -> Value:
        left = self._single()
        while self._next() in {"*", "/"}:
            left = apply({"*": operator.mul, "/": divide}[self._take("*", "/")], left, self._single())
        return left

    def _single(self) -> Value:
        if self._next() == "-":
            self._place += 1
            return apply(operator.mul, -1.0, self._single())
        if self._next() == "(":
            self._place += 1
            value = self.either()
            self._take(")")
            return value
        kind, text = self._kind(), self._next()
        self._place += 1
        if kind == "number":
            return float(text)
        if kind != "word":
            raise ValueError(f"not understood: {text!r}")
        if text in AGGREGATES:
            return self._aggregated(text)
        if self._next() == "(":
            return self._called(text)
        return self._selected(text, range_wanted=False)

    def _aggregated(self, name: str) -> Vector:
        by = self._by()
        self._take("(")
        value = vector(self.either())
        self._take(")")
        by = by or self._by()
        groups: dict[Labels, list[float]] = {}
        for labels, each in value.items():
            groups.setdefault(frozenset(pair for pair in labels if pair[0] in by), []).append(each)
        return {labels: AGGREGATES[name](values) for labels, values in groups.items()}

    def _by(self) -> set[str]:
        if self._next() != "by":
            return set()
        self._place += 1
        self._take("(")
        found = set()
        while self._next() != ")":
            found.add(self._next())
            self._place += 1
            if self._next() == ",":
                self._place += 1
        self._take(")")
        return found

    def _called(self, name: str) -> Value:
        self._take("(")
        if name in {"rate", "increase"}:
            metric = self._next()
            self._place += 1
            value: Value = self._ranged(name, metric)
        elif name == "absent":
            value = {} if vector(self.either()) else {frozenset(): 1.0}
        elif name == "histogram_quantile":
            share = self.either()
            self._take(",")
            assert isinstance(share, float)
            value = quantiles(share, vector(self.either()))
        else:
            raise ValueError(f"{name} is not known here")
        self._take(")")
        return value

    def _matchers(self, name: str) -> list[tuple[str, str, str]]:
        found = [("__name__", "=", name)]
        if self._next() == "{":
            self._place += 1
            while self._next() != "}":
                label = self._next()
                self._place += 1
                sign = self._take(*_MATCH)
                found.append((label, sign, self._next()[1:-1]))
                self._place += 1
                if self._next() == ",":
                    self._place += 1
            self._take("}")
        return found

    def _selected(self, name: str, *, range_wanted: bool) -> Vector:
        matchers = self._matchers(name)
        if range_wanted or self._next() == "[":
            raise ValueError(f"{name}: a range is not for here")
        found: Vector = {}
        for labels, points in self._history.series(self._at - LOOKBACK, self._at).items():
            if _fits(labels, matchers):
                found[labels] = points[-1][1]
        return found

    def _ranged(self, function: str, name: str) -> Vector:
        matchers = self._matchers(name)
        self._take("[")
        text = self._next()
        self._place += 1
        self._take("]")
        span = float(text[:-1]) * _SECONDS[text[-1]]
        found = {}
        for labels, points in self._history.series(self._at - span, self._at).items():
            if _fits(labels, matchers) and len(points) >= 2:
                increase = extrapolated(points, self._at - span, self._at)
                found[unnamed(labels)] = increase if function == "increase" else increase / span
        return found


def _fits(labels: Labels, matchers: Iterable[tuple[str, str, str]]) -> bool:
    known = dict(labels)
    return all(_MATCH[sign](known.get(label, ""), text) for label, sign, text in matchers)
