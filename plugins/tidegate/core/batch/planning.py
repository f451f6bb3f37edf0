"""Which offset ranges the next batch reads: decided from the ledger's view and what the broker says, nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tidegate.core.base.errors import DataLoss, LogCut, SiteNotActive, SourceError, TopicRecreated
from tidegate.core.base.fields import read_as
from tidegate.core.base.instants import iso
from tidegate.core.base.offsets import Interval, OffsetRange, share
from tidegate.core.base.wording import many
from tidegate.core.batch.readings import LANE, instant_of, offset_at
from tidegate.core.batch.rules_version import rules_for
from tidegate.core.batch.states import Loss, OpenBatch, PartitionPlan, Plan
from tidegate.core.source.log_cut import REASON, RECREATED, Cut
from tidegate.core.source.port import Lane, LogState
from tidegate.core.source.stretches import past, stop
from tidegate.core.spec.pipeline import Pipeline, Windows
from tidegate.core.window.cut import window_end, window_start
from tidegate.core.window.lateness import by_policy, floor_of
from tidegate.core.window.plausibility import horizon_ms
from tidegate.core.window.watermark import PartitionFacts, TopicFacts, global_watermark, watermarks
from tidegate.core.window.zonedata import pinned


@dataclass(frozen=True, kw_only=True)
class PlanningView:
    """The ledger at one instant. A plan commits only if the pipeline's `version` is still this one (R5)."""

    version: int
    next_batch_id: int
    accepted_topic_id: str | None
    open_batch: OpenBatch | None
    planned_ends: dict[int, int]  # exclusive, by Kafka partition; empty before the first batch on the accepted topic
    not_open: tuple[int, ...]  # starts of windows that are CLOSING or CLOSED, UTC ms
    facts: TopicFacts  # of the newest landed batch
    begun: bool = False  # whether a batch was ever planned, on whatever topic
    newest: int = 0  # the batch whose planned ends these are; 0 before the first
    epochs: dict[int, int] = field(default_factory=dict)  # leader epochs by which the planned ends are known
    cuts: tuple[Cut, ...] = ()  # of the log, that are undecided
    skipped: dict[int, Interval] = field(default_factory=dict)  # offsets that somebody gave up after a cut
    rewound: int = 0  # the newest batch after which reading went back to a cut
    site: str | None = None  # the active one, once another than the first has been
    stretches: dict[int, tuple[Interval, ...]] = field(default_factory=dict)  # of the topic, that are never read


OF_A_SITE = (
    "if they are those of another site, do not accept this topic, which would be read from its beginning: `tidegate "
    "failover plan` compares both. If it was recreated at this site, run `tidegate source reset <pipeline>`"
)


@dataclass(frozen=True)
class NothingToPlan:
    reason: str


def plan_batch(
    pipeline: Pipeline,
    spec_version: int,
    view: PlanningView,
    topic: LogState,
    first_offsets: Mapping[int, int],
    clock_ms: int,
) -> Plan | NothingToPlan:
    """The next batch. `first_offsets` is where the very first batch begins (`source.start`).

    A partition that came later, or belongs to a recreated topic, begins at 0: what retention has taken of it is a loss.

    Raises TopicRecreated, DataLoss (by `on_data_loss`) and SourceError; a missing state is never a default.
    """
    refuse_other_site(pipeline, view.site)
    if topic.is_another(view.accepted_topic_id):
        raise TopicRecreated(
            f"topic {topic.topic} has id {topic.topic_id}, the ledger's offsets belong to {view.accepted_topic_id}",
            advice=OF_A_SITE if pipeline.source.sites else "",
        )
    if not topic.traits.dense:
        raise SourceError(
            f"an offset of topic {topic.topic} may hold several records: rows are told apart by their offsets",
            advice="this release reads sources whose offsets hold one record at most",
        )
    if view.cuts:
        advice = LogCut.advice if topic.traits.identity else f"{LogCut.advice}; {RECREATED}"
        said = "; ".join(cut.words() for cut in view.cuts)
        raise LogCut(said, advice=advice.replace("<pipeline>", pipeline.name))
    starts, losses = _starts(pipeline, view, topic, first_offsets)
    if topic.traits.windowed:
        due = _due_window(pipeline.windows, starts[LANE], clock_ms)
        if isinstance(due, NothingToPlan):
            return due
        if view.planned_ends and due.start != starts[LANE]:
            raise SourceError(
                f"readings have come to {iso(instant_of(starts[LANE]))}, and the window there begins at "
                f"{iso(instant_of(due.start))}: windows are cut otherwise here than when that was planned",
                advice="run control planes with the same zone data (tzdata)",
                retry=False,
            )
        starts, ends, topic = {LANE: due.start}, {LANE: due.end}, due.lane(topic)
    else:
        ends = _ends(pipeline, topic, starts, view.stretches)
    partitions = tuple(
        read_as(PartitionPlan, o, partition=p, start=starts[p], end=ends[p])
        for p, o in sorted(topic.partitions.items())
    )
    plan = Plan(
        pipeline=pipeline.name,
        batch_id=view.next_batch_id,
        revision=1,
        spec_version=spec_version,
        rules_version=rules_for(pipeline),
        topic=topic.topic,
        topic_id=topic.topic_id,
        clock_ms=clock_ms,
        floor=floor_of(pipeline.windows, view.not_open, clock_ms, pipeline.late_policy),
        partitions=partitions,
        losses=losses,
        zone=pinned(pipeline.windows, horizon_ms(pipeline.event_time, clock_ms)),
    )
    if plan.ranges or losses:
        return plan
    if any(starts[p] != end for p, end in view.planned_ends.items()):
        return plan  # it moves the planned end over a stretch of copies
    if not view.planned_ends and _must_pin(pipeline, topic):
        return plan
    if _moves_watermark(pipeline, view.facts, plan) or _meets_transaction(view.facts, plan):
        return plan
    return NothingToPlan(_nothing_new(plan))


