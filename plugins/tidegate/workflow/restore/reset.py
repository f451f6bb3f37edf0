"""A topic that was recreated: what the ledger knows of it, and an operator's word that its offsets start anew."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.core.batch.states import OpenBatch, SealedBatch
from tidegate.core.source.port import LogState
from tidegate.workflow.base.context import Context
from tidegate.workflow.batch import sealing
from tidegate.workflow.maintain import reconcile
from tidegate.workflow.source import log_cut


@dataclass(frozen=True)
class Recreated:
    """The offsets of the ledger belong to topic id `old`. `given_up` was planned from it and can't be read any more;
    `landed` was, too, but storage says that it has landed, which the ledger forgot (R11): it is kept."""

    old: str
    topic: LogState
    given_up: OpenBatch | None
    landed: OpenBatch | None = None

    @property
    def offsets(self) -> int:
        """What the topic holds now: it is read from its beginning."""
        return sum(o.high_watermark - o.log_start for o in self.topic.partitions.values())

    @property
    def gone(self) -> dict[int, int]:
        """Number by partition of offsets at its beginning that the topic does not hold any more: a loss of the next
        plan."""
        return {p: o.log_start for p, o in sorted(self.topic.partitions.items()) if o.log_start}


def survey(ctx: Context, told: bool = False) -> Recreated | LogState:
    """What accepting the topic would mean; the topic itself where it is the accepted one. Looks only.

    Where a source has no ids of its logs, one that ends below what was planned may be another one, and so is any of
    which an operator says so (`told`): it then gets the id of a new era. Raises SourceError, StorageAhead."""
    row = ctx.ledger.pipelines.row(ctx.name)
    topic = ctx.log()
    if row is None or row.accepted_topic_id is None or topic.traits.windowed:
        return topic  # a table is read by its name, whichever it is
    if not topic.traits.identity and (told or log_cut.of(ctx, ctx.ledger.batches.planning_view(ctx.name), topic)):
        topic = topic.next_era()
    if not topic.is_another(row.accepted_topic_id):
        return topic
    batch = _unsealed(ctx, topic.topic_id)
    if batch is not None and sealing.landed_receipt(ctx, batch) is not None:
        return Recreated(row.accepted_topic_id, topic, None, batch)
    return Recreated(row.accepted_topic_id, topic, batch)


def _unsealed(ctx: Context, topic_id: str) -> OpenBatch | None:
    batch = ctx.ledger.batches.open(ctx.name)
    if batch is None or isinstance(batch, SealedBatch) or batch.plan.topic_id == topic_id:
        return None  # a sealed batch has its rows and lands
    return None if batch.plan.is_redrive else batch  # whose rows come from files


def accept(ctx: Context, found: Recreated, why: str) -> None:
    """Raises LostComparison where another topic is the accepted one by now, StepMissing where the open batch turns out
    to have its rows."""
    if found.landed is not None:
        sealing.adopt_landed(ctx, found.landed)
    if found.given_up is not None:
        reconcile.abandon(ctx, found.given_up.plan.batch_id, f"topic recreated: {why}", force=True)
    ctx.ledger.pipelines.accept_topic(ctx.name, found.old, found.topic.topic_id, why)
