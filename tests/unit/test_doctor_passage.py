"""The times of a synthetic reminder's stages, where its row is taken up before the doctor gets on."""

from __future__ import annotations

import time
from threading import Event
from types import SimpleNamespace
from uuid import UUID

from reminders.ledger.synthetic import Followed
from reminders.operate.doctor import synthetic
from reminders.settings import Settings


def test_called_before_the_doctor_gets_on_its_stages_are_in_order(monkeypatch):
    calls = []

    def schedule(*_):
        calls.extend([time.monotonic(), time.monotonic()])
        Event().wait(0.01)
        return SimpleNamespace(id=UUID(int=1), delivery_key="dk_1")

    for name, answer in (
        ("set_up", ("live", "main")), ("left", []), ("follow", Followed("delivered", 2, None, [])), ("_clear", True),
    ):  # fmt: skip
        monkeypatch.setattr(synthetic, name, lambda *_, _answer=answer, **__: _answer)
    monkeypatch.setattr(synthetic, "_schedule", schedule)
    receiver = SimpleNamespace(
        url="http://h/hook", calls=lambda: 2, signed=lambda: calls, refused=lambda: None, effects=lambda _: 1
    )
    passage = synthetic.send(
        Settings(), None, receiver, within=30.0, on_stage=lambda *_: None, served=lambda: ["scan", "deliver"]
    )
    assert passage.arrived
    assert list(passage.stages) == list(synthetic.STAGES)
    assert list(passage.stages.values()) == sorted(passage.stages.values())
