"""The laptop's own signing secret, and when private destinations are allowed."""

import logging
import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from reminders.domain.errors import SettingsError
from reminders.embedded_secret import FILE_NAME, KEY_FILE_NAME, development_secret, with_laptop_defaults
from reminders.settings import Secret, Settings
from reminders.settings_values import encryption_keys


@pytest.fixture
def home(tmp_path):
    return tmp_path / "projects" / ".reminders"


def test_is_made_once_for_its_owner_alone(home):
    secret = development_secret(home)
    assert len(secret.reveal()) >= 24
    assert development_secret(home) == secret
    assert stat.S_IMODE((home / FILE_NAME).stat().st_mode) == 0o600
    assert (home / ".gitignore").read_text() == "*\n"
    assert sorted(path.name for path in home.iterdir()) == [".gitignore", FILE_NAME]


def test_two_homes_have_two_secrets(home, tmp_path):
    assert development_secret(home) != development_secret(tmp_path)


def test_many_at_once_find_the_same(home):
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(development_secret, [home] * 32))
    assert len({secret.reveal() for secret in found}) == 1
    assert sorted(path.name for path in home.iterdir()) == [".gitignore", FILE_NAME]


@pytest.mark.parametrize("left", ["", "short\n"])
def test_a_damaged_file_is_not_used(home, left):
    home.mkdir(parents=True)
    (home / FILE_NAME).write_text(left)
    with pytest.raises(SettingsError, match="holds no signing secret\nRemove the file"):
        development_secret(home)


def test_a_home_that_is_a_file(tmp_path):
    (tmp_path / "home").write_text("")
    with pytest.raises(SettingsError, match=r"cannot be kept in .*Not a directory\nSet REMINDERS_HOME"):
        development_secret(tmp_path / "home")


def test_laptop_defaults_are_said_once(home, caplog):
    with caplog.at_level(logging.WARNING):
        first = with_laptop_defaults(Settings(home=home), {})
        second = with_laptop_defaults(Settings(home=home), {})
    assert first == second
    assert (first.webhook_secret, first.allow_private) == (development_secret(home), True)
    assert [record.getMessage().partition(": ")[0] for record in caplog.records] == ["settings.development"]


def test_what_is_set_stands(home):
    given = Settings(home=home, webhook_secret=Secret("chosen"), keys=(Secret("chosen too"),))
    assert with_laptop_defaults(given, {"REMINDERS_ALLOW_PRIVATE": "no"}) == given
    assert with_laptop_defaults(given, {}) == replace(given, allow_private=True)
    assert not home.exists()


def test_the_encryption_key_is_made_once_for_its_owner_alone(home):
    (key,) = with_laptop_defaults(Settings(home=home), {}).keys
    assert with_laptop_defaults(Settings(home=home), {}).keys == (key,)
    assert encryption_keys(key.reveal()) == (key.reveal(),)
    assert stat.S_IMODE((home / KEY_FILE_NAME).stat().st_mode) == 0o600
    (home / KEY_FILE_NAME).write_text("cut off")
    with pytest.raises(SettingsError, match="holds no encryption key\nRemove the file, or set REMINDERS_KEYS"):
        with_laptop_defaults(Settings(home=home), {})


@pytest.mark.parametrize("address", ["database_url", "redis_url"])
def test_an_installation_with_an_address_gets_nothing(home, address):
    given = Settings(home=home, **{address: Secret("somewhere")})
    assert with_laptop_defaults(given, {}) == given
    assert not home.exists()
