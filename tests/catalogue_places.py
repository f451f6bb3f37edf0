"""Where the catalogue's contract is tried: an endpoint or the fake, and partition values that hurt."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from pathlib import Path

import pytest
from thrift.transport.TSocket import TSocket

from tidegate.core.base.partition_values import PartitionValues
from tidegate.targets.hive.ports import Catalogue, TableDef

REAL = ("hive_spark", "hive4")
DATABASE = "contract_" + uuid.uuid4().hex[:8]
WIDE = "struct<" + ",".join(f"f{i}:int" for i in range(40)) + ",order:string>"
COLUMNS = (
    ("id", "bigint"),
    ("_topic", "string"),
    ("fare", "decimal(10,2)"),
    ("legs", "array<struct<date:string,prices:map<string,double>>>"),
    ("wide", WIDE),
)
HOSTILE = (
    "a'b\"\\; drop table x --",
    "\\",
    "\\'",
    "''",
    "%2F",
    "100%",
    "%",
    "a/b",
    "../../etc",
    ".",
    "..",
    " padded ",
    "two\nlines",
    "tab\tcr\rend",
    "\x01\x1f\x7f",
    "${hiveconf:hive.exec.scratchdir}",
    "${system:user.name}",
    "\\u0041",
    "\\n",
    "a=b",
    "*?[]{}^#:,;",
    "`x`",
    "-- x",
    "/* x */",
    "zürich 日本 😀",
    "e\u0301 \u2028 \u00a0",
    "007",
    "1e3",
    "null",
    "NULL",
    "true",
    "UPPER",
    "upper",
    "x" * 120,
)


@dataclass(frozen=True)
class Place:
    """An endpoint (or the fake) and a folder that it can reach."""

    catalogue: Catalogue
    folder: Path

    def uri(self, name: str) -> str:
        return f"file://{self.folder}/{name}"

    def table(self, *partitions: str) -> TableDef:
        """A table that is nobody else's, with text partitions."""
        names = partitions or ("date", "hour", "app")
        return TableDef(
            name=f"{DATABASE}.t{uuid.uuid4().hex}",
            columns=COLUMNS,
            partitions=tuple((name, "string") for name in names),
            location=self.uri(f"table-{uuid.uuid4().hex}"),
            comment="it's ours; ${x} ü",
            properties=(("tidegate.pipeline", "contract"),),
        )

    def created(self, *partitions: str) -> TableDef:
        table = self.table(*partitions)
        self.catalogue.ensure_table(table)
        return table


def of(app: str | None, hour: str = "04", date: str = "2013-01-05") -> PartitionValues:
    return (("date", date), ("hour", hour), ("app", app))


def hasty(patch: pytest.MonkeyPatch, word: bytes, seconds: float) -> None:
    """Only for the answer to a request with this word one waits no longer: a busy server takes its time for others."""
    write = TSocket.write

    def written(self: TSocket, data: bytes) -> None:
        if word in data:
            self.setTimeout(seconds * 1000)
        write(self, data)

    patch.setattr(TSocket, "write", written)
