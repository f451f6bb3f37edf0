"""A world whose windows are copied to another cluster: its files on this disk, its catalogue in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.deliver.lab import SHOP, Direct, Lab
from tests.fakes.catalogue import FakeCatalogue
from tests.fakes.objects import MemoryObjects
from tests.world import HOUR, T0, window
from tidegate.core.base.partition_values import PartitionValues
from tidegate.core.deliver.columns import table_of
from tidegate.core.deliver.sender import Generation
from tidegate.core.deliver.states import Delivered
from tidegate.core.deliver.units import name_of
from tidegate.core.files.merge import Source
from tidegate.core.spec.pipeline import Column, Delivery
from tidegate.core.target.paths import join
from tidegate.storage.local import LocalStorage
from tidegate.targets.cluster import hive
from tidegate.targets.cluster.kind import there
from tidegate.targets.cluster.table import ClusterTable, Options, Site
from tidegate.targets.cluster.tries import order_of
from tidegate.targets.hive.kind import Hive

TABLE = "copies.readings"


class Met(FakeCatalogue):
    """What readers of each partition could meet, in its order: `met`. Copies of it are of another cluster's, too."""

    def __init__(self) -> None:
        super().__init__()
        self.met: dict[PartitionValues, list[str]] = {}

    def add_partitions(self, table: str, locations: dict[PartitionValues, str]) -> None:
        super().add_partitions(table, locations)
        self._note(table)

    def set_location(self, table: str, values: PartitionValues, location: str) -> None:
        super().set_location(table, values, location)
        self._note(table)

    def switch_partitions(self, table: str, locations: dict[PartitionValues, str]) -> None:
        super().switch_partitions(table, locations)
        self._note(table)

    def _note(self, table: str) -> None:
        for values, location in self._tables[table].partitions.items():
            places = self.met.setdefault(values, [])
            if not places or places[-1] != location:
                places.append(location)

    def __deepcopy__(self, memo: dict[int, Any]) -> Met:
        base = super().__deepcopy__(memo)
        copied = Met()
        copied._tables, copied.statements = base._tables, base.statements
        copied.met = {values: list(places) for values, places in self.met.items()}
        return copied


class ClusterLab(Lab):
    """`far`: the other cluster's catalogue. `wrap_far(port name, port)` may put something before its ports. `sides`:
    of the side tables that are copied, too. `objects`: the copy lies in an object store."""

    def __init__(
        self,
        folder: Path,
        *,
        wrap: Any = None,
        wrap_far: Callable[[str, Any], Any] = lambda name, port: port,
        sides: tuple[str, ...] = (),
        objects: bool = False,
        **keys: str,
    ) -> None:
        super().__init__(folder, wrap=wrap)
        self.far, self.wrap_far = Met(), wrap_far
        self.storage: Any = MemoryObjects() if objects else LocalStorage()
        self.there = "s3://there/readings" if objects else f"file://{folder}/there/readings"
        options = {"keep": "86400000", "location": self.there, "success": "True"} | keys
        self.one = replace(SHOP, kind="cluster", table=TABLE, options=tuple(sorted(options.items())))
        beside = (replace(self.one, name=name_of("shop", side), side=side) for side in sides)
        self.world.change_spec(deliver=(self.one, *beside))
        self.world.sender = self.opened

    def opened(self, delivery: Delivery | None = None) -> Direct:
        """As a new process has it."""
        table = table_of(self.pipeline, delivery or self.one)
        return Direct(self.system(table.side), table, self.world.store)

    def system(self, side: str = "") -> ClusterTable:
        options = dict(self.one.options)
        spec = there(self.pipeline, TABLE, options, side=side)
        storage = self.wrap_far("storage", self.storage)
        site = Site(pipeline=spec, storage=storage, clock=self.world.clock)
        at_once = self.wrap_far("switch", self.far) if "metastore_conn_id" in options else None
        targets = Hive(self.wrap_far("catalogue", self.far), at_once)
        return hive.copy(site, storage, targets, Options.of(name_of("shop", side) if side else "shop", options))

    # ------------------------------------------------------------ what stands there

    @property
    def root(self) -> Path:
        return Path(self.there.removeprefix("file://"))

    def names(self, folder: str) -> list[str]:
        """What is in a folder of the work directory there."""
        return self.storage.list_names(f"{self.there}/_tidegate/{folder}") or []

    def orders(self) -> dict[Any, list[tuple[int, int]]]:
        """(generation, epoch) that readers of each part of the table could meet, in its order."""
        return {
            values: [
                found
                for at in places
                if "/empty" not in at and (found := order_of(at.split("/generations/")[1].split("/")[1]))
            ]
            for values, places in self.far.met.items()
        }

    def lose_a_file(self, hour: int) -> None:
        """There, by somebody's hand."""
        self.storage.delete(self.uris(hour)[0])

    def locations(self, hour: int = 0) -> list[str]:
        prefix = (("date", "2013-01-05"), ("hour", f"{hour:02}"))
        return sorted(self.far.partitions(TABLE, prefix).values()) if TABLE in self.far._tables else []

    def ids(self, hour: int = 0) -> list[str]:
        """What a query of the hour there returns."""
        return sorted(row["id"] for row in self.rows(hour))

    def rows(self, hour: int = 0) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for uri in self.uris(hour):
            with self.storage.open_existing(uri) as file:
                found += pq.ParquetFile(file).read().to_pylist()
        return found

    def own(self, hour: int = 0) -> list[tuple[str, bytes]]:
        """(path below the window's directory, bytes) of the generation in force, at home."""
        with self.context() as ctx:
            current = ctx.ledger.windows.get("readings", window(hour)).current
            generation = ctx.ledger.windows.generation("readings", window(hour), current)
        root = Path(generation.location.removeprefix("file://"))
        return sorted((f.path, (root / f.path).read_bytes()) for f in generation.files)

    def copied(self, hour: int = 0) -> list[tuple[str, bytes]]:
        """The same of what partitions point to, there."""
        found = []
        prefix = (("date", "2013-01-05"), ("hour", f"{hour:02}"))
        for values, location in self.far.partitions(TABLE, prefix).items():
            folder = "/".join(f"{name}={value}" for name, value in values[2:])
            for name in self._shown_at(location):
                with self.storage.open_existing(join(location, name)) as file:
                    found.append((f"{folder}/{name}", file.read()))
        return sorted(found)

    def uris(self, hour: int = 0) -> list[str]:
        """Of the files there that readers of the hour meet."""
        return sorted(join(at, name) for at in self.locations(hour) for name in self._shown_at(at))

    def files(self, hour: int = 0) -> list[Path]:
        """The same on a disk."""
        return [Path(uri.removeprefix("file://")) for uri in self.uris(hour)]

    def _shown_at(self, location: str) -> list[str]:
        listing = self.storage.list_files(location) or []
        return [f.path for f in listing if f.path.endswith(".parquet") and "/" not in f.path]


