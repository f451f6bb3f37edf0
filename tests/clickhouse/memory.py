"""ClickHouse servers in memory, as far as `targets.clickhouse` uses them: its own statements run here, so that lives
put whatever they like between two of them. What real servers do is known from `attacks.py`, which run on those."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from tests.clickhouse.places import _length, _value
from tests.deliver.lab import Around, at_once
from tidegate.core.base import hivetypes
from tidegate.core.base.errors import DeliveryUnsure
from tidegate.core.deliver.port import Content, Table
from tidegate.targets.clickhouse.client import NONE, TABLE_EXISTS, UNKNOWN_TABLE, Client, Failed, Unanswered, Unsent
from tidegate.targets.clickhouse.statements import EMPTY_SOURCE
from tidegate.targets.clickhouse.table import ClickHouseTable
from tidegate.targets.clickhouse.types import Column, row_hashes

OLD, NEW = frozenset[str](), frozenset({EMPTY_SOURCE, "allow_nullable_key", "DateTime64", "Date32", "Bool"})
_NAME = r"`(?:\w+)`\.`(\w+)`"
_ARROW = {"String": pa.large_binary(), "Bool": pa.uint8(), "DateTime('UTC')": pa.uint32()}
Row = dict[str, Any]


@dataclass
class Data:
    """A part: rows of one partition. `gone_s`: since when (the clock of all) it has made way."""

    partition: str
    rows: list[Row]
    block: int
    gone_s: float | None = None


@dataclass
class Made:
    """A table. `path`: of one that is replicated; `log`: what it has not executed yet."""

    columns: dict[str, tuple[str, str]]
    engine: str
    order: str = ""
    path: str = ""
    parts: list[Data] = field(default_factory=list)
    log: list[Callable[[], None]] = field(default_factory=list)

    def active(self, partition: str = "") -> list[Data]:
        return [p for p in self.parts if p.gone_s is None and partition in ("", p.partition)]


@dataclass
class Server:
    """`running`: REPLACE statements that have found their source, and have not come to their end."""

    address: str
    cluster: Cluster
    tables: dict[str, Made] = field(default_factory=dict)
    running: list[tuple[str, Callable[[], None]]] = field(default_factory=list)
    down: bool = False

    def finish_one(self) -> None:
        if self.running:
            self.running.pop(0)[1]()

    def catch_up(self) -> None:
        """A replica executes the next line of each table's log."""
        for made in self.tables.values():
            if made.log and not self.down:
                made.log.pop(0)()

    def restart(self) -> None:
        """What runs ends without effect. An old version shows again what is on its disk, but of a replicated table:
        ZooKeeper knows its parts."""
        self.running.clear()
        for part in [p for made in self.tables.values() if not made.path for p in made.parts]:
            part.gone_s = None if self.cluster.knows == OLD else part.gone_s


