"""A range is replayed by one Spark job that reads a real broker: each offset once, each window as if it were alone."""

from __future__ import annotations

from pathlib import Path

from dev.stack.info import StackInfo
from tests.integration.submitting import by_submit
from tests.real_kafka import Topic, world_on
from tests.world import World, record, window
from tidegate.core.base.plain import loads
from tidegate.core.batch.jobs import loads_plan
from tidegate.core.files.receipt import ReplayReceipt
from tidegate.core.spec.pipeline import Column
from tidegate.workflow.replay import replay

HOURS, RECORDS = range(4), 480


def test_a_range_reads_each_offset_once(kafka: StackInfo, tmp_path: Path) -> None:
    topic = Topic(kafka.kafka_bootstrap, partitions=2)
    world = world_on(topic, tmp_path)
    for batch in range(2):
        for partition in (0, 1):
            rows = [record(f"{batch}-{i}", i % 4 + 0.1 + i / 10_000, site="ab"[i % 2]) for i in range(RECORDS)]
            topic.produce(*[r | {"other": i} for i, r in enumerate(rows)], partition=partition)
            if batch:
                topic.produce(record("far", 9.0), partition=partition)
        world.ingest(f"r{batch}")
    for hour in HOURS:
        world.archive(hour)
    id_, site, _ = world.pipeline.columns
    world.change_spec(
        columns=(
            id_,
            site,
            Column(name="value", type="int", path="$.other"),
            Column(name="note", type="string", path="$.note"),
        )
    )

    said: list[str] = []
    ctx = world.context()
    ctx.launcher = by_submit(said.append)
    found = replay.replay_range(ctx, [window(h) for h in HOURS])
    assert [o.what for o in found] == ["replayed"] * 4, (found, said)
    jobs = sorted((tmp_path / "lake/readings/_tidegate/plans").glob("20130105T*.json"))
    assert len(jobs) == 1
    plan = loads_plan(jobs[0].read_bytes())
    receipts = [loads(ReplayReceipt, Path(f"{t.attempt_dir[7:]}/_receipt.json").read_bytes()) for t in plan.targets]
    offsets = sum(r.count for part in plan.parts for r in part.ranges)
    assert {r.job_read for r in receipts} == {offsets}
    assert offsets <= 2 * 2 * RECORDS
    assert sum(r.receipt.rows for r in receipts) == 2 * 2 * RECORDS
    together = digests(world)

    # the same hours one by one, by the engine in this process: other files, the same content
    world.change_spec(columns=world.pipeline.columns[:2])
    for hour in HOURS:
        world.replay(hour)
    world.change_spec(columns=replace_columns(world, id_, site))
    for hour in HOURS:
        world.replay(hour)
    assert digests(world) == together
    world.close()


def replace_columns(world: World, id_: Column, site: Column) -> tuple[Column, ...]:
    return (
        id_,
        site,
        Column(name="value", type="int", path="$.other"),
        Column(name="note", type="string", path="$.note"),
    )


def digests(world: World) -> list[tuple[int, str]]:
    windows = world.context().ledger.windows
    found = []
    for hour in HOURS:
        current = windows.get(world.pipeline.name, window(hour)).current
        generation = windows.generation(world.pipeline.name, window(hour), current)  # type: ignore[arg-type]
        found.append((sum(f.rows for f in generation.files), generation.digest))  # type: ignore[union-attr]
    return found
