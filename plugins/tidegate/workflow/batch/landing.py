"""Land a sealed batch by one rename, or by its record where nothing moves; then bring its late and dirty files into
their own tables."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial

from tidegate.core.base.errors import Alarm, CatalogueError, LostComparison, OutcomeUnknown
from tidegate.core.base.renames import Seen
from tidegate.core.base.wording import offsets
from tidegate.core.batch.states import SEALED, LandedBatch, SealedBatch
from tidegate.core.dirty import redrive
from tidegate.core.files.receipt import DIRTY, LATE, FileEntry
from tidegate.core.target.paths import join
from tidegate.workflow.base import preflight, records
from tidegate.workflow.base.context import ATTEMPTS, Context
from tidegate.workflow.base.renames import MovedOn, incomplete, look, manifest_of, move_directory, move_files
from tidegate.workflow.side import dirty_files, late_files


def land_sealed(ctx: Context, batch: SealedBatch) -> LandedBatch:
    """One no-replace rename of the attempt's directory, the high-water mark, then SEALED -> LANDED.

    On a store without renames the mark alone is the landing: it names the attempt, and never replaces another's."""
    plan, batch_id = batch.plan, batch.plan.batch_id
    try:
        if not preflight.landed(ctx, batch):
            _mark_in_place(ctx, batch) if ctx.layout.in_place else _rename_and_mark(ctx, batch)
        result = ctx.ledger.batches.land(batch)
    except Alarm as e:
        ctx.ledger.batches.block(batch, str(e))
        raise
    except (MovedOn, LostComparison):
        now = ctx.ledger.batches.get(ctx.name, batch_id)
        if not isinstance(now, LandedBatch):
            raise LostComparison(f"batch {batch_id} is {now.state}: another task works on it") from None
        result = now
    what = f"redrive: {redrive.outcome(batch.manifest)}" if plan.is_redrive else offsets(plan.records)
    ctx.say(f"landed batch {batch_id} ({what})")
    return result


def _rename_and_mark(ctx: Context, batch: SealedBatch) -> None:
    """The mark is written after the rename: where it stands, files may already have moved on from `landed/`."""
    batch_id = batch.plan.batch_id
    name = ctx.layout.attempt_name(batch_id, batch.epoch, batch.nonce)
    source, landed = ctx.layout.attempt(batch_id, batch.epoch, batch.nonce), ctx.layout.landed(batch_id)

    def still_sealed() -> bool:
        return ctx.ledger.batches.get(ctx.name, batch_id).state == SEALED

    quarantine = ctx.layout.quarantine(f"batch-{name}")
    move_directory(ctx.storage, source, landed, manifest_of(batch.manifest.files), still_sealed, quarantine)
    records.mark_batch(ctx, batch)


def _mark_in_place(ctx: Context, batch: SealedBatch) -> None:
    """The record names the attempt whose files are the batch's. What another try wrote first is read back and compared
    by its nonce: "already there" may be our own request that was repeated, or another attempt's.

    Raises MovedOn, Alarm, StorageAhead, OutcomeUnknown."""
    directory = ctx.layout.attempt(batch.plan.batch_id, batch.epoch, batch.nonce)
    manifest = manifest_of(batch.manifest.files)
    if look(ctx.storage, directory, manifest) is not Seen.MATCHES:
        if ctx.ledger.batches.get(ctx.name, batch.plan.batch_id) != batch:  # R10: before any alarm
            raise MovedOn
        raise incomplete(ctx.storage, directory, manifest)
    for _ in range(ATTEMPTS):
        with suppress(OutcomeUnknown):
            records.mark_batch(ctx, batch)
        if preflight.landed(ctx, batch):
            return
    raise OutcomeUnknown(f"the record of batch {batch.plan.batch_id} has no certain outcome yet")


