"""Publish a built generation: one rename into place, the catalogue by intents, read back, `_SUCCESS`, CURRENT."""

from __future__ import annotations

from collections.abc import Callable

from tidegate.core.errors import Alarm, CatalogueError, CatalogueUnsure, LostComparison, PathExists
from tidegate.core.layout import (
    CERTIFICATE,
    SUCCESS,
    PartitionValues,
    join,
    parse_partition_path,
    partition_path,
    time_values,
)
from tidegate.core.plain import dumps
from tidegate.core.ports import TableDef
from tidegate.core.receipt import FileEntry
from tidegate.core.tables import data_table
from tidegate.core.window import BUILT, BuiltGeneration, PublishedGeneration, WindowKey
from tidegate.workflow.context import Context
from tidegate.workflow.moves import MovedOn, manifest_of, move_directory


def publish(ctx: Context, generation: BuiltGeneration) -> PublishedGeneration:
    """BUILT -> SWAPPING -> CURRENT. Every step looks before it acts; a new try starts again from the ledger."""
    location = final_location(ctx, generation)
    ctx.catalogue.ensure_table(data_table(ctx.pipeline))  # before anything moves: a mismatch must not strand a swap
    _write_certificate(ctx, generation)
    _move_into_place(ctx, generation, location)
    try:
        if generation.state == BUILT:
            generation = ctx.ledger.windows.begin_swap(generation)
        align_catalogue(ctx, generation, location)
        write_success(ctx, location)
        published = ctx.ledger.windows.publish(generation, location, f"{location}/{CERTIFICATE}")
    except LostComparison:
        raise MovedOn from None
    rows = sum(f.rows for f in generation.files)
    ctx.say(f"published generation {generation.number}: {rows:,} rows at {location}")
    return published


def final_location(ctx: Context, generation: BuiltGeneration) -> str:
    """The first generation lies in the table's own directories, later ones beside (swap: pointer)."""
    key = generation.window
    if generation.number == 1:
        return ctx.layout.window(window_values(ctx, key))
    return ctx.layout.generation(key.start_ms, generation.number, generation.epoch)


def window_values(ctx: Context, key: WindowKey) -> PartitionValues:
    return time_values(key.start_ms, ctx.pipeline.time_partitions, ctx.pipeline.windows.timezone)


def _write_certificate(ctx: Context, generation: BuiltGeneration) -> None:
    """Inside the directory before it becomes visible: which batches, how many rows, on what grounds."""
    if not ctx.storage.exists(generation.directory):
        return  # an earlier try has renamed it
    certificate = ctx.ledger.windows.certificate(ctx.name, generation.window)
    content = {
        "pipeline": ctx.name,
        "window": generation.window,
        "generation": generation.number,
        "kind": generation.kind,
        "batches": generation.batches,
        "rows": sum(f.rows for f in generation.files),
        "files": manifest_of(generation.files),
        "digest": generation.digest,
        "certificate": certificate,
    }
    try:
        ctx.storage.write_new(join(generation.directory, CERTIFICATE), dumps(content).encode())
    except PathExists:
        pass


def _move_into_place(ctx: Context, generation: BuiltGeneration, location: str) -> None:
    def still_mine() -> bool:
        now = ctx.ledger.windows.get(ctx.name, generation.window)
        if now.newest != generation.number:
            return False
        current = ctx.ledger.windows.generation(ctx.name, generation.window, generation.number)
        return isinstance(current, BuiltGeneration) and current.directory == generation.directory

    name = f"window-{generation.directory.rsplit('/', 1)[1]}"
    try:
        move_directory(
            ctx.storage,
            generation.directory,
            location,
            # the certificate is part of what must have arrived: without it an empty hour would match anything
            manifest_of(generation.files) | _certificate_bytes(ctx, generation, location),
            still_mine,
            ctx.layout.quarantine(name),
        )
    except Alarm as e:
        ctx.ledger.windows.block(ctx.name, generation.window, str(e))
        raise


def _certificate_bytes(ctx: Context, generation: BuiltGeneration, location: str) -> dict[str, int]:
    for directory in (generation.directory, location):
        listing = ctx.storage.list_files(directory) or []
        found = {f.path: f.bytes for f in listing if f.path == CERTIFICATE}
        if found:
            return found
    return {CERTIFICATE: -1}  # matches nothing


