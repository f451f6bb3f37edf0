"""Worlds whose late and dirty tables are copied to another cluster, too: what readers there meet of all tables."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from spark_jobs.engine.sinks import finished
from tests.deliver.cluster_lab import TABLE, ClusterLab
from tests.deliver.iceberg_lab import IcebergLab
from tests.dirty import redrives
from tests.late import reopenings
from tests.world import World, record
from tidegate.core.base.errors import CatalogueError
from tidegate.core.deliver.units import name_of
from tidegate.targets.iceberg import live

SIDES = ("late", "dirty")
Offsets = Counter[tuple[int, int]]


class HiveSides(ClusterLab):
    def __init__(self, folder: Path, **given: Any) -> None:
        super().__init__(folder, sides=SIDES, **given)

    def met(self, side: str = "") -> Offsets:
        """Kafka coordinates of the rows that a query of the table there returns."""
        found: Offsets = Counter()
        with contextlib.suppress(CatalogueError):
            for location in self.far.partitions(f"{TABLE}__{side}" if side else TABLE).values():
                for file in self.storage.list_files(location) or []:
                    with self.storage.open_existing(f"{location}/{file.path}") as opened:
                        found.update(_offsets(file.path, opened) if file.path.endswith(".parquet") else ())
        return found

    def home(self, side: str = "") -> Offsets:
        """The same of the pipeline's own table."""
        return Counter(self.world.table(f"__{side}" if side else ""))


class IcebergSides(IcebergLab):
    def __init__(self, folder: Path, **given: Any) -> None:
        super().__init__(folder, sides=SIDES, **given)

    def met(self, side: str = "") -> Offsets:
        return self._rows(self._catalogue(self.storage), f"{TABLE}__{side}" if side else TABLE, self.storage)

    def home(self, side: str = "") -> Offsets:
        table = f"lake.readings__{side}" if side else "lake.readings"
        return self._rows(self.world.tables(self.world).catalogue, table, self.world.store)  # type: ignore[attr-defined]

    def _rows(self, catalogue: Any, table: str, storage: Any) -> Offsets:
        loaded, found = catalogue.load(table), Offsets()
        for file in () if loaded is None else live.look(loaded.metadata, loaded.io, None).files:
            with storage.open_existing(file.file_path) as opened:
                found.update(_offsets(file.file_path, opened))
        return found


Sides = HiveSides | IcebergSides
KINDS: dict[str, Callable[..., Sides]] = {
    "hive": HiveSides,
    "iceberg": IcebergSides,
    "iceberg in object stores": partial(IcebergSides, objects=True, own="s3://here/readings"),
}


def _offsets(name: str, opened: Any) -> Iterator[tuple[int, int]]:
    for batch in finished(name, opened).batches(100_000, ["_partition", "_offset"]):
        yield from zip(*batch.to_pydict().values(), strict=True)


def begun(lab: Sides) -> None:
    """Hour 0 is published with two rows of batch 1. Of batch 2 two rows are late, two dirty, one of them for ever."""
    world = lab.world
    world.produce(record("a0", 0.1), record("a1", 0.5, "b"), record("c0", 2.5))
    world.produce(record("d0", 3.5), partition=1)
    world.ingest("r1")
    world.archive(0)
    world.produce(record("late 1", 0.2), record("late 2", 0.3, "new"), redrives.odd("b0", 1.4), redrives.NEVER)
    world.ingest("r2")


def reopens(world: World) -> None:
    """Hour 0 takes its late rows up."""
    assert reopenings.reopened(world).generation == 2


def redrives_all(world: World) -> None:
    """Batch 3 takes the dirty rows up: one becomes data of hour 1, one is dirty again."""
    redrives.mend(world)
    assert redrives.redriven(world) is not None


def sends(lab: Sides, *names: str) -> dict[str, list[str]]:
    """A run of each delivery's task, in this order: what became of each unit."""
    return {name: lab.deliver(name) for name in names or ("shop.late", "shop.dirty", "shop")}


def states(lab: Sides, side: str) -> list[str]:
    with lab.context() as ctx:
        rows = ctx.ledger.deliveries.within("readings", name_of("shop", side), 0, 2**60)
        return [f"{row.window_ms} {row.state} {row.generation}.{row.epoch}" for row in rows]


def none_twice(lab: Sides) -> None:
    """A row is met in one of the tables there, or in none."""
    met = sum((lab.met(side) for side in ("", *SIDES)), Counter())
    assert [row for row, times in met.items() if times > 1] == []


def as_at_home(lab: Sides) -> None:
    none_twice(lab)
    assert {side: lab.met(side) for side in ("", *SIDES)} == {side: lab.home(side) for side in ("", *SIDES)}
