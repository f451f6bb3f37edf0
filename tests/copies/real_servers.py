"""Two real servers of a kind whose table is one mirror, through real Debezium: a connector each, one topic (S11)."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from confluent_kafka.admin import NewTopic

from dev.demo.mirror.connect import Connect
from dev.stack.ports import choose_ports
from dev.stack.topics import create_topic
from tests.copies.real_parts import FLUSH_MS, LANES, launcher_of, settings_of
from tests.copies.servers import SERVERS, ServersWorld
from tests.copies.writer import Table
from tests.databases.servers import Server
from tests.mirror.audits import Here
from tests.real_kafka import RealKafka
from tidegate.adapters.clock import SystemClock
from tidegate.core.base.errors import NotReady, SourceUnavailable
from tidegate.core.copy.port import LogPosition, Place
from tidegate.core.spec.copy import CopiedServer
from tidegate.databases import connector, kinds

Rows = dict[tuple[str, int], str]
_FURTHER = {
    "mariadb": "FLUSH BINARY LOGS",
    "postgresql": "SELECT pg_logical_emit_message(false, 'a', 'b'), pg_switch_wal()",
}
_SET = {
    "mariadb": "REPLACE INTO {} VALUES ({}, '{}')",
    "postgresql": "INSERT INTO {} VALUES ({}, '{}') ON CONFLICT (id) DO UPDATE SET word = EXCLUDED.word",
}


class RealServers(ServersWorld):
    """The same table on two servers, with `rows` rows of the same keys. The log of the second one is files ahead."""

    def __init__(
        self, folder: Path, servers: tuple[Server, Server], bootstrap: str, seed: int, rows: int, yaml: str
    ) -> None:
        super().__init__(folder, yaml)
        self.rng, self.topic = random.Random(seed), f"both{seed}"
        self.servers = {f"{letter}{seed}": server for letter, server in zip("ab", servers, strict=True)}
        self.table = f"shop.t{seed}"
        copy, source = self.pipeline.copy, self.pipeline.source
        assert copy is not None
        self.kind = servers[0].kind
        named = tuple(self._named(*of) for of in zip(copy.servers, self.servers, strict=True))
        self.change_spec(
            name=self.topic,
            source=replace(source, topic=self.topic),
            copy=replace(copy, table=self.table, servers=named, chunk_rows=rows // 3),
        )
        settings = {"bootstrap.servers": bootstrap}
        create_topic(settings, NewTopic(self.topic, LANES, 1, config={"retention.ms": "-1"}))
        self.kafka = RealKafka(SimpleNamespace(settings=settings))  # type: ignore[assignment, arg-type]
        self.clock = SystemClock()  # type: ignore[assignment]
        servers[1].run(*[_FURTHER[self.kind]] * 3)
        for name, server in self.servers.items():
            server.run(f"CREATE TABLE {self.table} (id int PRIMARY KEY, word varchar(40))")
            values = ", ".join(f"({key}, '{name} {key}')" for key in range(rows))
            server.run(f"INSERT INTO {self.table} VALUES {values}")
        self.readers = {name: kinds.reader(kinds.for_workers(s.connection)) for name, s in self.servers.items()}
        self.bases = {name: kinds.opened(server.connection, 30.0) for name, server in self.servers.items()}
        self.connectors = {name: partial(self._how_far, name) for name in self.servers}
        self._port = choose_ports(("connect",), {})["connect"]
        launcher = launcher_of(self.topic, folder)
        made = {name: self._settings(name, folder, 30_000 + n + seed % 10_000) for n, name in enumerate(self.servers)}
        self.connect = Connect(folder / "connect", bootstrap, self._port, made, launcher, LANES, FLUSH_MS, "connect")

    def _named(self, one: CopiedServer, name: str) -> CopiedServer:
        if self.kind == "mariadb":
            return replace(one, name=name, connector=name)
        return replace(one, name=name, connect_conn_id=None, connector=None, slot=name)

    def _settings(self, name: str, folder: Path, number: int) -> dict[str, str]:
        history = folder / name
        history.mkdir()
        return settings_of(self.servers[name], Table(self.kind, self.table), name, history, number) | {
            "transforms": "route",
            "transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter",
            "transforms.route.regex": rf"{name}\.shop\..*", "transforms.route.replacement": self.topic,
        }  # fmt: skip

    def _how_far(self, name: str) -> Place:
        if self.kind == "mariadb":
            noted = connector.connect_position(f"http://127.0.0.1:{self._port}", name, 5.0)
        else:
            noted = connector.slot_position(self.servers[name].connection, name, 5.0)
        return Place(noted, self.bases[name].position(), self.bases[name].log_begin())

    def copied_from(self, server: str) -> Any:
        return self.readers[server]

    def ends(self) -> Mapping[str, LogPosition]:
        """Where each log ends."""
        return {name: base.position() for name, base in self.bases.items()}

    def noted(self, ends: Mapping[str, LogPosition]) -> bool:
        """Whether each connector has come so far; each server changes once more, so that it says so."""
        self.change(2)
        return all(self._how_far(name)[0] >= end for name, end in ends.items())

    def change(self, most: int = 20) -> None:
        """Rows of each of them, each by a transaction of its own."""
        for server in self.servers.values():
            for _ in range(self.rng.randrange(1, most)):
                key = self.rng.randrange(600)
                if self.rng.random() < 0.3:
                    server.run(f"DELETE FROM {self.table} WHERE id = {key}")
                else:
                    server.run(_SET[self.kind].format(self.table, key, f"was {self.rng.random()}"))

    def land_next(self) -> int | None:
        """A batch of what is there; None for none."""
        self.runs += 1
        return self.ingest(f"run {self.runs}")

    def step(self) -> bool:
        """A job of the copy of each server that has something left, if its connector has noted a place (S4). Returns
        whether nothing is left of any."""
        found = self.read(go_on=lambda: False).values()
        assert all(one.error is None or isinstance(one.error, NotReady) for one in found), found
        return not found

    def waits(self) -> Callable[[], bool]:
        """While a comparison waits, the servers go on, and what has come lands."""
        until = time.monotonic() + 120

        def goes_on() -> bool:
            self.change(2)
            self.land_next()
            return time.monotonic() < until

        return goes_on

    @contextmanager
    def opened_database(self, server: str) -> Iterator[Any]:
        if server in self.down:
            raise SourceUnavailable(f"{server} gives no answer")
        yield self.bases[server], Here()

    def lose(self, name: str) -> None:
        """A row of that server goes without an event."""
        key = min(key for server, key in self.content() if server == name)
        self.servers[name].run("SET sql_log_bin = 0", f"DELETE FROM {self.table} WHERE id = {key}")

    def content(self) -> Rows:
        """What the servers have."""
        return {
            (name, int(key)): word
            for name, server in self.servers.items()
            for key, word in server.run(f"SELECT id, word FROM {self.table}")
        }


@contextmanager
def real_servers(
    folder: Path, servers: tuple[Server, Server], bootstrap: str, seed: int, rows: int, yaml: str = SERVERS
) -> Iterator[RealServers]:
    world = RealServers(folder, servers, bootstrap, seed, rows, yaml)
    try:
        world.connect.start()
        yield world
    finally:
        world.connect.stop()
        world.close()
        for base in world.bases.values():
            base.close()
