"""Gathers what counted copies are proven by: the rows that have landed (F2), and both logs once a site returns (F6)."""

from __future__ import annotations

import dataclasses
from array import array
from collections.abc import Sequence

from tidegate.core.base.offsets import Interval
from tidegate.core.failover import counting
from tidegate.core.failover import decision as rules
from tidegate.core.failover.counting import Copied
from tidegate.core.failover.crossing import Crossing, Pair, Refusal, RefusalKind, Walk
from tidegate.core.failover.decision import Facts
from tidegate.core.failover.own_records import left_last
from tidegate.core.failover.states import Failover, Standby
from tidegate.core.source.coordinates import HEADER, coordinate_of
from tidegate.workflow.base.context import Context
from tidegate.workflow.failover.overlap import Known, landed_from, rows_of


def counted(ctx: Context, standby: Standby, facts: Facts, partition: int, known: Known) -> Crossing:
    """What a partition's copies say, counted from the pair on."""
    pair, landed = known.pairs[partition], facts.landed[partition]
    base, mark = rules.base_of(facts, partition), facts.marks[partition]
    refused = [counting.objection(partition, pair, landed, max(base, _log_start(facts, partition)), mark)]
    if facts.has_been_active:
        refused.append(counting.way_back(partition, pair, _mark_before(facts, partition), base))
    walk = Walk(partition, facts.before_topic_id, landed, base, mark)
    if any(refused) or pair.here == mark:  # nothing was copied
        found = walk.end()
    else:
        found = _walked(ctx, standby, facts, walk, pair, known, refused)
    refusals = (*found.refusals, *(one for one in refused if one is not None))
    return dataclasses.replace(found, pair=pair, refusals=refusals)


def _walked(
    ctx: Context, standby: Standby, facts: Facts, walk: Walk, pair: Pair, known: Known, refused: list[Refusal | None]
) -> Crossing:
    p, landed, before = walk.partition, walk.landed, facts.before_topic_id
    there = landed_from(ctx, known.reads, before, p, pair.before, landed)
    counts = counting.coordinates(before, p, pair, there, landed)
    offsets, times = array("q"), array("q")
    for copy in standby.records(facts.topic.topic, pair.here, walk.mark, p):
        if copy.sources:
            refused.append(_has_header(facts, p, copy))
            return walk.end()
        offsets.append(copy.offset)
        times.append(copy.timestamp_ms)
        walk.see(copy.offset, [next(counts).text()])
    places = there.last(counting.MOST, below=len(times))
    rows = [] if there.unknown else rows_of(ctx, known, before, p, places)
    back_from = facts.before if facts.has_been_active else ""
    refused.append(counting.proof(p, pair, there, rows, offsets, times, back_from))
    return walk.end()


def _has_header(facts: Facts, partition: int, copy: Copied) -> Refusal:
    """An exact copier keeps headers: of a copy of a copy it says what the one before was of."""
    words = f"partition {partition}: the record at {copy.offset} has a header {HEADER}"
    try:
        named = coordinate_of(copy.sources)
    except ValueError:
        named = None
    if named is None or named.topic_id == facts.before_topic_id:
        advice = "leave --pair out: the header says what it is of"
        return Refusal(RefusalKind.NO_PROOF, f"{words}: nothing has to be counted", advice)
    kept = f"{words} of topic id {named.topic_id}, which it had at site {facts.before} already, where it was a copy"
    advice = "copy into a new topic by a copier that writes the header anew; copies of copies are not counted"
    return Refusal(RefusalKind.NO_PROOF, kept, advice)


def _log_start(facts: Facts, partition: int) -> int:
    return facts.topic.partitions[partition].log_start


def _mark_before(facts: Facts, partition: int) -> int:
    """Where copying back had to begin."""
    crossing = None if facts.newest is None else facts.newest.certificate.of(partition)
    return 0 if crossing is None else crossing.mark


def with_what_crossed(ctx: Context, facts: Facts, history: Sequence[Failover], crossing: Crossing) -> Crossing:
    """F6: with the stretch of the returned site's log whose copies were counted, and read at the other site."""
    p = crossing.partition
    away = left_by(history, facts.site, p)
    found = None if away is None else crossed_of(ctx, away, facts.topic.topic, p)
    if away is None or found is None:
        return crossing
    if isinstance(found, Refusal):
        return dataclasses.replace(crossing, refusals=(*crossing.refusals, found))
    landed = away.certificate.of(p).landed  # type: ignore[union-attr]
    more = (Interval(landed, found),) if found > landed else ()
    return dataclasses.replace(crossing, stretches=(*more, *crossing.stretches))


def left_by(history: Sequence[Failover], site: str, partition: int) -> Failover | None:
    """The failover by which the site was left last, if it counted that partition's copies."""
    away = left_last(history, site)
    crossing = None if away is None else away.certificate.of(partition)
    return away if crossing is not None and crossing.pair is not None else None


def crossed_of(ctx: Context, away: Failover, topic: str, partition: int) -> int | Refusal | None:
    """Where the copies that were read end in the log of the site that was left, by both logs."""
    crossing = away.certificate.of(partition)
    assert crossing is not None
    if not crossing.to_read:
        return crossing.landed
    left, taken = ctx.standby(away.before), ctx.standby(away.site)
    begins = ((away.before, left, crossing.landed), (away.site, taken, crossing.first_to_read))
    for site, log, start in begins:
        log_start = log.look(topic).partitions[partition].log_start
        if log_start > start:
            words = (
                f"partition {partition}: {crossing.to_read:,} records were counted, and read at site {away.site}; to "
                f"compare both logs site {site} is needed from {start} on, it begins at {log_start}"
            )
            return Refusal(RefusalKind.DIFFERENCE, words, "retention has taken them: name the site anew")
    end = left.look(topic).partitions[partition].high_watermark
    ours = left.records(topic, crossing.landed, end, partition)
    copies = taken.records(topic, crossing.first_to_read, crossing.mark, partition)
    return counting.crossed_end(partition, crossing.landed, crossing.to_read, ours, copies)
