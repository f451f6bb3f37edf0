"""ClickHouse where tests deliver to: Debian's server, two of them as shards, or the newest engine."""

from __future__ import annotations

import io
import os
import struct
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import requests

from dev.stack.info import StackInfo
from dev.stack.places import Places
from tests.deliver.rows import COLUMNS
from tidegate.core.deliver.port import Table
from tidegate.targets.clickhouse.client import Client, Failed
from tidegate.targets.clickhouse.table import ClickHouseTable

ALL = os.environ.get("TIDEGATE_CLICKHOUSE") == "all"
PACKAGES = Places.of_checkout().own / "clickhouse" / "packages"
_FENCE_S = 20.0
_EXACT = Context(prec=60)
_CODES = {
    "Bool": "?", "UInt8": "B", "Int8": "b", "Int16": "h", "Int32": "i", "Date32": "i", "Int64": "q", "Float32": "f",
    "Float64": "d", "DateTime": "I",
}  # fmt: skip


@dataclass
class Place:
    """`addresses`: of the shards. `name`: of the test's own table. `settles`: wait until what made way has gone."""

    addresses: list[str]
    user: str
    password: str = field(repr=False)
    name: str = field(default_factory=lambda: f"t_{uuid.uuid4().hex[:8]}")
    settles: bool = False  # ten seconds for each window that is replaced, on a server of 18.16

    def clients(self, addresses: list[str] | None = None, kind: type[Client] = Client) -> list[Client]:
        given = {"user": self.user, "password": self.password, "database": "default", "timeout_s": 30.0}

        def of(address: str, replicas: tuple[Client, ...] = ()) -> Client:
            return kind(address=address, replicas=replicas, **given)  # type: ignore[arg-type]

        shards = (address.split("|") for address in addresses or self.addresses)
        return [of(first, tuple(map(of, others))) for first, *others in shards]

    def table(self, columns: Any = COLUMNS, pipeline: str = "readings", order_by: str = "") -> Table:
        options = (("order_by", order_by),) if order_by else ()
        return Table(pipeline=pipeline, delivery="shop", name=self.name, columns=columns, options=options)

    def system(self, addresses: list[str] | None = None, clients: Any = None, **table: Any) -> ClickHouseTable:
        """The table; through `addresses` of proxies, or by other clients."""
        made = ClickHouseTable(clients or self.clients(addresses), self.table(**table), _FENCE_S)
        if not self.settles:
            made._settle = lambda attempt: None  # type: ignore[method-assign]
        return made

    def run(self, sql: str) -> None:
        for client in self.clients():
            client.do(sql)

    def ask(self, sql: str) -> list[Any]:
        """The rows of all shards."""
        return [row for client in self.clients() for row in client.ask(sql)]

    def stagings(self) -> list[str]:
        return [
            str(row[0]) for row in self.ask(f"SELECT name FROM system.tables WHERE startsWith(name, '{self.name}__')")
        ]

    def rows(self, columns: Any = COLUMNS, where: str = "1", of: int = 0) -> list[tuple[Any, ...]]:
        """Values as they stand there, by the format RowBinary, which nothing of the product reads or writes. `of`:
        the replicas of this number."""
        names = ", ".join(f"`{name}`" for name, _ in columns)
        kinds = dict(self.ask(f"SELECT name, type FROM system.columns WHERE table = '{self.name}'"))
        found = []
        for address in self.addresses:
            answer = requests.post(
                f"http://{address.split('|')[of]}/",
                data=f"SELECT {names} FROM {self.name} WHERE {where} FORMAT RowBinary",
                headers={"X-ClickHouse-User": self.user, "X-ClickHouse-Key": self.password}, timeout=30,
            )  # fmt: skip
            answer.raise_for_status()
            data = io.BytesIO(answer.content)
            while data.tell() < len(answer.content):
                found.append(tuple(_value(data, kinds[name]) for name, _ in columns))
        return found


def _value(data: io.BytesIO, kind: str) -> Any:
    if kind.startswith("Nullable("):
        return None if data.read(1) == b"\1" else _value(data, kind[9:-1])
    if kind == "String":
        return data.read(_length(data))
    if kind.startswith("Decimal("):
        precision, scale = map(int, kind[8:-1].split(","))
        size = 4 if precision <= 9 else 8 if precision <= 18 else 16
        return Decimal(int.from_bytes(data.read(size), "little", signed=True)).scaleb(-scale, _EXACT)
    kind = "DateTime" if kind.startswith("DateTime(") else kind
    code = f"<{'q' if kind.startswith('DateTime64') else _CODES[kind]}"
    return struct.unpack(code, data.read(struct.calcsize(code)))[0]


def _length(data: io.BytesIO) -> int:
    total, shift = 0, 0
    while (byte := data.read(1)[0]) & 0x80:
        total, shift = total | (byte & 0x7F) << shift, shift + 7
    return total | byte << shift


def real(info: StackInfo, shards: int) -> Place:
    """So many of the stack's servers."""
    return Place(info.clickhouse_hosts.split(",")[:shards], info.clickhouse_user, info.clickhouse_password)


@contextmanager
def newest(folder: Path) -> Iterator[Place]:
    """The newest engine, in a process of its own."""
    root = Places.of_checkout().checkout
    command = [sys.executable, "-m", "tests.clickhouse.newest", str(folder)]
    env = {**os.environ, "PYTHONPATH": f"{PACKAGES}:{root}"}
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, cwd=root, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield Place([f"127.0.0.1:{int(process.stdout.readline())}"], "tidegate", "")
    finally:
        process.stdin.close()
        process.wait(30)
        process.stdout.close()


def gone(place: Place) -> None:
    """Remove the test's tables."""
    for client in place.clients():
        for name in [place.name, *place.stagings()]:
            try:
                client.do(f"DROP TABLE `{name}`")
            except Failed:
                continue
