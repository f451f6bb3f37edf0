"""The fate of one offset: from what the ledger, the files and the broker say of it to one sentence.

Everything here is decided from gathered facts; `workflow.look.where` gathers them. A recreated topic has the same
offsets again: each topic id is a life of its own, and an offset may have a fate in every one of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidegate.core.base.instants import iso
from tidegate.core.base.wording import first_line, many
from tidegate.core.batch.states import LANDED, PLANNED, WRITING, BatchState
from tidegate.core.files.receipt import DATA, DIRTY, LATE, FileEntry
from tidegate.core.look.concerns import unblocking
from tidegate.core.look.sighting import Candidate, Life, OffsetFacts, Search, Sighting, Surroundings, WindowFacts
from tidegate.core.look.views import BatchRow, LossRow, RangeRow
from tidegate.core.spec.pipeline import Pipeline, Windows
from tidegate.core.window.cut import window_end, window_id, window_start
from tidegate.core.window.kinds import of_kind
from tidegate.core.window.lateness import REROUTE, Floor
from tidegate.core.window.states import CURRENT, WindowState

PUBLISHED, MERGED, WAITING = "published", "merged", "waiting"
FILTERED, DROPPED, GAP = "filtered", "dropped", "gap"
OPEN, ABANDONED, LOST = "open batch", "abandoned", "lost"
NOT_READ, NO_RECORD, NO_PARTITION, BEFORE_START = "not read yet", "no such record", "no such partition", "before start"
NEVER_READ, UNDECIDED, MISSING = "never read", "undecided", "missing"

SETTLED = frozenset({PUBLISHED, MERGED, LATE, DIRTY, FILTERED, DROPPED, GAP, BEFORE_START})
"""Nothing more will happen to it, and nothing is wrong."""


@dataclass(frozen=True, kw_only=True)
class Fate:
    """One answer. `words` say it whole; `next_step` is what to do, empty for nothing. Times are UTC ms."""

    kind: str
    words: str
    next_step: str = ""
    topic_id: str = ""
    batch_id: int | None = None
    attempt: int | None = None
    planned_ms: int | None = None
    landed_ms: int | None = None
    event_ms: int | None = None
    kafka_ms: int | None = None
    window_ms: int | None = None
    generation: int | None = None
    published_ms: int | None = None
    table: str = ""
    file: str = ""
    reason: str = ""
    field: str = ""
    raw: str = ""
    behind: int | None = None
    dirty_in: tuple[int, ...] = ()  # batches in which it was dirty before it was redriven

    @property
    def settled(self) -> bool:
        return self.kind in SETTLED


# ---------------------------------------------------------------- rules


def fate_of(facts: OffsetFacts, life: Life, search: Search, around: Surroundings) -> Fate:
    """What happened to the offset under this topic id."""
    fate = _decide(facts, life, search, around)
    batch = life.batch
    if batch is not None:
        fate = replace(fate, batch_id=batch.batch_id, planned_ms=batch.planned_ms, landed_ms=batch.landed_ms)
        if batch.epoch:
            fate = replace(fate, attempt=batch.epoch)
        if life.earlier:
            ids = tuple(e.batch.batch_id for e in life.earlier)
            fate = replace(fate, words=f"{_redriven(ids, batch, search)}: {fate.words}", dirty_in=ids)
    return replace(fate, topic_id=life.topic_id)


def _decide(facts: OffsetFacts, life: Life, search: Search, around: Surroundings) -> Fate:
    if life.batch is not None:
        state = life.batch.state
        if state == LANDED:
            return _landed(facts, life, life.batch, search, around)
        if state == BatchState.ABANDONED:
            at = "" if life.ended_ms is None else f" at {_at(life.ended_ms)}"
            return Fate(
                kind=ABANDONED, words=f"never read: batch {life.batch.batch_id} was abandoned{at}: {life.abandoned}"
            )
        return _open(life.batch, around.now.name)
    if life.loss is not None:
        return _lost(life.loss, life.loss_planned_ms)
    if life.first_offset is None or life.planned_end is None:
        return _unknown_partition(facts, life, around)
    if facts.offset < life.first_offset:
        start = around.now.source.start
        words = f"below where this pipeline began to read: offset {life.first_offset:,} (source.start: {start})"
        return Fate(kind=BEFORE_START, words=words)
    if facts.offset >= life.planned_end:
        return _beyond(facts, life.planned_end, life, around)
    return Fate(
        kind=MISSING,
        words="in no batch, and not recorded as lost: the ledger has a hole here",
        next_step=f"tidegate audit {around.now.name}",
    )


def _open(batch: BatchRow, name: str) -> Fate:
    about = f"in open batch {batch.batch_id}, planned {_at(batch.planned_ms)}"
    if batch.blocked:
        why = f"blocked by an alarm: {first_line(batch.blocked)}"
        return Fate(
            kind=OPEN, words=f"{about}: {why}", next_step=unblocking(name, f"batch {batch.batch_id}"), reason=why
        )
    refusal = batch.refusal
    if refusal is not None:
        why = f"refused: {first_line(refusal.said)}"
        step = refusal.helps(name, batch.batch_id)
        return Fate(kind=OPEN, words=f"{about}, attempt {batch.epoch} was {why}", next_step=step, reason=why)
    running = f"nothing if {name}.ingest is running; otherwise look at its last run"
    if batch.released and batch.state == WRITING:
        words = f"{about}: it may land with its dirty rows, released by {first_line(batch.released)}"
        return Fate(
            kind=OPEN,
            words=words,
            next_step=f"nothing if {name}.ingest is running; otherwise clear the write task of its last run",
        )
    if batch.state == PLANNED:
        return Fate(kind=OPEN, words=f"{about}: PLANNED, no task has begun to write it", next_step=running)
    if batch.state == WRITING:
        return Fate(
            kind=OPEN, words=f"{about}: WRITING, attempt {batch.epoch} is at work or has died", next_step=running
        )
    return Fate(
        kind=OPEN, words=f"{about}: SEALED, attempt {batch.epoch} is complete and lands next", next_step=running
    )


def _lost(loss: LossRow, planned_ms: int | None) -> Fate:
    when = "" if planned_ms is None else f" at {_at(planned_ms)}"
    words = f"lost to {loss.reason}: offsets [{loss.start:,}, {loss.end:,}) were gone when batch {loss.batch_id} "
    return Fate(
        kind=LOST, words=f"{words}was planned{when}", batch_id=loss.batch_id, planned_ms=planned_ms, reason=loss.reason
    )


def _unknown_partition(facts: OffsetFacts, life: Life, around: Surroundings) -> Fate:
    p, topic = facts.partition, around.topic
    if topic is None:
        words = f"no batch has partition {p} yet; whether it exists could not be asked: {around.silence}"
        return Fate(kind=UNDECIDED, words=words)
    if topic.is_another(life.topic_id) or p not in topic.partitions:
        return Fate(kind=NO_PARTITION, words=f"topic {topic.topic} has no partition {p}")
    # before the first batch nothing is due that the log no longer has; what comes later is read from its beginning
    return _beyond(facts, 0 if facts.lives else topic.partitions[p].log_start, life, around)


def _at_another_site(facts: OffsetFacts, planned_end: int, around: Surroundings) -> Fate:
    words = f"site {around.left} was read up to {planned_end:,}, then site {around.now.source.site} took over"
    if facts.offset < around.crossed:
        return Fate(kind=NEVER_READ, words=f"never read there: {words}, where its copy is read")
    words = f"not read yet: {words}; it is read when {around.left} is active again"
    return Fate(kind=NOT_READ, words=words, next_step=f"tidegate failover back {around.now.name}")


def _beyond(facts: OffsetFacts, planned_end: int, life: Life, around: Surroundings) -> Fate:
    """`planned_end`: where the next batch begins."""
    name, behind = around.now.name, facts.offset - planned_end
    if around.left:
        return _at_another_site(facts, planned_end, around)
    if not life.accepted:
        words = f"never read: topic {life.topic_id} was read up to {planned_end:,}, then it was recreated"
        return Fate(kind=NEVER_READ, words=words)
    if around.topic is None:
        words = f"in no batch yet: planned up to {planned_end:,}; whether the record exists could not be asked: "
        return Fate(kind=UNDECIDED, words=words + around.silence, behind=behind)
    if around.topic.is_another(life.topic_id):
        words = f"never read: reading had come to {planned_end:,} when the topic was recreated"
        return Fate(
            kind=NEVER_READ,
            words=f"{words} (it is {around.topic.topic_id} now)",
            next_step=f"tidegate source reset {name} --why '...'",
        )
    offsets = around.topic.partitions.get(facts.partition)
    if offsets is None or facts.offset >= offsets.high_watermark:
        end = 0 if offsets is None else offsets.high_watermark
        return Fate(kind=NO_RECORD, words=f"no such record yet: partition {facts.partition} ends at {end:,}")
    if facts.offset < offsets.log_start:
        words = f"retention has passed it before it was read: the log begins at {offsets.log_start:,} now"
        record = around.now.source.on_data_loss == "record"
        step = "nothing: the next plan records the loss" if record else "see source.on_data_loss: the next plan stops"
        return Fate(kind=LOST, words=words, next_step=step, reason="retention")
    if facts.offset >= offsets.last_stable_offset and around.now.source.isolation == "read_committed":
        words = f"not read yet: an open transaction holds everything from {offsets.last_stable_offset:,} on"
        return Fate(kind=NOT_READ, words=words, next_step="end or abort the producer's transaction", behind=behind)
    words = f"not read yet: {behind:,} behind (planned up to {planned_end:,})"
    return Fate(
        kind=NOT_READ,
        words=words,
        next_step=f"nothing if {name}.ingest is running; see: tidegate status {name}",
        behind=behind,
    )


def _redriven(ids: tuple[int, ...], batch: BatchRow, search: Search) -> str:
    """`dirty in batch 12 (price: 1e999 is no int), redriven by batch 40`"""
    was = search.before
    why = "" if was is None or not was.reason else f" ({was.field + ': ' if was.field else ''}{was.reason})"
    which = f"batch {ids[0]}" if len(ids) == 1 else f"batches {', '.join(map(str, ids))}"
    return f"dirty in {which}{why}, redriven by batch {batch.batch_id}"


# ---------------------------------------------------------------- landed


def _landed(facts: OffsetFacts, life: Life, batch: BatchRow, search: Search, around: Surroundings) -> Fate:
    row = next(r for r in batch.ranges if r.range.partition == facts.partition)  # the range that holds the offset
    if any(facts.offset in gap for gap in row.gaps):
        words = "a gap: no record was delivered here (compaction, an aborted transaction or a control record)"
        return Fate(kind=GAP, words=f"{words}, as {_batch(batch)} found")
    if search.found is not None:
        return _seen(life, batch, search.found, around)
    unwritten = _unwritten(row)
    if search.unread:
        return _unseen(life, batch, search, unwritten, around)
    if unwritten:
        reasons = {
            FILTERED: f"filtered: it {_filter(around.now)}",
            DROPPED: f"dropped: its window was not open when batch {batch.batch_id} was planned "
            f"({_at(batch.planned_ms)}), and late.policy was drop",
        }
        both = "in no file: it was filtered or dropped"
        kind = unwritten[0]
        return Fate(kind=kind, words=f"{reasons[kind] if len(unwritten) == 1 else both} ({_batch(batch)})")
    words = f"{_batch(batch)} read it, but no file has it"
    return Fate(kind=MISSING, words=words, next_step=f"tidegate audit {around.now.name} --deep")


def _filter(pipeline: Pipeline) -> str:
    where = "does not meet the pipeline's `where`"
    if pipeline.format.debezium is None:
        return where
    return "is a tombstone" if pipeline.where is None else f"is a tombstone, or {where}"


def _unwritten(row: RangeRow) -> tuple[str, ...]:
    """Which kinds of the range's records are in no file."""
    if row.balance is None:
        return ()
    return tuple(k for k, n in ((FILTERED, row.balance.filtered), (DROPPED, row.balance.dropped)) if n)


