"""The rules and the dashboard that the documentation ships, and `promtool` where there is one."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

from promql import History
from promql_values import Labels

FOLDER = Path(__file__).parents[1] / "docs" / "monitoring"
RULES = FOLDER / "alerts.yml"
DASHBOARD = FOLDER / "dashboard.json"
MINUTE = 60.0
PROMTOOL = shutil.which("promtool")


def rules() -> dict[str, str]:
    """Every alert's expression, by its name."""
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return {rule["alert"]: rule["expr"] for group in groups for rule in group["rules"]}


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(DASHBOARD.read_text())
    return found


def panel_expressions() -> list[str]:
    """Of every panel's every query, with Grafana's own interval filled in."""
    return [
        target["expr"].replace("$__rate_interval", "5m")
        for panel in dashboard()["panels"]
        for target in panel.get("targets", ())
    ]


def by_promtool(history: History, at: float, expected: dict[str, bool], folder: Path) -> str:
    """What promtool says against the alerts' being active as expected at that time: nothing if it agrees."""
    minutes = int(history.scrapes[-1][0] / MINUTE) + 1
    series: dict[Labels, list[str]] = {}
    for when, scrape in history.scrapes:
        for labels, value in scrape.items():
            series.setdefault(labels, ["_"] * minutes)[int(when / MINUTE)] = f"{value:.17g}".replace("inf", "Inf")
    known = rules()
    test = {
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [
                    {"series": _selector(labels), "values": " ".join(values)} for labels, values in series.items()
                ],
                "promql_expr_test": [
                    {
                        "expr": f"count({known[name]}) > bool 0",
                        "eval_time": f"{at:.0f}s",
                        "exp_samples": [{"labels": "{}", "value": 1}] if active else [],
                    }
                    for name, active in expected.items()
                ],
            }
        ],
    }
    file = folder / "rules_test.yml"
    file.write_text(yaml.safe_dump(test))
    assert PROMTOOL is not None
    done = subprocess.run([PROMTOOL, "test", "rules", str(file)], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def _selector(labels: Labels) -> str:
    known = dict(labels)
    inner = ",".join(f'{name}="{text}"' for name, text in sorted(known.items()) if name != "__name__")
    assert re.fullmatch(r"[a-z_]+", known["__name__"])
    return f"{known['__name__']}{{{inner}}}"
