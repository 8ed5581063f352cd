"""Secrets of one's own in the ledger: rotated, inherited, revoked, one change of a place at a time, never in the clear."""

from __future__ import annotations

from dataclasses import dataclass

import psycopg2.errors
import pytest

from integration.raw_receiver import delivery
from own_keys import KEY, KEYRING, LOST_KEY, OLDER_KEY
from reminders.domain.errors import InvalidInput, Refused, SecretUnreadable, SettingsError
from reminders.ledger.destinations import find
from reminders.ledger.keyring import Keyring, secret_fingerprint
from reminders.ledger.own_secrets import PostgresSecrets
from reminders.ledger.rotating import MOST_IN_FORCE, Said, SecretPlace, revoke, rotate
from reminders.ledger.secret_records import changes, records
from reminders.ledger.tenant_policies import known, set_policy
from reminders.settings import Secret

DAY = 86400.0
URL, OTHER_URL = "https://hooks.example/a", "https://hooks.example/b"
HERE, THERE = SecretPlace("tenant-a", "webhook", URL), SecretPlace("tenant-a", "webhook", OTHER_URL)
TENANT = SecretPlace("tenant-a", "webhook")
ADA = Said("ada", "yearly")
LOST = Keyring([Secret(LOST_KEY)])


@dataclass
class Secrets:
    """Rotates, and reads as a worker would."""

    world: object

    def rotate(self, place=HERE, grace=DAY, keyring=KEYRING):
        return rotate(self.world.database, keyring, place, grace=grace, said=ADA).secret

    def revoke(self, place=HERE):
        return revoke(self.world.database, place, said=Said("ada", "leaked"))

    def claim(self, place=HERE):
        made = self.world.schedule(channel="webhook", destination=place.address)
        return self.world.opened(made)

    def in_force(self, place=HERE, after=0.0, keyring=KEYRING):
        """What a claim's delivery would be signed with `after` seconds; `derived` last where that signs too."""
        claim = self.claim(place)
        if claim.secret_mark is None:
            return ["derived"]
        ledger = PostgresSecrets(self.world.database, keyring, now=self.world.lapse(after))
        found = ledger.of_mark(claim.delivery, claim.secret_mark)
        return [each.secret for each in found.own] + ["derived"] * (found.derived > 0)


@pytest.fixture
def secrets(world):
    return Secrets(world)


def test_without_one_of_its_own_a_claim_has_no_mark(secrets):
    assert secrets.claim().secret_mark is None


def test_the_derived_one_signs_until_the_grace_ends(secrets):
    new = secrets.rotate()
    assert len(new) == 32
    assert secrets.in_force() == [new, "derived"]
    assert secrets.in_force(after=DAY - 60) == [new, "derived"]
    assert secrets.in_force(after=DAY) == [new]
    assert secrets.in_force(THERE) == ["derived"]


def test_each_rotation_keeps_what_was_promised_to_the_former_ones(secrets):
    first, second = secrets.rotate(grace=0.0), secrets.rotate(grace=60.0)
    third = secrets.rotate(grace=DAY)
    assert secrets.in_force() == [third, second, first]
    assert secrets.in_force(after=61) == [third, second]
    assert secrets.in_force(after=DAY + 1) == [third]


def test_without_a_grace_only_the_new_one_signs(secrets):
    assert secrets.in_force() == ["derived"]
    new = secrets.rotate(grace=0.0)
    assert secrets.in_force() == [new]
    newer = secrets.rotate(grace=0.0)
    assert secrets.in_force() == [newer]


def test_a_tenants_secret_is_for_all_its_destinations_that_have_none(secrets):
    new = secrets.rotate(TENANT)
    own = secrets.rotate(THERE, grace=0.0)
    assert secrets.in_force(HERE) == [new, "derived"]
    assert secrets.in_force(HERE, after=DAY) == [new]
    assert secrets.in_force(THERE) == [own]
    other = secrets.world.schedule(channel="webhook", destination=URL, tenant_id="tenant-b")
    assert secrets.world.opened(other).secret_mark is None


def test_a_destination_inherits_its_tenants_for_the_grace_and_what_happens_to_it(secrets):
    tenants = secrets.rotate(TENANT)
    own = secrets.rotate(HERE, grace=60.0)
    assert secrets.in_force() == [own, tenants, "derived"]
    assert secrets.in_force(after=61) == [own]
    assert secrets.revoke(TENANT) == ["inherited"]
    assert secrets.in_force() == [own, tenants]
    tenants_next = secrets.rotate(TENANT, grace=0.0)
    assert secrets.in_force() == [own, tenants_next]
    assert secrets.revoke(HERE) == ["inherited"]
    assert secrets.in_force() == [own]


