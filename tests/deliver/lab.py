"""A world whose windows are delivered to databases in memory: one that has transactions, and one that has none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from spark_jobs.engine.delivered import DeliveredRows, checksum
from spark_jobs.engine.types import schema_of
from tests.world import World, make_pipeline, record, window
from tidegate.adapters.delivery import SenderProcess
from tidegate.core.base.errors import DeliveryAhead, DeliveryRefused, DeliveryUnsure, LostComparison
from tidegate.core.base.partition_values import PartitionValues
from tidegate.core.deliver.columns import table_of
from tidegate.core.deliver.parts import added, paired
from tidegate.core.deliver.port import (
    Attempt,
    Content,
    FurtherSystem,
    Holds,
    Missing,
    Needed,
    Part,
    Rows,
    Standing,
    Table,
    Tries,
)
from tidegate.core.deliver.sender import Generation
from tidegate.core.files.failure import JobError
from tidegate.core.files.receipt import CHECKSUM_MODULUS
from tidegate.core.spec.pipeline import Delivery, Pipeline
from tidegate.core.target.port import Token
from tidegate.storage.local import LocalStorage

SHOP = Delivery(name="shop", kind="postgresql", conn_id="pg", table="readings")
Around = Callable[[str, Callable[[], None]], None]
"""Gets a change's name and the change, and makes it now, later or never; what it raises is what the client meets."""


def at_once(name: str, do: Callable[[], None]) -> None:
    do()


@dataclass
class Server:
    """What stands of windows, what is staged, and who may see when that changes. `seen`: generations, in the order in
    which readers of a window could meet them."""

    rows: dict[int, list[Any]] = field(default_factory=dict)
    tokens: dict[int, tuple[Token, str]] = field(default_factory=dict)
    staged: dict[str, list[Any]] = field(default_factory=dict)
    seen: dict[int, list[int]] = field(default_factory=dict)
    columns: tuple[tuple[str, str], ...] = ()
    down: bool = False
    around: Around = at_once
    sent: list[str] = field(default_factory=list)

    def show(self, window_ms: int, rows: list[Any], generation: int) -> None:
        self.rows[window_ms] = rows
        self.seen.setdefault(window_ms, []).append(generation)

    def backup(self) -> tuple[dict[int, list[Any]], dict[int, tuple[Token, str]], tuple[tuple[str, str], ...]]:
        return dict(self.rows), dict(self.tokens), self.columns

    def restore(self, backup: tuple[Any, Any, Any]) -> None:
        """What was under way to it is gone; readers meet what was in force then."""
        self.rows, self.tokens, self.columns = dict(backup[0]), dict(backup[1]), backup[2]
        self.seen.clear()

    def ids(self, window_ms: int) -> list[str]:
        """What a query of the window's rows returns."""
        return sorted(row["id"] for batch in self.rows.get(window_ms, ()) for row in batch.to_pylist())


class _System:
    place = Server

    def __init__(self, server: Server, table: Table) -> None:
        self.server, self.table = server, table

    def missing(self) -> Missing | None:
        self._up()
        return None if self.server.columns else Missing()

    def prepare(self) -> list[str]:
        self._up()
        if self.server.columns == self.table.columns:
            return []
        self.server.columns = self.table.columns
        return ["created it"]

    def tries(self) -> Tries | None:
        return None

    def standing(self, window_ms: int) -> Standing:
        self._up()
        self._has_its_columns()
        token = self.server.tokens.get(window_ms)
        return Standing(content=content(self._read(window_ms)), token=None if token is None else token[0])

    def parts(self, window_ms: int, rows: Rows) -> tuple[Part, ...]:
        self._up()
        return paired(self._by_site(rows.batches()), self._by_site(self._read(window_ms)))

    def _read(self, window_ms: int) -> list[Any]:
        """By today's columns, whichever the rows came with: those that the table has got since are null."""
        return [_with_columns(batch, self.table.columns) for batch in self.server.rows.get(window_ms, [])]

    def _by_site(self, batches: Iterable[Any]) -> dict[PartitionValues, Content]:
        found: dict[PartitionValues, Content] = {}
        for batch in batches:
            for at, site in enumerate(batch["site"].to_pylist()):
                added(found, (("site", site),), content([batch.slice(at, 1)]))
        return found

    def close(self) -> None: ...

    def _has_its_columns(self) -> None:
        """Only `prepare` makes the table, and gives it columns."""
        if not {*self.table.columns} <= {*self.server.columns}:
            raise DeliveryRefused("there is no such table or column", retry=False)

    def _up(self) -> None:
        if self.server.down:
            raise DeliveryRefused("the server did not answer", retry=True)

    def _do(self, name: str, change: Callable[[], None]) -> None:
        self._up()
        self.server.around(name, change)