def refuse_other_site(pipeline: Pipeline, active: str | None) -> None:
    """Raises SiteNotActive at a site that is not the active one; None: no other than the first has ever been."""
    here = pipeline.source.site
    if active is None or active == here:
        return
    where = f"this task reads at site {here}" if here else "this YAML names no sites (source.sites)"
    raise SiteNotActive(f"{pipeline.name}: site {active} is active, {where}: nothing is planned or sealed here")


def _starts(
    pipeline: Pipeline, view: PlanningView, topic: LogState, first_offsets: Mapping[int, int]
) -> tuple[dict[int, int], tuple[Loss, ...]]:
    starts: dict[int, int] = {}
    losses = [Loss(p, lost.start, lost.end, REASON) for p, lost in sorted(view.skipped.items())]
    gone = sorted(set(view.planned_ends) - set(topic.partitions))
    if gone:
        raise SourceError(f"topic {topic.topic} lost partitions {gone}: none is ever removed; is it the same cluster?")
    for p, offsets in topic.partitions.items():
        start = past(view.planned_ends.get(p, first_offsets.get(p, 0)), view.stretches.get(p, ()))
        if start > offsets.high_watermark:
            raise DataLoss(
                f"partition {p}: the next offset is {start}, but the log ends at {offsets.high_watermark}",
                advice="a broker that has just become leader may not know its log's end yet: the next run looks again",
            )
        if start < offsets.log_start:
            # retention may end among copies that are not read
            kept = past(offsets.log_start, view.stretches.get(p, ()))
            loss = Loss(p, start, kept, "retention")
            if pipeline.source.on_data_loss != "record":
                raise DataLoss(
                    f"partition {p}: offsets [{start}, {offsets.log_start}) are gone from the topic "
                    f"({many(offsets.log_start - start, 'record')} at most): retention "
                    "passed them before they were read"
                )
            losses.append(loss)
            start = kept
        starts[p] = start
    return starts, tuple(losses)


def _ends(
    pipeline: Pipeline, topic: LogState, starts: Mapping[int, int], stretches: Mapping[int, tuple[Interval, ...]]
) -> dict[int, int]:
    stops = {p: stop(starts[p], o.last_stable_offset, stretches.get(p, ())) for p, o in topic.partitions.items()}
    backlog = {p: end - starts[p] for p, end in stops.items()}
    take = share(backlog, pipeline.ingest.max_records)
    return {p: starts[p] + take.get(p, 0) for p in topic.partitions}


@dataclass(frozen=True)
class _Due:
    """Offsets of the window that is read next; `backlog`: the end of the newest one that could be read by now."""

    start: int
    end: int
    backlog: int

    def lane(self, topic: LogState) -> LogState:
        """The table as it is planned: what is due, and no more, waits in it."""
        return replace(topic, partitions={LANE: Lane(0, self.backlog, self.backlog)})


def _due_window(windows: Windows, start: int, clock_ms: int) -> _Due | NothingToPlan:
    """The window that begins at that offset, or holds it. It is due `watermark_delay` after its end."""
    begins = window_start(max(instant_of(start), windows.start_ms), windows)
    ends = window_end(begins, windows)
    if ends + windows.watermark_delay_ms > clock_ms:
        return NothingToPlan(f"the window {iso(begins)} is read at {iso(ends + windows.watermark_delay_ms)}")
    newest = window_start(clock_ms - windows.watermark_delay_ms, windows)  # it begins where the last due one ends
    return _Due(offset_at(begins), offset_at(ends), offset_at(newest))


def _must_pin(pipeline: Pipeline, topic: LogState) -> bool:
    """The first batch pins where reading begins: `latest` would move on with every look, also over an empty topic's
    first records. `earliest` of an empty topic stays what it is."""
    holds_offsets = any(o.high_watermark > o.log_start for o in topic.partitions.values())
    return holds_offsets or pipeline.source.start != "earliest"