def test_a_mark_reads_no_level_that_it_does_not_name(secrets):
    """Remembered for all of a tenant's destinations, it must not hold what one of them was given just after the claim."""
    tenants = secrets.rotate(TENANT, grace=0.0)
    claim = secrets.claim(HERE)
    secrets.rotate(HERE, grace=0.0)
    found = PostgresSecrets(secrets.world.database, KEYRING).of_mark(claim.delivery, claim.secret_mark)
    assert [each.secret for each in found.own] == [tenants]


def test_every_change_gives_another_mark(secrets):
    marks = [secrets.claim().secret_mark]
    for change in (secrets.rotate, secrets.rotate, secrets.revoke, lambda: secrets.rotate(TENANT)):
        change()
        marks.append(secrets.claim().secret_mark)
    assert len(set(marks)) == 5


def test_a_claim_whose_reply_was_lost_has_the_mark_too(secrets):
    secrets.rotate()
    made = secrets.world.schedule(channel="webhook", destination=URL)
    secrets.world.published()
    claims = secrets.world.claims()
    claim = claims.claim(made.id, made.delivery_key, made.id, 30.0)
    again = claims.claimed_with(made.id, made.delivery_key, made.id)
    assert claim.secret_mark == again.secret_mark is not None


def test_revoking_ends_all_former_ones_at_once_and_erases_them(secrets):
    first = secrets.rotate()
    new = secrets.rotate()
    assert secrets.in_force() == [new, first, "derived"]
    assert secrets.revoke() == sorted([secret_fingerprint(first), "inherited"])
    assert secrets.in_force() == [new]
    assert secrets.world.sql("SELECT count(ciphertext), count(*) FROM reminders.secrets") == [(1, 3)]


def test_there_must_be_something_to_revoke(secrets):
    with pytest.raises(Refused, match="has no secret of its own"):
        secrets.revoke()
    secrets.rotate(grace=0.0)
    with pytest.raises(Refused, match=r"only the newest secret of destination .* signs"):
        secrets.revoke()
    assert secrets.world.sql("SELECT count(*) FROM reminders.secret_changes") == [(1,)]


def test_who_when_and_why_is_on_record(secrets):
    new = secrets.rotate()
    secrets.revoke()
    revoked, rotated = changes(secrets.world.database, tenant="tenant-a")
    assert (rotated.action, rotated.actor, rotated.reason) == ("rotate", "ada", "yearly")
    assert rotated.fingerprints == [secret_fingerprint(new)]
    assert (rotated.former_until - rotated.changed_at).total_seconds() == pytest.approx(DAY, abs=5)
    assert (revoked.action, revoked.reason, revoked.fingerprints) == ("revoke", "leaked", ["inherited"])
    assert rotated.host == revoked.host != ""
    listed = records(secrets.world.database, destination=HERE.destination_id, retired=True)
    assert [(each.state, each.inherited, each.reason) for each in listed] == [
        ("retired", True, None),
        ("signs", False, "yearly"),
    ]
    assert records(secrets.world.database, tenant="tenant-b") == []


@pytest.mark.parametrize("said", [Said("", "why"), Said("ada", " "), Said("ada", "x\n")])
def test_actor_and_reason_are_checked(secrets, said):
    with pytest.raises(InvalidInput):
        rotate(secrets.world.database, KEYRING, HERE, grace=DAY, said=said)
    with pytest.raises(InvalidInput):
        revoke(secrets.world.database, HERE, said=said)
    assert secrets.claim().secret_mark is None


def test_too_many_at_once_are_refused(secrets):
    for _ in range(MOST_IN_FORCE - 1):
        secrets.rotate()
    with pytest.raises(Refused, match=f"{MOST_IN_FORCE} secrets of destination .* sign already"):
        secrets.rotate()
    secrets.revoke()
    secrets.rotate()


def test_without_keys_nothing_changes(secrets):
    with pytest.raises(SettingsError, match="REMINDERS_KEYS is not set"):
        secrets.rotate(keyring=Keyring([]))
    assert secrets.claim().secret_mark is None


def test_a_former_one_whose_key_is_lost_cannot_go_on(secrets):
    first = secrets.rotate(keyring=LOST)
    with pytest.raises(Refused, match=r"cannot go on signing: .* no key with the fingerprint"):
        secrets.rotate()
    assert secrets.in_force(keyring=LOST) == [first, "derived"]
    secrets.revoke()
    new = secrets.rotate(grace=0.0)
    assert secrets.in_force() == [new]


