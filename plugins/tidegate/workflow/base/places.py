"""Where a file of the ledger can be, the likeliest place first: (directory, path below it)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidegate.core.base.partition_values import partition_path
from tidegate.core.files.landed import LandedFile
from tidegate.core.files.receipt import DIRTY, LATE, FileEntry
from tidegate.core.look.views import BatchRow, GenerationRow
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.target.paths import Layout, is_uri, join
from tidegate.core.window.cut import time_values
from tidegate.core.window.states import BUILDING
from tidegate.workflow.base.context import Context

Place = tuple[str, str]
"""A directory (URI), and a path below it."""


def waiting(layout: Layout, batch: BatchRow, f: FileEntry, first: GenerationRow | None) -> tuple[Place, ...]:
    """Places of a data file whose rows no generation owns yet; `first` is generation 1 of its window, if it has
    begun."""
    if layout.in_place:
        return (_stays(layout, batch, f),)
    return moving(layout, batch.batch_id, f, first)


def moving(layout: Layout, batch_id: int, f: FileEntry, first: GenerationRow | None) -> tuple[Place, ...]:
    """The same on a store with renames."""
    # in the order in which files move: who looks the other way round can miss one that is moving
    assert f.window_ms is not None
    epochs = range(1, first.epoch + 1) if first is not None and first.state == BUILDING else ()
    moved = published_path(f, f"b{batch_id}")
    return ((layout.landed(batch_id), f.path), *((layout.assembly(f.window_ms, 1, e), moved) for e in epochs))


def _stays(layout: Layout, batch: BatchRow, f: FileEntry) -> Place:
    """Where a file of a landed batch is for good, on a store without renames."""
    return layout.attempt(batch.batch_id, batch.epoch, batch.nonce), f.path


def side(layout: Layout, batch: BatchRow, f: FileEntry) -> tuple[Place, ...]:
    """Places of a late or dirty file of a landed batch."""
    if layout.in_place:
        return (_stays(layout, batch, f),)
    if f.kind == DIRTY and batch.redriven_by is not None:
        return dirty(layout, batch.batch_id, f, layout.landed(batch.batch_id))
    below = f.path.removeprefix(f"{f.kind}/")
    home = (layout.side(batch.batch_id, f.kind), below)
    if batch.side_moved:
        return (home,)
    return (home, (layout.landed(batch.batch_id), f.path), (layout.side_staging(batch.batch_id, f.kind), below))


def dirty(layout: Layout, batch_id: int, f: FileEntry, landed: str) -> tuple[Place, ...]:
    """Places of a dirty file that a redrive takes up, or has taken up; `landed`: directory of the batch's files."""
    if layout.in_place:
        return ((landed, f.path),)
    below = f.path.removeprefix(f"{DIRTY}/")
    # in the order in which it moves
    return ((layout.side(batch_id, DIRTY), below), (layout.redriven(batch_id), below))


def late(layout: Layout, batch_id: int, f: FileEntry, landed: str) -> tuple[Place, ...]:
    """Places of a late file that is in the late table, or whose rows a window has taken up since; `landed`: directory
    of the batch's files."""
    if layout.in_place:
        return ((landed, f.path),)
    assert f.window_ms is not None
    below = f.path.removeprefix(f"{LATE}/")
    # in the order in which it moves
    return (layout.side(batch_id, LATE), below), (layout.reopened(batch_id, f.window_ms), below.rsplit("/", 1)[-1])


def generation(spec: Pipeline, g: GenerationRow, published: bool, makes_way: bool) -> tuple[str, ...]:
    """Directories of a generation's files. `makes_way`: another one takes its directory (swap: directory)."""
    layout = Layout.of(spec)
    if not published:
        window = time_values(g.window_ms, spec.time_partitions, spec.windows.timezone)
        beside = layout.generation(g.window_ms, g.number, g.epoch)  # of tables without a place of the hour's own
        return (g.directory or "", layout.window(window), beside)
    if makes_way:
        return (g.location or "", layout.generation(g.window_ms, g.number, g.epoch))
    return (g.location or "",)


def below(layout: Layout, directories: Iterable[str], path: str) -> tuple[Place, ...]:
    """Places of a generation's file that its manifest has as `path`; one that is named by its URI is in one alone."""
    named = layout.holder_of(path) if is_uri(path) else None
    return (named,) if named is not None else tuple((d, path) for d in directories)


def strays(listing: Iterable[str], manifest: Iterable[str]) -> Iterator[str]:
    """Paths that readers see in a published directory although its manifest does not name them."""
    for path in sorted(set(listing) - set(manifest)):
        if not any(part.startswith(("_", ".")) for part in path.split("/")):
            yield path


def published_path(entry: FileEntry, origin: str) -> str:
    """The path below the window's directory: the dynamic partition values, and a name that says where the file comes
    from."""
    name = f"{origin}-{entry.path.rsplit('/', 1)[1]}"
    folder = partition_path(entry.values)
    return f"{folder}/{name}" if folder else name


def landed_path(ctx: Context, item: LandedFile) -> str:
    """The path of a landed file in a generation's manifest if it was not merged."""
    if ctx.layout.in_place:
        return join(ctx.landed(item.batch_id), item.entry.path)
    return published_path(item.entry, f"b{item.batch_id}")
