"""What must be true of any pipeline at rest, whatever has happened to it; each is asserted by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from tests.audit.audits import in_process
from tests.crash import lakehouse
from tests.full_sums import full_sums
from tests.mutants.names import BALANCE, BY_ID, BY_PARTITION, HEALS, IN_FORCE, ONCE, THERE, WHOLE, require
from tests.world import World
from tidegate.core.base.partition_values import partition_path
from tidegate.core.base.plain import from_plain
from tidegate.core.batch.states import Batch, LandedBatch, SealedBatch
from tidegate.core.batch.totals import Totals
from tidegate.core.files.receipt import DATA, DIRTY, LATE, FileEntry
from tidegate.core.publish.in_force import moved_by
from tidegate.core.target.paths import SUCCESS, join
from tidegate.core.window.cut import window_id
from tidegate.core.window.states import CLOSED, BuiltGeneration, PublishedGeneration, WindowKey
from tidegate.workflow.audit.audit import audit
from tidegate.workflow.base.context import Context

Coordinate = tuple[str, int, int]
"""(topic id, Kafka partition, offset)."""


@dataclass(frozen=True)
class Row:
    """A row in a file; `record` is its `id` column, None in the dirty table."""

    at: Coordinate
    record: str | None
    place: str


def every_record_once(world: World, produced: dict[Coordinate, str | None]) -> None:
    """`produced`: the id of each record, None for one that cannot be decoded. Losses in the ledger are excused, and as
    many rows as it says were dropped; which ones these are the audit looks at."""
    ctx = world.context()
    rows = list(_rows(ctx, world))
    gone = set(_lost(ctx))
    places: dict[Coordinate, list[str]] = {}
    for row in rows:
        places.setdefault(row.at, []).append(row.place)
    double = {at: where for at, where in places.items() if len(where) > 1}
    require(not double, ONCE, f"more than once: {_some(double)}")
    missing = sorted(at for at in produced if at not in places and at not in gone)
    survey = ctx.ledger.reads.survey([ctx.name], 0).get(ctx.name)
    dropped = 0 if survey is None else survey.totals.balance.dropped
    told = f"{dropped} dropped, nowhere: {_some({at: produced[at] for at in missing})}"
    require(len(missing) == dropped, ONCE, told)
    unknown = {row.at: row.place for row in rows if row.at not in produced}
    require(not unknown, ONCE, f"never produced: {_some(unknown)}")
    other = {r.at: (r.record, produced[r.at]) for r in rows if r.record is not None and r.record != produced[r.at]}
    require(not other, ONCE, f"another record stands in its place: {_some(other)}")


def _some(found: object) -> str:
    return str(found)[:600]


def _rows(ctx: Context, world: World) -> Iterator[Row]:
    """As readers see them: the three tables by the catalogue, and landed files whose window is still to come."""
    topics = {b.plan.batch_id: b.plan.topic_id for b in batches(ctx)}
    if world.pipeline.sink.kind == lakehouse.KIND:
        for kind in (DATA, LATE, DIRTY):
            for file in lakehouse.live(world, kind):
                yield from _read([_on_disk(file.file_path, f"the table of {kind} rows")], topics, kind)
    for kind in ("", "__late", "__dirty"):
        for location in world.partitions(f"lake.readings{kind}").values():
            yield from _read(_visible(location), topics, kind or "data")
    for batch in batches(ctx):
        if isinstance(batch, LandedBatch):
            for batch_id, f in _waiting(ctx, batch):
                path = _on_disk(f"{ctx.layout.landed(batch_id)}/{f.path}", f"batch {batch_id}")
                yield from _read([path], topics, f"landed/{batch_id}")


def batches(ctx: Context) -> list[Batch]:
    row = ctx.ledger.pipelines.row(ctx.name)
    assert row is not None
    return [ctx.ledger.batches.get(ctx.name, i) for i in range(1, row.next_batch_id)]


def _waiting(ctx: Context, batch: LandedBatch) -> Iterator[tuple[int, FileEntry]]:
    """Data files whose window is not closed yet: nobody has moved them."""
    batch_id = batch.plan.batch_id
    for f in ctx.ledger.batches.manifest_files(ctx.name, batch_id, DATA):
        assert f.window_ms is not None
        if ctx.ledger.windows.get(ctx.name, WindowKey(f.window_ms, f.window_ms + 1)).state != CLOSED:
            yield batch_id, f


def _on_disk(uri: str, whose: str) -> Path:
    path = Path(uri.removeprefix("file://"))
    require(path.exists(), THERE, f"{whose}: {path.name} is not there: {path}")
    return path


def _visible(location: str) -> list[Path]:
    folder = Path(location.removeprefix("file://"))
    return [p for p in sorted(folder.rglob("*")) if p.is_file() and not p.name.startswith(("_", "."))]


def _read(paths: Iterable[Path], topics: dict[int, str], place: str) -> Iterator[Row]:
    for path in paths:
        file = pq.ParquetFile(path)
        wanted = ("_batch_id", "_partition", "_kafka_partition", "_offset", "id")
        names = [n for n in wanted if n in file.schema_arrow.names]
        for row in file.read(columns=names).to_pylist():
            batch_id = row.get("_batch_id") or _batch_of(path)
            at = (topics[batch_id], row.get("_partition", row.get("_kafka_partition")), row["_offset"])
            yield Row(at, row.get("id"), f"{place} {path.parent.name}/{path.name}")


def _batch_of(path: Path) -> int:
    """Dirty rows have it in the name of their directory only."""
    return next(int(part.removeprefix("_batch=")) for part in path.parts if part.startswith("_batch="))


def _lost(ctx: Context) -> Iterator[Coordinate]:
    """Offsets that the ledger says nobody will read, and those at which nothing was."""
    for batch in batches(ctx):
        plan = batch.plan
        for loss in plan.losses:
            yield from ((plan.topic_id, loss.partition, o) for o in range(loss.start, loss.end))
        if batch.state == "ABANDONED" and not plan.is_redrive:
            for r in plan.ranges:
                yield from ((plan.topic_id, r.partition, o) for o in range(r.start, r.end))


def readers_see_what_is_in_force(world: World) -> None:
    """The catalogue's partitions of each published window are the manifest's, and their directories hold its files."""
    ctx = world.context()
    want: dict[object, str] = {}
    for start in ctx.ledger.windows.published_starts(ctx.name):
        generation = in_force(ctx, start)
        want |= ctx.target.expected(generation.window, generation.files, generation.location)
    iceberg = world.pipeline.sink.kind == lakehouse.KIND
    have = ctx.target.shown() if iceberg else world.partitions("lake.readings")
    wrong = {
        partition_path(v): (have.get(v), want.get(v))
        for v in set(have) | set(want)
        if not ctx.target.agrees(want.get(v, ""), have.get(v, ""))
    }
    require(not wrong, IN_FORCE, f"partition: (catalogue, in force): {_some(wrong)}")


def readers_never_go_back(world: World) -> None:
    """Each snapshot shows one generation of a window, and none an older one than a snapshot before it."""
    try:
        lakehouse.each_snapshot_shows_one_generation(world)
    except AssertionError as e:
        require(False, IN_FORCE, str(e))


def readers_find_rows_by_partition_and_id(world: World) -> None:
    """What the table's metadata say of each file is what the file holds: readers look at nothing else."""
    found = lakehouse.loaded(world)
    assert found is not None
    schema = found.metadata.schema()
    for file in lakehouse.live(world):
        path = lakehouse.path_of(file)
        stored = pq.ParquetFile(path)
        for field in stored.schema_arrow:
            says, known = int(field.metadata[b"PARQUET:field_id"]), schema.find_field(field.name).field_id
            require(says == known, BY_ID, f"{path.name}: {field.name} is {says}, the table calls it {known}")
        for at, part in enumerate(found.metadata.specs()[file.spec_id].fields):
            source = schema.find_field(part.source_id)
            (value,) = set(stored.read(columns=[source.name])[source.name].to_pylist())
            value = int(value.timestamp()) * 1_000_000 if source.name == "_window" else value
            due = part.transform.transform(source.field_type)(value)
            have = file.partition[at]
            require(have == due, BY_PARTITION, f"{path.name}: {part.name} is {have!r}, its rows say {due!r}")