def finish_side_duties(ctx: Context, register: bool = True, strict: bool = False) -> list[str]:
    """Late and dirty files of landed batches into their tables: a duty that land, plan and maintain take up.

    A catalogue that does not answer never holds a batch up: the files are in place, registration is tried again. Nor
    does an alarm of one batch hold up the others; `strict` raises the first one at the end (the maintenance DAG)."""
    done, alarms = _set_aside(ctx) if register else ([], [])
    waiting = {owner for _, owner in ctx.ledger.redrives.duties(ctx.name)} if register else set()
    taken = (
        {(window_ms, owner) for window_ms, _, owner in ctx.ledger.reopenings.duties(ctx.name)} if register else set()
    )
    tables: set[str] = set()
    for batch_id, moved in ctx.ledger.batches.side_duties(ctx.name):
        files = {k: ctx.ledger.batches.manifest_files(ctx.name, batch_id, k) for k in (LATE, DIRTY)}
        if files[DIRTY] and ctx.storage.exists(ctx.layout.redriven(batch_id)):
            files[DIRTY] = []  # a ledger that lost commits: a redrive has taken them up already
        files[LATE] = [
            f
            for f in files[LATE]
            if (f.window_ms, batch_id) not in taken and not late_files.has_left(ctx, batch_id, f)  # likewise, reopened
        ]
        try:
            if not moved:
                _move_all(ctx, batch_id, files)
            if not register or batch_id in waiting:
                continue  # a redrive's dirty rows must not stand beside those that they were
            _register_side(ctx, batch_id, files, tables)
        except LostComparison:
            continue  # another task has seen to it, or will
        except Alarm as e:
            ctx.say(f"ALARM: batch {batch_id}: {e}")
            alarms.append(e)
            continue
        except CatalogueError as e:
            ctx.say(f"batch {batch_id}: its late and dirty rows are not in the catalogue yet: {e}")
            if e.retry:
                break  # an endpoint that is down costs every call its time-out: the rest waits for the next run
            continue
        ctx.ledger.batches.mark_side(ctx.name, batch_id, "registered")
        counts = ", ".join(f"{sum(f.rows for f in v):,} {k}" for k, v in files.items() if v)
        told = f"rows in their tables: {counts}" if counts else "its late and dirty rows have all been taken up already"
        done.append(f"batch {batch_id}: {told}")
        ctx.say(done[-1])
    if strict and alarms:
        raise alarms[0]
    return done


def _set_aside(ctx: Context) -> tuple[list[str], list[Alarm]]:
    found = [dirty_files.set_aside(ctx), late_files.set_aside(ctx)]
    return [line for done, _ in found for line in done], [alarm for _, alarms in found for alarm in alarms]


def _move_all(ctx: Context, batch_id: int, files: dict[str, list[FileEntry]]) -> None:
    for kind, entries in files.items():
        if entries and not ctx.layout.in_place:
            _move_side(ctx, batch_id, kind, entries)
    ctx.ledger.batches.mark_side(ctx.name, batch_id, "moved")


def _move_side(ctx: Context, batch_id: int, kind: str, entries: list[FileEntry]) -> None:
    """Move only what the manifest names into the table: by way of a directory that no job ever wrote to."""
    target = ctx.layout.side(batch_id, kind)
    manifest = {_below(kind, f.path): f.bytes for f in entries}

    def still_owed() -> bool:
        return _owes_side(ctx, batch_id)

    try:
        staging = _staged(ctx, batch_id, kind, manifest, still_owed)
        quarantine = ctx.layout.quarantine(f"{kind}-{batch_id}-{ctx.nonce()}")
        move_directory(ctx.storage, staging, target, manifest, still_owed, quarantine)
    except MovedOn:
        return


def _owes_side(ctx: Context, batch_id: int) -> bool:
    now = ctx.ledger.batches.get(ctx.name, batch_id)
    return isinstance(now, LandedBatch) and not now.side_moved


def _staged(ctx: Context, batch_id: int, kind: str, manifest: dict[str, int], still_owed: Callable[[], bool]) -> str:
    """A directory that no job ever wrote to, with the files of the manifest unless they are in the table already."""
    staging, target = ctx.layout.side_staging(batch_id, kind), ctx.layout.side(batch_id, kind)
    if ctx.storage.exists(target):
        return staging
    landed = ctx.layout.landed(batch_id)
    try:
        move_files(
            ctx.storage, {p: (size, (join(landed, kind, p),)) for p, size in manifest.items()}, staging, still_owed
        )
    except Alarm:
        if not ctx.storage.exists(target):  # another task may have renamed the staging directory meanwhile
            raise
    return staging


def _below(kind: str, path: str) -> str:
    """`late/date=.../part` -> `date=.../part`"""
    return path.removeprefix(f"{kind}/")


def _register_side(ctx: Context, batch_id: int, files: dict[str, list[FileEntry]], tables: set[str]) -> None:
    """`tables` remembers which ones this run has prepared."""
    for kind, entries in files.items():
        if not entries:
            continue
        table = ctx.sides[kind]
        if table.name not in tables:
            table.prepare()
            tables.add(table.name)
        table.publish({batch_id: ctx.named(batch_id, entries)}, partial(_still_owed, ctx, batch_id, kind, entries))


def _still_owed(ctx: Context, batch_id: int, kind: str, entries: list[FileEntry]) -> bool:
    """Whether these rows are still to be shown: no other task has done it, and nobody has taken them up since."""
    if batch_id not in dict(ctx.ledger.batches.side_duties(ctx.name)):
        return False
    if kind == DIRTY:
        taken = batch_id in dict(ctx.ledger.redrives.duties(ctx.name))
        return not taken and not ctx.storage.exists(ctx.layout.redriven(batch_id))
    windows = {w for w, _, owner in ctx.ledger.reopenings.duties(ctx.name) if owner == batch_id}
    return not any(f.window_ms in windows or late_files.has_left(ctx, batch_id, f) for f in entries)
