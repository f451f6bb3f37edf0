"""How a pipeline is, for people: what is open, what is behind, what blocks, what is due. Reads only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tidegate.core.base.clock import Clock
from tidegate.core.base.errors import BatchRefused
from tidegate.core.base.instants import iso
from tidegate.core.base.offsets import Interval
from tidegate.core.base.wording import those
from tidegate.core.batch.thresholds import too_dirty
from tidegate.core.ledger import Block
from tidegate.core.look.blocking import oddities
from tidegate.core.look.port import LedgerReads
from tidegate.core.look.views import Overview
from tidegate.core.replay.rehearsal import Unfinished
from tidegate.core.source.loss import CRITICAL, TimeToLoss, remedy, sentence, time_to_loss
from tidegate.core.source.port import LogState
from tidegate.core.source.progress import begins
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.tell.pauses import Pause, silent
from tidegate.core.tell.subjects import said
from tidegate.core.window import watermark
from tidegate.core.window.cut import window_end, window_start
from tidegate.core.window.due import ArchiveNote, Due, due
from tidegate.core.window.forecast import Forecast, forecast
from tidegate.core.window.kinds import of_kind
from tidegate.core.window.states import WindowKey
from tidegate.core.window.watermark import Certificate, TopicFacts
from tidegate.kinds import source_kind
from tidegate.workflow.base.context import Context
from tidegate.workflow.completeness import ask
from tidegate.workflow.completeness.ask import Held
from tidegate.workflow.late import reopen
from tidegate.workflow.late.reopen import Choice
from tidegate.workflow.look import pauses
from tidegate.workflow.maintain import reconcile
from tidegate.workflow.window import overdue
from tidegate.workflow.window.overdue import Concern
from tidegate.workflow.window.unfinished import finishing

MOST_COMMANDS = 3
_STANDS = "the generations in force stay, and cannot be reopened meanwhile"


@dataclass(frozen=True)
class Lag:
    """Records (offsets) that the next batches will read, and those that retention has taken already."""

    records: int
    partitions: dict[int, int]
    lost: int
    topic_id: str


@dataclass(frozen=True)
class PipelineStatus:
    """`next_window` is the oldest one that may not be closed yet; its certificate says who blocks it.

    `due` are windows that may be published and are not; `due_since_ms` is when the batch landed
    that made the oldest of them ready. `loss` is None if Kafka gave no answer. Times are UTC ms."""

    name: str
    overview: Overview | None
    lag: Lag | None
    watermark_ms: int | None
    next_window: Certificate | None
    due: Due
    due_since_ms: int | None
    archive: ArchiveNote | None
    blocks: tuple[Block, ...]
    side_duties: tuple[int, ...]
    concerns: tuple[Concern, ...]
    loss: TimeToLoss | None = None
    expected: Forecast | None = None  # when `next_window` will be ready
    held: tuple[Held, ...] = ()  # of the due windows, those that another system's count holds
    late_left: tuple[Choice, ...] = ()  # windows whose late rows wait for a human
    replays_left: tuple[Unfinished, ...] = ()  # begun, not ended: somebody may be at work on them
    pause: Pause | None = None  # on purpose, and not over

    @property
    def well(self) -> bool:
        return not self.concerns


def status(ctx: Context, reads: LedgerReads, topic: LogState | None, events: int = 5) -> PipelineStatus:
    """`topic` is None when Kafka was not asked or gave no answer. Raises LedgerError."""
    pipeline, ledger, clock = ctx.pipeline, ctx.ledger, ctx.clock
    overview = reads.overview(pipeline.name, events)
    if overview is None:
        lag = None if topic is None else _lag({}, topic)
        return PipelineStatus(pipeline.name, None, lag, None, None, Due(pipeline.windows, ()), None, None, (), (), ())
    facts = ledger.windows.facts(pipeline.name)
    marks = watermark.watermarks(pipeline.windows, facts, clock.now_ms())
    waits = _next_window(ctx, facts, overview)
    look = reconcile.look(ctx)
    since = overdue.due_since(reads, [(pipeline, look.due)]).get(pipeline.name)
    lag = None if topic is None else _lag(overview.planned_ends, topic)
    found = PipelineStatus(
        pipeline.name,
        overview,
        lag,
        watermark.global_watermark(marks),
        waits,
        look.due,
        since,
        look.note,
        tuple(ledger.pipelines.blocks(pipeline.name)),
        tuple(batch_id for batch_id, _ in ledger.batches.side_duties(pipeline.name)),
        (),
        None if topic is None else _loss(pipeline, reads, topic, clock.now_ms()),
        _expected(ctx, waits, facts),
        ask.held(ctx),
        tuple(reopen.left(ctx)),
        tuple(ledger.replays.unfinished(pipeline.name)),
    )
    free = due(pipeline.windows, look.due.parts, [h.window_ms for h in found.held])
    if found.held:
        since = overdue.due_since(reads, [(pipeline, free)]).get(pipeline.name)
    if "late_window" in silent(overview.pause, clock.now_ms()):
        since = None  # nobody is expected to publish them
    found = _with_concerns(pipeline, found, clock, facts, free, since)
    now_ms, pause = clock.now_ms(), overview.pause
    late = overdue.unready(pipeline, reads, waits, found.expected, now_ms)
    quiet = silent(pause, now_ms)
    late = [one for one in late if one.kind not in quiet] + pauses.concerns(pipeline, pause, found.loss, now_ms)
    standing = pause if pause is not None and not pause.over(now_ms) else None
    return replace(found, concerns=(*found.concerns, *late), pause=standing)


def _lag(ends: dict[int, int], topic: LogState) -> Lag:
    behind = {
        p: max(0, o.last_stable_offset - max(begins(ends, p, o.log_start), o.log_start))
        for p, o in topic.partitions.items()
    }
    lost = sum(max(0, o.log_start - begins(ends, p, o.log_start)) for p, o in topic.partitions.items())
    return Lag(sum(behind.values()), behind, lost, topic.topic_id)


def _loss(pipeline: Pipeline, reads: LedgerReads, topic: LogState, now_ms: int) -> TimeToLoss:
    progress = reads.progress([pipeline.name], now_ms)[pipeline.name]
    return time_to_loss(topic, progress, now_ms, pipeline.source.loss_warning_ms)


def _next_window(ctx: Context, facts: TopicFacts, overview: Overview) -> Certificate:
    """A watermark may fall back behind windows that are published: what they waited for is over."""
    spec, now = ctx.pipeline.windows, ctx.clock.now_ms()
    low = watermark.global_watermark(watermark.watermarks(spec, facts, now))
    start = window_start(spec.start_ms if low is None else max(low, spec.start_ms), spec)
    published = set(ctx.ledger.due.published_within(ctx.name, [Interval(start, max(start, now))]))
    while start in published:
        start = window_end(start, spec)
    key, batch = WindowKey(start, window_end(start, spec)), overview.open_batch
    first = (
        ""
        if batch is None
        else watermark.first_batch(batch.batch_id, batch.state, bool(batch.refused or batch.blocked))
    )
    return watermark.certify(ctx.name, spec, facts, key, now, first=first)


def _expected(ctx: Context, waits: Certificate, facts: TopicFacts) -> Forecast | None:
    if waits.ready or not waits.blockers:
        return None
    before = ctx.ledger.windows.earlier_facts(ctx.name)
    return forecast(ctx.pipeline.windows, facts, before, waits, ctx.clock.now_ms())


def _with_concerns(
    pipeline: Pipeline, found: PipelineStatus, clock: Clock, facts: TopicFacts, free: Due, since_ms: int | None
) -> PipelineStatus:
    """`free` are the due windows that nobody holds, the oldest of them ready since `since_ms`."""
    name, overview, lag = pipeline.name, found.overview, found.lag
    assert overview is not None
    concerns = [
        Concern(
            f"{said(b.subject)} is blocked: {first_line(b.reason)}",
            _unblocking(name, b),
            "alarm",
            b.subject,
        )
        for b in found.blocks
    ]
    open_batch = overview.open_batch
    if open_batch is not None and open_batch.refused:
        concerns.append(
            Concern(
                f"batch {open_batch.batch_id} was refused: {first_line(open_batch.refused)}",
                after_refusal(name, open_batch.batch_id, open_batch.refused),
                refusal_kind(open_batch.refused),
                f"batch {open_batch.batch_id}",
            )
        )
    if lag is not None and overview.topic_id is not None and lag.topic_id != overview.topic_id:
        concerns.append(
            Concern(
                f"topic {pipeline.source.topic} was recreated: it is {lag.topic_id}, "
                f"the offsets belong to {overview.topic_id}",
                f"if that was on purpose: tidegate source reset {name}",
                "source_reset",
                lag.topic_id,
            )
        )
    elif lag is not None and lag.lost:
        concerns.append(
            Concern(
                f"{those(lag.lost, 'offset')} gone from the topic before they were read",
                "source.on_data_loss: record goes on without them",
                "data_loss",
            )
        )
    elif found.loss is not None and found.loss.level == CRITICAL:
        advice = remedy(found.loss, pipeline.source.topic, name, source_kind(pipeline.source.kind).remedy)
        concerns.append(Concern(sentence(found.loss), advice, "loss_ahead"))
    unread = lag.records if lag is not None else None
    concerns += [Concern(*odd, "watermark") for odd in oddities(pipeline.windows, facts, clock.now_ms(), unread)]
    concerns += overdue.concerns(pipeline, found.due, since_ms, found.archive, clock.now_ms(), free)
    concerns += _held_too_long(pipeline, found.held, clock.now_ms())
    concerns += _late_left(name, found.late_left)
    concerns += left_behind(pipeline, found.replays_left, clock.now_ms())
    return replace(found, concerns=tuple(concerns))


def refusal_kind(refused: str) -> str:
    """One of core.notices.KINDS."""
    return "dirty_limit" if too_dirty(refused) else "refused"


def _unblocking(name: str, block: Block) -> str:
    """A log that was cut takes a decision; any other block is cleared."""
    if block.subject.startswith("partition "):
        return (
            f"compare with the producers; `tidegate source rewind {name}` reads on from there, `tidegate source skip "
            f"{name}` records the loss"
        )
    return f"look at it, then `tidegate repair {name}`"


def after_refusal(name: str, batch_id: int, refused: str) -> str:
    """What helps a batch that was refused for what `refused` says: what it says itself, where that is more than what
    holds for all of them. A record that the topic has no more is no matter of the spec."""
    advice = "mend the spec, then clear the write task: the same offsets are read again"
    if too_dirty(refused):
        return f"{advice}; or let it land as it is: tidegate repair {name} --release {batch_id} --why '...'"
    own = refused.rpartition("\n  what to do: ")[2] if "\n  what to do: " in refused else ""
    if own in ("", BatchRefused.advice):
        return advice
    return own.replace("<pipeline>", name).replace("<batch>", str(batch_id))


def _held_too_long(pipeline: Pipeline, held: tuple[Held, ...], now_ms: int) -> list[Concern]:
    """One concern for all windows that another system's count has held for longer than `archive.sla`."""
    long = [h for h in held if now_ms - h.since_ms > pipeline.archive.sla_ms]
    if not long:
        return []
    oldest = long[0]
    what = (
        f"{those(len(long), 'window')} held by another system's count, the oldest "
        f"({iso(oldest.window_ms)}): {oldest.comparison.text}"
    )
    advice = f"find out what is missing; to publish it as it is: {ask.remedy(pipeline.name, oldest.window_ms)}"
    return [Concern(what, advice, "held_window")]


