"""What a certificate says of the reading that made a window, where the source has no log."""

from __future__ import annotations

from dataclasses import replace

from tidegate.core.base.instants import iso, span
from tidegate.core.base.wording import many
from tidegate.core.batch.readings import offset_at
from tidegate.core.batch.states import LandedBatch
from tidegate.core.window.readiness import Certificate
from tidegate.core.window.states import WindowKey
from tidegate.workflow.base import records
from tidegate.workflow.base.context import Context


def with_note(certificate: Certificate, note: str | None) -> Certificate:
    """The certificate of a window that is ready says what was read, and when. One that nothing was read for is never
    ready, however far others are. `note` None: the source has a log."""
    if note is None or not certificate.ready:
        return certificate
    if not note:
        return replace(certificate, ready=False, reason="the ledger knows no reading of the source for this window")
    return replace(certificate, reason=f"{certificate.reason}: {note}")


def note_of(ctx: Context, window: WindowKey) -> str | None:
    """What has landed for the window, in words; empty: nothing. None for sources that have a log."""
    if not ctx.pipeline.windows.read_whole:
        return None
    batch = batch_of(ctx, window)
    return "" if batch is None else _words(ctx, window, batch.plan.batch_id)


def batch_of(ctx: Context, window: WindowKey) -> LandedBatch | None:
    """The batch that is the window's first reading; None if none has landed."""
    newest = ctx.ledger.windows.facts(ctx.name).batch_id
    for batch_id in range(newest or 0, 0, -1):
        batch = ctx.ledger.batches.get(ctx.name, batch_id)
        starts = [r.start for r in batch.plan.ranges if not batch.plan.is_redrive]
        if isinstance(batch, LandedBatch) and starts == [offset_at(window.start_ms)]:
            return batch
        if starts and starts[0] < offset_at(window.start_ms):
            break  # windows are read in their order
    return None


def _words(ctx: Context, window: WindowKey, batch_id: int) -> str:
    """Who was asked, when, and for how many rows; and that it was long after the window, where that is so."""
    record = records.batch_record(ctx, batch_id)
    manifest = None if record is None else record.manifest
    if manifest is None or manifest.reading is None:
        return f"batch {batch_id}"
    note = manifest.reading
    asked = f"table {note.table} of {note.server}, {many(note.chunks, 'chunk')}"
    when = f"from {iso(note.began_ms)} to {iso(note.ended_ms)}"
    after, late = note.began_ms - window.end_ms, ""
    if after > window.end_ms - window.start_ms:
        late = f"; read {span(after)} after the window's end: it shows the table of that time"
    return f"batch {batch_id}, {asked} {when}, {many(manifest.read_rows, 'row')}{late}"
