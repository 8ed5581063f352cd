"""Encryption at rest: the newest key encrypts, any decrypts, and a ciphertext is worth nothing elsewhere."""

from __future__ import annotations

import pytest

from own_keys import KEY, KEYRING, LOST_KEY, OLDER_KEY
from reminders.domain.errors import SecretUnreadable, SettingsError
from reminders.ledger.keyring import Keyring, generate_key, secret_fingerprint
from reminders.ledger.own_secrets import belongs_to
from reminders.settings import Secret, load

SECRET = bytes(range(32))


def test_the_newest_encrypts_and_any_decrypts():
    older = Keyring([Secret(OLDER_KEY)])
    ciphertext, key = older.encrypt(SECRET, b"row")
    assert (key,) == older.fingerprints
    assert KEYRING.decrypt(ciphertext, key, b"row") == SECRET
    assert KEYRING.encrypt(SECRET, b"row")[1] == KEYRING.newest == Keyring([Secret(KEY)]).newest != key


def test_a_secret_is_encrypted_differently_each_time_and_does_not_show():
    one, other = (KEYRING.encrypt(SECRET, b"row")[0] for _ in range(2))
    assert one != other
    assert one.startswith("gAAAA")


@pytest.mark.parametrize("keys", [[], [Secret(LOST_KEY)]])
def test_without_its_key_it_is_unreadable_and_the_key_is_named(keys):
    ciphertext, key = KEYRING.encrypt(SECRET, b"row")
    with pytest.raises(SecretUnreadable, match=f"no key with the fingerprint {key}") as caught:
        Keyring(keys).decrypt(ciphertext, key, b"row")
    assert caught.value.key == key


def test_damaged_under_a_wrong_name_or_moved_it_is_unreadable():
    ciphertext, key = KEYRING.encrypt(SECRET, b"row")
    changed = ciphertext[:-9] + ("A" if ciphertext[-9] != "A" else "B") + ciphertext[-8:]
    for text, under, row, said in (
        (changed, key, b"row", "damaged"),
        (ciphertext, KEYRING.fingerprints[1], b"row", "damaged"),
        (ciphertext, key, b"another row", "another row"),
    ):
        with pytest.raises(SecretUnreadable, match=said) as caught:
            KEYRING.decrypt(text, under, row)
        assert text not in str(caught.value)


def test_without_a_key_nothing_is_encrypted():
    with pytest.raises(SettingsError, match="REMINDERS_KEYS is not set"):
        Keyring([]).encrypt(SECRET, b"row")


def test_a_generated_key_is_taken_by_the_setting():
    keys = [generate_key() for _ in range(3)]
    assert load({"REMINDERS_KEYS": ",".join(keys)}).keys == tuple(map(Secret, keys))
    assert len(set(Keyring(load({"REMINDERS_KEYS": " ".join(keys)}).keys).fingerprints)) == 3


def test_nothing_shows_a_key_or_a_secret():
    assert KEY not in repr(KEYRING)
    assert KEY not in str(vars(KEYRING))
    fingerprint = secret_fingerprint(SECRET)
    assert len(fingerprint) == 16
    assert fingerprint != secret_fingerprint(SECRET[::-1])
    assert fingerprint not in SECRET.hex()


def test_what_a_ciphertext_belongs_to_is_told_apart():
    bound = {
        belongs_to("1", "ab", "c", None),
        belongs_to("1", "a", "bc", None),
        belongs_to("1", "ab", "", "c"),
        belongs_to("2", "ab", "c", None),
    }
    assert len(bound) == 4
