"""Reopening a published window: late rows become part of its next generation, once, and leave the late table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.hooks import Died, Hook, die
from tests.unit.test_audit import in_process
from tests.unit.test_each_format import FORMATS, SAID
from tests.unit.test_where_chaos import InProcessRows
from tests.world import HOUR, World, make_pipeline, record, window
from tidegate.adapters.local_job import LocalLauncher
from tidegate.core.errors import Alarm, JobFailed, NotReady, OverBudget, ReplayRefused, SpecError
from tidegate.core.overflow import OVERFLOW_VALUE
from tidegate.core.pipeline import Column, Merge, Pipeline, Reopening
from tidegate.core.reopening import MOST_REFUSED, QUIET_MS
from tidegate.workflow import archive, explanation, ingest, overview, reconcile, redrive, reopen, reopening
from tidegate.workflow.audit import audit
from tidegate.workflow.where import where

BOTH = [(0, 0), (0, 1), (0, 3), (0, 4)]
WORK = "lake/readings/_tidegate"


def begun(world: World) -> World:
    """Hour 0 is published with two rows of batch 1; two of batch 2 are late for it, at offsets 3 and 4."""
    world.produce(record("a0", 0.1), record("a1", 0.5, "b"), record("c0", 2.5))
    world.produce(record("d0", 3.5), partition=1)
    world.ingest("r1")
    world.archive(0)
    world.produce(record("late 1", 0.2), record("late 2", 0.3, "new"), record("fine", 2.6))
    world.ingest("r2")
    assert world.table("__late") == [(0, 3), (0, 4)]
    return world


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = begun(World(tmp_path))
    yield made
    made.close()


def reopened(world: World, hour: int = 0, over_budget: bool = False) -> archive.Published:
    ctx = world.context()
    published = reopen.reopen(ctx, window(hour), "a test", over_budget)
    if published.new:
        archive.announced(ctx, published)
    world.close()
    return published


def balanced(world: World) -> None:
    ctx = world.context()
    report = audit(ctx, ctx.ledger.reads, in_process)  # type: ignore[attr-defined]
    world.close()
    assert report.balanced, "\n".join(f"{p.subject}: {p.what}" for p in report.problems)


def once(world: World, rows: list[tuple[int, int]], late: Sequence[tuple[int, int]] = ()) -> None:
    """Hour 0 has these rows, the late table those, and the audit is content."""
    assert world.by_window()["00"] == rows
    assert world.table("__late") == list(late)
    balanced(world)


# ---------------------------------------------------------------- what becomes of the rows


def test_late_rows_become_part_of_the_next_generation(world: World) -> None:
    published = reopened(world)
    assert (published.new, published.generation, published.rows) == (True, 2, 4)
    once(world, BOTH)
    sites = {dict(values)["site"] for values in world.partitions("lake.readings") if dict(values)["hour"] == "00"}
    assert sites == {"a", "b", "new"}


def test_nothing_is_new_when_no_row_waits(world: World) -> None:
    reopened(world)
    before = world.files()
    again = reopened(world)
    assert (again.new, again.generation, again.note) == (False, 2, "no late rows wait")
    assert world.files() == before


def test_kafka_is_not_asked(world: World) -> None:
    for partition in (0, 1):
        world.kafka.trim("readings", partition, 5)
    reopened(world)
    once(world, BOTH)


def test_the_late_files_are_kept_aside(world: World) -> None:
    reopened(world)
    (kept,) = (world.folder / WORK / "reopened").rglob("*.parquet")
    assert kept.parent.relative_to(world.folder / WORK) == Path("reopened/2/20130105T000000Z")
    assert list((world.folder / WORK / "late").rglob("*.parquet")) == []


def test_rows_that_come_after_it_wait_for_the_next_one(world: World) -> None:
    reopened(world)
    world.produce(record("later", 0.9))
    world.ingest("r3")
    once(world, BOTH, [(0, 6)])
    assert reopened(world).generation == 3
    once(world, [*BOTH, (0, 6)])


def test_late_rows_of_several_batches_are_one_generation(world: World) -> None:
    world.produce(record("later", 0.9), record("of hour 2", 2.7))
    world.produce(record("other", 0.8), partition=1)
    world.ingest("r3")
    assert reopened(world).generation == 2
    once(world, [*BOTH, (0, 6), (1, 1)])


def test_late_rows_of_other_windows_stay(world: World) -> None:
    world.produce(record("up", 3.9))
    world.produce(record("up", 3.9), partition=1)
    world.ingest("r3")
    world.archive(1)
    world.produce(record("late 3", 0.4), record("late 4", 1.5))
    world.ingest("r4")
    reopened(world)
    once(world, [*BOTH, (0, 7)], [(0, 8)])
    reopened(world, 1)
    assert world.by_window()["01"] == [(0, 8)]
    once(world, [*BOTH, (0, 7)])


def test_a_window_that_was_published_empty(world: World) -> None:
    world.produce(record("up", 3.9))
    world.ingest("r3")
    assert world.archive(1).rows == 0
    world.produce(record("late 4", 1.5))
    world.ingest("r4")
    reopened(world, 1)
    assert world.by_window()["01"] == [(0, 7)]
    balanced(world)


def test_small_files_are_merged_on_the_way(world: World) -> None:
    world.change_spec(archive=replace(world.pipeline.archive, merge=Merge(min_files=2)))
    reopened(world)
    world.produce(record("later", 0.9))
    world.ingest("r3")
    reopened(world)
    once(world, [*BOTH, (0, 6)])
    places = {dict(v)["site"]: at for v, at in world.partitions("lake.readings").items() if dict(v)["hour"] == "00"}
    assert {site: len(list(Path(at[7:]).glob("*.parquet"))) for site, at in places.items()} == {
        "a": 2,
        "b": 1,
        "new": 1,
    }


def test_a_small_one_runs_in_a_child_process(world: World) -> None:
    ctx = world.context()
    ctx.local_launcher = LocalLauncher(world.said.append)
    ctx.launcher = None  # type: ignore[assignment]
    reopen.reopen(ctx, window(0))
    world.close()
    assert any("copied 2 rows, added 2 late ones, in 4 files" in line for line in world.said)
    once(world, BOTH)


@pytest.mark.parametrize("name", FORMATS)
def test_each_format(name: str, tmp_path: Path) -> None:
    spec = make_pipeline(f"file://{tmp_path}/lake/readings")
    columns = (*spec.columns, Column("moment", "timestamp", "$.at"), Column("said", "string", "$.said"))
    if name != "text":
        columns += (Column("m", "map<string,int>", "$.m"),)
    spec = replace(spec, columns=columns, sink=replace(spec.sink, format=name, compression=FORMATS[name][0]))
    world = begun(World(tmp_path, spec))
    world.produce(record("late 3", 0.4) | {"m": {"k": 1}, "value": None}, record("late 4", 0.6, "") | {"said": SAID})
    world.ingest("r3")
    reopened(world)
    once(world, [*BOTH, (0, 6), (0, 7)])
    assert world.replay(0).note == "unchanged"
    world.close()


def test_a_table_without_dynamic_partitions(tmp_path: Path) -> None:
    spec = replace(make_pipeline(f"file://{tmp_path}/lake/readings"), partition_by=("date", "hour"))
    world = begun(World(tmp_path, spec))
    reopened(world)
    once(world, BOTH)
    world.close()


def test_swap_by_directory(world: World) -> None:
    world.change_spec(archive=replace(world.pipeline.archive, swap="directory"))
    assert reopened(world).location.endswith("date=2013-01-05/hour=00")
    once(world, BOTH)
    world.produce(record("later", 0.9))
    world.ingest("r3")
    reopened(world)
    once(world, [*BOTH, (0, 6)])


def test_values_beyond_the_limit_go_to_the_overflow_partition(world: World) -> None:
    world.change_spec(sink=replace(world.pipeline.sink, max_partitions=2))
    reopened(world)
    once(world, BOTH)
    sites = {dict(values)["site"] for values in world.partitions("lake.readings") if dict(values)["hour"] == "00"}
    assert sites == {"a", "b", OVERFLOW_VALUE}
    assert any("went to the overflow partition" in line for line in world.said)
    assert world.replay(0).note == "unchanged"


@pytest.mark.parametrize("name", ["parquet", *FORMATS])
def test_the_overflow_partition_is_copied_too(name: str, tmp_path: Path) -> None:
    """Of a column of numbers it is Hive's null partition, which rows without a number have as well."""
    spec = make_pipeline(f"file://{tmp_path}/lake/readings")
    compression = FORMATS[name][0] if name in FORMATS else "zstd"
    spec = replace(
        spec,
        columns=(spec.columns[0], Column("site", "int", "$.number"), spec.columns[2]),
        sink=replace(spec.sink, format=name, compression=compression, max_partitions=1),
        archive=replace(spec.archive, merge=Merge(min_files=2)),
    )
    world = World(tmp_path, spec)
    numbered = [record(f"a{n}", 0.1) | {"number": n} for n in (1, 2, None)]
    world.produce(*numbered, record("c0", 2.5))
    world.produce(record("d0", 3.5), partition=1)
    world.ingest("r1")
    world.archive(0)
    for run in ("r2", "r3"):
        world.produce(*(record(f"{run} {n}", 0.2) | {"number": n} for n in (1, 3, None)))
        world.ingest(run)
        reopened(world)
        assert len({dict(v)["site"] for v in world.partitions("lake.readings") if dict(v)["hour"] == "00"}) == 2
    once(world, [(0, n) for n in (0, 1, 2, 4, 5, 6, 7, 8, 9)])
    assert world.replay(0).note == "unchanged"
    world.close()


