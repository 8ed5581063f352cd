"""The rejects file: there only if there are rejects, whole or not at all."""

import json
import os

import pytest

from reminders.domain.errors import RemindersError
from reminders.intake.records import Reject
from reminders.intake.rejects_file import RejectsFile

ONE = Reject(3, "zone", "'Mars' is no IANA zone name")


def test_no_rejects_no_file(tmp_path):
    rejects = RejectsFile(tmp_path / "r.jsonl")
    rejects.add([])
    assert rejects.keep() is None
    assert list(tmp_path.iterdir()) == []


def test_lines_of_json_that_replace_an_earlier_run(tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_text("old")
    rejects = RejectsFile(path)
    rejects.add([ONE])
    rejects.add([Reject(9, None, "ü")])
    assert path.read_text() == "old"
    assert rejects.keep() == path
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        {"line": 3, "field": "zone", "reason": "'Mars' is no IANA zone name"},
        {"line": 9, "field": None, "reason": "ü"},
    ]
    assert list(tmp_path.iterdir()) == [path]


def test_discarded_leaves_what_was_there(tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_text("old")
    rejects = RejectsFile(path)
    rejects.add([ONE])
    rejects.discard()
    assert [(p, p.read_text()) for p in tmp_path.iterdir()] == [(path, "old")]


def test_a_place_that_cannot_be_written_is_refused_at_once(tmp_path):
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "absent" / "r.jsonl", tmp_path / "file" / "r.jsonl"):
        with pytest.raises(RemindersError, match="--rejects"):
            RejectsFile(path)


def test_a_device_is_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(RemindersError):
        RejectsFile(pipe)


def test_a_folder_that_goes_away_is_told(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    rejects = RejectsFile(folder / "r.jsonl")
    folder.rmdir()
    with pytest.raises(RemindersError, match=r"r\.jsonl: No such file"):
        rejects.add([ONE])


def test_a_clean_run_removes_what_an_earlier_one_left_and_no_other_file(tmp_path):
    path = tmp_path / "r.jsonl"
    first = RejectsFile(path)
    first.add([ONE])
    first.keep()
    assert RejectsFile(path).keep() is None
    assert not path.exists()
    for other in ("", "notes\n", '{"line": 1}\n', "[1]\n", "ü\n"):
        path.write_text(other)
        assert RejectsFile(path).keep() is None
        assert path.read_text() == other
