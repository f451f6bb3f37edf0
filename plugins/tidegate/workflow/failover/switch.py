"""Applies a decided failover, and notes the end of a site that has returned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidegate.core.base.errors import FailoverRefused, LedgerError, LostComparison
from tidegate.core.base.wording import many
from tidegate.core.failover.crossing import Refusal, RefusalKind
from tidegate.core.failover.decision import Decision
from tidegate.core.failover.own_records import copied_back, left_last
from tidegate.core.failover.states import Failover
from tidegate.core.source.coordinates import HEADER
from tidegate.workflow.base import switches
from tidegate.workflow.base.context import Context
from tidegate.workflow.failover.counted import crossed_of, left_by
from tidegate.workflow.failover.survey import cut_since, known_topic_id, site_named


def apply(ctx: Context, decision: Decision, why: str) -> Failover:
    """One compare-and-set (F4); an answer that was lost is looked for. Raises FailoverRefused, LostComparison,
    StorageAhead."""
    switch = decision.switch
    if switch is None:
        first = decision.refusals[0]
        raise FailoverRefused(f"{ctx.name}: {first.line}", advice=first.advice)
    switches.check(ctx)  # a replica of the ledger that lacks a switch may fit a plan of before it
    try:
        ctx.ledger.failovers.switch(switch, why)
    except LostComparison:
        raise
    except LedgerError:
        newest = ctx.ledger.failovers.newest(ctx.name)
        if newest is None or (newest.number, newest.certificate) != (switch.number, switch.certificate):
            raise
    newest = ctx.ledger.failovers.newest(ctx.name)
    if newest is None or newest.number < switch.number:
        raise LostComparison(f"{ctx.name}: the ledger has forgotten failover {switch.number}")
    switches.keep(ctx, newest)
    ctx.say(f"{ctx.name} reads at site {switch.site} from now on (failover {switch.number})")
    return newest


@dataclass(frozen=True)
class Returned:
    """Of a partition of a site that has returned: `[left, end)` never crossed and never landed."""

    partition: int
    left: int
    end: int


def ends_of(ctx: Context, name: str) -> tuple[Returned, ...]:
    """Where a site's own records end that was active before (F6). Looks only.

    Raises FailoverRefused where that cannot be known: something has been copied back already."""
    site_named(ctx, name)
    history = ctx.ledger.failovers.history(ctx.name)
    away = left_last(history, name)
    if away is None:
        raise FailoverRefused(
            f"site {name} of {ctx.name} was never active: there is nothing to give back",
            advice=f"tidegate failover run {ctx.name} --to {name}",
        )
    standby = ctx.standby(name)
    topic = standby.look(ctx.pipeline.source.topic)
    if topic.topic_id != known_topic_id(history, name):
        refused = f"the topic at site {name} has id {topic.topic_id}, it had {known_topic_id(history, name)}"
        raise _refused(ctx, RefusalKind.SHRUNK, refused, "what it held is gone: name the site anew, with another name")
    found = []
    for p, lane in sorted(topic.partitions.items()):
        crossing = away.certificate.of(p)
        left = 0 if crossing is None else crossing.left
        if lane.last_stable_offset < lane.high_watermark:
            words = f"partition {p}: an open transaction begins at {lane.last_stable_offset}"
            raise _refused(ctx, RefusalKind.TRANSACTION, words, "end it, or wait until Kafka does")
        if lane.high_watermark < left:
            words = f"partition {p}: the log ends at {lane.high_watermark}, {left} offsets of it have landed or crossed"
            raise _refused(ctx, RefusalKind.SHRUNK, words, "it was cut: what it lost has landed; name the site anew")
        left = max(left, _measured(ctx, history, name, topic.topic, p))
        start = max(left, lane.log_start)
        for one in standby.records(topic.topic, start, lane.high_watermark, p):
            if copied_back(history, name, p, one.offset, one.sources):
                words = (
                    f"partition {p}: the record at {one.offset} was copied back already: its header {HEADER} says so"
                )
                raise _refused(ctx, RefusalKind.NOT_NOTED, words, "nobody noted where the site's own records end")
        found.append(Returned(p, left, lane.high_watermark))
    was_cut = cut_since(ctx, standby, topic, name)
    if was_cut is not None:
        raise FailoverRefused(f"{ctx.name}: {was_cut.line}", advice=was_cut.advice)
    return tuple(found)


def _measured(ctx: Context, history: Sequence[Failover], name: str, topic: str, partition: int) -> int:
    """Where counted copies end in the site's log. Raises FailoverRefused."""
    away = left_by(history, name, partition)
    found = None if away is None else crossed_of(ctx, away, topic, partition)
    if isinstance(found, Refusal):
        raise FailoverRefused(f"{ctx.name}: {found.line}", advice=found.advice)
    return found or 0


def note(ctx: Context, name: str, found: tuple[Returned, ...], number: int) -> None:
    """`number`: of the newest switch, read before the ends. Raises LostComparison where they are noted already, or
    another switch came between: its operator may have noted them, and copied since."""
    ends: Mapping[int, int] = {one.partition: one.end for one in found}
    ctx.ledger.failovers.note_ends(ctx.name, number, name, ends)
    count = sum(one.end - one.left for one in found)
    ctx.say(f"site {name} has returned: {many(count, 'offset')} at most never crossed")


def _refused(ctx: Context, kind: RefusalKind, words: str, advice: str) -> FailoverRefused:
    return FailoverRefused(f"{ctx.name}: {Refusal(kind, words).line}", advice=advice)
