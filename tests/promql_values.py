"""What a parsed PromQL expression computes with: series by their labels, and Prometheus's functions over them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise

Labels = frozenset[tuple[str, str]]
Vector = dict[Labels, float]
Value = float | Vector


def extrapolated(points: Sequence[tuple[float, float]], start: float, end: float) -> float:
    """The increase over the whole range, as Prometheus estimates it from the points in it; a fall is a restart."""
    increase = sum(after - before if after >= before else after for (_, before), (_, after) in pairwise(points))
    sampled = points[-1][0] - points[0][0]
    average = sampled / (len(points) - 1)
    to_start, to_end = points[0][0] - start, end - points[-1][0]
    if increase > 0 and points[0][1] >= 0:
        to_start = min(to_start, sampled * (points[0][1] / increase))
    covered = sampled
    covered += to_start if to_start < average * 1.1 else average / 2
    covered += to_end if to_end < average * 1.1 else average / 2
    return increase * covered / sampled


def quantiles(share: float, buckets: Vector) -> Vector:
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


AGGREGATES: Mapping[str, Callable[[Iterable[float]], float]] = {
    "sum": sum, "min": min, "max": max, "count": lambda values: float(len(list(values))),
}  # fmt: skip


def unnamed(labels: Labels) -> Labels:
    return frozenset(pair for pair in labels if pair[0] != "__name__")


def vector(value: Value) -> Vector:
    if not isinstance(value, dict):
        raise TypeError("a vector is wanted")
    return value


def other(value: Value, labels: Labels) -> float | None:
    """What stands against a series: a number, or the series with the same labels."""
    if isinstance(value, float):
        return value
    return next((number for other, number in value.items() if unnamed(other) == unnamed(labels)), None)


def apply(what: Callable[[float, float], float], left: Value, right: Value) -> Value:
    if isinstance(left, float) and isinstance(right, float):
        return what(left, right)
    if isinstance(left, float):
        return {unnamed(k): what(left, v) for k, v in vector(right).items()}
    return {unnamed(k): what(v, o) for k, v in left.items() if (o := other(right, k)) is not None}


def divide(left: float, right: float) -> float:
    if right == 0:
        return math.nan if left == 0 or math.isnan(left) else math.copysign(math.inf, left)
    return left / right
