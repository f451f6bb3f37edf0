"""Readings of tables without a log: what an attempt reads, and whether the table was altered meanwhile."""

from __future__ import annotations

from typing import cast

from tidegate.core.base.errors import SourceError
from tidegate.core.base.offsets import OffsetRange
from tidegate.core.base.wording import many
from tidegate.core.batch.readings import Reading, TableSource, cover_all, whole_window
from tidegate.core.files.receipt import Receipt
from tidegate.core.spec.pipeline import Windows
from tidegate.workflow.base.context import Context


def cut(ctx: Context, windows: Windows, offsets: OffsetRange) -> Reading:
    """What an attempt reads for the window of these offsets: chunks of its own, all of them. Raises SourceUnavailable,
    SourceError."""
    window = whole_window(offsets)
    found = cast(TableSource, ctx.source).reading(offsets.topic, window, window.end_ms + windows.watermark_delay_ms)
    if not cover_all(found.chunks):
        raise SourceError(f"the chunks of {offsets.topic} do not cover the table: {found.chunks}", retry=False)
    ctx.say(f"{found.server}: {offsets.topic} in {many(len(found.chunks), 'chunk')}")
    return found


def altered(ctx: Context, receipt: Receipt) -> str | None:
    """A table without a log may have been altered while it was read: rows were taken for what they were no more."""
    if receipt.reading is None or not ctx.source.traits.windowed:
        return None
    now = cast(TableSource, ctx.source).described(receipt.topic)
    if tuple((c.name, c.type) for c in now.columns) == receipt.reading.columns:
        return None
    return f"{receipt.topic} was altered since it was read: it is read again as it is now"
