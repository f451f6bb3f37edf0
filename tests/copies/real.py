"""A mirror of a table in a real database, through real Debezium and Kafka, copied while random transactions go on.

Tasks run in this process and die at random calls, Kafka Connect is killed, copies are begun again, rows vanish without
an event (MariaDB). What a snapshot tells of itself (S9', S10) is compared with what was known of the table at quiet
moments; in the end the mirror is the table.
"""

from __future__ import annotations

import json
import random
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from confluent_kafka.admin import NewTopic

from dev.demo.mirror.connect import Connect
from dev.stack.ports import choose_ports
from dev.stack.topics import create_topic
from tests.copies.lives import Mortal
from tests.copies.real_parts import FLUSH_MS, LANES, drop_slot, launcher_of, settings_of, yaml_of
from tests.copies.writer import FIRST_ROWS, TICK, Key, Quiet, Table, Writer
from tests.databases.mysql_server import JARS
from tests.databases.servers import Server
from tests.hooks import Died
from tests.mirror.audits import deep
from tests.mirror.worlds import MirrorWorld
from tests.real_kafka import RealKafka, eventually
from tidegate.adapters.clock import SystemClock
from tidegate.core.base.errors import JobFailed, LostComparison, NotReady, SourceError
from tidegate.core.copy.port import LogPosition, Place
from tidegate.core.mirror.balance import imbalance
from tidegate.databases import connector, kinds
from tidegate.targets.iceberg.tags import FIRST_COPY
from tidegate.workflow.copy import copy as reading

DELIVERED_S, _SPARED_S, REST_S = 180.0, 20.0, 8.0
_CALLS = {
    "copies": ("begin", "cut", "attempt", "accept", "whole", "again", "looked"),
    "applies": ("begin", "applied", "stands"),
    "batches": ("insert_plan", "take", "seal", "land"),
    "iceberg": ("commit",),
    "storage": ("write_new",),
    "launcher": ("run",),
}
"""Where a process may end, before or after the call."""
MOST_CRASHES = 2
_COUNTED = (
    *("applies", "certificates", "times", "kills", "deaths", "not ready", "rounds"),
    *("crashes", "cut reads", "rests", "exact"),
)
_TURNS = [
    *("land_next",) * 6,
    *("_apply",) * 5,
    *("_read",) * 6,
    "_again",
    "_kill",
    "_crash",
    "_haunt",
    "_rest",
    "_rest",
]


