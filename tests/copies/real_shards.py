"""Shards of a real server through real Debezium, whose RegexRouter sends their events to one topic (S11)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

from confluent_kafka.admin import NewTopic

from dev.demo.mirror.connect import Connect
from dev.stack.ports import choose_ports
from dev.stack.topics import create_topic
from tests.copies.real_parts import FLUSH_MS, LANES, drop_slot, launcher_of, settings_of
from tests.copies.test_shards import ShardedWorld
from tests.copies.writer import Table
from tests.databases.mysql_server import JARS
from tests.databases.servers import Server
from tests.real_kafka import RealKafka
from tidegate.adapters.clock import SystemClock
from tidegate.core.base.errors import NotReady
from tidegate.core.copy.port import Place
from tidegate.databases import connector, kinds
from tidegate.workflow.copy import copy as reading

Rows = dict[tuple[str, int], str]


class RealShards(ShardedWorld):
    """Three tables of `rows` rows each, with the same keys."""

    def __init__(self, folder: Path, server: Server, bootstrap: str, seed: int, rows: int) -> None:
        super().__init__(folder)
        self.server, self.rng = server, random.Random(seed)
        self.prefix = f"s{server.kind[:2]}{seed}"
        self.names = [f"{self.prefix}_{n}" for n in range(3)]
        copy = self.pipeline.copy
        assert copy is not None
        tables = rf"shop\.{self.prefix}_[0-9]+"
        source = self.pipeline.source
        self.change_spec(
            name=self.prefix,
            source=replace(source, topic=self.prefix),
            copy=replace(copy, tables=tables, chunk_rows=rows // 3),
        )
        settings = {"bootstrap.servers": bootstrap}
        create_topic(settings, NewTopic(self.prefix, LANES, 1, config={"retention.ms": "-1"}))
        self.kafka = RealKafka(SimpleNamespace(settings=settings))  # type: ignore[assignment, arg-type]
        self.clock = SystemClock()  # type: ignore[assignment]
        for name in self.names:
            server.run(f"CREATE TABLE shop.{name} (id int PRIMARY KEY, word varchar(40))")
            values = ", ".join(f"({key}, '{name} {key}')" for key in range(rows))
            server.run(f"INSERT INTO shop.{name} VALUES {values}")
        self.source_table = kinds.reader(kinds.for_workers(server.connection))
        self.base = kinds.opened(server.connection, 30.0)
        self.looking = kinds.opened(server.connection, 30.0)
        self.connector = self._how_far
        port = choose_ports(("connect",), {})["connect"]
        made = settings_of(server, Table(server.kind, "shop.all"), self.prefix, folder, 20_000 + seed % 10_000)
        made |= {
            "table.include.list": tables, "transforms": "route",
            "transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter",
            "transforms.route.regex": rf".*{self.prefix}_[0-9]+", "transforms.route.replacement": self.prefix,
        }  # fmt: skip
        launcher = launcher_of(self.prefix, folder)
        given, jars = {self.prefix: made}, JARS if server.mysql else "connect"
        self.connect = Connect(folder / "connect", bootstrap, port, given, launcher, LANES, FLUSH_MS, jars)
        self._port = port

    def _how_far(self) -> Place:
        if self.server.kind == "mariadb":
            noted = connector.connect_position(f"http://127.0.0.1:{self._port}", self.prefix, 5.0)
        else:
            noted = connector.slot_position(self.server.connection, self.prefix, 5.0)
        return Place(noted, self.looking.position(), self.looking.log_begin())

    def change(self, most: int = 20) -> None:
        """Rows of any of them, each by a transaction of its own."""
        for _ in range(self.rng.randrange(1, most)):
            name, key = self.rng.choice(self.names), self.rng.randrange(600)
            if self.rng.random() < 0.3:
                self.server.run(f"DELETE FROM shop.{name} WHERE id = {key}")
            elif not self.server.run(f"SELECT 1 FROM shop.{name} WHERE id = {key}"):
                self.server.run(f"INSERT INTO shop.{name} VALUES ({key}, 'new {self.rng.random()}')")
            else:
                self.server.run(f"UPDATE shop.{name} SET word = 'was {self.rng.random()}' WHERE id = {key}")

    def land_next(self) -> int | None:
        """A batch of what is there; None for none."""
        self.runs += 1
        return self.ingest(f"run {self.runs}")

    def step(self) -> bool:
        """A job of the copy, if the connector has noted a place (S4). Returns whether all is read."""
        try:
            return not reading.copy(self.context(), self.base, go_on=lambda: False).left
        except NotReady:
            return False
        finally:
            self.close()

    def content(self) -> Rows:
        """What the server has."""
        return {
            (name, int(key)): word
            for name in self.names
            for key, word in self.server.run(f"SELECT id, word FROM shop.{name}")
        }


@contextmanager
def real_shards(folder: Path, server: Server, bootstrap: str, seed: int, rows: int) -> Iterator[RealShards]:
    world = RealShards(folder, server, bootstrap, seed, rows)
    try:
        world.connect.start()
        yield world
    finally:
        world.connect.stop()
        world.close()
        world.base.close()
        world.looking.close()
        if server.kind == "postgresql":
            drop_slot(server, world.prefix)
