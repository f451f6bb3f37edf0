"""Whether the active site may change, and where reading goes on: decided from what was gathered, nothing else.

`base_of` and `objections` come before the copies are walked, `decide` after. What cannot be proven is refused by name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tidegate.core.base.offsets import Interval
from tidegate.core.base.plain import dumps
from tidegate.core.base.wording import many
from tidegate.core.batch.states import OpenBatch, PlannedBatch, WritingBatch
from tidegate.core.failover.crossing import Crossing, Refusal, RefusalKind
from tidegate.core.failover.states import Certificate, Failover, Stretches, Switch
from tidegate.core.source.port import LogState
from tidegate.core.source.stretches import past


@dataclass(frozen=True, kw_only=True)
class Facts:
    """`landed`: where the batches on `before_topic_id` end, by partition. `marks`: where its copies end here (F3).

    `stopped`: how it is known that nobody copies behind them; empty: nobody says. `newest`: the switch by which
    `before` is active. `known_topic_id`: of the site, if it has been active; `noted`: its ends since it returned.
    `others`: ids of topics of further sites that were active. `never`: names of further sites that never were.
    `batch`: the open one; `has_landed`: storage says that it has landed. `was_cut`: the log before was cut, however
    it was decided, or waits for a decision."""

    pipeline: str
    version: int
    site: str
    before: str
    before_topic_id: str
    topic: LogState
    landed: Mapping[int, int]
    marks: Mapping[int, int]
    stopped: str
    batch: OpenBatch | None
    was_cut: bool = False
    has_landed: bool = False
    newest: Failover | None = None
    known_topic_id: str | None = None
    noted: Mapping[int, int] = field(default_factory=dict)
    others: frozenset[str] = frozenset()
    never: tuple[str, ...] = ()

    @property
    def has_been_active(self) -> bool:
        return self.known_topic_id is not None


@dataclass(frozen=True, kw_only=True)
class Decision:
    """`switch` is None where something is refused."""

    facts: Facts
    crossings: tuple[Crossing, ...]
    refusals: tuple[Refusal, ...]
    switch: Switch | None

    @property
    def digest(self) -> str:
        """What a run compares with the plan that a person has read."""
        content = {"crossings": self.crossings, "batch": _words_of(self.facts.batch), "site": self.facts.site}
        return hashlib.sha256(dumps(content).encode()).hexdigest()[:12]


def _words_of(batch: OpenBatch | None) -> str:
    return "" if batch is None else f"{batch.plan.batch_id} {batch.state}"


def landed_ends(planned: Mapping[int, int], batch: OpenBatch | None, stretches: Stretches) -> dict[int, int]:
    """Where batches that will have landed end, by partition: without an open one, which is planned again (F4)."""
    ends = dict(planned)
    if isinstance(batch, PlannedBatch | WritingBatch) and not batch.plan.is_redrive:
        ends |= {p.partition: p.start for p in batch.plan.partitions}
        ends |= {loss.partition: min(loss.start, ends[loss.partition]) for loss in batch.plan.losses}
    return {p: past(end, stretches.get(p, ())) for p, end in ends.items()}


def base_of(facts: Facts, partition: int) -> int:
    """Where copies may begin: behind what a site wrote itself while, and since, it was active (F6).

    A partition that came after its ends were noted holds copies alone, from its beginning: each is walked."""
    return facts.noted.get(partition, 0)


def objections(facts: Facts) -> list[Refusal]:
    """What refuses before any copy is looked at."""
    found = [*_of_batches(facts), *_of_topics(facts)]
    if not facts.stopped:
        ends = ", ".join(f"{p}: {mark}" for p, mark in sorted(facts.marks.items()))
        found.append(
            Refusal(
                RefusalKind.MARK,
                f"nobody says that copying to site {facts.site} has stopped; the topic there ends at {ends}",
                "name the copier's transactional.id in source.sites (copiers), so that it is fenced; or stop it "
                "yourself, and say --stopped",
            )
        )
    return found


def _of_batches(facts: Facts) -> list[Refusal]:
    batch = facts.batch
    if batch is None:
        return []
    batch_id, withdrawn = batch.plan.batch_id, isinstance(batch, PlannedBatch | WritingBatch)
    if withdrawn and not facts.has_landed and not batch.plan.is_redrive:
        return []
    words = f"batch {batch_id} is {batch.state}" + (
        ", and storage says that it has landed" if withdrawn and facts.has_landed else ""
    )
    advice = f"clear the land task of {facts.pipeline}.ingest: it asks no source; then again"
    return [Refusal(RefusalKind.OPEN_BATCH, words, advice)]


def _of_topics(facts: Facts) -> list[Refusal]:
    found = []
    ours, theirs = sorted(facts.landed), sorted(facts.topic.partitions)
    if not ours:
        return [Refusal(RefusalKind.NOT_BEGUN, "no batch was ever planned", "let source.conn_id name the other site")]
    if facts.before_topic_id == facts.topic.topic_id:
        words = f"the ledger's offsets are of topic id {facts.before_topic_id}, which is that of site {facts.site}"
        advice = "both sites have one cluster, or the ledger has lost the switch to it: restore a newer copy of it"
        return [Refusal(RefusalKind.SAME_TOPIC, words, advice)]
    if facts.was_cut:
        words = f"the log of site {facts.before} was cut: one offset there was two records, and so is its coordinate"
        found.append(Refusal(RefusalKind.LOG_CUT, words, "copy into a new topic from where the log was cut"))
    if ours != theirs:
        words = f"batches are of partitions {ours}, site {facts.site} has {theirs}"
        found.append(Refusal(RefusalKind.PARTITIONS, words, "copy into a topic with the same partitions"))
    if facts.has_been_active and facts.topic.topic_id != facts.known_topic_id:
        words = (
            f"the topic has id {facts.topic.topic_id}, it had {facts.known_topic_id} while site {facts.site} was active"
        )
        found.append(Refusal(RefusalKind.SHRUNK, words, "what it held is gone: name the site anew, with another name"))
    elif facts.has_been_active and not (facts.noted and facts.noted.keys() <= facts.landed.keys()):
        words = f"site {facts.site} has returned, and its ends were not noted before something was copied back"
        found.append(Refusal(RefusalKind.NOT_NOTED, words, f"tidegate failover back {facts.pipeline} notes them"))
    for p, mark in sorted(facts.marks.items()):
        lane = facts.topic.partitions.get(p)
        if lane is None:
            words = f"a mark is given for partition {p}, site {facts.site} has {theirs}"
            found.append(Refusal(RefusalKind.PARTITIONS, words, "give marks of partitions that are there"))
            continue
        if not base_of(facts, p) <= mark <= lane.high_watermark:
            words = f"partition {p}: mark {mark} is not between {base_of(facts, p)} and the end {lane.high_watermark}"
            found.append(
                Refusal(RefusalKind.SHRUNK, words, "look at the topic: was its log cut, or the mark mistyped?")
            )
        elif mark > lane.last_stable_offset:
            words = f"partition {p}: an open transaction begins at {lane.last_stable_offset}, the mark is {mark}"
            found.append(Refusal(RefusalKind.TRANSACTION, words, "end it, or wait until Kafka does"))
    return [*found, *_unread(facts)]


def _unread(facts: Facts) -> list[Refusal]:
    """F6: what the site before holds as copies has landed, since it is read nowhere else."""
    found = []
    for crossing in facts.newest.certificate.crossings if facts.newest is not None else ():
        landed = facts.landed.get(crossing.partition, 0)
        if landed < crossing.mark:
            words = (
                f"partition {crossing.partition}: batches of site {facts.before} end at {landed}, copies that were "
                f"taken over reach up to {crossing.mark}: {many(crossing.mark - landed, 'offset')} not read"
            )
            found.append(Refusal(RefusalKind.UNREAD_COPIES, words, f"let {facts.pipeline}.ingest run until there"))
    return found


def went_on(facts: Facts, partition: int, offset: int) -> Refusal:
    """F3: a copy lies behind the mark."""
    words = f"partition {partition}: the record at {offset} is a copy, behind the mark {facts.marks[partition]}"
    return Refusal(RefusalKind.MARK, words, "copying went on: stop the copier, and give a mark behind its last copy")


def decide(facts: Facts, crossings: Sequence[Crossing], others: Sequence[Refusal] = ()) -> Decision:
    """`others`: what was refused beside the copies themselves."""
    refusals = [*others, *(refusal for crossing in crossings for refusal in crossing.refusals)]
    switch = None if refusals else _switch(facts, tuple(crossings))
    return Decision(facts=facts, crossings=tuple(crossings), refusals=tuple(refusals), switch=switch)


def _switch(facts: Facts, crossings: tuple[Crossing, ...]) -> Switch:
    certificate = Certificate(
        topic=facts.topic.topic,
        before_topic_id=facts.before_topic_id,
        topic_id=facts.topic.topic_id,
        stopped=facts.stopped,
        crossings=crossings,
    )
    here = {c.partition: c.stretches for c in crossings if c.stretches}
    there = {c.partition: crossed for c in crossings if (crossed := _crossed(c))}
    return Switch(
        pipeline=facts.pipeline,
        version=facts.version,
        number=1 if facts.newest is None else facts.newest.number + 1,
        site=facts.site,
        before=facts.before,
        certificate=certificate,
        withdrawn=facts.batch,
        stretches={facts.topic.topic_id: here, facts.before_topic_id: there},
    )


def _crossed(crossing: Crossing) -> tuple[Interval, ...]:
    """Of the log before: what crossed above what has landed. It is read here, and never there (F6)."""
    return (Interval(crossing.landed, crossing.left),) if crossing.left > crossing.landed else ()
