"""Refuses an attempt of a batch that read other records than the attempt before it."""

from __future__ import annotations

from tidegate.core.base.errors import AttemptSpoilt, BatchRefused
from tidegate.core.base.offsets import Interval
from tidegate.core.batch.refusal import RefusalKind
from tidegate.core.batch.states import WritingBatch
from tidegate.core.clean.rules import BatchAttempt, parse_attempt
from tidegate.core.files.receipt import Receipt
from tidegate.core.files.second_reading import compare
from tidegate.core.target.paths import join
from tidegate.workflow.base.context import Context
from tidegate.workflow.base.jobs import read_receipt


def refuse_other_records(ctx: Context, batch: WritingBatch, receipt: Receipt) -> None:
    """Compare with the newest complete attempt before this one, if its directory is still there.

    Raises BatchRefused. The next attempt is compared with this one: two readings that agree are believed. A source that
    gives other records each time is never compared."""
    if not ctx.source.traits.rereadable:
        return
    before = _earlier(ctx, batch)
    if before is None:
        return
    earlier = {r.range: r.gaps for r in before.ranges}
    for r in receipt.ranges:
        if r.range not in earlier:
            continue
        span = Interval(r.range.start, r.range.end)
        objection = compare(span, earlier[r.range], r.gaps).objection(ctx.pipeline.source.gaps)
        if objection is not None:
            raise BatchRefused(
                f"batch {batch.plan.batch_id}, partition {r.range.partition}: {objection} (attempt {before.epoch})",
                advice="look at the topic, then clear the write task: two attempts that agree are believed",
                kind=RefusalKind.REREAD,
            )


def _earlier(ctx: Context, batch: WritingBatch) -> Receipt | None:
    if batch.epoch == 1:
        return None
    found: dict[int, str] = {}
    for name in ctx.storage.list_names(ctx.layout.attempts()) or []:
        attempt = parse_attempt(name)
        if isinstance(attempt, BatchAttempt) and attempt.batch_id == batch.plan.batch_id:
            found[attempt.epoch] = name
    for _, name in sorted((i for i in found.items() if i[0] < batch.epoch), reverse=True):
        try:
            receipt = read_receipt(ctx, join(ctx.layout.attempts(), name))
        except AttemptSpoilt:
            continue
        if receipt is not None:
            return receipt
    return None
