"""The environment: typed, every fault at once, secrets never shown, bad combinations named."""

from __future__ import annotations

import base64
import logging
from dataclasses import fields
from pathlib import Path

import pytest

from reminders.domain.errors import SettingsError
from reminders.settings import PREFIX, Secret, Settings, load
from reminders.settings_addresses import check_addresses

SECRETS = {
    "DATABASE_URL": "postgresql://u:hunter22@h/d",
    "REDIS_URL": "rediss://:hunter22@h",
    "REMINDERS_WEBHOOK_SECRET": "hunter22-hunter22-hunter22",
    "REMINDERS_FLOWER_AUTH": "ops:hunter22",
    "REMINDERS_SMS_URL": "twilio://AC17:hunter22@gateway?from=Acme",
    "REMINDERS_RECONCILE_TOKEN": "files.example.com:hunter22",
    "REMINDERS_SMTP_URL": "smtp://shop:hunter22@mail.example",
    "REMINDERS_KEYS": "hunter22hunter22hunter22hunter22hunter22hun=",
}


def faults(**environ: str) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        load({PREFIX + name: value for name, value in environ.items()})
    return str(caught.value).splitlines()


def test_an_empty_environment_gives_what_is_documented():
    found = load({})
    assert (found.lease, found.claim, found.redeliver, found.visibility) == (60, 30, 120, 600)
    assert (found.dedup_window, found.max_wait, found.grace) == (7 * 86400, 72 * 3600, 20)
    assert found.retention == 90 * 86400
    assert (found.reconcile, found.reconcile_bearers, found.reconcile_keep) == (None, {}, 730 * 86400)
    assert (found.scan_every, found.batch, found.http_deadline) == (60, 500, 10)
    assert (found.home, found.schema) == (Path(".reminders"), "reminders")
    assert found.in_flight_limit == 4 * found.processes * found.concurrency


def test_an_empty_value_is_no_value():
    assert load({"REMINDERS_LEASE": "", "DATABASE_URL": "", "REMINDERS_SCHEMA": ""}) == Settings()


def test_values_are_typed():
    found = load(
        {
            "REMINDERS_LEASE": "90s",
            "REMINDERS_BATCH": "7",
            "REMINDERS_RETRY_DELAYS": "1s, 2m 3h",
            "REMINDERS_ALLOW_PRIVATE": "Yes",
            "REMINDERS_IN_FLIGHT": "12",
            "REMINDERS_HOME": "/srv/x",
        }
    )
    assert (found.lease, found.batch, found.retry_delays) == (90.0, 7, (1.0, 120.0, 10800.0))
    assert (found.allow_private, found.in_flight_limit, found.home) == (True, 12, Path("/srv/x"))


def test_every_fault_is_reported_at_once_under_its_name():
    lines = faults(LEASE="soon", BATCH="0", ALLOW_PRIVATE="maybe", SCHEMA="Bad-Name", FLOWER_EVENTS="some")
    named = [line.partition(":")[0] for line in lines]
    assert sorted(named) == sorted(
        PREFIX + name for name in ("LEASE", "BATCH", "ALLOW_PRIVATE", "SCHEMA", "FLOWER_EVENTS")
    )


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("BATCH", "-1"), ("BATCH", "1.5"), ("BATCH", "٣"), ("BATCH", "10001"), ("CONCURRENCY", "0"), ("PROCESSES", "65"),
        ("LEASE", "-1s"), ("LEASE", "0"), ("LEASE", "2h"), ("CLAIM", "inf"), ("HTTP_DEADLINE", "0"), ("MAX_WAIT", "367d"),
        ("RETRY_DELAYS", " "), ("RETRY_DELAYS", "5s,soon"), ("RETRY_DELAYS", "-5s"), ("MAX_ATTEMPTS", "0"),
        ("SCHEMA", "pg_own"), ("SCHEMA", "a;b"), ("SCHEMA", "x" * 32), ("SCHEMA", "1a"), ("SCHEMA", 'a"b'), ("SCHEMA", "Ä"),
        ("WEBHOOK_SECRET", "short"), ("FLOWER_AUTH", "nopassword"), ("FLOWER_AUTH", ":longenough"), ("FLOWER_AUTH", "a:short"),
        ("ALLOW_PRIVATE", "2"), ("RETENTION", "90"), ("RETENTION", "23h"), ("RETENTION", "for ever"),
        ("SMTP_URL", "http://h"), ("MAIL_FROM", "Shop"), ("UNSUBSCRIBE_URL", "http://shop.example/u"),
    ],
)  # fmt: skip
def test_a_bad_value_is_refused(name, bad):
    (line,) = faults(**{name: bad})
    assert line.startswith(PREFIX + name)