def in_force(ctx: Context, start_ms: int) -> PublishedGeneration:
    key = WindowKey(start_ms, start_ms + ctx.pipeline.windows.size_ms)
    number = ctx.ledger.windows.get(ctx.name, key).current
    assert number is not None
    generation = ctx.ledger.windows.generation(ctx.name, key, number)
    assert isinstance(generation, PublishedGeneration)
    return generation


def success_means_whole(world: World, location: str, key: WindowKey) -> None:
    """At the instant at which `_SUCCESS` appears in `location`, readers have every file of the hour."""
    ctx = world.context()
    generation = ctx.ledger.windows.generation(ctx.name, key, ctx.ledger.windows.get(ctx.name, key).newest)
    files = getattr(generation, "files", ())
    require(bool(files), WHOLE, f"{SUCCESS} of generation {generation.number}, which is {generation.state}")
    missing = [f.path for f in files if not Path(f"{location}/{f.path}".removeprefix("file://")).exists()]
    require(not missing, WHOLE, f"{SUCCESS} without {missing}")
    want = ctx.target.expected(key, files, location)
    have = world.partitions("lake.readings")
    hidden = [partition_path(v) for v, place in want.items() if have.get(v) != place]
    require(not hidden, WHOLE, f"{SUCCESS} while the catalogue does not show {hidden}")


