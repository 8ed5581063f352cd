"""How channels are found, and the `log` channel, which is the smallest of them."""

from __future__ import annotations

import logging
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import EntryPoint
from uuid import UUID

import pytest

from reminders.domain.delivery import Delivery
from reminders.domain.errors import InvalidInput, SettingsError
from reminders.domain.outcomes import Delivered
from reminders.providers import registry
from reminders.settings import Secret, Settings


@pytest.fixture
def installed(monkeypatch):
    """Replaces what is installed by the given entry points."""

    def install(*points):
        monkeypatch.setattr(registry, "entry_points", lambda **_: [EntryPoint(n, v, registry.GROUP) for n, v in points])
        registry._installed.cache_clear()
        registry.load.cache_clear()

    yield install
    monkeypatch.undo()
    registry._installed.cache_clear()
    registry.load.cache_clear()


def test_the_built_in_channels_are_installed():
    assert {"log", "sms", "webhook"} <= set(registry.channels())
    assert list(registry.channels()) == sorted(registry.channels())


@pytest.mark.parametrize("name", ["log", "webhook"])
def test_a_provider_has_what_the_pipeline_asks_for(name):
    provider = registry.load(name, Settings())
    assert (provider.channel, provider.deduplicates, provider.body_format) == (name, True, 1)
    assert registry.load(name, Settings()) is provider
    assert registry.load("webhook", Settings(webhook_secret=Secret("s" * 24))) is not provider


@pytest.mark.parametrize("name", ["fax", "", "Webhook", "log ", "\ud800", "x" * 10_000])
def test_an_unknown_channel_is_refused_with_the_known_ones(name):
    with pytest.raises(InvalidInput) as refusal:
        registry.load(name, Settings())
    assert refusal.value.field == "channel"
    assert f"known channels: {', '.join(registry.channels())}" in refusal.value.reason
    assert len(refusal.value.reason) < 200


def test_two_packages_that_offer_one_channel_are_refused(installed):
    installed(("fax", "one.fax:provider"), ("fax", "two.fax:provider"))
    assert registry.channels() == ("fax",)
    with pytest.raises(SettingsError, match=r"offered by several packages \(one.fax:provider, two.fax:provider\)"):
        registry.load("fax", Settings())


@pytest.mark.parametrize("value", ["no_such_module_here:provider", "reminders.providers.log:no_such_name"])
def test_a_channel_that_cannot_be_loaded_says_where_from(installed, value):
    installed(("fax", value))
    with pytest.raises(SettingsError, match=f"channel fax cannot be loaded from {value}"):
        registry.load("fax", Settings())


def test_a_provider_under_a_foreign_name_is_refused(installed):
    installed(("fax", "reminders.providers.log:provider"))
    with pytest.raises(SettingsError, match="calls itself 'log'"):
        registry.load("fax", Settings())


def test_importing_and_validating_loads_neither_celery_nor_http():
    program = (
        "import sys\n"
        "from reminders.providers import registry\n"
        "from reminders.settings import Settings\n"
        "registry.channels()\n"
        "registry.load('webhook', Settings()).check_destination('https://example.com/')\n"
        "unwanted = {'celery', 'kombu', 'redis', 'reminders.providers.http_client'}\n"
        "print(sorted(unwanted & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"


DELIVERY = Delivery(
    reminder_id=UUID(int=1),
    delivery_key="rk_abc",
    tenant_id="acme",
    user_id="anna",
    kind="invoice",
    channel="log",
    destination_id=UUID(int=2),
    destination="secret place",
    due_at=datetime(2026, 11, 29, tzinfo=UTC),
    zone=None,
    reference=None,
    slot="",
    data={"private": "thing"},
    attempt=1,
    body_format=1,
)


def test_log_writes_one_line_with_key_and_kind_only(caplog):
    provider = registry.load("log", Settings())
    with caplog.at_level(logging.INFO, logger="reminders.delivery"):
        result = provider.send(DELIVERY, provider.render(DELIVERY), 1.0)
    assert result == Delivered(reference="rk_abc")
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", "reminder due key=rk_abc kind=invoice")
    ]


