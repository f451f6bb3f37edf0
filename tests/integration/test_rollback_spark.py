"""Replays and rollbacks of one window on real parts: broker, Spark's jobs, Hive through PyHive, files read by a child.

After each step the deep audit balances and every row is found where a query finds it; cleaning takes what is not in
force and not kept, and what a rollback may still want stays until it is due."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from dev.stack.info import StackInfo
from tests.integration.submitting import by_submit
from tests.real_kafka import Topic, world_on
from tests.world import World, record, window
from tidegate.adapters.footers import FooterProcess
from tidegate.adapters.rows import RowProcess
from tidegate.core.base.errors import ReplayRefused
from tidegate.core.spec.pipeline import Column
from tidegate.targets.hive.catalogue import PyHiveCatalogue
from tidegate.workflow.audit.audit import Depth, audit
from tidegate.workflow.base.context import Context, Published
from tidegate.workflow.clean import duties
from tidegate.workflow.look.where import where_all
from tidegate.workflow.publish import archive
from tidegate.workflow.replay import replay, rollback

SITES = (("a", "b"), ("a", "c"), ("ü", "c"))
DAY_MS = 86_400_000


def test_rollbacks_between_replays(kafka: StackInfo, hive_spark: StackInfo, tmp_path: Path) -> None:
    world = published(kafka, hive_spark, tmp_path)
    columns = world.pipeline.columns
    other = (
        columns[0],
        Column(name="site", type="string", path="$.place"),
        Column(name="value", type="int", path="$.other"),
    )
    world.change_spec(columns=other)
    ctx = world.context()
    ctx.launcher = by_submit(lambda _: None)
    told(ctx, replay.replay(ctx, window(0)), 2)
    shown(world, 2, NEW)
    ctx = world.context()
    ctx.launcher = by_submit(lambda _: None)
    told(ctx, rollback.rollback(ctx, window(0), None, "the sites are wrong"), 3)
    shown(world, 3, OLD)
    cleaned = duties.clean(world.context())
    assert not [d for d in cleaned.deleted if d.kind == "generations"], "queries may still read them"
    assert world.replay(0).generation == 4
    ctx = world.context()
    told(ctx, rollback.rollback(ctx, window(0), 3, "wrong again"), 5)
    shown(world, 5, OLD)

    world.clock.advance(40 * DAY_MS)  # archive.keep_generations: 2, the one in force among them
    cleaned = duties.clean(world.context())
    assert not cleaned.kept
    shown(world, 5, OLD)
    facts = {g.number: g for g in world.context().ledger.rollbacks.generations(world.pipeline.name, window(0))}
    assert {n for n, g in facts.items() if g.cleaned_ms} == {1, 2, 3}
    with pytest.raises(ReplayRefused, match="generation 1 were cleaned at .* archive.keep_generations is 2"):
        rollback.rollback(world.context(), window(0), 1, "too late")
    ctx = world.context()
    told(ctx, rollback.rollback(ctx, window(0), None, "what is kept may come back"), 6)
    shown(world, 6, NEW)
    world.close()


OLD = sorted((f"r{n}", old, 1) for n, (old, _) in enumerate(SITES))
NEW = sorted((f"r{n}", new, 2) for n, (_, new) in enumerate(SITES))


def told(ctx: Context, found: Published, number: int) -> None:
    """What nobody was told of would be gone on with, not done anew."""
    assert (found.generation, found.new) == (number, True)
    archive.announced(ctx, found)


def published(kafka: StackInfo, hive: StackInfo, folder: Path) -> World:
    topic = Topic(kafka.kafka_bootstrap, partitions=2)
    world = world_on(topic, folder)
    world.catalogue = PyHiveCatalogue(hive.hive_host, hive.hive_port, request_timeout_s=300)  # type: ignore[assignment]
    world.change_spec(sink=replace(world.pipeline.sink, table=f"lake.back{time.time_ns():x}"))
    for n, (old, new) in enumerate(SITES):
        told = record(f"r{n}", n / 10, old) | {"value": 1, "place": new, "other": 2}
        topic.produce(told, partition=n % 2)
    for partition in (0, 1):
        topic.produce(record("later", 3.5), b"dirty", partition=partition)
    world.ingest("r1")
    world.archive(0)
    shown(world, 1, OLD)
    return world


def shown(world: World, number: int, expected: list[tuple[str, str, int]]) -> None:
    """A query gives these rows, the audit balances, and `where` names the generation and the file of each."""
    table = world.pipeline.sink.table
    asked = f"SELECT `id`, `site`, `value` FROM {table} WHERE `date` = '2013-01-05' AND `hour` = '00'"
    assert sorted(map(tuple, world.catalogue.execute(asked))) == expected  # type: ignore[attr-defined]
    ctx = world.context()
    report = audit(ctx, ctx.ledger.reads, FooterProcess(), Depth())  # type: ignore[attr-defined]
    assert report.problems == ()
    with RowProcess() as rows:
        answers = where_all(ctx, ctx.ledger.reads, rows, [(0, 0), (1, 0), (0, 1)])  # type: ignore[attr-defined]
    location = ctx.ledger.windows.generation(world.pipeline.name, window(0), number).location  # type: ignore[union-attr]
    for answer in answers[:2]:
        (fate,) = answer.fates
        assert fate.generation == number
        assert fate.file is not None
        assert fate.file.startswith(location), (fate.file, location)
    world.close()