def what_is_sealed_is_there(world: World) -> None:
    """Each file of a SEALED batch in its attempt's directory or in landed/, of a LANDED one in landed/ until its hour
    closes, and each file in force where readers look."""
    ctx = world.context()
    for batch in batches(ctx):
        if isinstance(batch, SealedBatch):
            batch_id = batch.plan.batch_id
            places = [ctx.layout.attempt(batch_id, batch.epoch, batch.nonce), ctx.layout.landed(batch_id)]
            for f in batch.manifest.files:
                there = any(Path(f"{p}/{f.path}".removeprefix("file://")).exists() for p in places)
                require(there, THERE, f"batch {batch_id} is SEALED without {f.path}")
        if isinstance(batch, LandedBatch):
            for _, f in _waiting(ctx, batch):
                _on_disk(f"{ctx.layout.landed(batch.plan.batch_id)}/{f.path}", f"batch {batch.plan.batch_id}")
    for start in ctx.ledger.windows.published_starts(ctx.name):
        generation = in_force(ctx, start)
        places = [generation.location, *_made_way(ctx, generation)]
        for f in generation.files:
            there = any(Path(join(place, f.path).removeprefix("file://")).exists() for place in places)
            require(there, THERE, f"generation {generation.number} is in force without {f.path}")


def _made_way(ctx: Context, generation: PublishedGeneration) -> list[str]:
    """Where its files are aside while the next generation takes its directory, if a task died between the renames."""
    key = generation.window
    newest = ctx.ledger.windows.generation(ctx.name, key, ctx.ledger.windows.get(ctx.name, key).newest)
    if not isinstance(newest, BuiltGeneration) or not moved_by(generation, newest):
        return []
    name = f"{window_id(key.start_ms)}.{generation.number}.{generation.epoch}"
    return [join(ctx.layout.generations(), name)]


def nothing_is_blocked(world: World) -> None:
    blocks = world.context().ledger.pipelines.blocks("readings")
    require(not blocks, HEALS, f"somebody has to run `tidegate repair`: {blocks}")


def no_file_is_missed(world: World) -> None:
    """Kafka is not asked again for rows whose files another task has moved: some day it does not have them."""
    missed = [line for line in world.said if line.startswith("data file lost")]
    require(not missed, HEALS, f"a file is taken for lost: {missed}")


def the_ledger_balances(world: World) -> None:
    ctx = world.context()
    problems = audit(ctx, ctx.ledger.reads, in_process).problems
    require(not problems, BALANCE, "; ".join(f"{p.subject}: {p.what}" for p in problems[:3]))
    survey = ctx.ledger.reads.survey([ctx.name], 0).get(ctx.name)
    full = full_sums(ctx.ledger.store.engine, ctx.name)
    require(survey is not None and survey.totals.balance == from_plain(Totals, full).balance, BALANCE, "running sums")