@pytest.mark.parametrize(
    ("environ", "names"),
    [
        ({"HTTP_DEADLINE": "25s", "GRACE": "60s"}, ("HTTP_DEADLINE", "CLAIM")),
        ({"HTTP_DEADLINE": "15s"}, ("HTTP_DEADLINE", "GRACE")),
        ({"CLAIM": "10m"}, ("CLAIM", "VISIBILITY")),
        ({"DEDUP_WINDOW": "71h"}, ("DEDUP_WINDOW", "MAX_WAIT")),
        ({"RETENTION": "6d"}, ("RETENTION", "DEDUP_WINDOW")),
        ({"RETRY_DELAYS": "5s,73h"}, ("RETRY_DELAYS", "MAX_WAIT")),
    ],
)
def test_a_bad_combination_names_both(environ, names):
    lines = faults(**environ)
    assert any(all(PREFIX + name in line for name in names) for line in lines)


ONE, OTHER = (base64.urlsafe_b64encode(bytes([number]) * 32).decode() for number in (1, 2))


@pytest.mark.parametrize("text", [f"{ONE},{OTHER}", f" {ONE} \n {OTHER},", f"{ONE}, {OTHER}"])
def test_keys_are_a_list_newest_first(text):
    assert load({"REMINDERS_KEYS": text}).keys == (Secret(ONE), Secret(OTHER))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{ONE},{OTHER[:-2]}", "key 2 is not 32 bytes"), (f"{ONE}{OTHER}", "key 1 is not 32 bytes"), ("x" * 44, "key 1 is not"),
        (f"{ONE} {OTHER} {ONE}", "key 3 is there twice"), (" , ", "is empty"), ("ä" * 43 + "=", "key 1 is not"),
    ],
)  # fmt: skip
def test_the_fault_of_keys_is_named_and_no_key_repeated(text, said):
    (line,) = faults(KEYS=text)
    assert said in line
    assert not any(key[:12] in line for key in text.replace(",", " ").split())


@pytest.mark.parametrize("shown", [repr, str, lambda found: "%s" % found, lambda found: f"{found!r}"])  # noqa: UP031
def test_no_secret_shows_in_any_print(shown):
    text = shown(load(SECRETS))
    assert "hunter" not in text
    assert "***" in text


@pytest.mark.parametrize("name", SECRETS)
def test_no_secret_shows_in_an_error(name):
    bad = "hunter2"
    try:
        load({**SECRETS, name: bad})
    except SettingsError as error:
        assert bad not in str(error)  # noqa: PT017


def test_a_secret_is_equal_to_itself_and_reveals_on_request():
    assert Secret("a") == Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert Secret("a").reveal() == "a"
    assert len({Secret("a"), Secret("a")}) == 1


def test_an_unknown_name_warns_with_the_nearest(caplog):
    with caplog.at_level(logging.WARNING):
        load({"REMINDERS_LEAZE": "5s", "REMINDERS_X_ANYTHING": "1", "REMINDERS_DATABASE_URL": "x", "OTHER": "1"})
    assert "REMINDERS_LEAZE is not a setting of reminders; did you mean REMINDERS_LEASE?" in caplog.text
    assert "REMINDERS_DATABASE_URL" in caplog.text
    assert "X_ANYTHING" not in caplog.text
    assert "OTHER" not in caplog.text


def test_every_setting_can_be_set():
    known = {field.name.upper() for field in fields(Settings)}
    for name in known - {"DATABASE_URL", "REDIS_URL", "EXTRAS"}:
        assert faults(**{name: "\x00"}) if name != "HOME" else True