class RealWorld(Mortal, MirrorWorld):
    """A pipeline of one table, its connector and its writer. `seed` decides what they do."""

    calls = _CALLS

    def __init__(self, folder: Path, server: Server, bootstrap: str, seed: int, rows: int = FIRST_ROWS) -> None:
        self.rng, self.seed, self.server = random.Random(seed), seed, server
        self.prefix = f"{server.kind[:2]}{seed}"
        self.data = Table(server.kind, f"shop.readings_{seed}")
        topic = f"{self.prefix}.{self.data.name}"
        super().__init__(folder, yaml_of(topic, self.data, self.rng), wrap=self._wrap)
        self.change_spec(name=self.prefix)  # Kafka's group is named after it
        settings = {"bootstrap.servers": bootstrap}
        create_topic(settings, NewTopic(topic, LANES, 1, config={"retention.ms": "-1"}))
        self.kafka = RealKafka(SimpleNamespace(settings=settings))  # type: ignore[assignment, arg-type]
        self.clock = SystemClock()  # type: ignore[assignment]
        self.source_table = kinds.reader(kinds.for_workers(server.connection))
        self.base = kinds.opened(server.connection, 30.0)
        self.looking = kinds.opened(server.connection, 30.0)
        self.connector = self._how_far
        server.run(*self.data.create())
        self.writer = Writer(server, self.data, kinds.opened(server.connection, 30.0), seed, rows)
        self.port = choose_ports(("connect",), {})["connect"]
        launcher = launcher_of(self.prefix, folder)
        made = {self.prefix: settings_of(server, self.data, self.prefix, folder, seed % 10_000)}
        jars = JARS if server.mysql else "connect"
        self.connect = Connect(folder / "connect", bootstrap, self.port, made, launcher, LANES, FLUSH_MS, jars)
        self.starting: threading.Thread | None = None
        self.spared = 0.0
        self.counts = dict.fromkeys(_COUNTED, 0)

    def _how_far(self) -> Place:
        if self.server.kind == "mariadb":
            noted = connector.connect_position(f"http://127.0.0.1:{self.port}", self.prefix, 5.0)
        else:
            noted = connector.slot_position(self.server.connection, self.prefix, 5.0)
        return Place(noted, self.looking.position(), self.looking.log_begin())

    # ------------------------------------------------------------ turns

    def turn(self) -> None:
        """A task, which may die, or something that happens to it."""
        what = self.rng.choice(_TURNS)
        self.dies = self._death() if self.rng.random() < 0.35 else None
        try:
            getattr(self, what)()
        except Died:
            self.counts["deaths"] += 1
        except (LostComparison, NotReady):
            self.counts["not ready"] += 1
        finally:
            self.dies = None
            self.close()

    def land_next(self) -> int | None:
        """A batch of what is there; None for none."""
        self.runs += 1
        return self.ingest(f"run {self.runs}")

    def _apply(self) -> None:
        try:
            self.apply()
        finally:
            self.dies = None
            self.check()

    def _read(self, most: int = 2) -> None:
        left = [self.rng.randrange(most)]

        def go_on() -> bool:
            left[0] -= 1
            return left[0] >= 0

        reading.copy(self.context(), self.base, go_on)

    def _again(self) -> None:
        if self.rng.random() < 0.5:
            keys = None
            if not self.data.text_key and self.rng.random() < 0.7:
                first = self.rng.randrange(FIRST_ROWS)
                keys = (str(first), str(first + self.rng.randrange(FIRST_ROWS)))
            reading.again(self.context(), self.base, "test", keys)
            self.counts["rounds"] += 1

    def _kill(self) -> None:
        """SIGKILL; it starts again while everything goes on."""
        if (self.starting is not None and self.starting.is_alive()) or time.monotonic() < self.spared:
            return
        self.started()
        self.connect.kill()
        self.counts["kills"] += 1
        self.spared = time.monotonic() + _SPARED_S
        self.starting = threading.Thread(target=self.connect.start, daemon=True)
        self.starting.start()

    def _crash(self) -> None:
        """SIGKILL of a database that can be, in the middle of a read; its connector begins again, too."""
        if self.server.crash is None or self.counts["crashes"] >= MOST_CRASHES:
            return
        self.started()
        with self.writer.at_rest():
            killed = threading.Timer(self.rng.uniform(0.0, 1.0), self.server.crash)
            killed.start()
            try:
                self._read(4)
            except (SourceError, JobFailed) as e:
                self.said.append(f"the database was killed: {e}")
                self.counts["cut reads"] += 1
            finally:
                killed.join()
                for one in (self.base, self.looking):
                    one.close()
        self.counts["crashes"] += 1
        self.spared = 0.0
        self._kill()  # a connector that has met it may have given up, as its operator would see

    def started(self) -> None:
        """Kafka Connect runs."""
        if self.starting is not None:
            self.starting.join(150)
            self.starting = None

    def _haunt(self) -> None:
        if self.server.kind == "mariadb":
            for _ in range(5):
                self.writer.haunt(self.rng)

    def _rest(self, patience_s: float = REST_S) -> None:
        """The source is quiet until its connector has noted so, if it does; transactions go on while the table is
        brought up to date, or a moment before."""
        until = time.monotonic() + patience_s
        self.started()
        with self.writer.at_rest():
            self.writer.tick()  # PostgreSQL's log went on behind the last commit: a query has tidied pages
            end = self.looking.position()
            while not self._noted(end) and time.monotonic() < until:
                time.sleep(0.2)
            self.counts["rests"] += self._noted(end)
            while self.land_next() is not None:
                pass
            if self.rng.random() < 0.5:
                self._apply()
        self._apply()

    # ------------------------------------------------------------ what must hold

    def mirror(self) -> dict[Key, tuple[Any, ...]]:
        """The rows that stand, as `Writer.content` has the table's: readers see none before the first copy is whole."""
        table = self.opened()
        if table is None:
            return {}
        names = [*self.data.key, "ver", "name", "amount", "changed", "at", "due", "note"]
        refs = table.metadata.refs
        hidden = refs[FIRST_COPY].snapshot_id if FIRST_COPY in refs else None
        assert hidden is None or table.scan().to_arrow().num_rows == 0, "readers see a part of the table"
        found = table.scan(row_filter="_op != 'd'", snapshot_id=hidden).to_arrow().select(names)
        many = len(self.data.key)
        rows = list(zip(*(c.to_pylist() for c in found.columns), strict=True))
        made = {row[:many]: row[many:] for row in rows}
        assert len(made) == len(rows), "a key has two rows"
        return made

    def check(self) -> None:
        """The table's sums, and what it tells of its age."""
        self.counts["applies"] += 1
        standing = self.standing()
        assert imbalance(standing) is None
        if standing.copied.complete is None:
            return
        found = {key: row[0] for key, row in self.mirror().items()}
        complete = standing.copied.complete
        if complete.exact:
            self.counts["exact"] += 1
            self._exactly(found, complete.position)
        position, at_ms = complete.position, complete.at_ms
        reached = [q for q in list(self.writer.quiet) if q.position <= position]
        if reached:
            self.counts["certificates"] += 1
            self._none_older(found, reached[-1], f"position {position}")
        before = [q for q in list(self.writer.quiet) if at_ms is not None and q.ms <= at_ms]
        if before:
            self.counts["times"] += 1
            self._none_older(found, before[-1], f"at {at_ms}")

    def _exactly(self, found: dict[Key, int], position: LogPosition) -> None:
        """S9: what the source had there, and nothing else."""
        had = self.writer.at(position)
        keys = [key for key in {*found, *had} - {TICK[self.server.kind]} if key[0] != "ghost"]
        wrong = [(key, found.get(key), had.get(key)) for key in keys if found.get(key) != had.get(key)]
        assert not wrong, f"told exactly {position}: {len(wrong)} rows of {len(had)} differ: {wrong[:5]}"

    def _none_older(self, found: dict[Key, int], quiet: Quiet, told: str) -> None:
        """Each row is as of the quiet moment, or newer."""
        wrong = []
        for key in {*found, *quiet.rows} - {TICK[self.server.kind]}:
            has, had = found.get(key), quiet.rows.get(key)
            newer = self.writer.gone.get(key, 0) > quiet.counter if has is None else has > quiet.counter
            if has != had and not newer and key[0] != "ghost":
                wrong.append(f"{key}: {has}, it was {had}")
        assert not wrong, f"told {told}, quiet at {quiet.position} ({quiet.ms}): {len(wrong)} older rows: {wrong[:5]}"

    # ------------------------------------------------------------ the whole life

    def live(self, seconds: float) -> None:
        """From the first rows to the comparison."""
        self.writer.first()
        with self.connected():
            self.writer.start()
            eventually(lambda: self._has_offsets() and self._begins(), DELIVERED_S)
            until = time.monotonic() + seconds
            while time.monotonic() < until or not self.counts["applies"]:
                assert self.writer.failed is None
                self.turn()
            self.writer.stop()
            self.started()
            self.end()

    @contextmanager
    def connected(self) -> Iterator[None]:
        """Kafka Connect runs meanwhile."""
        try:
            self.connect.start()
            yield
        finally:
            self.started()
            self.connect.kill()

    def end(self) -> None:
        """All is delivered, landed, merged and copied: the mirror is the table."""
        end = self.looking.position()
        eventually(lambda: self._delivered(end), DELIVERED_S)
        while self.land_next() is not None:
            pass
        self._copied()
        before = self.standing()
        assert before.copied.whole is not None
        self.compare(lambda key: key[0] != "ghost")
        reading.again(self.context(), self.base, "the last one")
        self._copied()
        self.compare()
        self.check()
        report = deep(self)
        assert (report.problems, report.unsettled, report.balanced) == ((), (), True)

    def _delivered(self, end: LogPosition) -> bool:
        self.writer.tick()
        return self._noted(end)

    def _begins(self) -> bool:
        """An event is merged (S4)."""
        self.land_next()
        return self.apply().told.begins is not None

    def _noted(self, end: LogPosition) -> bool:
        try:
            return self._how_far()[0] >= end
        except SourceError:
            return False

    def _has_offsets(self) -> bool:
        """Kafka Connect has noted how far it is: one that is killed before begins at the log's end, even if it has a
        slot, and what has changed in between never comes."""
        at = f"http://127.0.0.1:{self.port}/connectors/{self.prefix}/offsets"
        try:
            with urllib.request.urlopen(at, timeout=10) as found:
                return bool(json.load(found)["offsets"])
        except OSError:
            return False

    def _copied(self) -> None:
        for _ in range(4):
            self.apply()
            reading.copy(self.context(), self.base)
            self.close()
        self.apply()

    def compare(self, known: Callable[[Key], bool] = lambda key: True) -> None:
        """Column by column; but for the row of ticks, whose events may be under way."""
        tick = TICK[self.server.kind]
        seen = {k: v for k, v in self.mirror().items() if known(k) and k != tick}
        there = {k: as_mirrored(v) for k, v in self.writer.content().items() if known(k) and k != tick}
        differ = [(k, seen.get(k), there.get(k)) for k in {*seen, *there} if seen.get(k) != there.get(k)]
        assert not differ, f"{len(differ)} of {len(there)} rows differ: {differ[:3]}"


def as_mirrored(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """The values that the mirror must have for those of the driver."""
    ver, name, amount, changed, at, due, note = row
    assert amount is None or isinstance(amount, Decimal)
    assert due is None or isinstance(due, date)
    micros = None if changed is None else (changed - datetime(1970, 1, 1)) // timedelta(microseconds=1)
    return ver, name, amount, micros, at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC), due, note


@contextmanager
def real_world(folder: Path, server: Server, bootstrap: str, seed: int, **options: Any) -> Iterator[RealWorld]:
    """One whose slot is gone afterwards (PostgreSQL keeps the log for it)."""
    world = RealWorld(folder, server, bootstrap, seed, **options)
    try:
        yield world
    finally:
        world.close()
        for database in (world.base, world.looking, world.writer.database):
            database.close()
        if server.kind == "postgresql":
            drop_slot(server, world.prefix)
