"""A mirror compared with its source by groups of keys, beside a comparison that reads all rows: CPU of our process and
of the database, rows over the line.

    .venv/bin/python -m bench.compare [--rows 1000000] [--runs 3] [--only mariadb]

A real MariaDB and a real PostgreSQL have the table of `bench.source_copy`, but for its key, which is a text. Its mirror
was made by a first copy; all of Tidegate is in this process, ledger and Parquet on this disk. Each way compares equal
rows, and then three planted differences, which both have to find: rows changed, deleted and added without events.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from bench.parts import circumstances, cpu_now
from bench.source_copy import CHUNK_ROWS, COLUMNS, CREATE, FILL, SQL, TABLE, first_process
from tests.copies.worlds import CopyWorld
from tests.databases import servers
from tests.databases.servers import Server
from tests.mirror.audits import Here
from tidegate.core.copy.port import Database
from tidegate.databases import kinds
from tidegate.workflow.copy import compare as comparing
from tidegate.workflow.copy.copy import copy

KEY = ("code", "string")
COLUMNS_THERE = (KEY, *COLUMNS[1:])
BUCKETS = 16
PLANT = (
    f"UPDATE {TABLE} SET name = CONCAT(name, ' ') WHERE code = 'key-10'",
    f"DELETE FROM {TABLE} WHERE code = 'key-20'",
    f"INSERT INTO {TABLE} SELECT 'new', customer, pieces, total, weight, name, city, note, at, day FROM {TABLE} "
    "WHERE code = 'key-30'",
)
FOUND = {"lacking": 1, "surplus": 1, "other": 1}
HEAD = f"{'':10} {'':9} {'':19} {'ours, CPU-s':>24} {'database, CPU-s':>24} {'wall, s':>24} {'rows':>10} parts"


@dataclass(frozen=True)
class Cost:
    """Of one comparison: CPU seconds of this process and of the server, seconds, rows that were read."""

    ours: float
    server: float
    wall: float
    rows: int
    parts: int


class Compared:
    """A table, and its mirror."""

    def __init__(self, server: Server, rows: int, folder: Path) -> None:
        self.server, self.pid, self._deletes = server, first_process(server), 0
        sql = SQL[server.kind]
        fill = FILL.format(time=sql["time"], day=sql["day"], numbers=str(sql["numbers"]).format(rows=rows))
        create = CREATE.format(time=sql["type"]).replace("id BIGINT", "code VARCHAR(40)")
        settle = [each.format(table=TABLE) for each in sql["settle"]]
        server.run(create, fill.replace("SELECT n,", "SELECT CONCAT('key-', n),"), *settle)
        folder.mkdir()
        self.world = CopyWorld(folder, _yaml())
        self.world.source_table = kinds.reader(kinds.for_workers(server.connection))  # type: ignore[assignment]
        self.base: Database = kinds.opened(server.connection, 600.0)
        self.world.connector = lambda: (self.base.position(), self.base.position())  # type: ignore[assignment]
        self.moves()
        self.world.apply()
        copy(self.world.context(), self.base)
        self.world.close()
        self.world.apply()

    def moves(self) -> None:
        """A later event is merged, of a key that is not there: what was changed is older than it."""
        self._deletes += 1
        key, commit = {"code": f"gone {self._deletes}"}, self.base.position()[0]
        source: dict[str, Any] = {"db": "shop", "table": "orders", "snapshot": "false"}
        if self.server.kind == "mariadb":
            source |= {"connector": "mariadb", "file": "binlog.000001", "pos": 4, "row": self._deletes}
        else:
            source |= {"connector": "postgresql", "lsn": commit, "sequence": f'["{commit}", "{commit}"]'}
            source |= {"schema": "shop"}
        value = {"op": "d", "source": source, "before": key, "after": None, "ts_ms": 0}
        self.world.land((json.dumps(key).encode(), json.dumps(value).encode()))
        self.world.apply()

    def compare(self, expected: dict[str, int]) -> Cost:
        """Raises SystemExit where it finds anything else."""
        before, started = (time.process_time(), cpu_now(self.pid)), time.monotonic()
        found = comparing.compare(self.world.context(), self.base, Here(), lambda: False)
        wall = time.monotonic() - started
        self.world.close()
        if found.differ != expected:
            raise SystemExit(f"{found.differ} differ, not {expected}: {found.samples}")
        return Cost(time.process_time() - before[0], cpu_now(self.pid) - before[1], wall, found.read, found.parts)

    def planted(self) -> None:
        self.server.run(*PLANT)
        self.moves()

    def close(self) -> None:
        self.base.close()
        self.world.close()


def _yaml() -> str:
    """With a place for the location, as `tests.mirror.worlds.mirror` takes it."""
    lines = []
    for name, kind in COLUMNS_THERE:
        more = ", nullable: false" if name == KEY[0] else ", convert: text" if kind.startswith("decimal") else ""
        lines.append(f'  - {{{{name: {name}, type: "{kind}"{more}}}}}\n')
    return (
        "version: 1\nname: readings\nowner: shop\nsource: {{topic: readings}}\nformat: {{type: debezium}}\ncolumns:\n"
        f'{"".join(lines)}sink: {{{{kind: mirror, table: lake.orders, location: "{{location}}", key: [{KEY[0]}], '
        f"buckets: {BUCKETS}}}}}\ncopy: {{{{conn_id: shop, table: {TABLE}, chunk_rows: {CHUNK_ROWS}}}}}\n"
    )


@contextmanager
def reading_all(kind: str) -> Iterator[None]:
    """Make a comparison of kind `all rows` read them all, as where the source can sum nothing."""
    if kind == "all rows":
        with mock.patch.object(comparing, "narrow", return_value="for the comparison"):
            yield
    else:
        yield


def spread(values: list[float], digits: int) -> str:
    middle = f"{statistics.median(values):.{digits}f}"
    return middle if len(values) == 1 else f"{middle} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def told(kind: str, way: str, what: str, spent: list[Cost]) -> str:
    ours, server, wall = ([getattr(one, name) for one in spent] for name in ("ours", "server", "wall"))
    times = f"{spread(ours, 1):>24} {spread(server, 1):>24} {spread(wall, 0):>24}"
    return f"{kind:10} {way:9} {what:19} {times} {spent[0].rows:>10,} {spent[0].parts}"


def measure(server: Server, asked: argparse.Namespace, folder: Path) -> None:
    started = time.monotonic()
    one = Compared(server, asked.rows, folder)
    print(f"{server.kind}: {asked.rows:,} rows, mirrored in {time.monotonic() - started:.0f} s\n{HEAD}", flush=True)
    expected: dict[str, int] = {}
    for what in ("nothing differs", "three rows differ"):
        for way in ("groups", "all rows"):
            with reading_all(way):
                spent = [one.compare(expected) for _ in range(asked.runs)]
            print(told(server.kind, way, what, spent), flush=True)
        if not expected:
            one.planted()
            expected = FOUND
    one.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", choices=("mariadb", "postgresql"))
    asked, folder = parser.parse_args(), Path(tempfile.mkdtemp(prefix="tidegate-compare-"))
    os.chmod(folder, 0o755)  # PostgreSQL is another user where this one is root
    print(f"before: {circumstances()}", flush=True)
    try:
        for kind in ("mariadb", "postgresql") if asked.only is None else (asked.only,):
            with getattr(servers, kind)(folder / kind) as server:
                measure(server, asked, folder / f"{kind}-mirror")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"after: {circumstances()}")


if __name__ == "__main__":
    main()
