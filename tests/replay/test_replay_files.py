"""Windows are rebuilt from our own files: rows that Kafka has no more, where nothing has to be decoded again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.audit.audits import in_process
from tests.world import TOPIC, World, make_pipeline, record, window
from tidegate.core.base.errors import JobFailed, ReplayRefused
from tidegate.core.spec.pipeline import Column
from tidegate.workflow.audit.audit import Depth, audit
from tidegate.workflow.base.context import Published
from tidegate.workflow.publish import archive
from tidegate.workflow.replay import rehearsal, replay, rollback
from tidegate.workflow.replay.rehearsal import DIFFERS, REFUSED, SAME, Rehearsed


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = small(tmp_path)
    yield made
    made.close()


def small(folder: Path, **changes: Any) -> World:
    """Its column of numbers can become wider."""
    spec = make_pipeline(f"file://{folder}/lake/readings")
    id_, site, value = spec.columns
    return World(folder, replace(spec, columns=(id_, site, replace(value, type="smallint")), **changes))


def published(world: World, batches: int = 2) -> None:
    for batch in range(batches):
        for partition in (0, 1):
            world.produce(record(f"{batch}", 0.1 + 0.2 * batch, site="ab"[partition], value=batch), partition=partition)
            world.produce(record("next", 1.1), b"dirty", record("far", 9.0), partition=partition)
        world.ingest(f"r{batch}")
    world.archive(0)


def columns(world: World, *change: Column) -> None:
    world.change_spec(columns=(*world.pipeline.columns[:2], *change))


WIDER, OTHER = Column(name="value", type="int", path="$.value"), Column(name="value", type="smallint", path="$.other")


def again(world: World, wanted: str = "auto", hour: int = 0) -> Published:
    ctx = world.context()
    found = replay.replay(ctx, window(hour), wanted)
    archive.announced(ctx, found)
    world.close()
    return found


def forgotten(world: World, before: int = 4) -> None:
    for partition in (0, 1):
        world.kafka.trim(TOPIC, partition, before)


def well(world: World) -> None:
    ctx = world.context()
    report = audit(ctx, ctx.ledger.reads, in_process, Depth())
    assert report.problems == ()
    world.close()


def rows(found: Published) -> list[dict[str, Any]]:
    files = sorted(Path(found.location.removeprefix("file://")).rglob("*.parquet"))
    return sorted(
        (r for f in files for r in pq.ParquetFile(f).read().to_pylist()), key=lambda r: (r["_partition"], r["_offset"])
    )


# ---------------------------------------------------------------- what can be taken


def test_the_same_columns_give_the_same_content(world: World) -> None:
    published(world)
    forgotten(world, 8)
    assert (again(world).new, again(world, "files").new) == (False, False)
    assert (again(world).generation, again(world).rows) == (1, 4)


def test_a_column_less_and_another_order_and_a_wider_one(world: World) -> None:
    published(world)
    forgotten(world, 8)
    before = world.table()
    id_, site, _ = world.pipeline.columns
    world.change_spec(columns=(WIDER, site, id_))
    found = again(world)
    assert (found.new, found.generation, found.rows) == (True, 2, 4)
    assert [(r["value"], r["id"], r["_batch_id"]) for r in rows(found)] == [
        (0, "0", 1),
        (1, "1", 2),
        (0, "0", 1),
        (1, "1", 2),
    ]
    world.change_spec(columns=(site, id_))
    assert "value" not in rows(again(world))[0]
    assert world.table() == before
    well(world)


def test_rows_of_files_are_those_that_kafka_gives(tmp_path: Path) -> None:
    """The same life twice; in one of them Kafka has forgotten half, in another one all."""
    digests = []
    for kept in (0, 4, 8):
        (tmp_path / str(kept)).mkdir()
        world = small(tmp_path / str(kept))
        published(world)
        forgotten(world, kept)
        columns(world)
        found = again(world)
        assert found.new
        digests.append(found.digest)
        well(world)
    assert len(set(digests)) == 1


def test_batches_whose_records_are_there_are_read_again_and_the_others_taken(world: World) -> None:
    published(world)
    forgotten(world, 4)
    columns(world, WIDER)
    assert again(world).rows == 4
    (job,) = world.launcher.runs  # type: ignore[union-attr]
    assert [part.batch_id for part in job.parts] == [2]
    assert {wanted for copy in job.copies for wanted in copy.wanted or ()} == {(1, 0), (1, 1)}
    assert any("2 rows came from the files in force" in line for line in world.said)
    well(world)


def test_a_second_replay_knows_by_which_columns_the_rows_are(world: World) -> None:
    """A column that came and was decoded by a replay is in the files; what only an older spec had is not."""
    published(world)
    columns(world, OTHER)
    again(world)
    forgotten(world, 8)
    assert again(world, "files").generation == 2
    columns(world, WIDER)
    with pytest.raises(ReplayRefused, match="column value needs the records to be decoded again"):
        again(world)


def test_a_column_that_must_be_decoded_is_refused_by_name(world: World) -> None:
    published(world)
    forgotten(world, 4)
    columns(world, WIDER, Column(name="note", type="string", path="$.note"))
    before = world.table()
    with pytest.raises(ReplayRefused) as e:
        again(world)
    assert "partition 0 offsets [0, 1) have passed Kafka's retention" in str(e.value)
    assert "column note needs the records to be decoded again, of batch 1" in str(e.value)
    assert "Kafka has this partition from offset 4 on" in str(e.value)
    assert world.table() == before
    assert world.context().ledger.windows.get("readings", window(0)).newest == 1


def test_kafka_alone_may_be_asked_for(world: World) -> None:
    published(world)
    forgotten(world)
    with pytest.raises(ReplayRefused, match="retention.*\n.*--from auto"):
        again(world, "kafka")


def test_a_topic_that_was_recreated_or_deleted_needs_no_records(world: World) -> None:
    published(world)
    world.kafka.create(TOPIC, 2)
    columns(world)
    assert again(world).new
    world.kafka.delete(TOPIC)
    columns(world)
    assert not again(world).new
    columns(world, OTHER)
    with pytest.raises(ReplayRefused, match="no topic readings; column value needs"):
        again(world)


def test_a_file_that_is_not_the_manifests_is_never_taken(world: World) -> None:
    published(world)
    forgotten(world, 8)
    columns(world)
    file = min((world.folder / "lake/readings/date=2013-01-05/hour=00/site=a").glob("*.parquet"))
    content = file.read_bytes()
    file.unlink()
    with pytest.raises(ReplayRefused, match="is not what its manifest says"):
        again(world)
    # as long, but not the same
    middle = len(content) // 4
    file.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
    with pytest.raises((ReplayRefused, JobFailed), match="checksum|cannot be read|rows read"):
        again(world)
    file.write_bytes(content)
    assert again(world).new
    well(world)


def test_a_record_that_compaction_has_taken_since_is_in_our_files(world: World) -> None:
    world.change_spec(source=replace(world.pipeline.source, gaps="allow"))
    published(world)
    world.kafka.compact(TOPIC, 0, 0)
    columns(world)
    before = world.table()
    found = again(world)
    assert (found.new, found.rows) == (True, 4)
    assert world.table() == before
    first, second = world.launcher.runs  # type: ignore[union-attr]
    assert (len(first.copies), [w for c in second.copies for w in c.wanted or ()]) == (0, [(1, 0)])
    columns(world, OTHER)
    with pytest.raises(ReplayRefused, match=r"nothing any more at \[0, 1\)(.|\n)*column value needs"):
        again(world)
    well(world)


def test_rows_without_their_offsets_come_from_one_place(tmp_path: Path) -> None:
    world = small(tmp_path, kafka_columns=False)
    for batch in range(2):
        world.produce(record("a", 0.1 + 0.2 * batch), record("far", 9.0))
        world.produce(record("b", 0.1 + 0.2 * batch), record("far", 9.0), partition=1)
        world.ingest(f"r{batch}")
    world.archive(0)
    world.kafka.trim(TOPIC, 0, 1)
    columns(world)
    found = again(world)
    assert (found.new, found.rows) == (True, 4)
    assert [sorted(r) for r in _plain(found)] == [["id"]] * 4
    (job,) = world.launcher.runs  # type: ignore[union-attr]
    assert (job.parts, {c.wanted for c in job.copies}) == ((), {None})
    world.close()


def _plain(found: Published) -> list[dict[str, Any]]:
    files = Path(found.location.removeprefix("file://")).rglob("*.parquet")
    return [r for f in files for r in pq.ParquetFile(f).read().to_pylist()]


def test_rows_of_the_overflow_partition_keep_their_place(world: World) -> None:
    world.change_spec(sink=replace(world.pipeline.sink, max_partitions=1))
    world.produce(*[record(str(i), 0.1, site=s) for i, s in enumerate("aabc")], record("far", 9.0))
    world.produce(record("far", 9.0), partition=1)
    world.ingest("r1")
    world.archive(0)
    places = world.catalogue.partitions("lake.readings").keys()
    world.kafka.trim(TOPIC, 0, 4)
    columns(world, WIDER)
    assert again(world).rows == 4
    assert world.catalogue.partitions("lake.readings").keys() == places
    overflow = [r for r in rows(again(world, "files")) if "_overflow" in r]
    assert [dict(r["_overflow"]) for r in overflow] == [{"site": "b"}, {"site": "c"}]
    well(world)


@pytest.mark.parametrize("carried", [True, False])
def test_the_null_partition_may_be_the_overflow_partition_too(tmp_path: Path, carried: bool) -> None:
    """A merged file has rows of both kinds, which nothing tells apart but their column."""
    world = small(tmp_path, kafka_columns=carried, partition_by=("date", "hour", "value"))
    merge = replace(world.pipeline.archive.merge, min_files=2)
    sink = replace(world.pipeline.sink, max_partitions=1)
    world.change_spec(archive=replace(world.pipeline.archive, merge=merge), sink=sink)
    world.produce(*(record(str(i), 0.1, value=v) for i, v in enumerate((1, 1, 2, 3))), record("far", 9.0))
    world.produce(record("4", 0.1) | {"value": None}, record("far", 9.0), partition=1)
    world.ingest("r1")
    world.produce(record("5", 0.1) | {"value": None}, record("far", 9.0))
    world.ingest("r2")
    world.archive(0)
    (file,) = (p for p in world.folder.rglob("m1-*.parquet") if "DEFAULT" in str(p))
    before = pq.ParquetFile(file).read(["id", "_overflow"]).to_pylist()
    assert sorted((r["id"], bool(r["_overflow"])) for r in before) == [
        ("2", True),
        ("3", True),
        ("4", False),
        ("5", False),
    ]
    assert not again(world, "files").new
    id_, _, value = world.pipeline.columns
    world.change_spec(columns=(id_, value))
    found = again(world, "files")
    assert (found.new, found.rows) == (True, 6)
    after = [r for f in Path(found.location[7:]).rglob("*DEFAULT*/*") for r in pq.ParquetFile(f).read().to_pylist()]
    assert sorted((r["id"], bool(r.get("_overflow"))) for r in after) == [
        ("2", True),
        ("3", True),
        ("4", False),
        ("5", False),
    ]
    well(world)


def test_times_that_cannot_be_read_back_from_orc_are_refused_for_what_they_are(tmp_path: Path) -> None:
    """Nothing is wrong with the file: queries read it, and so does a replay from Kafka."""
    spec = make_pipeline(f"file://{tmp_path}/lake/readings")
    moment = Column(name="moment", type="timestamp", path="$.moment")
    world = World(tmp_path, replace(spec, columns=(*spec.columns, moment), sink=replace(spec.sink, format="orc")))
    world.produce(record("a", 0.1) | {"moment": "9999-12-31T00:00:00Z"}, record("far", 9.0))
    world.produce(record("b", 0.1, "b"), record("far", 9.0), partition=1)
    world.ingest("r1")
    world.archive(0)
    said = "times before 1677 or after 2262 can be queried, not copied"
    with pytest.raises(ReplayRefused, match=f"{said}\n.*--from kafka"):
        again(world, "files")
    assert not again(world, "kafka").new
    other = (*world.pipeline.columns[:2], replace(world.pipeline.columns[2], path="$.other"), moment)
    world.change_spec(columns=other)
    assert again(world, "kafka").new
    with pytest.raises(ReplayRefused, match=f"{said}\n.*from Kafka"):
        rollback.rollback(world.context(), window(0), 1, "x")
    assert world.table() == [(0, 0), (1, 0)]
    well(world)
    world.close()


# ---------------------------------------------------------------- dry run


def rehearse(world: World, wanted: str = "auto", hours: tuple[int, ...] = (0,)) -> list[Rehearsed]:
    found = rehearsal.rehearse(world.context(), [window(h) for h in hours], wanted)
    world.close()
    return found


def leavings(world: World) -> list[str]:
    work = world.folder / "lake/readings/_tidegate"
    return [p.name for folder in ("tmp", "plans") for p in (work / folder).glob("*dry*")]


def test_a_dry_run_says_what_would_change_and_leaves_nothing(world: World) -> None:
    published(world)
    files, table = world.files(), world.table()
    newest = world.context().ledger.windows.get("readings", window(0)).newest
    (same,) = rehearse(world)
    assert (same.what, same.generation, same.now, same.columns) == (
        SAME,
        1,
        replace(same.then, files=same.now.files),
        (),
    )  # type: ignore[arg-type,union-attr]
    id_, site, _ = world.pipeline.columns
    world.change_spec(columns=(id_, site, OTHER, Column(name="note", type="string", path="$.note")))
    (found,) = rehearse(world)
    assert (found.what, found.now.rows, found.then.rows) == (DIFFERS, 4, 4)  # type: ignore[union-attr]
    assert found.now.checksum != found.then.checksum  # type: ignore[union-attr]
    assert found.columns == ("column note string is new", "column value comes from somewhere else now")
    assert (world.files(), world.table(), leavings(world)) == (files, table, [])
    assert world.context().ledger.windows.get("readings", window(0)).newest == newest
    replayed = again(world)
    assert f"{sum(f.checksum for f in _current(world).files) % 2**64:016x}" == found.then.checksum  # type: ignore[union-attr]
    assert replayed.generation == 2


def _current(world: World) -> Any:
    windows = world.context().ledger.windows
    return windows.generation("readings", window(0), windows.get("readings", window(0)).current)  # type: ignore[arg-type]


def test_a_dry_run_says_which_windows_would_be_refused(world: World) -> None:
    published(world)
    world.archive(1)
    forgotten(world, 8)
    columns(world, OTHER)
    found = rehearse(world, hours=(0, 1, 2))
    assert [f.what for f in found] == [REFUSED] * 3
    assert "column value needs" in found[0].why
    assert "never published" in found[2].why
    columns(world)
    found = rehearse(world, hours=(0, 1))
    assert [(f.what, f.copied) for f in found] == [(DIFFERS, 4), (DIFFERS, 4)]
    assert leavings(world) == []


def test_what_a_dry_run_that_died_left_is_cleaned_by_age(world: World) -> None:
    from tests.hooks import Died, die
    from tidegate.workflow.clean import duties

    published(world)
    ctx = world.context()
    launch = ctx.launcher.run

    def dies(plan: str) -> None:
        launch(plan)
        ctx.storage.delete = die  # type: ignore[method-assign]
        die()

    ctx.launcher.run = dies  # type: ignore[method-assign]
    with pytest.raises(Died):
        rehearsal.rehearse(ctx, [window(0)])
    del ctx.storage.delete  # other tasks share the store
    assert len(leavings(world)) == 2
    duties.clean(world.context())
    assert len(leavings(world)) == 2
    world.clock.advance(2 * 86_400_000)
    found = duties.clean(world.context())
    assert leavings(world) == []
    assert not found.kept
