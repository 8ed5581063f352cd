"""Make the shop's orders, in the database that has the ledger: of DATABASE_URL, else the one that `reminders up` runs."""

import json
import os
import subprocess
from pathlib import Path

import psycopg2


def database_url() -> str:
    """Where the ledger is."""
    if url := os.environ.get("DATABASE_URL"):
        return url
    told = subprocess.run(["reminders", "env", "--json"], check=True, capture_output=True, text=True).stdout  # noqa: S607
    return str(json.loads(told)["DATABASE_URL"])


def main() -> None:
    """Safe to run again."""
    connection = psycopg2.connect(database_url())
    with connection, connection.cursor() as cursor:
        cursor.execute((Path(__file__).parent / "orders.sql").read_text())
        cursor.execute("SELECT count(*) FROM shop.orders")
        print(f"{cursor.fetchone()[0]} orders in shop.orders")  # noqa: T201
    connection.close()


if __name__ == "__main__":
    main()
