"""The tests' own PromQL, against values worked out by hand; test_alert_rules.py asks promtool besides, where there is one."""

from __future__ import annotations

import math
import shutil
import subprocess

import pytest
import yaml

from alert_rules import RULES, panel_expressions, rules
from promql import History, evaluate, fires, names, samples
from reminders.operate.metric_names import BY_NAME

SCRAPE = """# TYPE a gauge
a{x="1"} 3
a{x="2"} 5
# TYPE b gauge
b{x="1"} 2
# TYPE c gauge
c 7
# TYPE n gauge
n NaN
# TYPE h histogram
h_bucket{le="1.0"} 5
h_bucket{le="10.0"} 10
h_bucket{le="+Inf"} 10
h_count 10
h_sum 30
"""
ONE, TWO = frozenset({("x", "1")}), frozenset({("x", "2")})
HERE: frozenset[tuple[str, str]] = frozenset()


def history() -> History:
    found = History()
    found.add(0.0, samples(SCRAPE))
    return found


def unnamed(value):
    return {frozenset(p for p in labels if p[0] != "__name__"): number for labels, number in value.items()}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("a", {ONE: 3.0, TWO: 5.0}),
        ('a{x="2"}', {TWO: 5.0}),
        ('a{x!="2"}', {ONE: 3.0}),
        ('a{x=~"1|3"}', {ONE: 3.0}),
        ('a{x!~"1|3"}', {TWO: 5.0}),
        ("a > 3", {TWO: 5.0}),
        ("a > b", {ONE: 3.0}),
        ("a - b", {ONE: 1.0}),
        ("1 - a / 2", {ONE: -0.5, TWO: -1.5}),
        ("-c", {HERE: -7.0}),
        ("2 * (c + 1)", {HERE: 16.0}),
        ("c > 3 * 2", {HERE: 7.0}),
        ("3 * 2 > c", {}),
        ("sum(a)", {HERE: 8.0}),
        ("sum by (x) (a)", {ONE: 3.0, TWO: 5.0}),
        ("max(a) - min(a)", {HERE: 2.0}),
        ("count(a > 9)", {}),
        ("a and b", {ONE: 3.0}),
        ("a unless b", {TWO: 5.0}),
        ("b or a", {ONE: 2.0, TWO: 5.0}),
        ("a > 100 or a < 4", {ONE: 3.0}),
        ("absent(none)", {HERE: 1.0}),
        ("absent(a == 3)", {}),
        ("n > 0", {}),
        ("histogram_quantile(0.5, h_bucket)", {HERE: 1.0}),
        ("histogram_quantile(0.75, sum by (le) (h_bucket))", {HERE: 5.5}),
    ],
)
def test_expressions(expression, expected):
    assert unnamed(evaluate(expression, history(), 0.0)) == expected


def test_an_increase_is_estimated_over_the_whole_range():
    found = History()
    for minute, value in enumerate((100, 100, 106, 2, 4)):  # a restart after the third
        found.add(60.0 * minute, samples(f"# TYPE x gauge\nx {value}\n"))
    # Ten in four minutes of samples; the range reaches no further than half a step before the first of them.
    assert evaluate("increase(x[4m])", found, 240.0) == {HERE: pytest.approx(10.0)}
    assert evaluate("rate(x[4m])", found, 240.0) == {HERE: pytest.approx(10.0 / 240.0)}
    assert evaluate("increase(x[10m])", found, 240.0) == {HERE: pytest.approx(10.0 * 270.0 / 240.0)}
    assert evaluate("increase(x[30s])", found, 240.0) == {}


def test_what_was_not_scraped_for_five_minutes_is_not_there():
    assert unnamed(evaluate("c", history(), 300.0)) == {HERE: 7.0}
    assert evaluate("c", history(), 301.0) == {}


def test_division_by_nothing_is_no_number_and_fires_nothing():
    nothing = samples("# TYPE x gauge\nx 0\n")
    found = History([(0.0, nothing)])
    assert math.isnan(next(iter(evaluate("x / x", found, 0.0).values())))  # type: ignore[union-attr]
    assert not fires("1 - x / x > 0", found, 0.0)


@pytest.mark.parametrize(
    "unknown", ["delta(c[5m])", "c offset 5m", "a * on (x) b", "topk(1, a)", "c[5m]", "(c", "c and 1"]
)
def test_what_is_not_known_is_an_error(unknown):
    with pytest.raises((ValueError, TypeError)):
        evaluate(unknown, history(), 0.0)


def series_of(name: str) -> set[str]:
    """The names that the samples of a metric have."""
    if BY_NAME[name].kind == "histogram":
        return {f"{name}{end}" for end in ("_bucket", "_count", "_sum")}
    return {name}


def test_rules_and_dashboard_name_metrics_that_exist_and_the_dashboard_shows_all():
    known = set().union(*map(series_of, BY_NAME))
    alerts = set().union(*(names(text) for text in rules().values()))
    shown = set().union(*map(names, panel_expressions()))
    assert alerts <= known
    assert shown <= known
    assert {name for name in BY_NAME if not series_of(name) & shown} == set()


@pytest.mark.parametrize("expression", panel_expressions())
def test_every_panel_can_be_evaluated(expression):
    assert isinstance(evaluate(expression, history(), 0.0), dict)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool here")
def test_promtool_takes_the_rules_and_what_the_dashboard_asks(tmp_path):
    asked = tmp_path / "panels.yml"
    recorded = [{"record": f"panel_{n}", "expr": text} for n, text in enumerate(panel_expressions())]
    asked.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": recorded}]}))
    for file in (RULES, asked):
        done = subprocess.run(["promtool", "check", "rules", str(file)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