def test_columns_that_came_later(world: World) -> None:
    """The late rows have a column that the published ones do not have."""
    world.change_spec(columns=(*world.pipeline.columns, Column("more", "int", "$.more")))
    world.produce(record("later", 0.9) | {"more": 5})
    world.ingest("r3")
    world.change_spec(archive=replace(world.pipeline.archive, merge=Merge(min_files=2)))
    reopened(world)
    once(world, [*BOTH, (0, 6)])
    world.produce(record("later still", 0.9) | {"more": 6})
    world.ingest("r4")
    reopened(world)
    once(world, [*BOTH, (0, 6), (0, 7)])


# ---------------------------------------------------------------- afterwards


def test_a_replay_has_the_rows_too(world: World) -> None:
    reopened(world)
    assert world.replay(0).note == "unchanged"
    id_, site, _ = world.pipeline.columns
    world.change_spec(columns=(id_, site, Column("value", "int", "$.other")))
    replayed = world.replay(0)
    assert (replayed.new, replayed.generation, replayed.rows) == (True, 4, 4)
    once(world, BOTH)


def test_a_lost_file_is_rebuilt_with_them(world: World) -> None:
    location = reopened(world).location
    min(Path(location.removeprefix("file://")).rglob("*.parquet")).unlink()
    healed = world.archive(0)
    assert (healed.new, healed.rows) == (True, 4)
    once(world, BOTH)


