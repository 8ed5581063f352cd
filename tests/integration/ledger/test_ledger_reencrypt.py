"""Bringing secrets under the newest key: in batches, restartable, counting; and which keys are still in use."""

from __future__ import annotations

import pytest

from integration.raw_receiver import delivery
from own_keys import KEY, KEYRING, LOST_KEY, OLDER_KEY
from reminders.domain.errors import SettingsError
from reminders.ledger import reencrypting
from reminders.ledger.keyring import Keyring
from reminders.ledger.own_secrets import PostgresSecrets
from reminders.ledger.reencrypting import KeyInUse, keys_in_use, reencrypt
from reminders.ledger.rotating import Said, SecretPlace, rotate
from reminders.settings import Secret

OLDER, LOST, NEWEST = (Keyring([Secret(key)]) for key in (OLDER_KEY, LOST_KEY, KEY))
URLS = [f"https://hooks.example/{number}" for number in range(7)]


@pytest.fixture
def made(world):
    """Seven secrets under the older key, by URL."""
    return {
        url: rotate(
            world.database, OLDER, SecretPlace("acme", "webhook", url), grace=0.0, said=Said("ada", None)
        ).secret
        for url in URLS
    }


def read(world, keyring, url):
    from reminders.domain.identity import destination_id

    one = delivery(url, destination_id=destination_id("acme", "webhook", url))
    return PostgresSecrets(world.database, keyring).of_mark(one, "a/").own[0].secret


@pytest.mark.parametrize("batch", [1, 3, 7, 500])
def test_all_come_under_the_newest_and_stay_the_same(world, made, batch):
    done = reencrypt(world.database, KEYRING, batch=batch)
    assert (done.reencrypted, done.unreadable, done.erased) == (7, 0, 0)
    newest, older = KEYRING.fingerprints
    assert done.keys == [KeyInUse(newest, 7, True, True), KeyInUse(older, 0, True, False)]
    assert {url: read(world, NEWEST, url) for url in URLS} == made
    again = reencrypt(world.database, KEYRING, batch=batch)
    assert (again.reencrypted, again.keys) == (0, done.keys)


def test_broken_off_it_goes_on_where_it_stopped(world, made, monkeypatch):
    class Killed(Exception): ...

    real, calls = world.database.fetch, []

    def fetch(statement, **given):
        if statement is reencrypting.REPLACE_IF_UNCHANGED:
            calls.append(given)
            if len(calls) == 2:
                raise Killed
        return real(statement, **given)

    monkeypatch.setattr(world.database, "fetch", fetch)
    with pytest.raises(Killed):
        reencrypt(world.database, KEYRING, batch=3)
    monkeypatch.undo()
    assert [each.secrets for each in keys_in_use(world.database, KEYRING)] == [3, 4]
    assert {url: read(world, KEYRING, url) for url in URLS} == made
    assert reencrypt(world.database, KEYRING, batch=3).reencrypted == 4


def test_what_no_key_decrypts_stays_and_is_counted(world, made):
    rotate(world.database, LOST, SecretPlace("beta", "webhook"), grace=0.0, said=Said("ada", None))
    done = reencrypt(world.database, KEYRING, batch=2)
    assert (done.reencrypted, done.unreadable) == (7, 1)
    assert done.keys[-1] == KeyInUse(*LOST.fingerprints, 1, False, False)
    assert reencrypt(world.database, Keyring([Secret(KEY), Secret(LOST_KEY)])).reencrypted == 1


def test_what_has_retired_is_erased(world, made):
    place = SecretPlace("acme", "webhook", URLS[0])
    rotate(world.database, KEYRING, place, grace=60.0, said=Said("ada", None))
    assert reencrypt(world.database, KEYRING).erased == 0
    world.sql(
        "UPDATE reminders.secrets SET created_at = created_at - interval '2 min', retires_at = retires_at - interval '2 min'"
    )
    done = reencrypt(world.database, KEYRING)
    assert (done.reencrypted, done.erased, done.keys[0].secrets) == (0, 1, 7)


def test_a_secret_that_changed_meanwhile_is_left_as_it_is(world, made, monkeypatch):
    real = world.database.fetch

    def fetch(statement, **given):
        if statement is reencrypting.REPLACE_IF_UNCHANGED:
            monkeypatch.undo()
            assert reencrypt(world.database, KEYRING).reencrypted == 7
        return real(statement, **given)

    monkeypatch.setattr(world.database, "fetch", fetch)
    assert reencrypt(world.database, KEYRING).reencrypted == 0
    assert {url: read(world, NEWEST, url) for url in URLS} == made


def test_without_a_key_it_is_refused(world, made):
    with pytest.raises(SettingsError, match="REMINDERS_KEYS is not set"):
        reencrypt(world.database, Keyring([]))
