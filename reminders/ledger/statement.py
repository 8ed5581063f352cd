"""One SQL statement with named, typed parameters, in the two forms it is sent in.

Written once as `:name`; sent either as `EXECUTE` of a statement prepared once per connection (planning the claim each
time costs more than running it), or as plain SQL, for the caller's own connection and behind poolers that hand each
transaction another server connection.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]+)")


@dataclass(frozen=True)
class Statement:
    """`sql` names the schema as `{s}` and parameters as `:name`; `types` gives each parameter's Postgres type."""

    name: str
    sql: str
    types: Mapping[str, str]

    def in_schema(self, schema: str) -> BoundStatement:
        return BoundStatement(self.name, self.sql.replace("{s}", schema), self.types)


@dataclass(frozen=True)
class BoundStatement:
    """A statement whose schema is settled."""

    name: str
    sql: str
    types: Mapping[str, str]

    def __post_init__(self) -> None:
        used = set(_PARAMETER.findall(self.sql))
        if used != set(self.types):
            raise ValueError(f"{self.name}: parameters {sorted(used ^ set(self.types))} are not both used and typed")

    @cached_property
    def plain(self) -> str:
        """For a driver that fills in `%(name)s` itself (psycopg2, psycopg 3)."""
        escaped = self.sql.replace("%", "%%")
        return _PARAMETER.sub(lambda match: f"%({match[1]})s::{self.types[match[1]]}", escaped)

    @cached_property
    def prepared_name(self) -> str:
        """Under which it is prepared. It tells apart what has another text: behind a transaction pooler a server connection may
        still have what another release, or the same one for another schema, prepared there under the plain name.
        """
        text = f"{self.sql}\0{list(self.types.values())}"
        return f"{self.name}_{hashlib.sha256(text.encode()).hexdigest()[:12]}"

    @cached_property
    def prepare(self) -> str:
        numbers = {name: number for number, name in enumerate(self.types, 1)}
        body = _PARAMETER.sub(lambda match: f"${numbers[match[1]]}", self.sql)
        types = f"({', '.join(self.types.values())})" if self.types else ""
        return f"PREPARE {self.prepared_name} {types} AS {body}"

    @cached_property
    def execute(self) -> str:
        if not self.types:
            return f"EXECUTE {self.prepared_name}"
        return f"EXECUTE {self.prepared_name} ({', '.join(f'%({name})s::{kind}' for name, kind in self.types.items())})"

    def arguments(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Every parameter with its value; those not given are null."""
        return {name: given.get(name) for name in self.types}
