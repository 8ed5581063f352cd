"""The receiver's store: a key and its effect together, once."""

from __future__ import annotations

import sqlite3
import threading
from dataclasses import replace

import pytest

from reminders.domain.errors import InvalidInput
from reminders.receiver.store import Effect, KeyCalls, Receipt, Store, Verdict

EFFECT = Effect("acme", "anna", "invoice", "order-7", "2026-11-29T12:00:00Z")


@pytest.fixture
def store():
    store = Store()
    yield store
    store.close()


def test_a_repeat_is_told_of_the_first_effect(store):
    assert store.apply_once("dk_1", b"hash", EFFECT) == Receipt(Verdict.APPLIED, 1)
    assert store.apply_once("dk_2", b"hash", EFFECT) == Receipt(Verdict.APPLIED, 2)
    assert store.apply_once("dk_1", b"hash", EFFECT) == Receipt(Verdict.REPEAT, 1)
    assert list(store.calls_by_key()) == [KeyCalls("acme", "dk_1", 2, 1), KeyCalls("acme", "dk_2", 1, 1)]


def test_another_body_under_a_known_key_is_a_conflict_and_changes_nothing(store):
    store.apply_once("dk_1", b"hash", EFFECT)
    assert store.apply_once("dk_1", b"other", EFFECT) == Receipt(Verdict.CONFLICT, None)
    assert store.apply_once("dk_1", b"hash", EFFECT) == Receipt(Verdict.REPEAT, 1)
    assert list(store.calls_by_key()) == [KeyCalls("acme", "dk_1", 3, 1)]


def test_a_tenant_cannot_use_up_the_key_of_another(store):
    store.apply_once("dk_1", b"forged", replace(EFFECT, tenant_id="evil"))
    assert store.apply_once("dk_1", b"hash", EFFECT) == Receipt(Verdict.APPLIED, 2)


def test_a_key_without_its_effect_is_never_stored(store):
    with pytest.raises(sqlite3.IntegrityError):
        store.apply_once("dk_1", b"hash", replace(EFFECT, user_id=None))
    assert list(store.calls_by_key()) == []
    assert store.apply_once("dk_1", b"hash", EFFECT) == Receipt(Verdict.APPLIED, 1)


def test_a_group_is_stored_together_or_not_at_all(store):
    def both():
        with store.transaction():
            store.apply_once("dk_1", b"hash", EFFECT)
            store.apply_once("dk_2", b"hash", replace(EFFECT, user_id=None))

    with pytest.raises(sqlite3.IntegrityError):
        both()
    assert store.calls("acme", "dk_1") == 0
    with store.transaction():
        assert store.apply_once("dk_1", b"hash", EFFECT).verdict is Verdict.APPLIED
        assert store.apply_once("dk_1", b"hash", EFFECT).verdict is Verdict.REPEAT


def test_threads_with_one_key_apply_it_once(store):
    receipts = []
    together = threading.Barrier(16)

    def apply():
        together.wait()
        receipts.append(store.apply_once("dk_1", b"hash", EFFECT))

    threads = [threading.Thread(target=apply) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(receipt.verdict.value for receipt in receipts) == ["applied"] + 15 * ["repeat"]
    assert {receipt.effect_number for receipt in receipts} == {1}


def test_every_key_is_reported_across_pages(store):
    with store.transaction():
        for number in range(1203):
            store.apply_once(f"dk_{number}", b"hash", EFFECT)
    store.count_call("acme", "dk_refused")
    reported = list(store.calls_by_key())
    assert [row.key for row in reported] == [f"dk_{number}" for number in range(1203)] + ["dk_refused"]
    assert {(row.calls, row.effects) for row in reported[:-1]} == {(1, 1)}
    assert (reported[-1].calls, reported[-1].effects) == (1, 0)


def test_a_file_keeps_what_it_was_told(tmp_path):
    path = tmp_path / "store.db"
    first = Store(path)
    first.apply_once("dk_1", b"hash", EFFECT)
    first.close()
    second = Store(path)
    assert second.apply_once("dk_1", b"hash", EFFECT) == Receipt(Verdict.REPEAT, 1)
    second.close()
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        row = connection.execute("SELECT user_id, kind, reference, due_at FROM effects").fetchall()
    connection.close()
    assert row == [("anna", "invoice", "order-7", "2026-11-29T12:00:00Z")]


def test_two_stores_on_one_file_apply_a_key_once(tmp_path):
    one, other = Store(tmp_path / "store.db"), Store(tmp_path / "store.db")
    assert one.apply_once("dk_1", b"hash", EFFECT) == Receipt(Verdict.APPLIED, 1)
    assert other.apply_once("dk_1", b"hash", EFFECT) == Receipt(Verdict.REPEAT, 1)
    one.close()
    other.close()


def test_a_file_of_another_program_is_refused_and_left_as_it_is(tmp_path):
    path = tmp_path / "theirs.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE customers (name TEXT)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(InvalidInput, match="another program"):
        Store(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"no database, but long enough to be looked at as one" * 10, None])
def test_what_is_no_database_is_refused(tmp_path, content):
    path = tmp_path / "folder" / "store.db"
    if content is not None:
        path.parent.mkdir()
        path.write_bytes(content)
    with pytest.raises(InvalidInput, match=r"store: .* cannot be used"):
        Store(path)
