"""Settlement files in the ledger: received in slices, each guarded by where the file stands, and then worked on by a run."""

from datetime import date
from uuid import uuid4

import pytest

from reminders.domain.errors import NotFound
from reminders.ledger import settlement_file_work as work
from reminders.ledger import settlement_files as kept
from reminders.ledger.settlement_files import Received, StoredPage

URL = "https://files.example.com/payouts.csv?signature=s3cret"
SHA = b"\x01" * 32


def add(database, **changes):
    return kept.add(database, **{"source": "stripe", "name": "payouts.csv", "actor": "ada", "url": URL, **changes})


def received(size, *pages, tail=b"", header=b"id,amount", next_line=2):
    return Received(size=size, pages=pages, header=header, tail=tail, next_line=next_line, etag='"one"', total=90)


def page(number, content=b"a,1\n\x00\xff'\\", first_line=2):
    return StoredPage(number, first_line, 1, content)


def test_a_file_comes_in_slices_and_is_complete(database):
    file_id = add(database, asked_because="a new report")
    assert kept.append(database, file_id, 0, received(50, page(1), page(2, first_line=3), tail=b"b,"))
    assert kept.append(database, file_id, 50, received(90, page(3, first_line=4), header=None, next_line=5))
    assert kept.finish(database, file_id, 90, SHA)
    file = kept.read(database, file_id)
    assert (file.status, file.size, file.total, file.sha256, file.header) == ("ready", 90, 90, SHA, b"id,amount")
    assert (file.pages, file.next_line, file.tail, file.etag, file.url) == (3, 5, None, '"one"', None)
    assert (file.actor, file.asked_because, file.reason, file.run_id, file.night) == (
        "ada",
        "a new report",
        None,
        None,
        None,
    )
    assert kept.pages_after(database, file_id, 1) == [page(2, first_line=3)]
    assert [each.number for each in kept.pages_after(database, file_id, 0, limit=10)] == [1, 2, 3]
    assert "s3cret" not in repr(file)


def test_of_two_that_receive_the_same_slice_one_does(database):
    file_id = add(database)
    assert kept.append(database, file_id, 0, received(50, page(1)))
    assert not kept.append(database, file_id, 0, received(40, page(1)))
    assert not kept.finish(database, file_id, 40, SHA)
    file = kept.read(database, file_id)
    assert (file.size, file.pages, file.status) == (50, 1, "receiving")


def test_tries_in_a_row_are_counted_until_something_comes(database):
    file_id = add(database)
    assert [kept.note_try(database, file_id, 0), kept.note_try(database, file_id, 0)] == [1, 2]
    kept.append(database, file_id, 0, received(50))
    assert kept.note_try(database, file_id, 0) is None
    assert kept.note_try(database, file_id, 50) == 1


def test_what_is_refused_keeps_its_reason_and_nothing_else(database):
    file_id = add(database)
    kept.append(database, file_id, 0, received(50, page(1), tail=b"b"))
    assert kept.refuse(database, file_id, "the far side answers 403")
    file = kept.read(database, file_id)
    assert (file.status, file.reason, file.url, file.tail) == ("refused", "the far side answers 403", None, None)
    assert kept.pages_after(database, file_id, 0) == []
    assert not kept.refuse(database, file_id, "again")
    assert not kept.append(database, file_id, 50, received(60))
    assert not work.start(database, file_id, uuid4())


def complete(database, **changes):
    file_id = add(database, **changes)
    kept.append(database, file_id, 0, received(9, page(1)))
    assert not work.start(database, file_id, uuid4())
    kept.finish(database, file_id, 9, SHA)
    return file_id


def test_only_its_own_run_moves_it_on(database):
    file_id, first, second = complete(database), uuid4(), uuid4()
    assert work.start(database, file_id, first)
    assert work.step(database, file_id, first, done=False)
    assert work.start(database, file_id, second)
    assert not work.step(database, file_id, first, done=True)
    assert work.step(database, file_id, second, done=True)
    assert not work.step(database, file_id, second, done=True)
    assert kept.read(database, file_id).status == "done"
    assert not kept.refuse(database, file_id, "too late")
    assert work.start(database, file_id, uuid4())


def test_of_a_night_there_is_one_file_of_a_source(database):
    night = date(2026, 11, 28)
    assert add(database, night=night)
    assert add(database, night=night) is None
    assert add(database, night=night, source="adyen")
    assert add(database, night=date(2026, 11, 29))
    assert add(database)
    assert add(database)
    assert len(kept.files(database, 10)) == 5
    assert len(kept.files(database, 2)) == 2


def test_what_nobody_works_on_is_found(database):
    receiving, uploading, ready, running, done = (
        add(database),
        add(database, url=None),
        complete(database),
        complete(database),
        complete(database),
    )
    run = uuid4()
    for each in (running, done):
        work.start(database, each, run)
    work.step(database, done, run, done=True)
    assert work.left_alone(database, 60) == []
    assert work.left_alone(database, -1) == [(receiving, None), (running, run)]
    assert {uploading, ready}.isdisjoint(dict(work.left_alone(database, -1)))


def test_an_unknown_file(database):
    with pytest.raises(NotFound, match="no settlement file"):
        kept.read(database, uuid4())
