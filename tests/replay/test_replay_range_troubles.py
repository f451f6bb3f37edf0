"""One window's trouble in a range of replays, and every window's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.hooks import Hook, catalogue_of, use_catalogue
from tests.replay.test_replay_range import HOURS, content, other_columns, run, spread, well, whats, world
from tests.world import TOPIC, World, record, window
from tidegate.core.base.errors import CatalogueError, JobFailed
from tidegate.core.spec.pipeline import Column
from tidegate.workflow.base.outcome import FAILED, LEFT, REFUSED
from tidegate.workflow.replay import replay
from tidegate.workflow.replay.replay import REPLAYED, SKIPPED, UNCHANGED

__all__ = ["world"]  # fixtures


# ---------------------------------------------------------------- one window's trouble


def test_a_window_that_todays_columns_cannot_decode_stops_no_other(world: World) -> None:
    spread(world)
    world.produce(record("wide", 4.0, value=1000))
    world.produce(record("more", 5.0), partition=1)
    world.ingest("wide")
    world.archive(4)
    id_, site, value = world.pipeline.columns
    extra = Column(name="small", type="tinyint", path="$.value")
    world.change_spec(columns=(id_, site, value, extra))
    found = run(world, range(5))
    assert whats(found) == [REPLAYED] * 4 + [REFUSED]
    assert "small: 1000 does not fit in 8 bits" in found[4].why
    assert world.context().ledger.windows.get("readings", window(4)).newest == 1
    well(world)


def test_windows_whose_records_are_gone_are_refused_by_name_and_the_others_done(world: World) -> None:
    for hour in HOURS:
        world.produce(record("a", hour) | {"other": 3})
        world.ingest(f"r{hour}")
    world.produce(record("far", 40.0), record("far", 40.0))
    world.ingest("far")
    for hour in HOURS:
        world.archive(hour)
    other_columns(world)
    world.kafka.trim(TOPIC, 0, 2)
    found = run(world)
    assert whats(found) == [REFUSED, REFUSED, REPLAYED, REPLAYED]
    assert "batch 1: partition 0 offsets [0, 1) have passed Kafka's retention" in found[0].why
    assert "column value needs the records to be decoded again" in found[0].why
    assert "Kafka has this partition from offset 2 on" in found[0].why


def test_a_window_that_was_never_published_is_said(world: World) -> None:
    spread(world, range(2))
    found = run(world, range(3))
    assert whats(found) == [UNCHANGED, UNCHANGED, REFUSED]
    assert "never published" in found[2].why


def test_a_window_that_another_task_takes_meanwhile_is_tried_again_alone(world: World) -> None:
    spread(world)
    other_columns(world)
    ctx = world.context()
    launch = ctx.launcher.run

    def overtaken(plan_path: str) -> None:
        launch(plan_path)
        ctx.launcher.run = launch  # type: ignore[method-assign]
        other = world.context()
        newest = other.ledger.windows.get("readings", window(1)).newest
        other.ledger.windows.take("readings", window(1), newest, "zombie")

    ctx.launcher.run = overtaken  # type: ignore[method-assign]
    found = replay.replay_range(ctx, [window(h) for h in HOURS])
    assert whats(found) == [REPLAYED] * 4
    assert [content(world, h)[0] for h in HOURS] == [6] * 4
    well(world)


def test_a_job_that_is_refused_as_a_whole_is_halved(world: World) -> None:
    """Retention passes one window's records while the job reads."""
    for hour in HOURS:
        world.produce(record("a", hour) | {"other": 3})
        world.ingest(f"r{hour}")
    world.produce(record("far", 40.0), record("far", 40.0))
    world.ingest("far")
    for hour in HOURS:
        world.archive(hour)
    other_columns(world)
    ctx = world.context()
    launch = ctx.launcher.run

    def passes(plan_path: str) -> None:
        world.kafka.trim(TOPIC, 0, 1)
        launch(plan_path)

    ctx.launcher.run = passes  # type: ignore[method-assign]
    found = replay.replay_range(ctx, [window(h) for h in HOURS])
    assert whats(found) == [REFUSED, REPLAYED, REPLAYED, REPLAYED]