def _seen(life: Life, batch: BatchRow, seen: Sighting, around: Surroundings) -> Fate:
    entry, spec = seen.candidate.entry, around.now
    event = seen.event_ms
    if event is None and entry.min_event_ms is not None and entry.min_event_ms == entry.max_event_ms:
        event = entry.min_event_ms  # all rows of the file have the same
    base = Fate(kind="", words="", event_ms=event, kafka_ms=seen.kafka_ms, window_ms=entry.window_ms, file=seen.uri)
    if entry.kind == DIRTY:
        raw = f": {seen.raw}" if seen.raw else ""
        words = f"dirty: {seen.field + ': ' if seen.field else ''}{seen.reason}{raw}; {_batch(batch)}"
        table = f"{spec.sink.table}__dirty"
        fate = replace(base, kind=DIRTY, reason=seen.reason, field=seen.field, raw=seen.raw, table=table)
        return replace(fate, words=f"{words}, in {table}")
    assert entry.window_ms is not None
    told = f"{_batch(batch)}, {_event(event, entry)}, landed {_at(batch.landed_ms)}"
    if entry.kind == LATE:
        why = late_because(life.floor, entry.window_ms, around.pinned.windows, batch)
        table = f"{spec.sink.table}__late"
        return replace(base, kind=LATE, words=f"late: {why}; {told}, in {table}", reason=why, table=table)
    why = _rerouted(life, batch, event, entry.window_ms, around)
    if why:
        told = f"{why}; it is data of {iso(entry.window_ms)}: {told}"
    return _data(life, seen, replace(base, words=told, reason=why), around)