def test_a_replay_takes_late_rows_that_retention_has_passed_from_the_files(world: World) -> None:
    number = reopened(world).generation
    world.kafka.trim("readings", 0, 4)
    assert (world.replay(0).new, world.replay(0).generation) == (False, number)
    once(world, BOTH)
    id_, site, _ = world.pipeline.columns
    world.change_spec(columns=(id_, site, Column("value", "int", "$.other")))
    with pytest.raises(ReplayRefused, match="retention; column value needs the records to be decoded again"):
        world.replay(0)
    once(world, BOTH)


def test_a_replay_before_it_leaves_the_late_rows_where_they_are(world: World) -> None:
    id_, site, _ = world.pipeline.columns
    world.change_spec(columns=(id_, site, Column("value", "int", "$.other")))
    assert world.replay(0).rows == 2
    once(world, BOTH[:2], [(0, 3), (0, 4)])
    reopened(world)
    once(world, BOTH)


def test_late_rows_of_a_redrive(world: World) -> None:
    odd = {"value": "many", "other": 7}
    world.produce(record("odd", 0.4) | odd, record("odd too", 0.5, "b") | odd)
    world.ingest("r3")
    id_, site, _ = world.pipeline.columns
    world.change_spec(columns=(id_, site, Column("value", "int", "$.other")))
    redrive.plan(world.context(), "redrive 1")
    found = redrive.carry_out(world.context(), "redrive 1")
    assert (found.data, found.late) == (0, 2)
    reopened(world)
    once(world, [*BOTH, (0, 6), (0, 7)])
    assert world.replay(0).rows == 6
    once(world, [*BOTH, (0, 6), (0, 7)])


