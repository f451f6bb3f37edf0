"""A redrive's dry run: dirty rows are read with today's spec by the same job as a redrive's, and nothing of it is kept.

The ledger gets an event and nothing else. Files of a dry run that died are cleaned by age, like any attempt.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tidegate.core.base.errors import BatchRefused, JobFailed
from tidegate.core.batch.states import Plan, WritingBatch
from tidegate.core.dirty import redrive as redriving
from tidegate.core.dirty.redrive import KINDS, Change, Choice, DirtyReader, source_batches
from tidegate.core.files.receipt import DIRTY, Receipt
from tidegate.core.target.paths import join
from tidegate.workflow.base import zone_data
from tidegate.workflow.base.context import Context, guard
from tidegate.workflow.base.jobs import read_receipt, run_job
from tidegate.workflow.batch import ingest
from tidegate.workflow.dirty import redrive
from tidegate.workflow.replay import rehearsal
from tidegate.workflow.side import dirty_files


@dataclass(frozen=True)
class Rehearsed:
    """What the next redrive would make of the rows of `choice`. `rows`: by `redriving.KINDS`, empty where nothing is
    dirty. `refused`: why it would be given up, and change nothing, or ""."""

    choice: Choice
    rows: dict[str, int] = field(default_factory=dict)
    changes: tuple[Change, ...] = ()
    refused: str = ""
    note: str = ""


def rehearse(ctx: Context, reader: DirtyReader, wanted: Sequence[int] | None = None, copies: bool = False) -> Rehearsed:
    """Raises what `redrive.plan` raises for rows that cannot be redriven, JobFailed, and BatchRefused for dirty files
    that are lost or damaged. An open batch is not in its way."""
    guard(ctx)
    choice = redrive.preview(ctx, wanted)
    if not choice.chosen:
        return Rehearsed(choice)
    planned = redrive.planned(ctx, ctx.ledger.batches.planning_view(ctx.name), choice, copies)
    zone_data.refuse_to_plan(ctx, planned.floor)
    nonce = ctx.nonce()
    name = ctx.layout.redrive_rehearsal_name(nonce)
    attempt_dir = join(ctx.layout.attempts(), name)
    job = replace(ingest.job_plan(ctx, WritingBatch(planned, 0, nonce)), attempt=name, attempt_dir=attempt_dir)
    ctx.ledger.replays.rehearsed(ctx.name, None, name)
    try:
        run_job(ctx, job, join(ctx.layout.plans(), f"{name}.json"))
        receipt = read_receipt(ctx, attempt_dir)
        if receipt is None:
            raise JobFailed(f"{attempt_dir} is gone before it was read: somebody cleans this place")
        return _told(ctx, reader, choice, planned, receipt, attempt_dir)
    finally:
        rehearsal.clear(ctx, {name})


def _told(
    ctx: Context, reader: DirtyReader, choice: Choice, planned: Plan, receipt: Receipt, attempt_dir: str
) -> Rehearsed:
    wrong = redriving.errors(planned, receipt)
    if wrong:
        raise BatchRefused(f"the receipt of the dry run does not add up: {'; '.join(wrong[:3])}")
    before: dict[int, list[tuple[str, ...]]] = defaultdict(list)
    for source in dirty_files.sources(ctx, source_batches(planned)):
        before[source.batch_id].append(source.uris)
    after = [join(attempt_dir, f.path) for f in receipt.files if f.kind == DIRTY]
    changes, note = reader.changes(before, after)
    rows = {kind: sum(getattr(r, kind) for r in receipt.ranges) for kind in KINDS}
    return Rehearsed(choice, rows, tuple(changes), redriving.in_vain(receipt) or "", note)