class Transactional(_System):
    """As a relational database: one change, which compares the window's token where it is executed."""

    def send(self, attempt: Attempt, rows: Rows, holds: Holds) -> Standing:
        self._up()
        token, batches = attempt.token, list(rows.batches())
        self._compare(token)
        if not holds():
            raise LostComparison("overtaken")
        self.server.sent.append(attempt.staging)

        def commit() -> None:
            try:
                self._compare(token)
            except DeliveryAhead:
                return  # a transaction that comes late: the lock and the comparison are within it
            self.server.tokens[token.unit] = (token, attempt.nonce)
            self.server.show(token.unit, batches, token.generation)

        try:
            self._do("commit", commit)
        except DeliveryUnsure:
            if self.server.tokens.get(token.unit) != (token, attempt.nonce):
                raise
        return Standing(content=content(batches), token=token)

    def tries(self) -> Tries:
        self._up()
        return {at: (token.generation, token.epoch) for at, (token, _) in self.server.tokens.items()}

    def sweep(self, needed: Needed) -> list[str]:
        return []

    def _compare(self, token: Token) -> None:
        there = self.server.tokens.get(token.unit)
        if there is not None and (there[0].generation, there[0].epoch) >= (token.generation, token.epoch):
            raise DeliveryAhead("later", generation=there[0].generation, epoch=there[0].epoch)


class Staged(_System):
    """As a database without transactions over statements: D1 to D7, one statement a change."""

    def standing(self, window_ms: int) -> Standing:
        self._up()
        self._has_its_columns()
        return Standing(content=content(self._read(window_ms)))

    def send(self, attempt: Attempt, rows: Rows, holds: Holds) -> Standing:
        token, name, batches = attempt.token, attempt.staging, list(rows.batches())
        self._do("create", lambda: self._create(name))
        self.server.sent.append(name)
        for batch in batches:
            self._do("insert", lambda batch=batch: self._staging(name).append(batch))  # type: ignore[misc]
        if content(self._staging(name)) != content(batches):
            raise DeliveryRefused("the staging holds other rows", retry=True)
        self._fence(token.unit, name)
        if not holds():
            raise LostComparison("overtaken")
        self._do("replace", lambda: self.server.show(token.unit, self._staging(name), token.generation))
        if content(self.server.rows.get(token.unit, [])) != content(batches):
            raise DeliveryRefused("other rows stand there", retry=True)
        return Standing(content=content(batches))

    def sweep(self, needed: Needed) -> list[str]:
        found = set(self.server.staged)
        gone = sorted(found - needed(found))
        for name in gone:
            self._do("drop", lambda name=name: self._drop(name))  # type: ignore[misc]
        return [f"dropped {name}" for name in gone]

    def _create(self, name: str) -> None:
        if name in self.server.staged:
            raise DeliveryRefused(f"{name} is there", retry=True)
        self.server.staged[name] = []

    def _staging(self, name: str) -> list[Any]:
        if name not in self.server.staged:
            raise DeliveryRefused(f"{name} is gone", retry=True)
        return self.server.staged[name]

    def _fence(self, window_ms: int, mine: str) -> None:
        """D4: until they are gone."""
        while others := [n for n in self.server.staged if n.startswith(f"{window_ms}_") and n != mine]:
            try:
                self._do("drop", partial(self._drop, others[0]))
            except DeliveryUnsure:
                continue

    def _drop(self, name: str) -> None:
        self.server.staged.pop(name, None)


