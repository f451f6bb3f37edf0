"""Gathers what a failover is decided by: the ledger, storage, the topic at the other site and all of its copies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tidegate.core.base.errors import FailoverRefused, StorageAhead
from tidegate.core.batch.planning import PlanningView
from tidegate.core.batch.states import OpenBatch, PlannedBatch, WritingBatch
from tidegate.core.failover import decision as rules
from tidegate.core.failover.crossing import Crossing, Refusal, RefusalKind, Walk
from tidegate.core.failover.decision import Decision, Facts
from tidegate.core.failover.origins import Origins
from tidegate.core.failover.own_records import away_since, behind_of, topic_ids
from tidegate.core.failover.states import Failover, Standby
from tidegate.core.source import log_cut
from tidegate.core.source.coordinates import Coordinate, coordinate_of
from tidegate.core.source.port import LogState
from tidegate.core.spec.pipeline import Site
from tidegate.workflow.base import preflight, switches
from tidegate.workflow.base.context import Context
from tidegate.workflow.batch import sealing
from tidegate.workflow.failover.counted import counted, with_what_crossed
from tidegate.workflow.failover.origins import Left
from tidegate.workflow.failover.overlap import Known

NEAR = 10_000
"""So many offsets are walked rather than halved once more."""
_BEFORE_A_WALK = frozenset(
    {
        *(RefusalKind.PARTITIONS, RefusalKind.SHRUNK, RefusalKind.TRANSACTION, RefusalKind.NOT_BEGUN),
        *(RefusalKind.NOT_NOTED, RefusalKind.SAME_TOPIC, RefusalKind.UNREAD_COPIES),
    }
)
"""While one of these holds, copies would say nothing."""


def site_named(ctx: Context, name: str) -> Site:
    """Raises FailoverRefused for a name that is not there, or that of the active site."""
    sites = {site.name: site for site in ctx.pipeline.source.sites}
    if name not in sites:
        there = ", ".join(sites) or "none; name them in source.sites"
        raise FailoverRefused(f"{ctx.name} has no site {name}; there are: {there}")
    if name == ctx.pipeline.source.site:
        raise FailoverRefused(f"site {name} of {ctx.name} is the active one already")
    return sites[name]


@dataclass(frozen=True, kw_only=True)
class Said:
    """What a person says of the copies. `marks`: where they end, by partition, where that is not the topic's end;
    `stopped`: copying has stopped; `known`: the pairs that copies without coordinates are counted from (F2)."""

    marks: Mapping[int, int] = field(default_factory=dict)
    stopped: bool = False
    known: Known | None = None


def survey(ctx: Context, name: str, said: Said, fence: bool = False) -> Decision:
    """What a switch to the site would be; only with `fence` anything is changed: its copiers end (F3).

    Raises FailoverRefused, SourceError, StorageAhead (R11)."""
    site = site_named(ctx, name)
    view = ctx.ledger.batches.planning_view(ctx.name)
    switches.check(ctx)
    preflight.check(ctx, view.next_batch_id)
    standby = ctx.standby(name)
    if fence:
        standby.fence(site.copiers)
    topic = standby.look(ctx.pipeline.source.topic)
    told = "told by the operator" if said.stopped else ""
    if site.copiers:
        told = f"{'fenced' if fence else 'to be fenced'}: {', '.join(site.copiers)}"
    facts = _facts(ctx, view, name, topic, _marks(topic, said.marks, bool(site.copiers) and not fence), told)
    refused = rules.objections(facts)
    was_cut = cut_since(ctx, standby, topic, name) if facts.has_been_active else None
    refused += [] if was_cut is None else [was_cut]
    if {r.kind for r in refused} & _BEFORE_A_WALK:
        return rules.decide(facts, (), refused)
    crossings = _crossings(ctx, standby, facts, said.known)
    quiet = facts.marks if fence or not site.copiers else said.marks  # a copier that will be fenced may go on
    now = standby.look(facts.topic.topic)  # who was to have stopped may have written since
    behind = (_behind(standby, facts, p, now.partitions[p].last_stable_offset) for p in sorted(quiet))
    return rules.decide(facts, crossings, [*refused, *(found for found in behind if found is not None)])


def _crossings(ctx: Context, standby: Standby, facts: Facts, known: Known | None) -> tuple[Crossing, ...]:
    pairs = {} if known is None else known.pairs
    if not pairs.keys() <= facts.landed.keys():
        raise FailoverRefused(f"{ctx.name}: a pair is given of partition {max(pairs)}, which no batch has read")
    history = ctx.ledger.failovers.history(ctx.name)
    left = Left(ctx, facts, behind_of(history, facts.before_topic_id) if facts.others else None)
    found = (
        _walked(standby, facts, p, left) if known is None or p not in pairs else counted(ctx, standby, facts, p, known)
        for p in sorted(facts.landed)
    )
    return tuple(with_what_crossed(ctx, facts, history, crossing) for crossing in found)


def _marks(topic: LogState, given: Mapping[int, int], may_be_open: bool) -> dict[int, int]:
    """`may_be_open`: a copier that will be fenced may have a transaction open."""
    ends = {p: o.last_stable_offset if may_be_open else o.high_watermark for p, o in topic.partitions.items()}
    return ends | dict(given)


def _facts(
    ctx: Context, view: PlanningView, site: str, topic: LogState, marks: Mapping[int, int], stopped: str
) -> Facts:
    planned = view.planned_ends
    newest, history = ctx.ledger.failovers.newest(ctx.name), ctx.ledger.failovers.history(ctx.name)
    if not planned and newest is not None:  # nothing was planned since the last switch
        planned = {c.partition: 0 for c in newest.certificate.crossings}
    return Facts(
        pipeline=ctx.name,
        version=view.version,
        site=site,
        before=ctx.pipeline.source.site,
        before_topic_id=view.accepted_topic_id or "",
        topic=topic,
        landed=rules.landed_ends(planned, view.open_batch, view.stretches),
        marks=marks,
        stopped=stopped,
        batch=view.open_batch,
        was_cut=bool(view.cuts) or _was_cut(ctx, view.accepted_topic_id),
        has_landed=_has_landed(ctx, view.open_batch),
        newest=newest,
        known_topic_id=known_topic_id(history, site),
        noted=noted(ctx, history, site),
        others=frozenset(topic_ids(history) - {view.accepted_topic_id or "", topic.topic_id}),
        never=tuple(never_active(ctx, history, site)),
    )


def noted(ctx: Context, history: Sequence[Failover], site: str) -> dict[int, int]:
    """Ends by partition of a site that has returned since it was left; empty: none were noted."""
    each = (ctx.ledger.failovers.noted(ctx.name, one.number, site) for one in away_since(history, site))
    return next((found for found in each if found), {})


def never_active(ctx: Context, history: Sequence[Failover], site: str) -> Iterator[str]:
    """Further sites that never were."""
    known = {ctx.pipeline.source.site, site, *(name for one in history for name in (one.site, one.before))}
    return (one.name for one in ctx.pipeline.source.sites if one.name not in known)


def _was_cut(ctx: Context, topic_id: str | None) -> bool:
    """However it was decided: what the log had above the planned end may have crossed before it was cut."""
    return any(one.topic_id == topic_id for one in ctx.ledger.cuts.resumptions(ctx.name))


def _has_landed(ctx: Context, batch: OpenBatch | None) -> bool:
    """R11: whether storage has a batch landed that the ledger would have read again."""
    if not isinstance(batch, PlannedBatch | WritingBatch):
        return False
    try:
        return sealing.landed_receipt(ctx, batch) is not None
    except StorageAhead:
        return True


def known_topic_id(history: list[Failover], site: str) -> str | None:
    """Id of the topic that a site had while it was active; None if it never was."""
    for one in reversed(history):
        if one.site == site:
            return one.certificate.topic_id
        if one.before == site:
            return one.certificate.before_topic_id
    return None


def cut_since(ctx: Context, standby: Standby, topic: LogState, site: str) -> Refusal | None:
    """F6: the log of a site that returns is the one that was left; an unclean election may have cut it meanwhile."""
    ends, epochs = ctx.ledger.failovers.left(ctx.name, topic.topic_id)
    asked = log_cut.doubtful(ends, epochs, topic)
    answers = standby.cuts(topic.topic, asked) if asked else {}
    for cut in log_cut.found_cuts(ends, epochs, topic, answers, 0):
        words = f"the log of site {site} was cut at offset {cut.start}, and batches have landed up to {cut.end}"
        advice = (
            "other records have taken these offsets: name the site anew, with another name, and copy into a new topic"
        )
        return Refusal(RefusalKind.SHRUNK, f"partition {cut.partition}: {words}", advice)
    return None


def _walked(standby: Standby, facts: Facts, partition: int, left: Left) -> Crossing:
    found = _walk(standby, facts, partition, left.origins(partition))
    if RefusalKind.ORIGIN in {refusal.kind for refusal in found.refusals}:
        origins = left.asked(partition)
        found = found if origins is None else _walk(standby, facts, partition, origins)
    return found


def _walk(standby: Standby, facts: Facts, partition: int, origins: Origins | None) -> Crossing:
    topic, base, mark = facts.topic.topic, rules.base_of(facts, partition), facts.marks[partition]
    walk = Walk(partition, facts.before_topic_id, facts.landed[partition], base, mark, facts.others, origins)
    start = max(base, facts.topic.partitions[partition].log_start)
    if not facts.has_been_active:
        start = _nearer(standby, facts, partition, start)
    for one in standby.records(topic, start, mark, partition) if start < mark else ():
        if not walk.see(one.offset, one.sources):
            break
    return walk.end()


def _nearer(standby: Standby, facts: Facts, partition: int, low: int) -> int:
    """Where to begin: at a copy of a record that has landed. However often a copier has begun again, all that it has
    brought beyond comes behind it once more, or for the first time."""
    high, landed = facts.marks[partition], facts.landed[partition]
    while high - low > NEAR:
        middle = (low + high) // 2
        first = next(standby.records(facts.topic.topic, middle, facts.marks[partition], partition), None)
        copy = None if first is None else _copy_of(first.sources)
        if first is not None and copy is not None and _has_landed_there(facts, copy, landed):
            low = first.offset
        else:
            high = middle
    return low


def _has_landed_there(facts: Facts, copy: Coordinate, landed: int) -> bool:
    return copy.topic_id == facts.before_topic_id and copy.offset < landed


def _copy_of(values: Sequence[bytes | None]) -> Coordinate | None:
    try:
        return coordinate_of(values)
    except ValueError:
        return None


def _behind(standby: Standby, facts: Facts, partition: int, end: int) -> Refusal | None:
    """F3: a copy behind the mark that was given."""
    mark = facts.marks[partition]
    for one in standby.records(facts.topic.topic, mark, end, partition) if mark < end else ():
        if one.sources:
            return rules.went_on(facts, partition, one.offset)
    return None