@dataclass
class Cluster:
    """Shards of servers, the first of each is written to. `around`: as of `deliver.lab.Server`. `seen`: generations of
    each window and server, in the order in which readers could meet them; `wrong`: what none may meet."""

    around: Around = at_once
    shape: tuple[int, ...] = (1, 1)
    knows: frozenset[str] = OLD
    now_s: float = 0.0
    seen: dict[tuple[int, str], list[int]] = field(default_factory=dict)
    sent: dict[str, list[Content]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    slow: Callable[[], bool] = lambda: False
    kills: Callable[[], bool] = lambda: False
    happens: Callable[[], None] = lambda: None
    blocks: int = 0

    def __post_init__(self) -> None:
        names = [[f"ch{i}{'abc'[j]}" for j in range(many)] for i, many in enumerate(self.shape)]
        self.every = [[Server(name, self) for name in shard] for shard in names]
        self.named = len(self.every)

    @property
    def shards(self) -> list[list[Server]]:
        """Those that the connection names."""
        return self.every[: self.named]

    @property
    def servers(self) -> list[Server]:
        return [each for shard in self.shards for each in shard]

    def shown(self, window_ms: int, of: int = 0) -> list[Row]:
        """What readers of these replicas meet of the window."""
        at = [shard[of].tables.get("readings") for shard in self.shards]
        return [row for made in at if made for part in made.active(str(window_ms // 1000)) for row in part.rows]

    def ids(self, window_ms: int) -> list[str]:
        return sorted(row["id"].decode() for row in self.shown(window_ms))

    def content(self, window_ms: int, of: int = 0) -> Content:
        found = self.shown(window_ms, of)
        return Content(rows=len(found), checksum=sum(row[""] for row in found) % (1 << 64))

    def time(self) -> Any:
        """In place of the module, where the product waits."""
        return type("Time", (), {"monotonic": lambda _: self.now_s, "sleep": lambda _, s: self.sleep(s)})()

    def sleep(self, seconds: float = 1.0) -> None:
        """Statements come to their ends, replicas go on, old parts leave the disk."""
        self.now_s += seconds
        self.happens()
        for server in self.servers:
            server.finish_one()
            server.catch_up()
            for made in server.tables.values():
                made.parts = [p for p in made.parts if p.gone_s is None or p.gone_s + 1 > self.now_s]

    def clients(self) -> list[Client]:
        """Of one task."""
        at = partial(Memory.at, task=[])
        return [at(first, [at(other) for other in others]) for first, *others in self.shards]


@dataclass
class Memory(Client):
    """A server's client. `task`: not empty once the process was killed: it sends nothing any more."""

    server: Server = None  # type: ignore[assignment]
    task: list[str] = field(default_factory=list)

    @classmethod
    def at(cls, server: Server, replicas: Any = (), task: Any = ()) -> Memory:
        given = {"user": "u", "password": "", "database": "default", "replicas": tuple(replicas), "server": server}
        return cls(address=server.address, task=task, **given)

    def knows(self, name: str) -> bool:
        return name in self.server.cluster.knows

    def ask(self, sql: str) -> list[list[Any]]:
        self._up()
        found: list[list[Any]] = []
        self._lost("ask", lambda: found.extend(self._answer(sql)))
        return found

    def do(self, sql: str, body: bytes = b"", settings: Any = NONE) -> None:
        self._up()
        known = ("REPLACE", "DELETE", "CREATE", "INSERT", "OPTIMIZE", "DROP", "ALTER")
        name = next(word for word in known if word in " ".join(sql.split("`")[0::2]))
        self._lost(name.lower(), partial(getattr(self, f"_{name.lower()}"), sql, body, settings))

    def _up(self) -> None:
        if self.server.down or self.task:
            raise Unsent(f"no connection to {self.address}")

    def _lost(self, name: str, do: Callable[[], None]) -> None:
        try:
            self.server.cluster.around(name, do)
        except DeliveryUnsure as e:
            if self.server.cluster.kills():
                self.task.append("killed")
            raise Unanswered(str(e)) from None

    # ------------------------------------------------------------ queries

    def _answer(self, sql: str) -> list[list[Any]]:
        tables, texts = self.server.tables, re.findall(r"'([^']*)'", sql)
        if sql in ("SELECT 0", "SELECT 1"):
            return [[int(sql[-1])]]
        if "FROM system.processes" in sql:
            return [[sum(texts[1] in query for query, _ in self.server.running)]]
        if "startsWith(name" in sql:
            return [[name] for name in sorted(tables) if name.startswith(texts[1])]
        if "FROM system." in sql:
            made = tables.get(texts[1])
            if made is None:
                return [[0]] if sql.startswith("SELECT count()") else []
            return self._of_system(sql, made, texts[2:])
        made = self._table(re.search(f"FROM {_NAME}", sql)[1])  # type: ignore[index]
        only = re.search(r"toDateTime\((\d+)\)", sql)
        rows = [row for part in made.active(only[1] if only else "") for row in part.rows]
        keys = [name for name in re.findall(r"`(\w+)`", sql.partition(" FROM ")[0].partition("count()")[0])]
        groups: dict[tuple[Any, ...], list[int]] = {} if keys else {(): []}
        for row in rows:
            values = (row[key] for key in keys)
            of = tuple(value.decode() if isinstance(value, bytes) else value for value in values)
            groups.setdefault(of, []).append(row[""])
        return [[*values, len(hashes), sum(hashes) % (1 << 64)] for values, hashes in groups.items()]

    def _of_system(self, sql: str, made: Made, more: list[str]) -> list[list[Any]]:
        what = sql.removeprefix("SELECT ").partition(" FROM ")[0]
        if what == "name, type, comment":
            return [[name, *told] for name, told in made.columns.items()]
        if what == "count()":
            return [[len(made.active())]]
        if what == "partition_id, sum(rows)":
            return [[part.partition, len(part.rows)] for part in made.active()]
        if what.startswith("min_block"):
            mine = [p for p in made.parts if p.partition == more[0]]
            covered = self.server.cluster.knows == NEW
            return [[p.block, p.block, 0, len(p.rows), int(p.gone_s is None)] for p in mine
                    if p.gone_s is None or not covered]  # fmt: skip
        told = {"engine, partition_key": [made.engine, "_window"], "sorting_key": [made.order]}
        return [told[what]] if what in told else [[made.path]] if made.path else []

    def _table(self, name: str) -> Made:
        if name not in self.server.tables:
            raise Failed(f"Code: 60, Table {name} doesn't exist", UNKNOWN_TABLE)
        return self.server.tables[name]

    # ------------------------------------------------------------ changes

    def _create(self, sql: str, *_: Any) -> None:
        name, *source = re.findall(_NAME, sql)
        if name in self.server.tables:
            raise Failed(f"Code: 57, Table {name} already exists", TABLE_EXISTS)
        order = re.search(r"ORDER BY \((.*?)\)", sql)
        if source:
            of = self._table(source[0])
            made = Made(dict(of.columns), "MergeTree", of.order)
        else:
            declared = sql.partition(" (")[2].partition(") ENGINE")[0]
            found = [re.fullmatch(r"`(\w+)` (.+?)(?: COMMENT '(.*)')?", one) for one in re.split(r", (?=`)", declared)]
            columns = {m[1]: (m[2], m[3] or "") for m in found if m}
            path = re.search(r"ReplicatedMergeTree\('(.*?)'", sql)
            made = Made(columns, "ReplicatedMergeTree" if path else "MergeTree", order[1] if order else "")
            made.path = path[1] if path else ""
            for other in self._others(name, made.path):
                made.parts = [self._part(p.partition, p.rows) for p in other.active()]
        self.server.tables[name] = made

    def _insert(self, sql: str, body: bytes, _: Any) -> None:
        made = self._table(re.findall(_NAME, sql)[0])
        if "SELECT" in sql:
            window = re.search(r"toDateTime\((\d+)\)", sql)
            rows: list[Row] = [{"_window": int(window[1]), "": 0}]  # type: ignore[index]
        else:
            rows = list(_decoded(body))
        for partition in sorted({row["_window"] for row in rows}):
            of = [row for row in rows if row["_window"] == partition]
            made.parts.append(self._part(str(partition), of))

    def _delete(self, sql: str, *_: Any) -> None:
        for part in self._table(re.findall(_NAME, sql)[0]).active():
            part.rows = []

    def _optimize(self, sql: str, *_: Any) -> None:
        made = self._table(re.findall(_NAME, sql)[0])
        for partition in sorted({p.partition for p in made.active()}):
            rows = [row for p in made.active(partition) for row in p.rows]
            made.parts = [p for p in made.parts if p.partition != partition]
            made.parts.append(self._part(partition, rows))

    def _drop(self, sql: str, *_: Any) -> None:
        """An old version waits for what has found the table before. Of a partition: without a source, and so without a
        fence."""
        name, partition = re.findall(_NAME, sql)[0], re.search(r"PARTITION ID '(\d+)'", sql)
        made = self._table(name)
        if partition:
            for part in made.active(partition[1]):
                part.gone_s = self.server.cluster.now_s
            return
        while self.server.cluster.knows == OLD and any(f"`{name}`" in query for query, _ in self.server.running):
            self.server.finish_one()
        self.server.tables.pop(name, None)

    def _alter(self, sql: str, *_: Any) -> None:
        name = re.findall(_NAME, sql)[0]
        change = re.search(r"(?:ADD|MODIFY) COLUMN `(\w+)` (.+)", sql)
        assert change is not None, sql
        for made in (self._table(name), *self._others(name, self._table(name).path)):
            made.columns[change[1]] = (change[2], "")

    def _replace(self, sql: str, _: bytes, settings: Any) -> None:
        target, source = re.findall(_NAME, sql)
        partition = re.search(r"PARTITION ID '(\d+)'", sql)
        assert partition is not None
        made, of = self._table(target), self._table(source).active(partition[1])
        if not of and self.knows(EMPTY_SOURCE) and EMPTY_SOURCE not in settings:
            raise Failed("Code: 36, the partition is empty", 36)
        finish = partial(self._show, target, made, source, partition[1], of)
        if self.server.cluster.slow():
            self.server.running.append((sql, finish))
            raise Unanswered("no answer in time")
        finish()

    def _show(self, target: str, made: Made, source: str, partition: str, of: list[Data]) -> None:
        """Replaces the partition by these parts, here at once, at other replicas in its turn."""
        cluster, rows = self.server.cluster, [row for part in of for row in part.rows]
        window_ms = int(partition) * 1000
        here = next(i for i, shard in enumerate(cluster.every) if any(one is self.server for one in shard))
        found = Content(rows=len(rows), checksum=sum(row[""] for row in rows) % (1 << 64))
        attempt = source.rpartition("__tidegate_")[2].split("_")
        if len(of) > 1:
            cluster.wrong.append(f"{source}: {len(of)} parts were moved")
        if (wanted := cluster.sent.get(source)) is not None and wanted[here] != found:
            cluster.wrong.append(f"{source}: {found} shown, {wanted[here]} sent")

        def execute(at: Server, made: Made) -> None:
            for part in made.active(partition):
                part.gone_s = cluster.now_s
            made.parts += [self._part(partition, list(part.rows)) for part in of]
            if len(attempt) == 5:
                cluster.seen.setdefault((window_ms, at.address), []).append(int(attempt[2]))

        execute(self.server, made)
        for other in cluster.every[here]:
            its = None if other is self.server else other.tables.get(target)
            if its is not None and (of or not its.log):  # without a part it is forgotten by one that lags, as by 18.16
                its.log.append(partial(execute, other, its))

    def _part(self, partition: str, rows: list[Row]) -> Data:
        self.server.cluster.blocks += 1
        return Data(partition, rows, self.server.cluster.blocks)

    def _others(self, name: str, path: str) -> list[Made]:
        """Replicas of the table."""
        every = [each for shard in self.server.cluster.every for each in shard]
        tables = [each.tables[name] for each in every if name in each.tables]
        return [made for made in tables if path and made.path == path and made is not self.server.tables.get(name)]


def _decoded(body: bytes) -> Iterator[Row]:
    """Rows of blocks in format Native, each with its hash as ""."""
    data = io.BytesIO(body)
    while data.tell() < len(body):
        wide, long = _length(data), _length(data)
        columns, values = list[Column](), list[list[Any]]()
        for _ in range(wide):
            name, kind = (data.read(_length(data)).decode() for _ in range(2))
            plain = kind.removeprefix("Nullable(").removesuffix(")") if kind.startswith("Nullable(") else kind
            nulls = data.read(long) if kind != plain else bytes(long)
            found = [_value(data, plain) for _ in range(long)]
            columns.append(Column(name, hivetypes.parse("string"), plain, nullable=kind != plain))
            values.append([None if null else value for value, null in zip(found, nulls, strict=True)])
        arrays = [pa.array(v, _arrow(c.type)) for v, c in zip(values, columns, strict=True)]
        hashes = row_hashes(columns, arrays).astype(np.uint64).tolist()
        for at in range(long):
            yield {c.name: v[at] for c, v in zip(columns, values, strict=True)} | {"": hashes[at]}


def _arrow(kind: str) -> pa.DataType:
    return pa.int64() if kind.startswith("DateTime64") else _ARROW.get(kind) or getattr(pa, kind.lower())()


class InClickHouse(ClickHouseTable):
    """The product's own table, on these servers. Notes what each try has sent to which shard."""

    place: Any = Cluster
    quorum = 1

    def __init__(self, cluster: Cluster, table: Table) -> None:
        wanted = replace(table, options=(("quorum", str(self.quorum)),))
        super().__init__(cluster.clients(), wanted, 5.0)
        self._cluster = cluster

    def _filled(self, staging: str, *given: Any) -> list[Content]:
        self._cluster.sent[staging] = found = super()._filled(staging, *given)
        return found


class Newer(InClickHouse):
    """One server of a newer version."""

    place = partial(Cluster, shape=(1,), knows=NEW)


class Replicated(InClickHouse):
    """Two shards of two replicas, of an old version."""

    place = partial(Cluster, shape=(2, 2))


class Quorum(Replicated):
    """The same; a window stands once both replicas show it."""

    quorum = 2
