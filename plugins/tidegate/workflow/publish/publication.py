"""Publish a built generation: one rename into place, the catalogue by intents, read back, `_SUCCESS`, CURRENT."""

from __future__ import annotations

import time
from collections.abc import Callable

from tidegate.core.base.errors import Alarm, CatalogueError, CatalogueUnsure, LostComparison, PathExists, PathMissing
from tidegate.core.base.instants import span
from tidegate.core.base.partitions import PartitionValues, parse_partition_path, partition_path
from tidegate.core.base.wording import many
from tidegate.core.files.receipt import FileEntry
from tidegate.core.target.catalogue import PartitionSwitch, TableDef
from tidegate.core.target.paths import CERTIFICATE, SUCCESS, join
from tidegate.core.target.tables import data_table
from tidegate.core.window.cut import time_values
from tidegate.core.window.kinds import of_kind
from tidegate.core.window.states import BUILT, BuiltGeneration, PublishedGeneration, WindowKey
from tidegate.workflow.base import records, zone_data
from tidegate.workflow.base.context import STANDSTILL, Context
from tidegate.workflow.base.renames import MovedOn, manifest_of, move_directory
from tidegate.workflow.base.tables import bring_up
from tidegate.workflow.generation.assembly import certify_built
from tidegate.workflow.publish.swap import swap_in
from tidegate.workflow.side import late_files


def publish(ctx: Context, generation: BuiltGeneration) -> PublishedGeneration:
    """BUILT -> SWAPPING -> CURRENT. Every step looks before it acts; a new try starts again from the ledger.

    Storage records what is about to move (R11) before anything moves. The ledger is asked last (R12): what took long
    lies behind, and a database that failed over meanwhile may have forgotten the generation."""
    with ctx.catalogue.keeping_sessions():
        return _publish(ctx, generation)


def _publish(ctx: Context, generation: BuiltGeneration) -> PublishedGeneration:
    zone_data.refuse_other_spelling(ctx, generation)
    bring_up(ctx, data_table(ctx.pipeline))  # before anything moves: a mismatch must not strand a swap
    location = final_location(ctx, generation)
    if not ctx.ledger.windows.still(generation):
        raise MovedOn
    records.mark_generation(ctx, generation, location)
    certify_built(ctx, generation)
    moved = None
    try:
        if of_kind(generation.kind).takes_up:
            generation = late_files.hide(ctx, generation, location)
        if generation.number > 1 and location == _hour(ctx, generation.window):
            generation, moved = swap_in(ctx, generation, location)
        else:
            if _swap_before_move(ctx, generation, location):
                generation = ctx.ledger.windows.begin_swap(generation, location)
            _move_into_place(ctx, generation, location)
            if generation.state == BUILT:
                generation = ctx.ledger.windows.begin_swap(generation, location)
        align_catalogue(ctx, generation, location)
        write_success(ctx, generation, location)
        published = ctx.ledger.windows.publish(generation, location, f"{location}/{CERTIFICATE}", moved)
    except LostComparison:
        raise MovedOn from None
    rows = sum(f.rows for f in generation.files)
    ctx.say(f"published generation {generation.number}: {many(rows, 'row')} at {location}")
    return published


def _swap_before_move(ctx: Context, generation: BuiltGeneration, location: str) -> bool:
    """R12: readers by path look into the table's own directory, so SWAPPING commits before anything moves there."""
    return generation.state == BUILT and location == _hour(ctx, generation.window)


def final_location(ctx: Context, generation: BuiltGeneration) -> str:
    """The first generation lies in the table's own directory; later ones beside, or there too (swap: directory).

    A swap that has begun ends where it was to end, whatever the spec says by now."""
    key = generation.window
    if generation.location is not None:
        return generation.location
    if generation.number == 1:
        return _hour(ctx, key)
    beside = ctx.layout.generation(key.start_ms, generation.number, generation.epoch)
    if ctx.pipeline.archive.swap == "directory" and not ctx.storage.exists(beside):
        return _hour(ctx, key)
    return beside


def _hour(ctx: Context, key: WindowKey) -> str:
    return ctx.layout.window(window_values(ctx, key))


def window_values(ctx: Context, key: WindowKey) -> PartitionValues:
    return time_values(key.start_ms, ctx.pipeline.time_partitions, ctx.pipeline.windows.timezone)


def _move_into_place(ctx: Context, generation: BuiltGeneration, location: str) -> None:
    def still_mine() -> bool:
        return ctx.ledger.windows.still(generation)

    name = f"window-{generation.directory.rsplit('/', 1)[1]}"
    try:
        move_directory(
            ctx.storage,
            generation.directory,
            location,
            _must_arrive(ctx, generation, location),
            still_mine,
            ctx.layout.quarantine(name),
        )
    except Alarm as e:
        ctx.ledger.windows.block(ctx.name, generation.window, str(e))
        raise


