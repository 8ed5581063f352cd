"""The part of PromQL that our rules and dashboard use, evaluated as Prometheus does. `promtool`, where there is one, is asked
whether it agrees (test_alert_rules.py).

Known: numbers, + - * /, comparisons that filter, `and`, `or`, `unless`, selectors with matchers and ranges, `sum`, `min`, `max`
and `count` with `by`, `rate`, `increase`, `absent`, `histogram_quantile`. Anything else is an error, not a guess.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

LOOKBACK = 300.0
Labels = frozenset[tuple[str, str]]
Vector = dict[Labels, float]
Value = float | Vector

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
    """What the expression is at that time. Raises `ValueError` for what is not known here."""
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


_WORDS = {"and", "or", "unless", "by"}


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
            right = _vector(self._both())
            known = {_unnamed(labels) for labels in _vector(left)}
            left = {**_vector(left), **{k: v for k, v in right.items() if _unnamed(k) not in known}}
        return left

    def _both(self) -> Value:
        left = self._compared()
        while self._next() in {"and", "unless"}:
            wanted = self._take("and", "unless") == "and"
            others = {_unnamed(labels) for labels in _vector(self._compared())}
            left = {k: v for k, v in _vector(left).items() if (_unnamed(k) in others) is wanted}
        return left

    def _compared(self) -> Value:
        left = self._summed()
        while self._next() in _COMPARE:
            holds = _COMPARE[self._take(*_COMPARE)]
            right = self._summed()
            if isinstance(left, dict):
                left = {k: v for k, v in left.items() if (o := _other(right, k)) is not None and holds(v, o)}
            else:
                left = {k: v for k, v in _vector(right).items() if holds(left, v)}
        return left

    def _summed(self) -> Value:
        left = self._multiplied()
        while self._next() in {"+", "-"}:
            left = _apply({"+": operator.add, "-": operator.sub}[self._take("+", "-")], left, self._multiplied())
        return left

    def _multiplied(self) -> Value:
        left = self._single()
        while self._next() in {"*", "/"}:
            left = _apply({"*": operator.mul, "/": _divide}[self._take("*", "/")], left, self._single())
        return left

    def _single(self) -> Value:
        if self._next() == "-":
            self._place += 1
            return _apply(operator.mul, -1.0, self._single())
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
        if text in _AGGREGATES:
            return self._aggregated(text)
        if self._next() == "(":
            return self._called(text)
        return self._selected(text, range_wanted=False)

    def _aggregated(self, name: str) -> Vector:
        by = self._by()
        self._take("(")
        value = _vector(self.either())
        self._take(")")
        by = by or self._by()
        groups: dict[Labels, list[float]] = {}
        for labels, each in value.items():
            groups.setdefault(frozenset(pair for pair in labels if pair[0] in by), []).append(each)
        return {labels: _AGGREGATES[name](values) for labels, values in groups.items()}

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
            value = {} if _vector(self.either()) else {frozenset(): 1.0}
        elif name == "histogram_quantile":
            share = self.either()
            self._take(",")
            assert isinstance(share, float)
            value = _quantiles(share, _vector(self.either()))
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
                increase = _extrapolated(points, self._at - span, self._at)
                found[_unnamed(labels)] = increase if function == "increase" else increase / span
        return found


def _extrapolated(points: Sequence[tuple[float, float]], start: float, end: float) -> float:
    """The increase over the whole range, as Prometheus estimates it from the points in it; a fall is a restart."""
    increase = sum(
        after - before if after >= before else after
        for (_, before), (_, after) in zip(points, points[1:], strict=False)
    )
    sampled = points[-1][0] - points[0][0]
    average = sampled / (len(points) - 1)
    to_start, to_end = points[0][0] - start, end - points[-1][0]
    if increase > 0 and points[0][1] >= 0:
        to_start = min(to_start, sampled * (points[0][1] / increase))
    covered = sampled
    covered += to_start if to_start < average * 1.1 else average / 2
    covered += to_end if to_end < average * 1.1 else average / 2
    return increase * covered / sampled


def _quantiles(share: float, buckets: Vector) -> Vector:
    groups: dict[Labels, list[tuple[float, float]]] = {}
    for labels, value in buckets.items():
        bound = next(float(text) for name, text in labels if name == "le")
        groups.setdefault(frozenset(p for p in labels if p[0] not in {"le", "__name__"}), []).append((bound, value))
    found = {}
    for labels, steps in groups.items():
        steps.sort()
        wanted = share * steps[-1][1]
        before = (0.0, 0.0)
        for bound, reached in steps:
            if reached >= wanted:
                width = 0.0 if math.isinf(bound) or reached == before[1] else bound - before[0]
                part = (wanted - before[1]) / (reached - before[1]) if reached > before[1] else 0.0
                found[labels] = before[0] + width * part
                break
            before = (bound, reached)
    return found


_AGGREGATES: Mapping[str, Callable[[Iterable[float]], float]] = {
    "sum": sum, "min": min, "max": max, "count": lambda values: float(len(list(values))),
}  # fmt: skip


def _fits(labels: Labels, matchers: Iterable[tuple[str, str, str]]) -> bool:
    known = dict(labels)
    return all(_MATCH[sign](known.get(label, ""), text) for label, sign, text in matchers)


def _unnamed(labels: Labels) -> Labels:
    return frozenset(pair for pair in labels if pair[0] != "__name__")


def _vector(value: Value) -> Vector:
    if not isinstance(value, dict):
        raise ValueError("a vector is wanted")
    return value


def _other(value: Value, labels: Labels) -> float | None:
    """What stands against a series: a number, or the series with the same labels."""
    if isinstance(value, float):
        return value
    return next((number for other, number in value.items() if _unnamed(other) == _unnamed(labels)), None)


def _apply(what: Callable[[float, float], float], left: Value, right: Value) -> Value:
    if isinstance(left, float) and isinstance(right, float):
        return what(left, right)
    if isinstance(left, float):
        return {_unnamed(k): what(left, v) for k, v in _vector(right).items()}
    return {_unnamed(k): what(v, o) for k, v in left.items() if (o := _other(right, k)) is not None}


def _divide(left: float, right: float) -> float:
    if right == 0:
        return math.nan if left == 0 or math.isnan(left) else math.copysign(math.inf, left)
    return left / right
