"""Late files whose rows a window has taken up: they leave the late table, and are kept below `reopened/`.

The partitions go before the new generation is shown: readers of both tables miss a row for a moment rather than read
it twice. Dropping one needs no intent: it is never added again but by an ADD that was still on its way, and what that
one shows is an empty directory once the files have been moved.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from functools import partial

from tidegate.core.base.errors import Alarm, CatalogueError, LostComparison
from tidegate.core.base.instants import iso
from tidegate.core.base.wording import many
from tidegate.core.files.receipt import LATE, FileEntry
from tidegate.core.target.paths import join
from tidegate.core.target.port import Fence, Holds
from tidegate.core.window.schedule import late_folder
from tidegate.workflow.base import places, records
from tidegate.workflow.base.context import Context
from tidegate.workflow.base.in_force import in_force
from tidegate.workflow.base.renames import MovedOn, move_files, move_out


def hide(ctx: Context, fence: Fence, location: str) -> None:
    """Take the late rows that the generation brings out of the late table. Raises CatalogueError, LostComparison.

    SWAPPING comes first: from then on no task discards the generation. The ledger is asked last (R12)."""
    fence.show(location)
    generation = fence.generation
    current = in_force(ctx, generation.window)
    held = current.late if current is not None else ()
    _drop(ctx, generation.window.start_ms, [i for i in generation.late if i not in held], fence.still_mine)


def set_aside(ctx: Context) -> tuple[list[str], list[Alarm]]:
    """Out of the late table with what belongs to windows by now; what was done, and what a human must look at."""
    done: list[str] = []
    alarms: list[Alarm] = []
    windows: dict[tuple[int, int], list[int]] = defaultdict(list)
    for window_ms, number, batch_id in ctx.ledger.reopenings.duties(ctx.name):
        windows[window_ms, number].append(batch_id)
    for (window_ms, number), batches in windows.items():
        name = f"{iso(window_ms)}: late rows of {many(len(batches), 'batch')}"
        try:
            _drop(ctx, window_ms, batches, partial(_due, ctx, window_ms, batches))
            for batch_id in batches:
                _move(ctx, window_ms, batch_id)
                ctx.ledger.reopenings.cleared(ctx.name, window_ms, number, batch_id)
        except LostComparison:
            continue  # another task has seen to it
        except Alarm as e:
            ctx.say(f"ALARM: {name}: {e}")
            alarms.append(e)
            continue
        except CatalogueError as e:
            ctx.say(f"{name} are in generation {number}, and may be in the late table too: {e}")
            if e.retry:
                break  # an endpoint that is down costs every call its time-out: the rest waits for the next run
            continue
        done.append(f"{name} are in generation {number} and have left the late table")
        ctx.say(done[-1])
    return done, alarms


def files_of(ctx: Context, window_ms: int, batch_id: int) -> list[FileEntry]:
    """A batch's late files of the window; paths as in its manifest."""
    return [f for f in ctx.ledger.batches.manifest_files(ctx.name, batch_id, LATE) if f.window_ms == window_ms]


def homes(ctx: Context, batch_id: int, f: FileEntry) -> tuple[str, ...]:
    """URIs where a late file can be once it is in the late table, in the order in which it moves."""
    return tuple(join(*place) for place in places.late(ctx.layout, batch_id, f, ctx.landed(batch_id)))


def has_left(ctx: Context, batch_id: int, f: FileEntry) -> bool:
    """Whether a reopening has taken the file out of the late table, by storage."""
    return f.window_ms is not None and ctx.storage.exists(ctx.layout.reopened(batch_id, f.window_ms))


def _folders(ctx: Context, window_ms: int, batch_id: int) -> list[str]:
    """Folders in which the late table has them, below the batch's directory: as the manifest says, never spelled
    again."""
    return sorted({late_folder(f) for f in files_of(ctx, window_ms, batch_id)})


def _due(ctx: Context, window_ms: int, batches: list[int]) -> bool:
    """Whether they still have to leave: no other task has seen to it."""
    duties = {(window, batch_id) for window, _, batch_id in ctx.ledger.reopenings.duties(ctx.name)}
    return all((window_ms, batch_id) in duties for batch_id in batches)


def _drop(ctx: Context, window_ms: int, batches: list[int], holds: Holds) -> None:
    if not batches:
        return
    table = ctx.sides[LATE]
    table.prepare()
    leaving = {i: files_of(ctx, window_ms, i) for i in batches}
    if not holds():
        raise LostComparison(f"late rows of {iso(window_ms)}: another task has seen to them")
    table.retire(leaving, holds)


def _move(ctx: Context, window_ms: int, batch_id: int) -> None:
    files = files_of(ctx, window_ms, batch_id)
    if ctx.layout.in_place:
        return records.mark_left(ctx, ctx.layout.reopened(batch_id, window_ms), files)
    manifest = {f.path.rsplit("/", 1)[-1]: f.bytes for f in files}
    sources = [join(ctx.layout.side(batch_id, LATE), folder) for folder in _folders(ctx, window_ms, batch_id)]
    target = ctx.layout.reopened(batch_id, window_ms)

    def still_owed() -> bool:
        return any((w, b) == (window_ms, batch_id) for w, _, b in ctx.ledger.reopenings.duties(ctx.name))

    if len(sources) == 1:
        quarantine = ctx.layout.quarantine(f"{LATE}-{batch_id}-{ctx.nonce()}")
        move_out(ctx.storage, sources[0], target, manifest, still_owed, quarantine)
        return
    # executors that spelled one window differently; a release that did not compare their zone data let it land
    wanted = {f.path.rsplit("/", 1)[-1]: (f.bytes, homes(ctx, batch_id, f)[:1]) for f in files}
    with suppress(MovedOn):
        move_files(ctx.storage, wanted, target, still_owed)
    for source in sources:
        ctx.storage.make_dirs(source)  # as move_out leaves it
