"""Files to import, and what the ledger holds afterwards."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from reminders.ledger.database import Database

HEADER = "tenant_id,user_id,kind,channel,destination,due_at,zone,reference\n"
DESTINATION = "https://hooks.example/private-path"
USER = "somebody-private"


def csv_row(number: int, **changed: Any) -> str:
    """A row that is fine unless `changed` says otherwise."""
    values = {
        "tenant_id": "acme",
        "user_id": f"{USER}-{number}",
        "kind": "invoice-due",
        "channel": "webhook",
        "destination": DESTINATION,
        "due_at": "2090-05-01 09:00",
        "zone": "Europe/Berlin",
        "reference": f"invoice-{number}",
        **changed,
    }
    return ",".join(str(value) for value in values.values()) + "\n"


def csv_file(path: Path, count: int) -> Path:
    """`count` good rows, numbered from 1, so that row `n` is in line `n + 1`."""
    with path.open("w") as file:
        file.write(HEADER)
        file.writelines(csv_row(number) for number in range(1, count + 1))
    return path


def jsonl(records: Iterable[dict[str, Any]]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def count(database: Database, table: str = "reminders") -> int:
    with database.transaction() as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM reminders.{table}")
        (found,) = cursor.fetchone()
        return found


def rejects(path: Path) -> list[tuple[int, str | None, str]]:
    return [tuple(json.loads(line).values()) for line in path.read_text().splitlines()]