@pytest.mark.parametrize(
    ("destination", "accepted"), [("console", True), ("x" * 200, True), ("", False), (" ", False), ("x" * 201, False)]
)
def test_log_destinations(destination, accepted):
    provider = registry.load("log", Settings())
    if accepted:
        provider.check_destination(destination)
    else:
        with pytest.raises(InvalidInput, match=r"^destination: must have 1 to 200 characters"):
            provider.check_destination(destination)


class Whole:
    channel, deduplicates, body_format = "fax", True, 1

    def ready(self): ...

    def check_destination(self, destination): ...

    def render(self, delivery): ...

    def send(self, delivery, body, deadline): ...


def made_by(factory, monkeypatch, installed):
    monkeypatch.setattr(sys.modules[__name__], "FACTORY", factory, raising=False)
    installed(("fax", f"{__name__}:FACTORY"))
    monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])
    return registry.load("fax", Settings())


def test_what_has_the_form_of_a_provider_is_taken(installed, monkeypatch):
    assert isinstance(made_by(lambda _: Whole(), monkeypatch, installed), Whole)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"deduplicates": "no"}, "must have a bool as deduplicates"),
        ({"deduplicates": None}, "must have a bool as deduplicates"),
        ({"body_format": "1"}, "1 or more as body_format"),
        ({"body_format": True}, "1 or more as body_format"),
        ({"body_format": 0}, "1 or more as body_format"),
        ({"body_format": 2**31}, "1 or more as body_format"),
        ({"channel": None}, "calls itself None"),
        ({"look_up": None}, "it has look_up, and looks_up is None"),
        ({"look_up": None, "looks_up": True}, "settle is None, not a number of seconds"),
        ({"look_up": None, "looks_up": True, "settle": float("inf")}, "settle is inf"),
        ({"look_up": None, "looks_up": True, "settle": True}, "settle is True"),
        ({"template_parts": ("text",)}, "cannot have templates: template_parts must say"),
        ({"template_parts": {"body": "required"}}, "cannot have templates"),
        ({"template_parts": {"text": True}}, "cannot have templates"),
    ],
)
def test_what_the_ledger_could_not_keep_is_refused(installed, monkeypatch, changed, words):
    other = type("Other", (Whole,), changed)
    with pytest.raises(SettingsError, match=words):
        made_by(lambda _: other(), monkeypatch, installed)


def test_what_lacks_parts_is_refused_with_their_names(installed, monkeypatch):
    class Half:
        channel, body_format = "fax", 1

    with pytest.raises(SettingsError, match="lacks deduplicates, ready, check_destination, render, send; see docs"):
        made_by(lambda _: Half(), monkeypatch, installed)
    with pytest.raises(SettingsError, match="lacks channel"):
        made_by(lambda _: None, monkeypatch, installed)


def test_a_factory_that_raises_is_a_fault_of_the_installation_and_discloses_nothing(installed, monkeypatch):
    def factory(_):
        raise ValueError("token hunter22")

    with pytest.raises(SettingsError, match=f"channel fax by {__name__}:FACTORY raised ValueError$"):
        made_by(factory, monkeypatch, installed)


def test_a_module_that_raises_when_it_is_imported_is_one_too(installed, tmp_path, monkeypatch):
    (tmp_path / "broken_fax.py").write_text("raise ValueError('hunter22')\n")
    monkeypatch.syspath_prepend(tmp_path)
    installed(("fax", "broken_fax:provider"))
    with pytest.raises(SettingsError, match=r"importing broken_fax:provider for channel fax raised ValueError$"):
        registry.load("fax", Settings())


def test_what_authors_import_from_us_is_all_there():
    import reminders.providers as public

    assert [name for name in public.__all__ if not hasattr(public, name)] == []
    with pytest.raises(AttributeError, match="no attribute 'Telex'"):
        public.Telex  # noqa: B018
