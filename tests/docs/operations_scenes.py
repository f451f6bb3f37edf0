"""What has happened when a section of docs/operations.md begins: one scene for each, on a whole Tidegate in a process.

A scene gets a world with two Kafka partitions and the pipeline `readings`, in hours of 2013-01-05, and breaks it.
What it returns is the last words of the task that failed, if the section is about one.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.world import HOUR, T0, TOPIC, World, record, window
from tidegate.core.base.errors import TidegateError
from tidegate.spec import load_file
from tidegate.workflow.batch import ingest
from tidegate.workflow.publish import archive
from tidegate.workflow.replay import replay

RUN = "readings.ingest/scheduled__2013-01-05T04:00:00+00:00"
Scene = Callable[[World], str | None]


def yaml(world: World, old: str, new: str) -> None:
    """Edit the pipeline's YAML, as an operator does; tasks from now on run with it."""
    path = world.folder / "pipelines/readings.yaml"
    text = path.read_text()
    assert old in text, old
    path.write_text(text.replace(old, new))
    world.pipeline = load_file(path)


def failing(step: Callable[[], object]) -> str:
    """The last words of what must fail."""
    with pytest.raises(TidegateError) as failed:
        step()
    return str(failed.value)


def hours(world: World, *published: int) -> None:
    """Records of hours 0 to 3 in both partitions have landed; the watermark is 02:30, some hours are published."""
    world.produce(record("a", 0.1), record("b", 0.5, "b"), record("c", 1.2), record("d", 3.6))
    world.produce(record("e", 0.2), record("f", 2.0), record("g", 3.5), partition=1)
    world.ingest(RUN)
    for hour in published:
        world.archive(hour)


def the_hour_is_missing_and_not_ready(world: World) -> None:
    yaml(world, "idle: follow", "idle: wait")
    world.produce(record("a", 0.1), record("b", 3.6))
    world.produce(record("c", 0.7), partition=1)
    world.ingest(RUN)


def the_hour_is_ready_and_nobody_publishes_it(world: World) -> None:
    hours(world, 0)


def spark_died(world: World) -> str:
    world.produce(record("a", 0.1), record("b", 3.6))
    ingest.plan(world.context(), RUN)
    ctx = world.context()

    class Dead:
        def run(self, plan_path: str) -> None:
            from tidegate.spark.launcher import job_ended

            raise job_ended(137, [])

    ctx.launcher = Dead()  # type: ignore[assignment]
    return failing(lambda: ingest.write(ctx, RUN))


def too_many_records_are_dirty(world: World) -> str:
    yaml(world, "dirty: {max_count: null, max_ratio: null}", "dirty: {max_count: 1, max_ratio: null}")
    world.produce(record("a", 0.1), b'{"id": "b", "at": 1357344000000, "value": "7"}', b"not json", record("c", 3.6))
    ingest.plan(world.context(), RUN)
    return failing(lambda: ingest.write(world.context(), RUN))


def the_topic_was_recreated(world: World) -> str:
    hours(world, 0, 1)
    world.kafka.delete(TOPIC)
    world.kafka.create(TOPIC, 2)
    world.produce(record("new", 4.0))
    return failing(lambda: ingest.plan(world.context(), "readings.ingest/scheduled__2013-01-05T05:00:00+00:00"))


def kafka_has_deleted_records_that_were_never_read(world: World) -> str:
    hours(world, 0)
    world.produce(*(record(f"n{n}", 3.7) for n in range(5)))
    world.kafka.trim(TOPIC, 0, 7)
    return failing(lambda: ingest.plan(world.context(), "readings.ingest/scheduled__2013-01-05T05:00:00+00:00"))


def i_must_rebuild_last_tuesday(world: World) -> None:
    hours(world, 0, 1)
    yaml(world, "{name: value, type: int}", "{name: value, type: int}\n  - {name: at, type: bigint}")


def the_replay_made_it_worse(world: World) -> None:
    i_must_rebuild_last_tuesday(world)
    for hour in (0, 1):
        ctx = world.context()
        archive.announced(ctx, replay.replay(ctx, window(hour)))
        world.clock.advance(60_000)


def a_file_or_a_partition_of_a_published_hour_is_gone(world: World) -> None:
    hours(world, 0)
    folder = Path(next(iter(world.catalogue.partitions("lake.readings").values())).removeprefix("file://"))
    next(folder.glob("*.parquet")).unlink()


def rows_came_late(world: World) -> None:
    hours(world, 0)
    world.produce(record("late", 0.3), record("later", 0.4))
    world.ingest("readings.ingest/scheduled__2013-01-05T05:00:00+00:00")


def where_is_my_record(world: World) -> None:
    hours(world, 0)


def another_system_counts_otherwise(world: World) -> None:
    hours(world, 0, 1)


def the_disk_is_full(world: World) -> str:
    hours(world, 0)
    world.produce(record("x", 3.7))
    run = "readings.ingest/scheduled__2013-01-05T05:00:00+00:00"
    ingest.plan(world.context(), run)
    ctx = world.context()

    class Full:
        def run(self, plan_path: str) -> None:
            from tidegate.core.base.errors import JobFailed

            raise JobFailed(
                "the Spark job failed: OSError: [Errno 28] No space left on device",
                advice="free space where sink.location lies; `tidegate clean readings` deletes what nobody needs",
            )

    ctx.launcher = Full()  # type: ignore[assignment]
    return failing(lambda: ingest.write(ctx, run))


def the_ledger_was_restored_from_a_backup(world: World) -> str:
    world.produce(record("a", 0.1), record("b", 0.5, "b"))
    world.ingest(RUN)
    world.close()
    backup = world.folder / "backup.db"
    shutil.copy(world.database, backup)
    world.produce(record("c", 1.2), record("d", 3.6))
    world.produce(record("e", 3.5), partition=1)
    world.ingest("readings.ingest/scheduled__2013-01-05T05:00:00+00:00")
    world.archive(0)
    world.close()
    shutil.copy(backup, world.database)
    return failing(lambda: ingest.plan(world.context(), "readings.ingest/scheduled__2013-01-05T06:00:00+00:00"))


SCENES: dict[str, Scene] = {
    name.replace("_", " "): made
    for name, made in list(globals().items())
    if callable(made) and made.__module__ == __name__ and name not in ("yaml", "failing", "hours")
}
"""By the section's heading in lower case, without punctuation."""
BEGINS_MS = T0 + 5 * HOUR
"""What the clock says when a scene begins."""
