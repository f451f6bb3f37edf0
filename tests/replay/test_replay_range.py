"""A range of windows is replayed: one reading for all of them, and what befalls one window stops no other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.audit.audits import in_process
from tests.fakes.kafka import FakeReader
from tests.world import HOUR, T0, World, record, window
from tidegate.core.base.offsets import OffsetRange
from tidegate.core.batch.jobs import JobPlan, loads_plan
from tidegate.core.files.receipt import CHECKSUM_MODULUS, content_digest
from tidegate.core.source.records import Chunk
from tidegate.core.spec.pipeline import Column
from tidegate.workflow.audit.audit import Depth, audit
from tidegate.workflow.base.outcome import Outcome
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