def test_where_says_that_it_came_late(world: World) -> None:
    ctx = world.context()
    (before,) = where(ctx, ctx.ledger.reads, InProcessRows(), 0, 3).fates  # type: ignore[attr-defined]
    assert before.kind == "late"
    reopened(world)
    ctx = world.context()
    (fate,) = where(ctx, ctx.ledger.reads, InProcessRows(), 0, 3).fates  # type: ignore[attr-defined]
    assert (fate.kind, fate.batch_id, fate.generation, fate.table) == ("published", 2, 2, "lake.readings")
    assert fate.words.startswith("came late: its window 2013-01-05T00:00Z was closing or closed when batch 2 was")
    assert "published in generation 2 (reopen) of 2013-01-05T00:00Z, since the window was reopened" in fate.words
    (other,) = where(ctx, ctx.ledger.reads, InProcessRows(), 0, 0).fates  # type: ignore[attr-defined]
    assert "late" not in other.words


# ---------------------------------------------------------------- what refuses


def test_a_window_that_was_never_published(world: World) -> None:
    with pytest.raises(NotReady, match="never published"):
        reopened(world, 2)


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        (Reopening(generations=0), "reopened 0 times"),
        (Reopening(age_ms=HOUR), "ended at 2013-01-05T01:00Z"),
        (Reopening(rows=1), "2 late rows wait"),
    ],
)
def test_over_its_budget(world: World, budget: Reopening, words: str) -> None:
    world.change_spec(reopening=budget)
    with pytest.raises(OverBudget, match=words):
        reopened(world)
    once(world, BOTH[:2], [(0, 3), (0, 4)])
    assert reopened(world, over_budget=True).new


def test_the_generations_of_the_budget_are_reopenings(world: World) -> None:
    world.change_spec(reopening=Reopening(generations=1))
    reopened(world)
    world.produce(record("later", 0.9))
    world.ingest("r3")
    with pytest.raises(OverBudget, match="reopened 1 times"):
        reopened(world)


def test_rows_without_coordinates(tmp_path: Path) -> None:
    spec: Pipeline = replace(make_pipeline(f"file://{tmp_path}/lake/readings"), kafka_columns=False)
    world = World(tmp_path, spec)
    with pytest.raises(SpecError, match="do not carry their Kafka offsets"):
        reopened(world)
    world.close()


def test_a_lost_late_file(world: World) -> None:
    (late,) = (world.folder / WORK / "late").rglob("*.parquet")
    late.unlink()
    with pytest.raises(ReplayRefused, match="late file lost"):
        reopened(world)
    assert world.by_window()["00"] == BOTH[:2]
    assert not world.archive(0).new  # what is in force goes on being verified


