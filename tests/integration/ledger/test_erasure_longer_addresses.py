"""An address is looked for by itself, in words and in kept files: a longer one that contains it is somebody else's."""

from __future__ import annotations

import uuid

import pytest

import reminders
from integration.ledger.test_ledger_erasure import ADDRESS, erased, hers
from reminders.ledger.pausing import pause
from reminders.ledger.pausing import read_scope as pause_scope

LONGER = (
    "m{0}", "x.{0}", "x+{0}", "x-{0}", "{0}x", "{0}.org", "{0}-shop.example", "{0}@relay",
)  # fmt: skip
AS_SUCH = (
    "{0}", "<{0}>", "no mailbox {0}.", "{0}: gone", "rcpt={0}", "'{0}'", "({0})", "a@b.example,{0},c@d.example", "mailto:{0}?x",
    "...{0}...", "{0}/2",
)  # fmt: skip


@pytest.mark.parametrize("address", [ADDRESS, "ada@x.example", "+4915112345678"])
def test_a_longer_address_is_a_neighbours(world, address):
    made = world.schedule(**hers(destination=address))
    world.committed(reminders.cancel, made.id)
    said = [(each, each.format(address)) for each in (*AS_SUCH, *LONGER)]
    for number, (_, reason) in enumerate(said):
        pause(world.database, pause_scope(tenant="tenant-a", kind=f"k{number}"), actor="op", reason=reason)
    erased(world)
    left_over = {row[0] for row in world.sql("SELECT reason FROM reminders.pauses")} - {"erased"}
    assert left_over == {each.format(address) for each in LONGER}


def test_so_is_a_longer_url(world):
    url = "https://a.example/hook"
    made = world.schedule(**hers(destination=url))
    world.committed(reminders.cancel, made.id)
    longer = ["{0}/2", "{0}?user=2", "{0}s", "{0}/?a", "{0}-b", "{0}.b"]
    for number, each in enumerate(
        [*longer, "{0}", "{0}.", "({0})", "POST {0}: 500", "{0}/ is gone", "{0},https://b.example", "url={0}"]
    ):
        pause(world.database, pause_scope(tenant="tenant-a", kind=f"k{number}"), actor="op", reason=each.format(url))
    erased(world)
    left_over = {row[0] for row in world.sql("SELECT reason FROM reminders.pauses")} - {"erased"}
    assert left_over == {each.format(url) for each in longer}


def test_so_it_is_in_kept_files(world):
    world.schedule(**hers())
    lines = {
        "hers": f'1,"{ADDRESS}"',
        "typed": f"1,\u201e{ADDRESS}\u201c",
        "longer": f"1,x{ADDRESS}",
        "other": f"1,{ADDRESS}.org",
    }
    for number, (name, line) in enumerate(lines.items()):
        file = """INSERT INTO reminders.reconciliation_files (id, source, name, status, sha256, header, actor)
                  VALUES (%s, 's', %s, 'done', %s, 'id,mail', 'a')"""
        world.sql(file, str(uuid.UUID(int=number)), name, bytes([number]) * 32)
        page = "INSERT INTO reminders.reconciliation_file_pages VALUES (%s, 1, 1, 1, %s)"
        world.sql(page, str(uuid.UUID(int=number)), f"{line}\n".encode())
    erased(world)
    assert sorted(row[0] for row in world.sql("SELECT name FROM reminders.reconciliation_files")) == ["longer", "other"]