def _late_left(name: str, left: tuple[Choice, ...]) -> list[Concern]:
    """What was refused needs a human; what is over its budget may stay in the late table for good."""
    refused = [c for c in left if not c.over]
    if not refused:
        return []
    at = iso(refused[0].window.start_ms)
    others = f" and {len(refused) - 1:,} more" if len(refused) > 1 else ""
    what, advice = f"reopening {at}{others} was refused: its late rows wait", f"tidegate reopen {name} {at} says why"
    return [Concern(what, advice, "late_rows")]


def left_behind(pipeline: Pipeline, found: Iterable[Unfinished], now_ms: int) -> list[Concern]:
    """Of replays and rollbacks that nobody has been at for hours: a killed one, or one that Kafka's retention or an
    outage has stopped on its way."""
    left = [u for u in found if not u.at_work(now_ms)]
    concerns = []
    replays = [u.window_ms for u in left if not of_kind(u.kind).restores]
    if replays:
        runs = _runs(pipeline, replays)
        commands = [f"tidegate replay {pipeline.name} -s {iso(a)} -e {iso(b)}" for a, b in runs[:MOST_COMMANDS]]
        more = f", and so on for {len(runs) - MOST_COMMANDS:,} more ranges" if len(runs) > MOST_COMMANDS else ""
        windows = f"{len(replays):,} window{'s' if len(replays) > 1 else ''}"
        what = f"a replay of {windows} from {iso(replays[0])} on has stopped on its way: {_STANDS}"
        concerns.append(Concern(what, f"to go on: {'; '.join(commands)}{more}", "replay_left", iso(replays[0])))
    for u in [u for u in left if of_kind(u.kind).restores][:MOST_COMMANDS]:
        what = f"a rollback of {iso(u.window_ms)} has stopped on its way: {_STANDS}"
        advice = finishing(pipeline.name, u.window_ms, u.kind)
        concerns.append(Concern(what, advice, "replay_left", iso(u.window_ms)))
    return concerns


def _runs(pipeline: Pipeline, starts: list[int]) -> list[tuple[int, int]]:
    """First and last of windows that follow each other."""
    found: list[tuple[int, int]] = []
    for start in starts:
        if found and window_end(found[-1][1], pipeline.windows) == start:
            found[-1] = found[-1][0], start
        else:
            found.append((start, start))
    return found


def late_words(left: tuple[Choice, ...], name: str) -> str:
    """Of windows whose late rows wait although `late.reopen_after` is over; "" for none."""
    over = [c for c in left if c.over]
    if not over:
        return ""
    at, others = iso(over[0].window.start_ms), f" and {len(over) - 1:,} more" if len(over) > 1 else ""
    words = f"late rows of {at}{others} wait, over the budget: {'; '.join(over[0].over)}"
    return f"{words}; to take them up: tidegate reopen {name} {at} --over-budget --why '...'"


def first_line(text: str) -> str:
    return text.splitlines()[0] if text else ""
