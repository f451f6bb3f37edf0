"""Rolling a window back: the earlier generation's rows as the next one, whatever dies in between; what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from spark_jobs.engine.sinks import finished
from tests.hooks import Died, Hook, die
from tests.late.reopenings import balanced
from tests.worker.test_each_format import FORMATS
from tests.world import World, make_pipeline, record, window
from tidegate.core.base.errors import JobFailed, LostComparison, NotReady, ReplayRefused
from tidegate.core.replay.rollback import ROLLBACK, Origin
from tidegate.core.spec.pipeline import Column, Pipeline
from tidegate.core.target.tables import told_columns
from tidegate.workflow.clean import duties
from tidegate.workflow.late import reopen
from tidegate.workflow.look import explanation
from tidegate.workflow.publish import archive
from tidegate.workflow.replay import rollback
from tidegate.workflow.restore import adoption

OLD = {"a": ["1", "1"], "b": ["1"]}
NEW = {"a": ["2"], "c": ["2", "2"]}


def begun(world: World) -> World:
    """Hour 0 has three rows: in generation 1 with sites a and b and value 1, in generation 2 with a and c and 2."""
    sites = (("a", "c"), ("a", "a"), ("b", "c"))
    world.produce(*(record(f"r{n}", n / 10, old) | {"value": 1, "place": new, "other": 2}
                    for n, (old, new) in enumerate(sites)))  # fmt: skip
    world.produce(record("later", 3.5), partition=1)
    world.ingest("r1")
    world.archive(0)
    id_ = world.pipeline.columns[0]
    world.change_spec(
        columns=(
            id_,
            Column(name="site", type="string", path="$.place"),
            Column(name="value", type="int", path="$.other"),
        )
    )
    assert world.replay(0).generation == 2
    return world


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = begun(World(tmp_path))
    yield made
    made.close()


def values(world: World) -> dict[str, list[str]]:
    """Of hour 0: by site, the values of its rows."""
    found, told = {}, told_columns(world.pipeline, "data")
    for where, location in world.catalogue.partitions("lake.readings").items():
        if dict(where)["hour"] == "00":
            files = Path(location.removeprefix("file://")).glob("[!_.]*")
            read = [finished(str(p), p.open("rb"), told).batches(1000, ["value"]) for p in files]
            rows = [str(value) for batches in read for b in batches for value in b["value"].to_pylist()]
            found[str(dict(where)["site"])] = sorted(rows)
    return found


def rolled_back(world: World, to: int | None = None, why: str = "a test") -> archive.Published:
    ctx = world.context()
    published = rollback.rollback(ctx, window(0), to, why)
    if published.new:
        archive.announced(ctx, published)
    world.close()
    return published


@pytest.mark.parametrize("swap", ["pointer", "directory"])
def test_the_rows_of_the_earlier_generation_come_back(tmp_path: Path, swap: str) -> None:
    world = World(tmp_path)
    world.change_spec(archive=replace(world.pipeline.archive, swap=swap))
    begun(world)
    assert values(world) == NEW
    files = {p: p.read_bytes() for p in tmp_path.rglob("*.parquet")}
    published = rolled_back(world)
    assert (published.generation, published.new, published.rows) == (3, True, 3)
    assert values(world) == OLD
    ctx = world.context()
    first, third = (ctx.ledger.windows.generation("readings", window(0), n) for n in (1, 3))
    assert third.kind == ROLLBACK
    assert (third.digest, third.batches) == (first.digest, first.batches)
    assert ctx.ledger.rollbacks.of("readings", window(0), 3) == Origin(1, "a test")
    assert ctx.ledger.rollbacks.of("readings", window(0), 2) is None
    if swap == "pointer":  # R4: what a reader may still be at has not moved
        assert {p: p.read_bytes() for p in files} == files
    balanced(world)
    assert rolled_back(world, 2).generation == 4
    assert values(world) == NEW
    assert rolled_back(world).generation == 5  # undone: what was in force before
    assert values(world) == OLD
    balanced(world)


def test_what_it_rests_on_is_told(world: World) -> None:
    published = rolled_back(world, why="it lost sites")
    told = json.loads(Path(published.location.removeprefix("file://"), "_certificate.json").read_text())
    assert (told["kind"], told["rows_of"]) == ("rollback", {"number": 1, "why": "it lost sites"})
    ctx = world.context()
    words = explanation.explain(ctx, ctx.ledger.reads, window(0)).summary  # type: ignore[attr-defined]
    assert words.startswith("published: generation 3, 3 rows of generation 1, brought back because: it lost sites")
    noted = ctx.ledger.reads.events("readings", 100)  # type: ignore[attr-defined]
    begun = [e.detail for e in noted if e.what == "generation begun" and e.detail["kind"] == ROLLBACK]
    assert [(e["rows_of"], e["why"]) for e in begun] == [(1, "it lost sites")]


def test_a_preview_looks_only(world: World) -> None:
    before = world.files()
    found = rollback.preview(world.context(), window(0))
    assert (found.now.number, found.then.number, found.unchanged) == (2, 1, False)
    told = {dict(p.values)["site"]: (p.now, p.then) for p in found.partitions}
    assert told == {"a": (1, 2), "b": (0, 1), "c": (2, 0)}
    assert world.files() == before


def test_the_same_content_publishes_nothing(world: World) -> None:
    rolled_back(world)
    again = rolled_back(world, 1)
    assert (again.generation, again.new, again.note) == (3, False, "unchanged")
    assert rolled_back(world, 3).note == "unchanged"


# ---------------------------------------------------------------- refusals


def test_refusals(world: World) -> None:
    world.archive(1)
    for hour, to, words in ((0, 7, "generation 7 does not exist"), (1, None, "the only one")):
        with pytest.raises(ReplayRefused, match=words) as refused:
            rollback.rollback(world.context(), window(hour), to, "x")
        assert not refused.value.retry
        assert refused.value.advice
    with pytest.raises(NotReady, match="never published"):
        rollback.rollback(world.context(), window(9), 1, "x")


def test_cleaned_files_are_refused_by_the_key_that_let_them_go(world: World) -> None:
    world.change_spec(columns=make_pipeline(world.location).columns)
    world.replay(0)
    world.clock.advance(40 * 86_400_000)
    duties.clean(world.context())
    with pytest.raises(ReplayRefused, match=r"generation 1 were cleaned at .*archive.keep_generations is 2"):
        rolled_back(world, 1)
    assert values(world) == OLD
    assert rolled_back(world, 2).generation == 4


def test_a_lost_file_of_the_earlier_generation(world: World) -> None:
    gone = min((world.folder / "lake/readings/date=2013-01-05/hour=00").rglob("*.parquet"))
    gone.rename(world.folder / "aside")
    with pytest.raises(ReplayRefused, match="not there as its manifest says"):
        rolled_back(world)
    assert world.context().ledger.windows.get("readings", window(0)).newest == 2
    (world.folder / "aside").rename(gone)
    assert rolled_back(world).generation == 3


def test_other_bytes_of_the_same_length_are_not_copied(world: World) -> None:
    """The rows are compared with the manifest, not only the length; what was begun is discarded."""
    one = min((world.folder / "lake/readings/date=2013-01-05/hour=00").rglob("*.parquet"))
    content = bytearray(one.read_bytes())
    content[8] ^= 0xFF
    one.write_bytes(bytes(content))
    with pytest.raises((ReplayRefused, JobFailed)):
        rolled_back(world)
    assert values(world) == NEW
    published = world.archive(0)
    assert published.generation in (2, 3)


def test_late_rows_that_were_taken_up_would_be_nobodys(world: World) -> None:
    world.produce(record("late", 0.2) | {"place": "a", "other": 2})
    world.ingest("r2")
    reopen.reopen(world.context(), window(0))
    for to in (1, 2):
        with pytest.raises(ReplayRefused, match=r"took up late rows of batch 2") as refused:
            rolled_back(world, to)
        assert "replay" in refused.value.advice
    world.change_spec(columns=make_pipeline(world.location).columns)
    assert world.replay(0).generation == 4
    assert rolled_back(world).generation == 5  # both hold them
    assert world.table("__late") == []
    balanced(world)


# ---------------------------------------------------------------- lives go on


@pytest.mark.parametrize("port", ["storage", "windows", "catalogue", "launcher"])
@pytest.mark.parametrize("at", [1, 2, 3, 5])
def test_a_death_anywhere_is_gone_on_with(world: World, port: str, at: int) -> None:
    changing = ("write_new", "rename_no_replace", "make_dirs", "take", "built", "begin_swap", "publish", "set_location",
                "add_partitions", "drop_partitions", "run")  # fmt: skip
    left = [at]

    def count(*_: object, **__: object) -> None:
        left[0] -= 1
        if left[0] == 0:
            die()

    world.wrap = lambda name, p: Hook(p, after=dict.fromkeys(changing, count)) if name == port else p
    try:
        rolled_back(world, 1)
    except Died:
        pass
    world.wrap = lambda name, p: p
    world.close()
    if at % 2:
        rolled_back(world, 1)
    else:
        world.archive(0)
        rolled_back(world, 1)
    assert values(world) == OLD
    balanced(world)


def test_clear_copies_again_what_was_lost(world: World) -> None:
    """Not today's columns: the rows are those of the earlier generation."""
    published = rolled_back(world)
    min(Path(published.location.removeprefix("file://")).rglob("*.parquet")).unlink()
    healed = world.archive(0)
    assert (healed.generation, healed.new) == (4, True)
    assert values(world) == OLD
    ctx = world.context()
    assert ctx.ledger.rollbacks.of("readings", window(0), 4).number == 1
    balanced(world)