def _must_arrive(ctx: Context, generation: BuiltGeneration, location: str) -> dict[str, int]:
    """The certificate is part of it: without it an empty hour would match anything."""
    return manifest_of(generation.files) | _certificate_bytes(ctx, generation, location)


def _certificate_bytes(ctx: Context, generation: BuiltGeneration, location: str) -> dict[str, int]:
    for directory in (generation.directory, location):
        listing = ctx.storage.list_files(directory) or []
        found = {f.path: f.bytes for f in listing if f.path == CERTIFICATE}
        if found:
            return found
    return {CERTIFICATE: -1}  # matches nothing


def write_success(ctx: Context, generation: BuiltGeneration | PublishedGeneration, location: str) -> None:
    """By a rename from a name of the generation's own: a late one must not make a directory that has made way."""
    target = join(location, SUCCESS)
    if ctx.storage.exists(target):
        return
    draft = ctx.layout.success_draft(generation.window.start_ms, generation.number)
    try:
        ctx.storage.write_new(draft, b"")
    except PathExists:
        pass
    try:
        ctx.storage.rename_no_replace(draft, target)
    except PathExists:
        ctx.storage.delete(draft)
    except PathMissing:
        if not ctx.storage.exists(target):
            raise


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
    turns partition by partition from old to new and never shows both; with a connection to the metastore it turns at
    once, vanished values to the empty directory with the others. What points into `location` itself shows nothing old:
    the new generation is there."""
    table = data_table(ctx.pipeline)
    time = window_values(ctx, generation.window)
    want = wanted_partitions(ctx, generation.window, generation.files, location)
    have = ctx.catalogue.partitions(table.name, time)
    changes = _Changes(ctx, generation, location, table)
    new = {v: place for v, place in want.items() if v not in have}
    moved = {v: place for v, place in want.items() if v in have and have[v] != place}
    gone = _vanished(have, want)
    empty = ctx.layout.empty()
    old = {v: empty for v in gone if not have[v].startswith(f"{location}/") and have[v] != empty}
    if new and (moved or old):
        ctx.storage.make_dirs(empty)
        changes.add({v: empty for v in new})
        moved |= new
    elif new:
        changes.add(new)
    if ctx.switch is not None and (moved or old):
        ctx.storage.make_dirs(empty)
        changes.switch_at_once(ctx.switch, moved | old)
    else:
        for values, place in moved.items():
            changes.switch(values, place)
    if gone:
        changes.drop(gone)
    if changes.made:
        _read_back(ctx, table, time, want)
    return changes.made


def _vanished(have: dict[PartitionValues, str], want: dict[PartitionValues, str]) -> list[PartitionValues]:
    """R2: values that the catalogue has and the manifest does not."""
    return [v for v in have if v not in want]


def _read_back(ctx: Context, table: TableDef, time: PartitionValues, want: dict[PartitionValues, str]) -> None:
    """R2: what was set is what the catalogue says. Raises CatalogueError."""
    have = ctx.catalogue.partitions(table.name, time)
    if have != want:
        raise CatalogueError(
            f"{table.name} {partition_path(time)}: the catalogue says "
            f"{many(len(have), 'partition')} after the change, "
            f"{len(want)} were set; first difference: {_first_difference(have, want)}",
            advice="the next try aligns it again; if it stays, somebody else alters this table",
        )


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

    def switch_at_once(self, switch: PartitionSwitch, places: dict[PartitionValues, str]) -> None:
        self._fenced(lambda: switch.switch_partitions(self._table, places))
        self.made += [f"partition {partition_path(v)} now at {place}" for v, place in places.items()]

    def drop(self, values: list[PartitionValues]) -> None:
        self._fenced(lambda: self._ctx.catalogue.drop_partitions(self._table, values))
        self.made += [f"dropped partition {partition_path(v)}" for v in values]

    def _fenced(self, change: Callable[[], None]) -> None:
        windows, clock = self._ctx.ledger.windows, self._ctx.clock
        asked_ms, began = clock.now_ms(), time.monotonic()
        call_id = windows.declare_intent(self._generation, self._location, self._ctx.request_ttl_ms)
        # a clock that is put back must not hide it, nor one that stands still while the host sleeps
        stood_ms = max(clock.now_ms() - asked_ms, (time.monotonic() - began) * 1000)
        if stood_ms >= self._ctx.request_ttl_ms / STANDSTILL:
            # sent now, the request could outlive its intent: others would no longer wait for it
            raise LostComparison(f"{self._table}: this task stood still for {span(stood_ms)} before its request")
        try:
            change()
        except CatalogueUnsure:
            raise  # it may still be executed: the intent stays until its deadline
        except CatalogueError:
            windows.answer_intent(call_id)
            raise
        windows.answer_intent(call_id)