def test_a_lost_file_of_the_generation_in_force(world: World) -> None:
    location = dict((dict(v)["hour"], at) for v, at in world.partitions("lake.readings").items())["00"]
    min(Path(location.removeprefix("file://")).rglob("*.parquet")).unlink()
    with pytest.raises(ReplayRefused, match="clear the window's publish task"):
        reopened(world)
    world.archive(0)
    reopened(world)
    once(world, BOTH)


def test_a_late_file_with_other_rows(world: World) -> None:
    """Of the same length, so that only its rows tell."""
    (late,) = (world.folder / WORK / "late").rglob("*.parquet")
    content = bytearray(late.read_bytes())
    at = content.rfind(b"late 1") if b"late 1" in content else 8
    content[at] ^= 1
    late.write_bytes(content)
    with pytest.raises((ReplayRefused, JobFailed)):
        reopened(world)
    assert world.by_window()["00"] == BOTH[:2]


def test_while_another_generation_is_at_work(world: World) -> None:
    ctx = world.context()
    ctx.ledger.windows.begin_generation("readings", window(0), 1, "heal")
    with pytest.raises(NotReady, match=r"generation 2 \(heal\) is BUILDING"):
        reopened(world)


def test_hive_away(world: World) -> None:
    """Late rows that are not in the late table yet wait; those of other batches do not."""
    world.catalogue.away = True
    world.produce(record("later", 0.9))
    ingest.plan(world.context(), "r3")
    ingest.write(world.context(), "r3")
    ingest.land(world.context(), "r3")
    world.catalogue.away = False
    reconcile.maintain(world.context())
    world.close()
    reopened(world)
    once(world, [*BOTH, (0, 6)])


def test_clear_goes_on_with_one_that_died(world: World) -> None:
    world.context().ledger.windows.begin_generation("readings", window(0), 1, "reopen")
    published = world.archive(0)
    assert (published.new, published.generation, published.rows) == (True, 2, 4)
    once(world, BOTH)


def test_a_replay_finishes_one_that_died_first(world: World) -> None:
    world.context().ledger.windows.begin_generation("readings", window(0), 1, "reopen")
    id_, site, _ = world.pipeline.columns
    world.change_spec(columns=(id_, site, Column("value", "int", "$.other")))
    published = world.replay(0)
    assert (published.new, published.generation, published.rows) == (True, 3, 4)
    once(world, BOTH)


def test_a_replay_gives_up_one_that_was_built(world: World) -> None:
    """Its late rows are in the late table still, and wait for the next one."""
    ctx = world.context()
    number = ctx.ledger.windows.begin_generation("readings", window(0), 1, "reopen")
    generation = ctx.ledger.windows.take("readings", window(0), number, "n")
    reopening.build(ctx, generation)
    assert world.replay(0).note == "unchanged"
    once(world, BOTH[:2], [(0, 3), (0, 4)])
    reopened(world)
    once(world, BOTH)


def test_readers_of_both_tables_never_meet_a_row_twice(world: World) -> None:
    """Looked at before and after each change of the catalogue, by pointer and by directory."""
    seen: list[int] = []

    def look(*_arguments: object) -> None:
        rows = world.by_window()["00"] + world.table("__late")
        assert len(rows) == len(set(rows)), rows
        seen.append(len(rows))

    for swap in ("pointer", "directory"):
        world.change_spec(archive=replace(world.pipeline.archive, swap=swap))
        ctx = world.context()
        calls = dict.fromkeys(("add_partitions", "set_location", "drop_partitions"), look)
        ctx.catalogue = Hook(ctx.catalogue, before=calls, after=calls)  # type: ignore[assignment]
        ctx.storage = Hook(ctx.storage, after={"rename_no_replace": look})  # type: ignore[assignment]
        reopen.reopen(ctx, window(0))
        world.close()
        world.produce(record("later", 0.9))
        world.ingest(f"{swap} 2")
    assert len(seen) > 10


# ---------------------------------------------------------------- by itself


def maintained(world: World) -> list[str]:
    done = reconcile.maintain(world.context())
    world.close()
    return [line for line in done if "reopened" in line]