def test_clear_decodes_anew_if_the_earlier_files_are_gone_too(world: World) -> None:
    published = rolled_back(world)
    for folder in (published.location.removeprefix("file://"), f"{world.folder}/lake/readings/date=2013-01-05/hour=00"):
        min(Path(folder).rglob("*.parquet")).unlink()
    assert world.archive(0).generation == 4
    assert values(world) == NEW
    assert "today's columns decode them anew" in "\n".join(world.said)


def test_files_of_a_cleaned_generation_that_reappear_are_not_copied(world: World) -> None:
    """Restored from a backup, say: the ledger has them as cleaned, and no retry would change that."""
    world.change_spec(archive=replace(world.pipeline.archive, keep_generations=1))
    published = rolled_back(world)
    first = world.folder / "lake/readings/date=2013-01-05/hour=00"
    backup = {p: p.read_bytes() for p in first.rglob("*.parquet")}
    world.clock.advance(40 * 86_400_000)
    duties.clean(world.context())
    world.close()
    assert not any(p.exists() for p in backup)
    for path, content in backup.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    min(Path(published.location.removeprefix("file://")).rglob("*.parquet")).unlink()
    assert world.archive(0).generation == 4
    assert values(world) == NEW
    assert "rows of generation 1 cannot be brought back (the files of generation 1 were cleaned at" in " ".join(
        world.said
    )


