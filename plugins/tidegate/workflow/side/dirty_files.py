"""Files of dirty rows that a redrive takes up: where they are read, and how they leave the dirty table.

They are kept for good below `redriven/<batch>`: a replay of a window with rows of the redrive reads them again.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from tidegate.core.base.errors import Alarm, CatalogueError, LostComparison
from tidegate.core.files.merge import Source
from tidegate.core.files.receipt import DIRTY
from tidegate.core.target.paths import join
from tidegate.workflow.base import places, records
from tidegate.workflow.base.context import Context
from tidegate.workflow.base.renames import move_out


def sources(ctx: Context, batches: Iterable[int]) -> tuple[Source, ...]:
    """The dirty files of these batches, each with the places where it can be."""
    found = []
    for batch_id in batches:
        landed = ctx.landed(batch_id)
        for f in ctx.ledger.batches.manifest_files(ctx.name, batch_id, DIRTY):
            uris = tuple(join(directory, path) for directory, path in places.dirty(ctx.layout, batch_id, f, landed))
            found.append(Source(batch_id, f, uris))
    return tuple(found)


def set_aside(ctx: Context) -> tuple[list[str], list[Alarm]]:
    """Out of the dirty table with what belongs to a redrive by now; what was done, and what a human must look at.

    The partition goes first: readers miss a row for a moment rather than read it twice. Dropping it needs no intent:
    no later call adds it again."""
    done: list[str] = []
    alarms: list[Alarm] = []
    table, prepared = ctx.sides[DIRTY], False
    for batch_id, owner in ctx.ledger.redrives.duties(ctx.name):
        try:
            if not prepared:
                table.prepare()
                prepared = True
            files = ctx.ledger.batches.manifest_files(ctx.name, batch_id, DIRTY)
            table.retire({batch_id: files}, partial(_still_owed, ctx, batch_id))
            _move(ctx, batch_id)
        except LostComparison:
            continue  # another task has seen to it
        except Alarm as e:
            ctx.say(f"ALARM: batch {batch_id}: {e}")
            alarms.append(e)
            continue
        except CatalogueError as e:
            ctx.say(f"batch {batch_id}: its redriven rows are still in the dirty table: {e}")
            if e.retry:
                break  # an endpoint that is down costs every call its time-out: the rest waits for the next run
            continue
        ctx.ledger.redrives.cleared(ctx.name, batch_id)
        done.append(f"batch {batch_id}: its dirty rows belong to batch {owner} and have left the dirty table")
        ctx.say(done[-1])
    return done, alarms


def _move(ctx: Context, batch_id: int) -> None:
    files = ctx.ledger.batches.manifest_files(ctx.name, batch_id, DIRTY)
    if ctx.layout.in_place:
        return records.mark_left(ctx, ctx.layout.redriven(batch_id), files)
    manifest = {f.path.removeprefix(f"{DIRTY}/"): f.bytes for f in files}

    quarantine = ctx.layout.quarantine(f"{DIRTY}-{batch_id}-{ctx.nonce()}")
    source, target = ctx.layout.side(batch_id, DIRTY), ctx.layout.redriven(batch_id)
    move_out(ctx.storage, source, target, manifest, partial(_still_owed, ctx, batch_id), quarantine)


def _still_owed(ctx: Context, batch_id: int) -> bool:
    return batch_id in dict(ctx.ledger.redrives.duties(ctx.name))
