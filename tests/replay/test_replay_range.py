"""A range of windows is replayed: one reading for all of them, and what befalls one window stops no other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.audit.test_audit import in_process
from tests.fakes.kafka import FakeReader
from tests.hooks import Hook, catalogue_of, use_catalogue
from tests.world import HOUR, T0, TOPIC, World, record, window
from tidegate.core.base.errors import CatalogueError, JobFailed
from tidegate.core.base.offsets import OffsetRange
from tidegate.core.batch.jobs import JobPlan, loads_plan
from tidegate.core.files.receipt import CHECKSUM_MODULUS, content_digest
from tidegate.core.source.records import Chunk
from tidegate.core.spec.pipeline import Column
from tidegate.workflow.audit.audit import Depth, audit
from tidegate.workflow.base.outcome import FAILED, LEFT, REFUSED, Outcome
from tidegate.workflow.publish import archive
from tidegate.workflow.replay import replay
from tidegate.workflow.replay.replay import REPLAYED, SKIPPED, UNCHANGED

HOURS = range(4)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def spread(world: World, hours: range = HOURS, batches: int = 3, rounds: int = 1) -> None:
    """Each batch has rows of every hour, between each other, and of no hour."""
    for batch in range(batches):
        for hour in [*hours] * rounds:
            for partition in (0, 1):
                row = record(f"{batch}-{hour}", hour + 0.1 * batch, site="ab"[partition], value=hour)
                world.produce(row | {"other": hour * 10 + 5, "place": "cd"[batch % 2]}, partition=partition)
        world.produce(b"dirty", record("far", 40.0))
        world.ingest(f"r{batch}")
    for hour in hours:
        world.archive(hour)


def other_columns(world: World) -> None:
    id_, site, _ = world.pipeline.columns
    world.change_spec(columns=(id_, site, Column(name="value", type="int", path="$.other")))


def fewer_columns(world: World) -> None:
    id_, site, _ = world.pipeline.columns
    world.change_spec(columns=(id_, site))


def run(world: World, hours: Any = HOURS, wanted: str = "auto", **options: Any) -> list[Outcome]:
    ctx = world.context()
    found = replay.replay_range(ctx, [window(h) for h in hours], wanted, **options)
    for outcome in found:
        if outcome.published is not None:
            archive.announced(ctx, outcome.published)
    world.close()
    return found


def whats(found: list[Outcome]) -> list[str]:
    return [o.what for o in found]


def content(world: World, hour: int) -> tuple[int, str, int]:
    """(rows, digest, checksum) of the generation in force."""
    ledger = world.context().ledger
    current = ledger.windows.get("readings", window(hour)).current
    generation = ledger.windows.generation("readings", window(hour), current)  # type: ignore[arg-type]
    rows, checksum = sum(f.rows for f in generation.files), sum(f.checksum for f in generation.files)
    return rows, content_digest(generation.files), checksum % CHECKSUM_MODULUS


def well(world: World) -> None:
    ctx = world.context()
    report = audit(ctx, ctx.ledger.reads, in_process, Depth(coordinates=True))
    assert report.problems == ()
    world.close()


class Counting(FakeReader):
    """How many records have been read from Kafka."""

    read_records = 0

    def read(self, wanted: OffsetRange) -> Iterator[Chunk]:
        for chunk in super().read(wanted):
            Counting.read_records += len(chunk)
            yield chunk


def counted(world: World, monkeypatch: pytest.MonkeyPatch) -> type[Counting]:
    Counting.read_records = 0
    monkeypatch.setattr(type(world.kafka), "reader", lambda kafka, plan, settings=None: Counting(kafka, plan))
    return Counting


# ---------------------------------------------------------------- one reading


def test_a_day_whose_batches_are_spread_over_it_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("range", "single"):
        (tmp_path / name).mkdir()
    world, single = World(tmp_path / "range"), World(tmp_path / "single")
    hours = range(24)
    for one in (world, single):
        spread(one, hours, batches=2, rounds=2)
        other_columns(one)
    of_topic = 2 * 2 * (2 * len(hours) + 1)
    reads = counted(world, monkeypatch)
    assert whats(run(world, hours)) == [REPLAYED] * 24
    assert len(world.launcher.runs) == 1  # type: ignore[union-attr]
    assert reads.read_records <= of_topic
    once = reads.read_records
    reads = counted(single, monkeypatch)
    for hour in hours:
        single.replay(hour)
    assert reads.read_records > 10 * once, "the spans of single hours overlap"
    assert [content(world, h) for h in hours] == [content(single, h) for h in hours]
    assert world.table() == single.table()
    well(world)
    single.close()


def test_each_window_keeps_a_generation_a_directory_and_a_receipt_of_its_own(world: World) -> None:
    spread(world)
    other_columns(world)
    run(world)
    (job,) = world.launcher.runs  # type: ignore[union-attr]
    assert [t.window_ms for t in job.targets] == [T0 + h * HOUR for h in HOURS]
    assert len({t.attempt_dir for t in job.targets} | {t.nonce for t in job.targets}) == 8
    for target in job.targets:
        assert Path(f"{target.attempt_dir.removeprefix('file://')}/_receipt.json").exists()
    assert [content(world, h)[0] for h in HOURS] == [6] * 4


def test_a_range_is_cut_into_groups_that_are_read_one_after_the_other(world: World) -> None:
    spread(world)
    other_columns(world)
    jobs: list[JobPlan] = []
    ctx = world.context()
    found = replay.replay_range(ctx, [window(h) for h in HOURS], most_rows=12)
    jobs += world.launcher.runs  # type: ignore[union-attr]
    assert [len(job.targets) for job in jobs] == [2, 2]
    assert whats(found) == [REPLAYED] * 4
    other = replace(world.pipeline.columns[2], path="$.value")
    world.change_spec(columns=(*world.pipeline.columns[:2], other))
    ctx = world.context()
    replay.replay_range(ctx, [window(h) for h in HOURS], most_windows=3)
    assert [len(job.targets) for job in world.launcher.runs] == [3, 1]  # type: ignore[union-attr]


def test_a_range_that_is_asked_for_again_skips_what_is_done(world: World) -> None:
    spread(world)
    assert whats(run(world, [0, 1])) == [UNCHANGED] * 2
    assert whats(run(world)) == [SKIPPED, SKIPPED, UNCHANGED, UNCHANGED]
    other_columns(world)
    assert whats(run(world, [1])) == [REPLAYED]
    assert whats(run(world, [0, 1])) == [REPLAYED, SKIPPED]
    assert whats(run(world, [0, 1], again=True)) == [UNCHANGED] * 2
    assert len({o.window for o in run(world)}) == 4


def test_ranges_that_overlap_share_the_work(world: World) -> None:
    """The second begins while the first reads: it takes what the first is not at, and what is left at last."""
    spread(world)
    other_columns(world)
    ctx, seen = world.context(), []
    launch = ctx.launcher.run

    def second(plan_path: str) -> None:
        ctx.launcher.run = launch  # type: ignore[method-assign]
        other = world.context()
        start = other.launcher.run

        def first_ends(path: str) -> None:
            seen.append([t.window_ms for t in loads_plan(other.storage.read(path)).targets])
            start(path)

        other.launcher.run = first_ends  # type: ignore[method-assign]
        seen.append(replay.replay_range(other, [window(h) for h in HOURS], most_windows=2))
        launch(plan_path)

    ctx.launcher.run = second  # type: ignore[method-assign]
    found = replay.replay_range(ctx, [window(h) for h in HOURS], most_windows=2)
    one, two, outcomes = seen
    assert [one, two] == [[window(h).start_ms for h in hours] for hours in ((2, 3), (0, 1))]
    assert whats(outcomes) == [REPLAYED] * 4
    assert any("another replay began 2 of the windows from 2013-01-05T00:00Z on" in line for line in world.said)
    assert whats(found) == [SKIPPED] * 4, "nothing is read twice that another one has finished"
    assert [content(world, h)[0] for h in HOURS] == [6] * 4
    well(world)


def test_late_rows_that_one_window_has_taken_up_are_that_windows_alone(world: World) -> None:
    """One batch, read once, has data of one window and late rows of another, some of which nobody has taken up."""
    from tidegate.workflow.batch import landing
    from tidegate.workflow.late import reopen

    spread(world, range(2), 1)
    late = [record("late 0", 0.7), record("late 1", 1.7), record("fine", 2.2)]
    world.produce(*[r | {"other": 5} for r in late])
    world.ingest("late")
    landing.finish_side_duties(world.context())
    world.archive(2)
    reopen.reopen(world.context(), window(0))
    before = world.table()
    other_columns(world)
    assert whats(run(world, range(3))) == [REPLAYED] * 3
    assert world.table() == before
    assert len(world.table("__late")) == 1
    well(world)


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