def test_a_replay_after_a_rollback_is_by_todays_columns(world: World) -> None:
    rolled_back(world)
    assert world.replay(0).generation == 4
    assert values(world) == NEW
    balanced(world)


def test_a_replay_gives_up_a_rollback_that_died_while_it_copied(world: World) -> None:
    world.wrap = lambda name, p: Hook(p, before={"run": die}) if name == "launcher" else p
    with pytest.raises(Died):
        rolled_back(world)
    world.wrap = lambda name, p: p
    world.close()
    with pytest.raises(NotReady, match=r"rollback\) is BUILDING"):
        reopen_after_late_rows(world)
    replayed = world.replay(0)
    assert values(world) == NEW
    assert replayed.generation in (2, 4)
    assert rolled_back(world).rows == 3
    assert values(world) == OLD


def reopen_after_late_rows(world: World) -> None:
    world.produce(record("late", 0.2))
    world.ingest("r2")
    reopen.reopen(world.context(), window(0))


def test_nothing_is_cleaned_that_is_being_copied(world: World) -> None:
    """Between its beginning and its end the earlier generation's time may run out."""
    world.change_spec(archive=replace(world.pipeline.archive, keep_generations=1))

    def clean(*_: object) -> None:
        world.clock.advance(40 * 86_400_000)
        duties.clean(world.context())

    world.wrap = lambda name, p: Hook(p, before={"run": clean}) if name == "launcher" else p
    rolled_back(world)
    assert values(world) == OLD


def test_a_ledger_that_lost_the_rollback_adopts_it(world: World) -> None:
    world.close()
    yesterday = world.database.read_bytes()
    rolled_back(world, why="known to storage")
    world.database.write_bytes(yesterday)
    ctx = world.context()
    adoption.adopt(ctx, adoption.survey(ctx), "the ledger was restored")
    world.close()
    assert values(world) == OLD
    ctx = world.context()
    assert ctx.ledger.windows.get("readings", window(0)).current == 3
    assert ctx.ledger.rollbacks.of("readings", window(0), 3) == Origin(1, "known to storage")
    balanced(world)


def test_two_at_once_make_one_generation(world: World) -> None:
    """The second begins while the first copies."""

    def other(*_: object) -> None:
        if not hasattr(world, "ran"):
            world.ran = True  # type: ignore[attr-defined]
            rolled_back(world, 1)

    ctx = world.context()
    ctx.launcher = Hook(ctx.launcher, before={"run": other})  # type: ignore[assignment]
    published = rollback.rollback(ctx, window(0), 1, "first")
    assert published.generation == 3
    assert values(world) == OLD
    balanced(world)


def test_begin_compares(world: World) -> None:
    ledger = world.context().ledger.rollbacks
    for current, origin in ((1, 1), (2, 2), (2, 5), (3, 1)):
        with pytest.raises(LostComparison):
            ledger.begin("readings", window(0), current, origin, "x")


@pytest.mark.parametrize("form", ["parquet", *FORMATS])
@pytest.mark.parametrize("kafka_columns", [True, False])
def test_each_format(tmp_path: Path, form: str, kafka_columns: bool) -> None:
    pipeline: Pipeline = make_pipeline(f"file://{tmp_path}/lake/readings")
    compression = {"text": "gzip"}.get(form, "zstd")
    sink = replace(pipeline.sink, format=form, compression=compression)
    world = World(tmp_path, replace(pipeline, sink=sink, kafka_columns=kafka_columns))
    world.produce(record("x", 0.1), record("y", 0.2, "b"))
    world.produce(record("later", 3.5), partition=1)
    world.ingest("r1")
    world.archive(0)
    first = world.context().ledger.windows.generation("readings", window(0), 1)
    id_ = world.pipeline.columns[0]
    world.change_spec(columns=(id_, Column(name="site", type="string", path="$.id"), world.pipeline.columns[2]))
    world.replay(0)
    assert rolled_back(world).digest == first.digest