@pytest.mark.parametrize(
    ("name", "bad", "said"),
    [
        ("REDIS_URL", "http://x", "begins with 'http', which is no Redis"),
        ("REDIS_URL", "garbage", "is no URL"),
        ("REDIS_URL", "redis://h:1/abc", "has 'abc' for a database"),
        ("REDIS_URL", "redis://:hunter2@h:99999/0", "has '99999' for a port"),
        ("REDIS_URL", "redis://h:port/0", "has 'port' for a port"),
        ("DATABASE_URL", "garbage", "is no URL"),
        ("DATABASE_URL", "mysql://u:hunter2@h/d", "begins with 'mysql', which is no Postgres"),
        ("DATABASE_URL", "postgresql+asyncpg://h/d", "begins with 'postgresql+asyncpg', which is no Postgres"),
        ("DATABASE_URL", "postgresql://u:hunter2@h:0/d", "has '0' for a port"),
    ],
)
def test_an_address_that_can_be_none_is_refused_with_the_right_form(name, bad, said):
    with pytest.raises(SettingsError) as caught:
        check_addresses(load({name: bad}))
    first, second = str(caught.value).splitlines()
    assert first.startswith(f"{name}: {said}")
    assert second.startswith("Write ")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "environ",
    [
        {}, SECRETS,
        {"DATABASE_URL": "postgres://u:p#?x@h:5432/d?sslmode=require", "REDIS_URL": "redis://"},
        {"DATABASE_URL": "postgresql+psycopg2:///d?host=/run/pg&port=1", "REDIS_URL": "unix:///run/redis.sock?db=1"},
        {"DATABASE_URL": "postgresql://u@[::1]:5432/d", "REDIS_URL": "rediss://:p@[::1]:6380/15?ssl_cert_reqs=none"},
        {"DATABASE_URL": "postgresql://a:1,b:2/d", "REDIS_URL": "redis+socket:///run/redis.sock"},
    ],
)  # fmt: skip
def test_usual_addresses_are_taken(environ):
    check_addresses(load(environ))


def test_what_begins_with_x_is_handed_on_to_the_providers_of_other_packages(caplog):
    found = load({"REMINDERS_X_CHAT_TOKEN": "hunter22", "REMINDERS_X_FAX": "", "REMINDERS_X_A": "1"})
    assert found.x("CHAT_TOKEN") == "hunter22"
    assert found.x("A") == "1"
    assert (found.x("FAX"), found.x("OTHER")) == (None, None)
    assert "hunter22" not in repr(found)
    assert caplog.records == []
    # Providers are cached by their settings.
    assert hash(found) == hash(load({"REMINDERS_X_A": "1", "REMINDERS_X_CHAT_TOKEN": "hunter22"}))
    assert found != load({"REMINDERS_X_A": "2", "REMINDERS_X_CHAT_TOKEN": "hunter22"})


@pytest.mark.parametrize(("text", "seconds"), [("", 5 * 86400.0), ("never", 0.0), ("0", 0.0), ("36h", 36 * 3600.0)])
def test_failing_destinations_are_disabled_after_days_or_never(text, seconds):
    assert load({"REMINDERS_DISABLE_AFTER": text}).disable_after == seconds


def test_disable_after_is_no_other_word():
    with pytest.raises(SettingsError, match="REMINDERS_DISABLE_AFTER: 'soon' is no duration"):
        load({"REMINDERS_DISABLE_AFTER": "soon"})


def test_the_token_of_settlement_files_is_for_one_host():
    assert load({"REMINDERS_RECONCILE_TOKEN": "Files.example.com:to-ken.22=="}).reconcile_bearers == {
        "files.example.com": "to-ken.22=="
    }
    for wrong in (
        "hunter22hunter22",
        "files.example.com:short",
        "https://files.example.com:hunter22",
        "a b:hunter22",
        ":hunter22",
    ):
        (fault,) = faults(RECONCILE_TOKEN=wrong)
        assert fault.startswith("REMINDERS_RECONCILE_TOKEN: must be HOST:TOKEN")
        assert "hunter22" not in fault


def test_accepted_findings_are_names_with_commas_or_blanks_between():
    assert load({"REMINDERS_ACCEPT": "postgres_fsync, redis_evicts clock_skew"}).accept == (
        "postgres_fsync",
        "redis_evicts",
        "clock_skew",
    )
    with pytest.raises(SettingsError, match="REMINDERS_ACCEPT: 'No-Name' is no name"):
        load({"REMINDERS_ACCEPT": "postgres_fsync,No-Name"})
