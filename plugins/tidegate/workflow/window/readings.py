"""What a certificate says of the reading that made a window, where the source has no log."""

from __future__ import annotations

from dataclasses import replace

from tidegate.core.base.instants import iso
from tidegate.core.base.wording import many
from tidegate.core.batch.readings import offset_at
from tidegate.core.batch.states import LandedBatch
from tidegate.core.files.receipt import Receipt
from tidegate.core.window.readiness import Certificate
from tidegate.core.window.states import WindowKey
from tidegate.workflow.base import records
from tidegate.workflow.base.context import Context


def with_note(certificate: Certificate, note: str) -> Certificate:
    """The certificate of a window that is ready says what was read, and when."""
    if not certificate.ready or not note:
        return certificate
    return replace(certificate, reason=f"{certificate.reason}: {note}")


def note_of(ctx: Context, window: WindowKey) -> str:
    """Empty while nothing has landed for the window, and for sources that have a log."""
    if not ctx.pipeline.windows.read_whole:
        return ""
    newest = ctx.ledger.windows.facts(ctx.name).batch_id
    for batch_id in range(newest or 0, 0, -1):
        batch = ctx.ledger.batches.get(ctx.name, batch_id)
        starts = [r.start for r in batch.plan.ranges if not batch.plan.is_redrive]
        if isinstance(batch, LandedBatch) and starts == [offset_at(window.start_ms)]:
            record = records.batch_record(ctx, batch_id)
            return "" if record is None or record.manifest is None else words(batch_id, record.manifest)
        if starts and starts[0] < offset_at(window.start_ms):
            break  # windows are read in their order
    return ""


def words(batch_id: int, manifest: Receipt) -> str:
    """Who was asked, when, and for how many rows."""
    note = manifest.reading
    if note is None:
        return f"batch {batch_id}"
    asked = f"table {note.table} of {note.server}, {many(note.chunks, 'chunk')}"
    when = f"from {iso(note.began_ms)} to {iso(note.ended_ms)}"
    return f"batch {batch_id}, {asked} {when}, {many(manifest.read_rows, 'row')}"
