"""Dirty rows that another spec can read, redriven; what must hold afterwards."""

from __future__ import annotations

from tests.world import TOPIC, World, record
from tidegate.core.spec.pipeline import Column
from tidegate.workflow.dirty import redrive

NEVER = b"not json"


def odd(name: str, hour: float, site: str = "a") -> dict[str, object]:
    """A record whose value is text: dirty until the column takes another field."""
    return record(name, hour, site) | {"value": "many", "other": 7}


def mend(world: World, path: str = "$.other") -> None:
    id_, site, _ = world.pipeline.columns
    world.change_spec(columns=(id_, site, Column(name="value", type="int", path=path)))


def redriven(world: World, run: str = "redrive 1", **asked: object) -> redrive.Redriven | None:
    """Plan, write and land, each in a process of its own, as long as there is one to plan."""
    ctx = world.context()
    if redrive.plan(ctx, run, **asked) is None:  # type: ignore[arg-type]
        world.close()
        return None
    found = redrive.carry_out(world.context(), run)
    world.close()
    return found


def once(world: World) -> None:
    """Each record of the topic is in exactly one place that readers see, or waits for its window in one."""
    ends = {p: o.high_watermark for p, o in world.kafka.look(TOPIC).partitions.items()}
    expected = sorted((p, offset) for p, end in ends.items() for offset in range(end))
    found = world.table() + world.table("__late") + world.table("__dirty") + waiting(world)
    assert sorted(found) == expected


def waiting(world: World) -> list[tuple[int, int]]:
    rows: list[tuple[int, int]] = []
    for folder in sorted((world.folder / "lake/readings/_tidegate/landed").iterdir()):
        rows += world.rows_at(str(folder / "data"))
    return rows


def first_batch(world: World) -> None:
    """Offsets 1, 2 and 4 of partition 0 and 1 of partition 1 are dirty; 4 for ever."""
    world.produce(record("a0", 0.1), odd("a1", 0.5), odd("b0", 1.2, "b"), record("b1", 1.3), NEVER)
    world.produce(record("c0", 2.0), odd("c1", 2.5), record("d0", 3.5), partition=1)
    world.ingest("r1")
    assert world.table("__dirty") == [(0, 1), (0, 2), (0, 4), (1, 1)]


def dirty_rows(world: World, batch_id: int) -> list[dict[str, object]]:
    import pyarrow.parquet as pq

    folder = world.folder / f"lake/readings/_tidegate/dirty/_batch={batch_id}"
    rows = [row for path in folder.iterdir() for row in pq.read_table(path, partitioning=None).to_pylist()]
    return sorted(({k: r[k] for k in ("raw_key", "raw_value", "_offset", "_kafka_ts")} for r in rows),
                  key=lambda r: r["_offset"])  # fmt: skip