def test_the_maintenance_dag_reopens_what_has_waited_long_enough(world: World) -> None:
    assert maintained(world) == []
    world.change_spec(reopening=Reopening(after_ms=2 * HOUR))
    assert maintained(world) == []
    world.clock.advance(2 * HOUR)
    (line,) = maintained(world)
    assert "2013-01-05T00:00Z was reopened as generation 2: 4 rows" in line
    once(world, BOTH)
    assert maintained(world) == []


def test_it_leaves_a_window_alone_that_is_over_its_budget(world: World) -> None:
    world.change_spec(reopening=Reopening(after_ms=0, rows=1))
    assert maintained(world) == []
    once(world, BOTH[:2], [(0, 3), (0, 4)])


def test_it_gives_up_what_is_refused_again_and_again(world: World) -> None:
    world.change_spec(reopening=Reopening(after_ms=0))
    (late,) = (world.folder / WORK / "late").rglob("*.parquet")
    kept = late.read_bytes()
    late.unlink()
    for _ in range(MOST_REFUSED):
        (line,) = maintained(world)
        assert "late file lost" in line
    assert maintained(world) == []
    late.write_bytes(kept)
    assert reopened(world).new
    once(world, BOTH)


def test_it_reopens_a_few_windows_a_run(world: World) -> None:
    world.produce(record("up", 9.9))
    world.produce(record("up", 9.9), partition=1)
    world.ingest("r3")
    for hour in range(1, 6):
        world.archive(hour)
    world.produce(*(record("late", hour + 0.5) for hour in range(1, 6)))
    world.ingest("r4")
    world.change_spec(reopening=Reopening(after_ms=0))
    assert [len(maintained(world)) for _ in range(3)] == [3, 3, 0]
    assert world.table("__late") == []
    balanced(world)


@pytest.mark.parametrize("after_ms", [None, 0])
def test_it_goes_on_with_one_that_died_while_it_was_built(world: World, after_ms: int | None) -> None:
    """Not at once: a job may be at work."""
    world.change_spec(reopening=Reopening(after_ms=after_ms))
    world.context().ledger.windows.begin_generation("readings", window(0), 1, "reopen")
    world.clock.advance(QUIET_MS - 1)
    assert maintained(world) == []
    world.clock.advance(1)
    (line,) = maintained(world)
    assert "2013-01-05T00:00Z was reopened as generation 2: 4 rows" in line
    once(world, BOTH)
    assert maintained(world) == []


@pytest.mark.parametrize("after_ms", [None, 0])
def test_it_goes_on_at_once_with_one_whose_late_rows_are_hidden(world: World, after_ms: int | None) -> None:
    """Whoever swapped it in died after the late partitions went: its rows are in neither table."""
    world.change_spec(reopening=Reopening(after_ms=after_ms))
    ctx = world.context()
    ctx.catalogue = Hook(ctx.catalogue, after={"drop_partitions": die})  # type: ignore[assignment]
    with pytest.raises(Died):
        reopen.reopen(ctx, window(0))
    world.close()
    assert (world.by_window()["00"], world.table("__late")) == (BOTH[:2], [])
    assert len(maintained(world)) == 1
    once(world, BOTH)


def test_an_alarm_of_another_batch_does_not_hold_it_up(world: World) -> None:
    world.produce(record("later", 0.9))
    ingest.plan(world.context(), "r3")
    ingest.write(world.context(), "r3")
    ctx = world.context()
    ctx.ledger.batches = Hook(ctx.ledger.batches, after={"land": die})  # type: ignore[assignment]
    with pytest.raises(Died):
        ingest.land(ctx, "r3")
    world.close()
    (lost,) = (world.folder / WORK / "landed/3/late").rglob("*.parquet")
    lost.unlink()
    world.change_spec(reopening=Reopening(after_ms=0))
    with pytest.raises(Alarm):
        maintained(world)
    world.close()
    assert (world.by_window()["00"], world.table("__late")) == (BOTH, [])