def _meets_transaction(before: TopicFacts, plan: Plan) -> bool:
    """Whether a landed batch says that nothing is open where a transaction holds records back now.

    One empty batch for a transaction that holds all that is new: certificates then say who blocks, and since when."""
    known = {p.partition: p for p in before.partitions}
    return before.batch_id is not None and any(
        p.has_open_transaction and not _same_transaction(known.get(p.partition), p) for p in plan.partitions
    )


def _same_transaction(old: PartitionFacts | None, now: PartitionPlan) -> bool:
    """The last stable offset is where the oldest open transaction begins: while it stands still, it is the same one."""
    return (
        old is not None
        and old.open_transaction_since_ms is not None
        and old.last_stable_offset == now.last_stable_offset
    )


def _nothing_new(plan: Plan) -> str:
    held = [p for p in plan.partitions if p.has_open_transaction]
    if not held:
        return "no new records"
    most = max(held, key=lambda p: p.high_watermark - p.last_stable_offset)
    return (
        f"no new records that are committed: open transactions hold {many(len(held), 'partition')} back, for example "
        f"partition {most.partition} from offset {most.last_stable_offset} of {most.high_watermark} on"
    )


def _moves_watermark(pipeline: Pipeline, before: TopicFacts, plan: Plan) -> bool:
    """Whether an empty batch is worth a row: only if it carries the watermark over a window's end."""
    if before.batch_id is None:
        return False
    after = advance(before, plan, {})
    old = global_watermark(watermarks(pipeline.windows, before))
    new = global_watermark(watermarks(pipeline.windows, after))
    first = pipeline.windows.start_ms  # nothing that ends before is waited for
    if new is None or new <= first or (old is not None and new <= old):
        return False
    return old is None or window_start(new, pipeline.windows) > window_start(max(old, first), pipeline.windows)


def advance(before: TopicFacts, plan: Plan, max_event_ms: Mapping[int, int | None]) -> TopicFacts:
    """The facts once `plan` has landed with these largest plausible event times by Kafka partition."""
    known = {p.partition: p for p in before.partitions}
    rows = []
    for p in plan.partitions:
        old = known.get(
            p.partition, PartitionFacts(partition=p.partition, max_event_ms=None, drained=False, advanced_ms=None)
        )
        events = [e for e in (old.max_event_ms, max_event_ms.get(p.partition)) if e is not None]
        timed = old.timed_ms
        if max_event_ms.get(p.partition) is not None:
            timed = plan.clock_ms
        elif timed is None and old.max_event_ms is not None:  # of a version that did not keep it
            timed = old.advanced_ms
        since = old.open_transaction_since_ms if _same_transaction(old, p) else plan.clock_ms
        rows.append(
            replace(
                old,
                max_event_ms=max(events, default=None),
                drained=p.drained,
                advanced_ms=plan.clock_ms if p.end > p.start else old.advanced_ms,
                open_transaction_since_ms=since if p.has_open_transaction else None,
                last_stable_offset=p.last_stable_offset,
                timed_ms=timed,
            )
        )
    return TopicFacts(plan.batch_id, plan.clock_ms, tuple(rows))


def first_offsets(start: str | int, topic: LogState, at_time: Mapping[int, int]) -> dict[int, int]:
    """Offsets at which a pipeline's first batch begins: `earliest`, `latest`, or the offsets found for a timestamp."""
    offsets: dict[int, int] = {}
    for p, o in topic.partitions.items():
        offsets[p] = _first(start, o, at_time.get(p))
    return offsets


def still_there(plan: Plan, topic: LogState) -> tuple[OffsetRange, ...]:
    """What of the plan's ranges the topic still holds; nothing, if it is another topic by now."""
    if plan.is_redrive or topic.is_another(plan.topic_id):
        return ()
    found = []
    for r in plan.ranges:
        offsets = topic.partitions.get(r.partition)
        if offsets is None:
            continue
        start, end = max(r.start, offsets.log_start), min(r.end, offsets.high_watermark)
        if start < end:
            found.append(OffsetRange(r.topic, r.partition, start, end))
    return tuple(found)


def _first(start: str | int, offsets: Lane, at_time: int | None) -> int:
    if start == "earliest":
        return offsets.log_start
    if start == "latest":
        return offsets.last_stable_offset
    return offsets.high_watermark if at_time is None else at_time


def revise(plan: Plan, pipeline: Pipeline, spec_version: int) -> Plan:
    """The next revision of a refused batch: the same ranges, floor and clock, decoded by the fixed spec.

    Its late rows go by the fixed spec's policy: a window that was open for the first revision waits for this one."""
    if pipeline.source.topic != plan.topic:
        raise SourceError(f"batch {plan.batch_id} reads {plan.topic}; a refused batch cannot change its topic")
    floor = by_policy(plan.floor, pipeline.windows, pipeline.late_policy)
    rules = max(plan.rules_version, rules_for(pipeline))
    return replace(plan, revision=plan.revision + 1, spec_version=spec_version, rules_version=rules, floor=floor)