def test_what_cannot_be_decrypted_is_not_left_out(secrets):
    secrets.rotate(keyring=Keyring([Secret(OLDER_KEY)]), grace=0.0)
    secrets.rotate()
    only_new = Keyring([Secret(LOST_KEY)])
    with pytest.raises(SecretUnreadable, match=r"cannot be decrypted here: .*\nAdd its key to REMINDERS_KEYS"):
        secrets.in_force(keyring=only_new)
    # The newest is readable, the former is not: a receiver that has not changed over knows no other.
    with pytest.raises(SecretUnreadable):
        secrets.in_force(keyring=Keyring([Secret(KEY)]))


@pytest.mark.parametrize("gone", ["DELETE FROM reminders.secrets", "UPDATE reminders.secrets SET retires_at = now()"])
def test_a_mark_without_its_secret_signs_with_nothing_else(secrets, gone):
    secrets.rotate(grace=0.0)
    secrets.world.sql(gone)
    with pytest.raises(SecretUnreadable, match=r"is gone from the ledger"):
        secrets.in_force()


def test_a_ciphertext_of_another_row_is_no_secret(secrets):
    secrets.rotate(HERE, grace=0.0)
    secrets.rotate(THERE, grace=0.0)
    secrets.world.sql(
        """UPDATE reminders.secrets x SET ciphertext = y.ciphertext FROM reminders.secrets y WHERE x.id <> y.id"""
    )
    with pytest.raises(SecretUnreadable, match="belongs to another row"):
        secrets.in_force()


def test_two_at_once_are_taken_in_turn(secrets):
    with secrets.world.database.transaction() as holder, holder.cursor() as cursor:
        secrets.rotate(grace=0.0)
        cursor.execute("SELECT 1 FROM reminders.destinations FOR UPDATE")
        both = [secrets.world.start(secrets.rotate) for _ in range(2)]
        secrets.world.waiting_for_a_lock(2)
    made = {each.result(timeout=10) for each in both}
    assert set(secrets.in_force()[:2]) == made
    assert len(secrets.in_force()) == 3
    assert secrets.world.sql("SELECT count(*) FROM reminders.secrets WHERE retires_at IS NULL") == [(1,)]


def test_no_row_holds_it_in_the_clear(secrets):
    new = secrets.rotate()
    dump = secrets.world.sql("SELECT row_to_json(x)::text FROM reminders.secrets x")
    dump += secrets.world.sql("SELECT row_to_json(x)::text FROM reminders.secret_changes x")
    text = str(dump)
    from reminders.providers.signing import format_secret

    for form in (new.hex(), format_secret(new), format_secret(new).removeprefix("whsec_"), str(new)):
        assert form not in text


@pytest.mark.parametrize(
    "broken",
    [
        "ciphertext = 'whsec_' || repeat('A', 120)",
        "ciphertext = 'gAAAA'",
        "ciphertext = NULL, key_fingerprint = NULL",
        "ciphertext = NULL",
        "key_fingerprint = NULL",
        "fingerprint = NULL",
        "inherited = true",
        "tenant_id = ''",
        "retires_at = created_at - interval '1 second'",
    ],
)
def test_what_the_table_refuses(secrets, broken):
    secrets.rotate(grace=0.0)
    with pytest.raises(psycopg2.errors.CheckViolation):
        secrets.world.sql(f"UPDATE reminders.secrets SET {broken}")


def test_a_place_has_one_newest(secrets):
    secrets.rotate(TENANT, grace=0.0)
    copy = """INSERT INTO reminders.secrets SELECT gen_random_uuid(), tenant_id, channel, destination_id, inherited, ciphertext,
              key_fingerprint, fingerprint FROM reminders.secrets"""
    with pytest.raises(psycopg2.errors.UniqueViolation):
        secrets.world.sql(copy)


def test_the_rows_of_its_place_go_on_saying_what_they_said(secrets):
    world = secrets.world
    set_policy(world.database, "tenant-a", "webhook", on_unknown="review")
    secrets.rotate(TENANT, grace=0.0)
    secrets.rotate(HERE)
    set_policy(world.database, "tenant-a", "webhook", on_unknown="default")
    assert known(world.database, tenant="tenant-a", limit=10) == []
    assert secrets.claim(THERE).secret_mark is not None
    claim = secrets.claim()
    assert (claim.on_unknown, claim.delivery.destination) == ("repeat", URL)
    here, there = (find(world.database, each.tenant_id, each.channel, each.address) for each in (HERE, THERE))
    assert (here.own_secret, there.own_secret) == ("destination", "tenant")
    assert (here.deduplicates_set, delivery(URL).secrets) == (False, ())
