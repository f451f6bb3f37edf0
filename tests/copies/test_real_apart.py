"""Two MariaDB servers of one mirror that are set up unalike: another time zone, another character set and collation of
the key (S11). What is read and summed of each is the same.

A part of the tier `make test-copies`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dev.stack import debian
from tests.contract.test_compare_real import told
from tests.copies.servers import SERVERS, A, B, ServersWorld
from tests.databases.servers import Server, mariadb
from tests.mirror.audits import Here
from tidegate.core.copy.port import Place
from tidegate.databases import kinds
from tidegate.workflow.copy import narrow

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.environ.get("TIDEGATE_COPIES") != "all", reason="make test-copies"),
]
YAML = SERVERS.replace(
    "{{name: id, type: bigint, nullable: false}}",
    "{{name: id, type: string, nullable: false}}\n"
    "  - {{name: at, type: timestamp}}\n"
    "  - {{name: day, type: timestamp}}",
).replace("chunk_rows: 3", "chunk_rows: 40")
UNALIKE = {
    A: ("+05:30", "CHARACTER SET latin1 COLLATE latin1_swedish_ci"),
    B: ("-03:00", "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"),
}
COPIED = "('{0}', '{0}', '2026-03-29 00:30:00', '2026-03-29 02:30:00')"
"""In UTC; on this day clocks change in Europe."""
TEXTS = ("Oslo", "Århus", "a,1:b", "Straße", "ÿ", "", *(f"Key {n}" for n in range(100)))


class Apart(ServersWorld):
    """The copies read and sum real databases; their events are made here."""

    def __init__(self, folder: Path, servers: dict[str, Server]) -> None:
        super().__init__(folder, YAML)
        self.servers = servers
        self.readers = {name: kinds.reader(kinds.for_workers(s.connection)) for name, s in servers.items()}
        self.bases = {name: kinds.opened(s.connection, 30.0) for name, s in servers.items()}
        self.connectors = {name: partial(self.how_far, name) for name in servers}

    def how_far(self, name: str) -> Place:
        base = self.bases[name]
        return Place(base.position(), base.position(), base.log_begin())

    def copied_from(self, server: str) -> Any:
        return self.readers[server]

    @contextmanager
    def opened_database(self, server: str) -> Iterator[Any]:
        yield self.bases[server], Here()

    def event(self, name: str, key: str, word: str) -> tuple[bytes, bytes]:
        of, value = told(self.servers[name], self.bases[name], key, word)
        said = json.loads(value)
        said["source"]["name"] = name
        said["after"] |= {"at": "2026-03-29T00:30:00Z", "day": 1774751400000}
        return of, json.dumps(said).encode()


def test_servers_in_other_zones_and_collations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`Oslo` and `OSLO` are one key on the first one, and two on the second."""
    if not debian.is_here():
        pytest.skip("no Debian here, whose packages bring MariaDB")
    monkeypatch.setattr(narrow, "ROWS", 20)
    made = [mariadb(tmp_path / name, options=(f"--default-time-zone={zone}",)) for name, (zone, _) in UNALIKE.items()]
    with made[0] as first, made[1] as second:
        servers = {A: first, B: second}
        for name, server in servers.items():
            server.run(
                f"CREATE TABLE shop.readings (id varchar(40) {UNALIKE[name][1]} PRIMARY KEY, word varchar(40), "
                "at timestamp NULL, day datetime NULL) CHARACTER SET utf8mb4",
                "SET time_zone = '+00:00'",
                f"INSERT INTO shop.readings VALUES {', '.join(map(COPIED.format, TEXTS))}",
            )
        world = Apart(tmp_path, servers)
        world.land(*(world.event(name, "Key 1", "Key 1") for name in servers))
        world.apply()
        assert all(one.error is None for one in world.read().values())
        world.apply()
        assert world.found() == {(name, key): key for name in servers for key in TEXTS}
        rows = world.opened().scan().to_arrow().to_pylist()
        assert {(str(r["at"]), str(r["day"])) for r in rows} == {
            ("2026-03-29 00:30:00+00:00", "2026-03-29 02:30:00+00:00")
        }
        for name, one in world.compared().items():
            assert (one.differ, one.read, one.rows, one.unsummed) == ({}, 0, len(TEXTS), ""), name

        first.run("UPDATE shop.readings SET id = 'OSLO' WHERE id = 'oslo'")
        second.run("INSERT INTO shop.readings (id, word) VALUES ('OSLO', 'another key there')")
        world.land(*(world.event(name, "Key 2", "Key 2") for name in servers))
        differ = {name: one.differ for name, one in world.compared().items()}
        assert differ == {A: {"lacking": 1, "surplus": 1}, B: {"lacking": 1}}
        assert all(one.mended for one in world.compared("by hand").values())
        assert {name: one.differ for name, one in world.compared().items()} == {A: {}, B: {}}
        world.close()
        for base in world.bases.values():
            base.close()
