"""app.json is one that Heroku can read, and starts what the Procfile has with settings that there are."""

import json
from dataclasses import fields
from pathlib import Path

import pytest

from reminders.settings import PREFIX, Settings, load

ROOT = Path(__file__).parents[2]
APP = json.loads((ROOT / "app.json").read_text())
LINES = dict(line.split(": ", 1) for line in (ROOT / "Procfile").read_text().splitlines())
GIVEN_BY_ADDONS = {"DATABASE_URL", "REDIS_URL"}


def test_each_line_is_in_the_formation_and_the_release_phase_migrates():
    assert set(APP["formation"]) == set(LINES) - {"release"}
    assert LINES["release"] == "exec reminders migrate"
    assert all(set(each) == {"quantity", "size"} and each["quantity"] >= 1 for each in APP["formation"].values())


def test_the_addons_give_both_servers():
    assert [each["plan"].partition(":")[0] for each in APP["addons"]] == ["heroku-postgresql", "heroku-redis"]


@pytest.mark.parametrize("name", [name for name in APP["env"] if name.startswith(PREFIX)])
def test_each_variable_is_a_setting(name):
    assert name.removeprefix(PREFIX).lower() in {field.name for field in fields(Settings)}
    given = APP["env"][name]
    assert given["description"]
    assert {"generator", "value", "required"} & set(given)


def test_what_it_sets_can_be_loaded():
    values = {name: each["value"] for name, each in APP["env"].items() if "value" in each}
    generated = {name: "0123456789abcdef" * 4 for name, each in APP["env"].items() if each.get("generator") == "secret"}
    asked = {"REMINDERS_FLOWER_AUTH": "operator:long-enough"}
    needed = {name for name, each in APP["env"].items() if each.get("required")}
    assert needed == set(asked)
    settings = load({**values, **generated, **asked, "REDIS_URL": "rediss://h:1", "DATABASE_URL": "postgres://u@h/d"})
    assert (settings.redis_ca, settings.log) == ("unverified", "json")
    assert settings.grace < 30  # what Heroku waits after SIGTERM
