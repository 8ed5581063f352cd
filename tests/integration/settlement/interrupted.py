"""A process that reconciles a file as far as one point, says so, and waits to be killed.

Arguments: Postgres's URL, the file, the point (`before` or `after` the commit of a page), its step, and which page of it.
"""

import sys
from dataclasses import replace
from pathlib import Path

from integration.settlement.shop import Shop
from reminders.intake.settlement.steps import Run, settlement_runs
from reminders.ledger.database import Database
from reminders.settings import Secret, load

url, file, point, step, number = sys.argv[1:]
met: list[str] = []


def stay() -> None:
    print("here", flush=True)
    sys.stdin.read()


def reached(at: str) -> bool:
    met.extend([at] * (at == step))
    return at == step and len(met) == int(number)


real_move, real_turn = settlement_runs.move, Run._in_turn


def move(connection, schema, run, stand):
    real_move(connection, schema, run, stand)
    if point == "before" and reached(current[-1]):
        stay()


current: list[str] = []


def in_turn(self, work):
    current.append(self.step)
    done = real_turn(self, work)
    if point == "after" and reached(current[-1]):
        stay()
    return done


settlement_runs.move, Run._in_turn = move, in_turn

settings = replace(load(), database_url=Secret(url))
shop = Shop(Database(url, schema="reminders"), settings)
shop.run(Path(file).read_bytes())
print("done", flush=True)
