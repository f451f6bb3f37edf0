"""A mirror whose source's table lies on two servers or more, in memory: each has a log of its own (S11)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.fakes.source_table import FakeSource, place
from tests.mirror.audits import Here
from tests.mirror.worlds import YAML, MirrorWorld
from tidegate.core.base.errors import SourceUnavailable
from tidegate.core.mirror.servers import ServerLog
from tidegate.workflow.copy import copy as reading
from tidegate.workflow.copy.compare import Report, compare_each
from tidegate.workflow.copy.each import Tried, copy_each
from tidegate.workflow.copy.tables import Keys

A, B, C = "shop-a", "shop-b", "shop-c"
_HEAD = (
    YAML.replace("key: [id]", "key: [server, id]").replace(
        "columns:\n",
        'columns:\n  - {{name: server, type: string, nullable: false, from: "$._source.name"}}\n',
    )
    + """\
copy:
  table: shop.readings
  chunk_rows: 3
  tasks: 1
  servers:
"""
)
FIRST = {A: 900_000, B: 100, C: 40_000}
"""Where the log of each server begins."""


def spelled(names: Iterable[str]) -> str:
    """The YAML of a mirror of these servers."""
    lines = [
        f"    - {{{{name: {n}, conn_id: {n.replace('-', '_')}, connect_conn_id: connect, connector: {n[-1]}}}}}\n"
        for n in names
    ]
    return _HEAD + "".join(lines)


SERVERS = spelled((A, B))


class FakeServer(FakeSource):
    """`sent`: how many of its events are in the topic, `delivered`: to which position its connector has noted that;
    `ms`: its clock, if it says one."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name, self.end = name, FIRST[name]
        self.sent, self.delivered = 0, self.end
        self.ms: int | None = None

    def set(self, key: int, word: str | None) -> None:
        super().set(key, word)
        of, value = self.log[-1]
        said = json.loads(value)
        said["source"] |= {"name": self.name} | ({} if self.ms is None else {"ts_ms": self.ms})
        self.log[-1] = (of, json.dumps(said).encode())

    def how_far(self) -> Any:
        """What its connector has noted, and where its log ends."""
        return place(self, self.delivered)


class ServersWorld(MirrorWorld):
    """`source_tables`: the database of each server; `down`: those that give no answer."""

    def __init__(self, folder: Path, yaml: str = SERVERS, names: Sequence[str] = (A, B), **options: Any) -> None:
        super().__init__(folder, yaml, **options)
        self.source_tables = {name: FakeServer(name) for name in names}
        self.connectors = {name: server.how_far for name, server in self.source_tables.items()}
        self.down: set[str] = set()

    def copied_from(self, server: str) -> Any:
        return self.source_tables[server]

    def deliver(self, *names: str, most: int | None = None) -> int | None:
        """The connectors of these servers, or of all, send events, and a batch lands them."""
        found: list[Any] = []
        for server in [self.source_tables[name] for name in names or self.source_tables]:
            some = server.log[server.sent :][:most]
            server.sent += len(some)
            if server.sent == len(server.log):
                server.delivered = server.end
            elif some:
                server.delivered = json.loads(some[-1][1])["source"]["pos"]
            found += some
        return self.land(*found) if found else None

    def read(self, **options: Any) -> dict[str, Tried]:
        """The task that reads chunks, of each server of which some are left."""
        try:
            return {one.server: one for one in copy_each(self.context(), self.opened_database, **options)}
        finally:
            self.close()

    def again(self, server: str, why: str = "test", keys: Keys | None = None) -> Any:
        """A new round of that server, of some keys or all."""
        try:
            return reading.again(self.context(), self.source_tables[server], why, keys, server=server)
        finally:
            self.close()

    def compared(self, fix: str = "", keys: Keys | None = None, server: str = "") -> dict[str, Report]:
        """What is found of each server, or of one."""
        try:
            found = compare_each(self.context(), self.opened_database, self.waits, fix, lambda *_: keys, server)
        finally:
            self.close()
        return {one.server: one for one in found}

    def waits(self) -> Callable[[], bool]:
        """While a comparison waits, the connectors deliver."""
        looks = iter(range(3))
        return lambda: self.deliver() is not None or next(looks, None) is not None

    @contextmanager
    def opened_database(self, server: str) -> Iterator[Any]:
        """As `wiring.open_copy` does; one that is `down` gives no answer."""
        if server in self.down:
            raise SourceUnavailable(f"{server} gives no answer")
        yield self.source_tables[server], Here()

    def found(self, hidden: bool = False) -> dict[tuple[str, int], str]:
        """What readers see; `hidden`: all rows of the table, which readers may not see yet."""
        table = self.opened()
        at = None
        if table is not None and hidden:
            at = next((ref.snapshot_id for name, ref in table.metadata.refs.items() if name != "main"), None)
        rows = [] if table is None else table.scan(row_filter="_op != 'd'", snapshot_id=at).to_arrow().to_pylist()
        assert len({(r["server"], r["id"]) for r in rows}) == len(rows), "a key has two rows"
        return {(r["server"], r["id"]): r["word"] for r in rows}

    def log_of(self, server: str) -> ServerLog:
        """What the table says of a server."""
        return next(log for log in self.standing().copied.servers if log.name == server)

    @property
    def source(self) -> dict[tuple[str, int], str]:
        """All rows of all servers."""
        return {(name, key): word for name, of in self.source_tables.items() for key, word in of.rows.items()}

    def mirror(self) -> dict[tuple[str, int], str]:
        """Everything sent, read and merged."""
        self.deliver()
        self.apply()
        for _ in range(2):
            self.read()
            self.apply()
        return self.found()