def _rerouted(life: Life, batch: BatchRow, event: int | None, window_ms: int, around: Surroundings) -> str:
    """Why the row is not in the window of its own event time; "" if it is."""
    windows = around.pinned.windows
    if around.pinned.late_policy != REROUTE or life.floor is None or life.floor.reroute_ms != window_ms:
        return ""
    if event is None:
        n = sum(r.balance.rerouted for r in batch.ranges if r.balance is not None)
        return f"perhaps rerouted, as {many(n, 'row')} of batch {batch.batch_id}" if n else ""
    own = window_start(event, windows)
    return "" if own == window_ms else f"rerouted: {late_because(life.floor, own, windows, batch)}"


def _data(life: Life, seen: Sighting, base: Fate, around: Surroundings) -> Fate:
    if not around.now.windows.closes:
        return _merged(life, base, around)
    window_ms = seen.candidate.entry.window_ms
    assert window_ms is not None
    window = (life.windows or {})[window_ms]
    placed, number = window.placed, seen.candidate.generation
    if placed is not None and placed.state == CURRENT and number == placed.number:
        kind = "" if of_kind(placed.kind).landed else f" ({placed.kind})"
        words = f"{base.words}, published in generation {number}{kind} of {iso(window_ms)}"
        if life.batch is not None and placed.took_up(life.batch.batch_id):
            why = late_because(life.floor, window_ms, around.pinned.windows, life.batch)
            words = f"came late: {why}; {words}, since the window was reopened"
            base = replace(base, reason=why)
        return replace(
            base,
            kind=PUBLISHED,
            words=words,
            table=around.now.sink.table,
            generation=number,
            published_ms=placed.published_ms,
        )
    why, step = _waits(window, around)
    return replace(
        base, kind=WAITING, words=f"{base.words}, waits for its window {iso(window_ms)}: {why}", next_step=step
    )