def more_columns(lab: ClusterLab, name: str = "x") -> None:
    """So that a replay makes another generation."""
    lab.world.change_spec(columns=(*lab.pipeline.columns, Column(name=name, type="string", path="$.id")))


class Around:
    """Before a port: `changes[method]` is called instead of the method, once, with what would do it."""

    def __init__(self, **changes: Callable[[Callable[[], Any]], Any]) -> None:
        self.changes, self.calls = changes, list[str]()

    def __call__(self, name: str, port: Any) -> Any:
        return _Port(self, port)


class _Port:
    def __init__(self, around: Around, port: Any) -> None:
        self._around, self._port = around, port

    def __getattr__(self, method: str) -> Any:
        real = getattr(self._port, method)
        if not callable(real):
            return real

        def called(*given: Any, **named: Any) -> Any:
            self._around.calls.append(f"{method} {given[0] if given else ''}")
            change = self._around.changes.pop(method, None)
            return real(*given, **named) if change is None else change(lambda: real(*given, **named))

        return called


def take(lab: ClusterLab, hour: int = 0) -> tuple[Delivered, Generation]:
    """A try of an hour, begun as a task begins it."""
    with lab.context() as ctx:
        (one,) = [o for o in ctx.ledger.deliveries.in_force("readings", "shop", 0, 2**60)
                  if o.window_ms == T0 + hour * HOUR]  # fmt: skip
        row = ctx.ledger.deliveries.take("readings", "shop", one, "digest", ctx.nonce())
        found = ctx.ledger.windows.generation("readings", window(hour), one.generation)
    files = tuple(Source(0, f, (join(found.location, f.path),)) for f in found.files)
    return row, Generation(files=files)


def send(lab: ClusterLab, tried: tuple[Delivered, Generation], holds: bool | None = None) -> Any:
    row, generation = tried
    system = lab.opened()
    system.prepare()

    def asks() -> bool:
        with lab.context() as ctx:
            return bool(ctx.ledger.deliveries.holds(row)) if holds is None else holds

    return system.send(row.attempt(sum(f.entry.rows for f in generation.files)), generation, asks)


__all__ = ["T0", "TABLE", "Around", "ClusterLab", "Met", "more_columns", "send", "take"]
