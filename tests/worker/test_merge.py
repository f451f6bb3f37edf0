"""Small files of a window are merged before it is published (R3): same rows, same digest, fewer files."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.audit.audits import in_process
from tests.calls import Calls
from tests.hooks import Died, Hook, Once
from tests.world import World, make_pipeline, record, window
from tidegate.core.base.errors import JobFailed
from tidegate.core.base.plain import dumps, loads
from tidegate.core.files.merge import MergeReceipt
from tidegate.core.files.receipt import FileEntry, PartitionRows, content_digest
from tidegate.core.spec.pipeline import Column, Format
from tidegate.core.window.states import PublishedGeneration
from tidegate.spark.local_job import LocalLauncher
from tidegate.storage.local import LocalStorage
from tidegate.workflow.audit.audit import audit
from tidegate.workflow.base.context import REQUEST_TTL_MS
from tidegate.workflow.clean.duties import clean
from tidegate.workflow.publish import archive

DAY_MS = 86_400_000


def merging(pipeline, min_files: int | None = 2):
    run = pipeline.archive
    return replace(pipeline, archive=replace(run, merge=replace(run.merge, min_files=min_files)))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path, merging(make_pipeline(f"file://{tmp_path}/lake/readings")))
    yield made
    made.close()


def three_batches(world: World) -> None:
    """Hour 0 has three files of site a and one of site b."""
    world.produce(record("a0", 0.1), record("b0", 0.2, "b"))
    world.ingest("r1")
    world.produce(record("a1", 0.3), record("a2", 0.4), partition=1)
    world.ingest("r2")
    world.produce(record("a3", 0.5), record("later", 2.5))
    world.produce(record("later", 2.5), partition=1)
    world.ingest("r3")


ROWS = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]


def hour(world: World, number: int | None = None) -> Any:
    windows = world.context().ledger.windows
    return windows.generation("readings", window(0), number or windows.get("readings", window(0)).newest)


def landed(world: World) -> list[FileEntry]:
    ctx = world.context()
    return [f.entry for f in ctx.ledger.windows.landed_files("readings", window(0), range(1, 10))]


def remains(world: World) -> list[str]:
    """Data files of hour 0 that lie in the work directory."""
    root = world.folder / "lake/readings/_tidegate"
    return sorted(
        str(p.relative_to(root)) for p in root.glob("*/**/*.parquet") if "hour=00" in str(p) or "publish" in str(p)
    )


def assert_whole(world: World, files: int | None = None) -> None:
    assert world.by_window()["00"] == ROWS
    generation = hour(world)
    assert isinstance(generation, PublishedGeneration)
    assert generation.digest == content_digest(landed(world))
    if files is not None:
        assert len(generation.files) == files
    ctx = world.context()
    report = audit(ctx, ctx.ledger.reads, in_process)
    assert report.problems == ()
    world.close()


# ---------------------------------------------------------------- the window


def test_small_files_become_one_and_the_content_is_the_same(world: World) -> None:
    three_batches(world)
    world.archive(0)
    assert_whole(world, files=2)
    assert remains(world) == [], "what was merged is in nobody's way any more"
    merged = next(f for f in hour(world).files if f.rows == 4)
    assert merged.partitions == (PartitionRows(0, 2, 0, 2), PartitionRows(1, 2, 0, 1))


def test_a_replay_of_a_merged_window_is_unchanged(world: World) -> None:
    three_batches(world)
    world.archive(0)
    assert world.replay(0).note == "unchanged"


@pytest.mark.parametrize("change", ["min_files", "off", "size"])
def test_what_is_not_worth_it_is_left_alone(world: World, change: str) -> None:
    if change == "size":
        world.change_spec(sink=replace(world.pipeline.sink, target_file_size=100))
    else:
        world.pipeline = merging(world.pipeline, 4 if change == "min_files" else None)
    three_batches(world)
    world.archive(0)
    assert_whole(world, files=4)


TYPES = {
    "t_tiny": ("tinyint", 7), "t_small": ("smallint", -3), "t_int": ("int", 2**31 - 1), "t_big": ("bigint", -(2**63)),
    "t_float": ("float", 1.5), "t_double": ("double", 1e300), "t_dec": ("decimal(10,2)", "12345678.90"),
    "t_text": ("string", "ä'\n"), "t_bin": ("binary", "AAEC"), "t_bool": ("boolean", True),
    "t_date": ("date", "2013-01-05"), "t_at": ("timestamp", "2013-01-05T00:00:01.25Z"),
    "t_list": ("array<int>", [1, None]), "t_map": ("map<string,bigint>", {"k": 1}),
    "t_struct": ("struct<x:int,y:array<string>>", {"x": 1, "y": ["z"]}),
}  # fmt: skip


@pytest.mark.parametrize("kafka_columns", [True, False])
def test_every_type_comes_through(world: World, kafka_columns: bool) -> None:
    columns = tuple(Column(name=name, type=kind, path=f"$.{name}") for name, (kind, _) in TYPES.items())
    world.change_spec(
        columns=(*world.pipeline.columns, *columns, Column(name="n", type="bigint", path="$.n")),
        partition_by=("date", "hour", "site", "n"),
        format=Format("json", "capture"),
        kafka_columns=kafka_columns,
    )
    full = {name: value for name, (_, value) in TYPES.items()}
    for run in ("r1", "r2"):
        world.produce({**record(run, 0.1), **full, "n": 5, "extra": run}, {**record(run, 0.2), "n": None, "site": None})
        world.produce({**record(run, 0.3), **full, "n": 5, "site": ""}, record("later", 2.5), partition=1)
        world.ingest(run)
    before = rows_of(world, [world.folder / "lake/readings/_tidegate/landed" / str(b) for b in (1, 2)])
    world.archive(0)
    assert [line for line in world.said if "WARNING" in line] == []
    generation = hour(world)
    assert generation.digest == content_digest(landed(world))
    assert len(generation.files) < len(landed(world))
    assert rows_of(world, [Path(generation.location.removeprefix("file://"))]) == before


def rows_of(world: World, folders: list[Path]) -> list[str]:
    """Rows of hour 0 as text, with schema and partition folder, sorted."""
    found = []
    for folder in folders:
        for path in folder.rglob("*.parquet"):
            if "hour=02" in str(path):
                continue
            table = pq.read_table(path, partitioning=None)
            place = [part for part in path.parts if part.startswith(("site=", "n="))]
            found += [f"{place} {table.schema.remove_metadata()} {row}" for row in table.to_pylist()]
    return sorted(found)


def test_a_column_that_came_later_is_not_lost(world: World) -> None:
    for number in range(4):
        if number == 2:
            world.change_spec(columns=(*world.pipeline.columns, Column(name="new", type="int", path="$.new")))
        world.produce({**record(f"a{number}", 0.1), "new": number})
        if number == 3:
            world.produce(record("later", 2.5))
            world.produce(record("later", 2.5), partition=1)
        world.ingest(f"r{number}")
    before = rows_of(world, [world.folder / "lake/readings/_tidegate/landed" / str(b) for b in range(1, 5)])
    world.archive(0)
    generation = hour(world)
    assert len(generation.files) == 2
    assert rows_of(world, [Path(generation.location.removeprefix("file://"))]) == before


# ---------------------------------------------------------------- what goes wrong


def test_a_merge_that_fails_publishes_the_files_as_they_are(world: World) -> None:
    three_batches(world)
    ctx = world.context()
    ctx.launcher = Hook(ctx.launcher, before={"run": _fails})  # type: ignore[assignment]
    archive.publish(ctx, window(0))
    world.close()
    assert any("published as they are" in line and "no memory" in line for line in world.said)
    assert_whole(world, files=4)


def _fails(*_: Any) -> None:
    raise JobFailed("no memory")


@pytest.mark.parametrize("what", ["receipt", "file", "source"])
def test_what_a_merge_tells_is_compared_with_the_manifests(world: World, what: str) -> None:
    three_batches(world)
    ctx = world.context()
    root = world.folder / "lake/readings/_tidegate"

    def spoil(*_: Any) -> None:
        (attempt,) = (root / "tmp").glob("*.merge")
        if what == "receipt":
            receipt = loads(MergeReceipt, (attempt / "_receipt.json").read_text())
            lie = replace(receipt.files[0], checksum=receipt.files[0].checksum ^ 1)
            (attempt / "_receipt.json").write_text(dumps(replace(receipt, files=(lie,))))
        else:
            with next(attempt.glob("site=a/*.parquet")).open("ab") as file:
                file.write(b"x")

    if what == "source":
        path = next((root / "landed/1/data").rglob("site=a/*.parquet"))
        content = path.read_bytes()
        path.write_bytes(content[:8] + bytes(8) + content[16:])
    else:
        ctx.launcher = Hook(ctx.launcher, after={"run": spoil})  # type: ignore[assignment]
    archive.publish(ctx, window(0))
    world.close()
    assert any("WARNING" in line and "published as they are" in line for line in world.said)
    assert len(hour(world).files) == 4


def test_a_source_that_cannot_be_read_is_named(world: World) -> None:
    three_batches(world)
    path = next((world.folder / "lake/readings/_tidegate/landed/2/data").rglob("site=a/*.parquet"))
    content = path.read_bytes()
    path.write_bytes(content[:8] + bytes(8) + content[16:])
    world.archive(0)
    (warning,) = [line for line in world.said if "published as they are" in line]
    assert path.name in warning
    assert "/landed/2/" in warning


def test_a_zombie_that_merges_too_changes_nothing(world: World) -> None:
    """Epoch 1 merges; in the midst of it epoch 2 merges, publishes and tidies up."""
    three_batches(world)
    for moment in ("before", "after"):
        ctx = world.context()
        other = Once(lambda: archive.publish(world.context(), window(0)))
        ctx.launcher = Hook(ctx.launcher, **{moment: {"run": other}})  # type: ignore[arg-type, assignment]
        published = archive.publish(ctx, window(0))
        assert published.note in ("verified", "")
        world.close()
        assert_whole(world, files=2)
    assert hour(world).epoch == 2


def test_an_overtaken_try_may_have_moved_what_the_next_one_merges(world: World) -> None:
    """Epoch 1 did not merge and died in the midst of moving; epoch 2 reads files where they are now."""
    three_batches(world)
    world.pipeline = merging(world.pipeline, None)
    ctx = world.context()
    ctx.storage = Hook(ctx.storage, after={"rename_no_replace": Once(_dies, at=2)})  # type: ignore[assignment]
    with pytest.raises(Died):
        archive.publish(ctx, window(0))
    world.close()
    assert len([p for p in remains(world) if p.startswith("publish")]) == 2
    world.pipeline = merging(world.pipeline, 2)
    world.archive(0)
    assert_whole(world, files=2)
    assert all(p.startswith("publish") for p in remains(world)), "the rest is the cleaner's"
    clean_all(world)
    assert_whole(world, files=2)
    assert remains(world) == []


def _dies() -> None:
    raise Died


def clean_all(world: World) -> None:
    """The maintenance DAG comes by, a long time later."""
    world.produce(record("newest", 3.5))
    world.ingest("newest")
    for _ in range(2):
        world.clock.advance(40 * DAY_MS)
        clean(world.context())
        world.close()


def test_sources_that_a_death_left_are_cleaned_by_the_same_rule(world: World) -> None:
    three_batches(world)
    ctx = world.context()
    ctx.storage = Hook(ctx.storage, before={"delete": lambda *_: _dies()})  # type: ignore[assignment]
    with pytest.raises(Died):
        archive.publish(ctx, window(0))
    world.close()
    assert len(remains(world)) == 3
    world.archive(0)
    assert_whole(world, files=2)
    clean_all(world)
    assert_whole(world, files=2)
    assert all(p.startswith("landed/3/") for p in remains(world)), "batch 3 owes rows to another hour still"
    assert not (world.folder / "lake/readings/_tidegate/landed/1").exists()


def test_a_death_at_any_storage_call_heals(world: World) -> None:
    three_batches(world)
    kept = world.folder.with_name("kept")
    shutil.copytree(world.folder, kept)
    catalogue = copy.deepcopy(world.catalogue)
    calls = Calls(LocalStorage(), on=False)
    world.wrap = lambda name, port: calls if name == "storage" else port
    calls.on = True
    world.archive(0)
    total = len(calls.made)
    assert {"write_new", "rename_no_replace", "open_new", "delete"} <= set(calls.made)
    changing = [
        n for n, method in enumerate(calls.made) if method not in ("list_files", "exists", "read", "list_names")
    ]
    for dies in changing:
        world.close()
        shutil.rmtree(world.folder)
        shutil.copytree(kept, world.folder)
        world.catalogue = copy.deepcopy(catalogue)
        calls = Calls(LocalStorage(), dies=dies)
        world.wrap = lambda name, port, calls=calls: calls if name == "storage" else port
        try:
            world.archive(0)
        except Died:
            world.close()
            world.clock.advance(REQUEST_TTL_MS + 1)
            world.archive(0)
        assert world.by_window()["00"] == ROWS, f"death at call {dies} of {total}"
        assert hour(world).digest == content_digest(landed(world))


# ---------------------------------------------------------------- where it runs


def test_a_small_merge_runs_in_a_child_process(world: World) -> None:
    three_batches(world)
    ctx = world.context()
    ctx.local_launcher = LocalLauncher(world.said.append)
    ctx.launcher = Hook(ctx.launcher, before={"run": _fails})  # type: ignore[assignment]
    archive.publish(ctx, window(0))
    world.close()
    assert any("merged 4 rows of 3 files into 1" in line for line in world.said)
    assert_whole(world, files=2)


def test_a_large_merge_is_a_spark_job(world: World) -> None:
    run = world.pipeline.archive
    world.change_spec(archive=replace(run, merge=replace(run.merge, local_size=1)))
    three_batches(world)
    ctx = world.context()
    ctx.local_launcher = Hook(ctx.launcher, before={"run": _fails})  # type: ignore[assignment]
    archive.publish(ctx, window(0))
    world.close()
    assert_whole(world, files=2)


def test_the_childs_failure_is_told_in_its_own_words(tmp_path: Path) -> None:
    with pytest.raises(JobFailed, match="is not there"):
        LocalLauncher(lambda line: None).run(f"file://{tmp_path}/no/plan.json")