def test_it_leaves_one_alone_that_is_blocked(world: World) -> None:
    ctx = world.context()
    ctx.ledger.windows.begin_generation("readings", window(0), 1, "reopen")
    ctx.ledger.windows.block("readings", window(0), "an alarm")
    world.clock.advance(QUIET_MS)
    assert maintained(world) == []


# ---------------------------------------------------------------- what people are told


def told(world: World) -> tuple[str, str, list[tuple[int, int]]]:
    ctx = world.context()
    found = explanation.explain(ctx, ctx.ledger.reads, window(0))  # type: ignore[attr-defined]
    world.close()
    return found.summary, found.next_step, [(s.late, s.taken_up) for s in found.shares]


def test_explain_says_what_waits_and_what_was_taken_up(world: World) -> None:
    summary, step, shares = told(world)
    assert summary == "published: generation 1 (archive), 2 rows; rows that came late (2) are in lake.readings__late"
    assert step.endswith("to take the late rows up: tidegate reopen readings 2013-01-05T00:00Z")
    assert shares == [(0, 0), (2, 0)]
    reopened(world)
    world.produce(record("later", 0.9))
    world.ingest("r3")
    summary, step, shares = told(world)
    assert summary == (
        "published: generation 2 (reopen), 4 rows, of which 2 came late and were taken up; "
        "rows that came late (1) are in lake.readings__late"
    )
    assert shares == [(0, 0), (2, 2), (1, 0)]
    reopened(world)
    assert told(world)[0] == "published: generation 3 (reopen), 5 rows, of which 3 came late and were taken up"


def test_explain_of_one_that_is_at_work(world: World) -> None:
    world.context().ledger.windows.begin_generation("readings", window(0), 1, "reopen")
    summary, step, _ = told(world)
    assert summary == "published: generation 1 (archive), 2 rows; generation 2 (reopen) is BUILDING"
    assert step.endswith("otherwise: tidegate reopen readings 2013-01-05T00:00Z")
    reopened(world)
    once(world, BOTH)


def left(world: World) -> tuple[str, list[str]]:
    ctx = world.context()
    found = overview.status(ctx, ctx.ledger.reads, None)  # type: ignore[attr-defined]
    world.close()
    return overview.late_words(found.late_left, "readings"), [c.what for c in found.concerns if "late rows" in c.what]


def test_status_lists_what_is_over_its_budget(world: World) -> None:
    world.change_spec(reopening=Reopening(rows=1))
    assert left(world) == ("", []), "nobody has asked for it"
    world.change_spec(reopening=Reopening(after_ms=HOUR, rows=1))
    assert left(world) == ("", []), "not yet"
    world.clock.advance(HOUR)
    assert left(world) == (
        "late rows of 2013-01-05T00:00Z wait, over the budget: 2 late rows wait (late.reopen_rows: 1); "
        "to take them up: tidegate reopen readings 2013-01-05T00:00Z --over-budget --why '...'",
        [],
    )
    reopened(world, over_budget=True)
    assert left(world) == ("", [])


def test_a_refused_reopening_needs_a_human(world: World) -> None:
    world.change_spec(reopening=Reopening(after_ms=0))
    (late,) = (world.folder / WORK / "late").rglob("*.parquet")
    late.unlink()
    for _ in range(MOST_REFUSED):
        assert left(world) == ("", [])
        maintained(world)
    assert left(world) == ("", ["reopening 2013-01-05T00:00Z was refused: its late rows wait"])


def test_it_does_not_look_for_windows_beyond_their_age(world: World) -> None:
    world.change_spec(reopening=Reopening(after_ms=0, age_ms=10 * HOUR))
    assert maintained(world) == []
    world.change_spec(reopening=Reopening(after_ms=0, age_ms=99 * HOUR))  # it is 100:00, the window ended at 01:00
    assert len(maintained(world)) == 1