def _merged(life: Life, base: Fate, around: Surroundings) -> Fate:
    """Of a mirror: an event is merged with its whole batch."""
    name, table, upto = around.now.name, around.now.sink.table, around.merged_upto or 0
    assert life.batch is not None
    if life.batch.batch_id <= upto:
        words = (
            f"{base.words}, merged into {table}, which holds batches 1 to {upto}: the newest event of a key is its row"
        )
        return replace(base, kind=MERGED, words=words, table=table)
    words = f"{base.words}, waits for its merge: {table} holds " + (f"batches 1 to {upto}" if upto else "no batch yet")
    return replace(base, kind=WAITING, words=words, next_step=f"tidegate apply {name}")


def _waits(window: WindowFacts, around: Surroundings) -> tuple[str, str]:
    name = around.now.name
    see = f"tidegate explain {name} {iso(window.window_ms)}"
    if window.row is not None and window.row.blocked:
        why = f"blocked by an alarm: {first_line(window.row.blocked)}"
        return why, unblocking(name, f"window {window_id(window.window_ms)}")
    if window.placed is not None:
        return f"generation {window.placed.number} is {window.placed.state}", see
    if window.first is not None:
        return f"generation 1 is {window.first.state}", see
    if window.row is not None and window.row.state != WindowState.OPEN:
        return f"it is {window.row.state}, and not published yet", see
    certificate = around.certificates.get(window.window_ms)
    if certificate is None:
        return "it is not published yet", see
    return (f"ready: {certificate.reason}; no run has published it" if certificate.ready else certificate.reason), see