def test_a_job_that_dies_after_some_receipts_has_done_these_windows(world: World) -> None:
    spread(world)
    other_columns(world)
    ctx = world.context()
    written: list[str] = []
    plain = ctx.launcher.storage.write_new  # type: ignore[attr-defined]

    def dies(path: str, content: bytes) -> None:
        if path.endswith("_receipt.json"):
            written.append(path)
            if len(written) == 3:
                raise OSError("no space left")
        plain(path, content)

    ctx.launcher.storage.write_new = dies  # type: ignore[attr-defined]
    found = replay.replay_range(ctx, [window(h) for h in HOURS])
    assert whats(found) == [REPLAYED, REPLAYED, FAILED, FAILED]
    ctx.launcher.storage.write_new = plain  # type: ignore[attr-defined]
    assert whats(run(world)) == [SKIPPED, SKIPPED, REPLAYED, REPLAYED]
    well(world)


def test_what_every_window_needs_stops_the_rest_and_the_next_try_goes_on(world: World) -> None:
    spread(world)
    other_columns(world)
    ctx = world.context()

    def down(*args: Any) -> None:
        raise CatalogueError("Hive does not answer")

    use_catalogue(ctx, Hook(catalogue_of(ctx), before={"set_location": down}))
    found = replay.replay_range(ctx, [window(h) for h in HOURS], most_windows=2)
    assert whats(found) == [FAILED, FAILED, LEFT, LEFT]
    # the swaps that had begun are finished first, so that there is nothing to change about these two
    assert whats(run(world)) == [UNCHANGED, UNCHANGED, REPLAYED, REPLAYED]
    assert [content(world, h)[0] for h in HOURS] == [6] * 4
    well(world)


def test_kafka_that_does_not_answer_leaves_everything_as_it_is(world: World) -> None:
    spread(world)
    before = world.table()
    other_columns(world)
    ctx = world.context()
    world.kafka.unavailable = True
    found = replay.replay_range(ctx, [window(h) for h in HOURS], most_windows=2)
    assert whats(found) == [FAILED, FAILED, LEFT, LEFT]
    world.kafka.unavailable = False
    assert world.table() == before
    assert whats(run(world)) == [REPLAYED] * 4


def test_a_job_that_fails_is_tried_again_by_the_next_run(world: World) -> None:
    spread(world)
    other_columns(world)
    ctx = world.context()

    def fails(plan_path: str) -> None:
        raise JobFailed("the driver was killed")

    ctx.launcher.run = fails  # type: ignore[method-assign]
    assert whats(replay.replay_range(ctx, [window(h) for h in HOURS])) == [FAILED] * 4
    assert whats(run(world)) == [REPLAYED] * 4


@pytest.mark.parametrize("swap", ["pointer", "directory"])
def test_both_ways_to_swap_work_with_ranges(world: World, swap: str) -> None:
    spread(world)
    world.change_spec(archive=replace(world.pipeline.archive, swap=swap))
    before = world.table()
    other_columns(world)
    found = run(world)
    beside = ["/_tidegate/generations/" in o.published.location for o in found]  # type: ignore[union-attr]
    assert beside == [swap == "pointer"] * 4
    assert world.table() == before
    well(world)


def test_a_topic_recreated_while_it_is_read_refuses_all_of_them(world: World) -> None:
    spread(world)
    other_columns(world)
    ctx = world.context()
    launch = ctx.launcher.run

    def recreate(plan_path: str) -> None:
        launch(plan_path)
        world.kafka.create(TOPIC, 2)

    ctx.launcher.run = recreate  # type: ignore[method-assign]
    found = replay.replay_range(ctx, [window(h) for h in HOURS])
    assert whats(found) == [REFUSED] * 4
    assert all("recreated" in o.why for o in found)
