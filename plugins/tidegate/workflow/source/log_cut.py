"""A log that was cut below what was planned: noticed, remembered, and an operator's decision how to go on."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.core.base.errors import LostComparison, StepMissing
from tidegate.core.batch.planning import PlanningView
from tidegate.core.batch.states import Plan
from tidegate.core.source import log_cut
from tidegate.core.source.log_cut import Cut
from tidegate.core.source.port import LogState
from tidegate.workflow.base.context import Context


def of(ctx: Context, view: PlanningView, topic: LogState) -> tuple[Cut, ...]:
    """Cuts that are remembered, else those that can be seen now. The broker is asked only about partitions that have
    another leader since the newest plan, or that end below it."""
    if view.cuts or view.accepted_topic_id is None or topic.is_another(view.accepted_topic_id):
        return view.cuts
    answers = _answers(ctx, view.planned_ends, view.epochs, topic)
    return log_cut.found_cuts(view.planned_ends, view.epochs, topic, answers, view.newest)


def remember(ctx: Context, view: PlanningView) -> bool:
    """Store the cuts: once seen, a cut stops planning until somebody has decided, however far the log grows. False: the
    ledger has moved on, look again."""
    if view.cuts:
        return True
    found = of(ctx, view, ctx.log())
    if not found:
        return False
    try:
        ctx.ledger.cuts.remember(ctx.name, view.version, found)
    except LostComparison:
        return False
    for cut in found:
        ctx.say(f"LOG CUT: {cut.words()}")
    return True


def survey(ctx: Context) -> tuple[Cut, ...]:
    """What waits for a decision; cuts that no plan has met yet are looked for and remembered."""
    view = ctx.ledger.batches.planning_view(ctx.name)
    if not view.cuts and view.open_batch is None and view.begun:
        remember(ctx, view)
    return ctx.ledger.cuts.open(ctx.name)


def settle(ctx: Context, cut: Cut, skip: bool, why: str) -> None:
    """`skip`: go on at the planned end, else at the cut. Raises LostComparison where somebody else has decided,
    StepMissing where there is nothing to skip yet."""
    if skip:
        _refuse_if_shorter(ctx, cut)
    ctx.ledger.cuts.settle(ctx.name, cut, log_cut.resumption(cut, skip, why))


def _refuse_if_shorter(ctx: Context, cut: Cut) -> None:
    now = ctx.log().partitions.get(cut.partition)
    if now is None or now.high_watermark < cut.end:
        end = 0 if now is None else now.high_watermark
        raise StepMissing(
            f"partition {cut.partition}: the log ends at {end}, below the planned end {cut.end}: there is nothing to "
            "skip yet",
            advice=f"tidegate source rewind {ctx.name} loses nothing that is there; or wait until the log has grown",
        )


def under(ctx: Context, plan: Plan, topic: LogState) -> dict[int, int]:
    """Offsets by partition at which the log was cut below the end of the plan's range since it was planned. `topic` as
    it is now, the one of the plan; the broker is asked only where there is another leader since."""
    ends = {p.partition: p.end for p in plan.partitions if p.end > p.start}
    epochs = {p.partition: p.leader_epoch for p in plan.partitions if p.leader_epoch is not None}
    return log_cut.too_short(ends, topic) | _answers(ctx, ends, epochs, topic)


def _answers(ctx: Context, ends: Mapping[int, int], epochs: Mapping[int, int], topic: LogState) -> dict[int, int]:
    """Offsets by partition at which the broker says that the log was cut; it is asked about doubtful ones only."""
    asked = log_cut.doubtful(ends, epochs, topic)
    return ctx.source.cuts(topic.topic, asked) if asked else {}


def known(ctx: Context) -> list[tuple[str, int, int, int]]:
    """(topic id, partition, newest batch before it, first offset that is another record now) of all cuts."""
    decided = [(r.topic_id, r.partition, r.after_batch, r.cut) for r in ctx.ledger.cuts.resumptions(ctx.name)]
    return decided + [(c.topic_id, c.partition, c.after_batch, c.start) for c in ctx.ledger.cuts.open(ctx.name)]


def rewound(ctx: Context, plan: Plan) -> int:
    """The newest batch before this one after which reading went back; 0 for none."""
    found = (r for r in ctx.ledger.cuts.resumptions(ctx.name) if r.lost_start is None and r.topic_id == plan.topic_id)
    return max((r.after_batch for r in found if r.after_batch < plan.batch_id), default=0)