def _unseen(life: Life, batch: BatchRow, search: Search, unwritten: tuple[str, ...], around: Surroundings) -> Fate:
    """The fate as far as it is certain where not every candidate could be read."""
    kinds = {(c.entry.kind, c.entry.window_ms, c.generation) for c in search.candidates}
    if len(kinds) == 1 and not unwritten:
        first = search.candidates[0]
        fate = _seen(life, batch, Sighting(first, ""), around)
        file = first.uris[0] if len(search.candidates) == 1 else ""
        return replace(fate, words=f"{fate.words} (by the ledger; its file was not read: {search.unread})", file=file)
    words = sorted({_words_of(c) for c in search.candidates} | set(unwritten))
    return Fate(
        kind=UNDECIDED,
        words=f"{_batch(batch)}, landed {_at(batch.landed_ms)}; one of: {', '.join(words)}. Its file was not read: "
        f"{search.unread}",
        next_step="ask again when the files can be read",
    )


def _words_of(candidate: Candidate) -> str:
    entry = candidate.entry
    if entry.kind == DATA:
        return f"data of {iso(entry.window_ms)}"
    return f"late for {iso(entry.window_ms)}" if entry.kind == LATE else "dirty"


def late_because(floor: Floor | None, window_ms: int, windows: Windows, batch: BatchRow) -> str:
    """Why the window was not open for rows of this batch."""
    end = window_end(window_ms, windows)
    name = f"its window {iso(window_ms)}"
    if floor is not None and end <= floor.low_ms:
        if floor.low_ms > windows.start_ms:
            return f"{name} was older than windows.max_age when batch {batch.batch_id} was planned"
        return f"{name} ended before windows.start {iso(windows.start_ms)}"
    return f"{name} was closing or closed when batch {batch.batch_id} was planned ({_at(batch.planned_ms)})"


def _batch(batch: BatchRow) -> str:
    return f"batch {batch.batch_id}, attempt {batch.epoch}"


def _event(event_ms: int | None, entry: FileEntry) -> str:
    if event_ms is not None:
        return f"event time {iso(event_ms)}"
    return f"event time from {iso(entry.min_event_ms)} to {iso(entry.max_event_ms)}"


def _at(ms: int | None) -> str:
    return "never" if ms is None else iso(ms // 1000 * 1000)