def _with_columns(batch: Any, columns: tuple[tuple[str, str], ...]) -> Any:
    schema = schema_of(columns)
    have = {name: batch.column(n) for n, name in enumerate(batch.schema.names)}
    arrays = [have[f.name].cast(f.type) if f.name in have else pa.nulls(len(batch), f.type) for f in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def content(batches: list[Any]) -> Content:
    total = sum(checksum(batch) for batch in batches)
    return Content(rows=sum(map(len, batches)), checksum=total % CHECKSUM_MODULUS)


class Direct:
    """`core.deliver.sender.Sender`, here instead of in a process of its own."""

    def __init__(self, system: FurtherSystem, table: Table, store: Any = None) -> None:
        self.system, self.table, self.store = system, table, store or LocalStorage()
        self.missing, self.prepare, self.standing = system.missing, system.prepare, system.standing
        self.sweep, self.close, self.tries = system.sweep, system.close, system.tries

    def send(self, attempt: Attempt, generation: Generation, holds: Holds) -> Standing:
        with _as_the_process_tells():
            return self.system.send(attempt, self._rows(attempt.token.unit, generation), holds)

    def parts(self, window_ms: int, generation: Generation) -> tuple[Part, ...]:
        with _as_the_process_tells():
            return self.system.parts(window_ms, self._rows(window_ms, generation))

    def _rows(self, window_ms: int, generation: Generation) -> DeliveredRows:
        return DeliveredRows(
            self.table.columns, window_ms, generation.files, generation.columns, self.store.open_existing
        )


@contextmanager
def _as_the_process_tells() -> Iterator[None]:
    try:
        yield
    except JobError as e:
        raise DeliveryRefused(e.failure.what, advice=e.failure.advice, retry=e.failure.retry) from None


class Lab:
    """`kind`: one of `kinds`."""

    kinds = (Transactional, Staged)

    def __init__(self, folder: Path, kind: type[Any] = Transactional, *more: Delivery, wrap: Any = None) -> None:
        self.kind = kind
        self.servers = {one.name: kind.place() for one in (SHOP, *more)}
        pipeline = make_pipeline(f"file://{folder}/lake/readings")
        self.world = World(folder, pipeline, wrap)
        self.world.change_spec(deliver=(SHOP, *more))
        self.world.sender = self._sender

    @property
    def server(self) -> Server:
        return self.servers["shop"]

    @property
    def pipeline(self) -> Pipeline:
        return self.world.pipeline

    def _sender(self, delivery: Delivery) -> Direct:
        table = table_of(self.pipeline, delivery)
        return Direct(self.kind(self.servers[delivery.name], table), table)

    def hours(self, count: int = 2) -> None:
        """So many published hours, from 0 on, each with two rows; and one that is open."""
        for partition in range(2):
            rows = [record(f"{h}-{partition}", h + 0.1, site="a" if partition else "b") for h in range(count)]
            self.world.produce(*rows, record(f"open-{partition}", count + 2.5), partition=partition)
        self.world.ingest("first")
        for hour in range(count):
            self.world.archive(hour)

    @contextmanager
    def context(self) -> Iterator[Any]:
        try:
            yield self.world.context()
        finally:
            self.world.close()

    def deliver(self, name: str = "shop") -> list[str]:
        """A run of the task: what became of each window."""
        from tidegate.workflow.deliver import deliver, ready

        with self.context() as ctx:
            one = next(d for d in self.pipeline.deliver if d.name == name)
            sender = ctx.sender(one)
            ready.prepare(ctx, one, sender)
            return [sent.what for sent in deliver.deliver(ctx, one, sender)]

    def verify(self, *hours: int, why: str = "") -> list[str]:
        from tidegate.workflow.deliver import deliver, ready

        with self.context() as ctx:
            one = next(d for d in self.pipeline.deliver if d.name == SHOP.name)
            sender = ctx.sender(one)
            ready.prepare(ctx, one, sender)
            return [s.what for s in deliver.verify(ctx, one, sender, [window(h) for h in hours], why=why)]

    def differences(self) -> list[list[str]]:
        """What a comparison says of the partitions of each hour that was sent."""
        from tidegate.workflow.deliver import deliver

        with self.context() as ctx:
            one = self.pipeline.deliver[0]
            return [[str(p) for p in s.parts] for s in deliver.compare(ctx, one, ctx.sender(one))]

    def states(self) -> list[str]:
        with self.context() as ctx:
            rows = ctx.ledger.deliveries.within("readings", "shop", 0, 2**60)
            return [f"{row.state} {row.generation}.{row.epoch}" for row in rows]


class RealLab(Lab):
    """Its windows go to a real server, by processes that read files. `settings`: how they reach the server."""

    def __init__(self, folder: Path, delivery: Delivery, settings: Callable[[], Mapping[str, Any]]) -> None:
        super().__init__(folder)
        self.settings, self.senders = settings, list[SenderProcess]()
        self.world.change_spec(deliver=(delivery,))
        self.world.sender = lambda _: self.process()

    def process(self) -> SenderProcess:
        delivery = self.pipeline.deliver[0]
        self.senders.append(SenderProcess(delivery.kind, self.settings, table_of(self.pipeline, delivery)))
        return self.senders[-1]

    def deliver_and_be_killed(self) -> str:
        """A run whose process dies when it asks whether its try still holds: what became of the one window."""
        from tidegate.workflow.deliver import deliver, ready

        with self.context() as ctx:
            one = self.pipeline.deliver[0]
            sender, held = ctx.sender(one), ctx.ledger.deliveries.holds
            ready.prepare(ctx, one, sender)

            def holds(row: Any) -> bool:
                child = self.senders[-1]._child._child
                assert child is not None
                child.kill()
                child.wait()
                return bool(held(row))

            ctx.ledger.deliveries.holds = holds
            (sent,) = deliver.deliver(ctx, one, sender)
        return sent.what

    def close(self) -> None:
        for sender in self.senders:
            sender.close()