def write_success(ctx: Context, location: str) -> None:
    try:
        ctx.storage.write_new(join(location, SUCCESS), b"")
    except PathExists:
        pass


def run_statements(ctx: Context) -> None:
    """`archive.on_publish`, other engines' refresh: the window is published whether or not they answer."""
    for statement in ctx.pipeline.archive.on_publish:
        try:
            ctx.catalogue.execute(statement)
            ctx.say(f"on_publish: {statement}")
        except CatalogueError as e:
            ctx.say(f"WARNING: on_publish failed, the window is published all the same: {statement}: {e}")


# ---------------------------------------------------------------- the catalogue


def wanted_partitions(
    ctx: Context, key: WindowKey, files: tuple[FileEntry, ...], location: str
) -> dict[PartitionValues, str]:
    """What the catalogue must say of this window (R2): exactly the manifest's partitions.

    An hour without rows has a partition only when the table has no dynamic columns."""
    time = window_values(ctx, key)
    if not ctx.pipeline.dynamic_partitions:
        return {time: location}
    folders = {partition_path(f.values) for f in files}
    return {time + parse_partition_path(folder): join(location, folder) for folder in sorted(folders)}


def align_catalogue(ctx: Context, generation: BuiltGeneration | PublishedGeneration, location: str) -> list[str]:
    """Make the catalogue's partitions of the window equal to the manifest's; what was changed, in words.

    The caller has ensured the table.

    New values appear at an empty directory first while others are still to be switched, so that the whole window
    turns partition by partition from old to new and never shows both."""
    table = data_table(ctx.pipeline)
    time = window_values(ctx, generation.window)
    want = wanted_partitions(ctx, generation.window, generation.files, location)
    have = ctx.catalogue.partitions(table.name, time)
    changes = _Changes(ctx, generation, location, table)
    new = {v: place for v, place in want.items() if v not in have}
    moved = {v: place for v, place in want.items() if v in have and have[v] != place}
    gone = [v for v in have if v not in want]
    if new and (moved or gone):
        ctx.storage.make_dirs(ctx.layout.empty())
        changes.add({v: ctx.layout.empty() for v in new})
        moved |= new
    elif new:
        changes.add(new)
    for values, place in moved.items():
        changes.switch(values, place)
    if gone:
        changes.drop(gone)
    if changes.made:
        have = ctx.catalogue.partitions(table.name, time)
        if have != want:
            raise CatalogueError(
                f"{table.name} {partition_path(time)}: the catalogue says {len(have)} partitions after the change, "
                f"{len(want)} were set; first difference: {_first_difference(have, want)}",
                advice="the next try aligns it again; if it stays, somebody else alters this table",
            )
    return changes.made


def _first_difference(have: dict[PartitionValues, str], want: dict[PartitionValues, str]) -> str:
    for values in sorted(set(have) | set(want), key=str):
        if have.get(values) != want.get(values):
            return f"{partition_path(values)} is at {have.get(values)}, should be {want.get(values)}"
    return "none"


class _Changes:
    """Each statement under an intent of its own (R8): declared with the generation re-read, answered if definite."""

    def __init__(
        self, ctx: Context, generation: BuiltGeneration | PublishedGeneration, location: str, table: TableDef
    ) -> None:
        self._ctx, self._generation, self._location, self._table = ctx, generation, location, table.name
        self.made: list[str] = []

    def add(self, locations: dict[PartitionValues, str]) -> None:
        self._fenced(lambda: self._ctx.catalogue.add_partitions(self._table, locations))
        self.made += [f"added partition {partition_path(v)}" for v in locations]

    def switch(self, values: PartitionValues, place: str) -> None:
        self._fenced(lambda: self._ctx.catalogue.set_location(self._table, values, place))
        self.made.append(f"partition {partition_path(values)} now at {place}")

    def drop(self, values: list[PartitionValues]) -> None:
        self._fenced(lambda: self._ctx.catalogue.drop_partitions(self._table, values))
        self.made += [f"dropped partition {partition_path(v)}" for v in values]

    def _fenced(self, change: Callable[[], None]) -> None:
        windows = self._ctx.ledger.windows
        call_id = windows.declare_intent(self._generation, self._location, self._ctx.request_ttl_ms)
        try:
            change()
        except CatalogueUnsure:
            raise  # it may still be executed: the intent stays until its deadline
        except CatalogueError:
            windows.answer_intent(call_id)
            raise
        windows.answer_intent(call_id)
