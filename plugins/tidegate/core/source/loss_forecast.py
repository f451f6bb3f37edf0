"""When Kafka's retention passes records that have not been read: a forecast for each Kafka partition.

Times are UTC ms, durations ms, offsets exclusive ends, sizes bytes. `now` is the control plane's clock; the broker's
own may differ by a little, and so does the forecast.

**Position.** A partition's next offset `N` is where reading goes on: a batch counts as read from SEALED on, so the
ranges of one that is planned or being written are still at risk. The position in time `U` is the Kafka timestamp up to
which the partition has been read: the largest one of the newest batch's range; the clock of its plan where it found
nothing new; for an open transaction the clock of the plan that met it first. A timestamp ahead of the plan's clock
counts as that clock. So records are taken to be written in about the order of their timestamps, and those that came
after a look at the end of the log to be as old when written as the newest one that was read then.

**By time** (`retention.ms` = R). Kafka deletes a segment once the largest timestamp in it is older than R: a record
lives at least until its timestamp + R, and up to a segment's span and a check's interval longer.

    slack S    = U + R - now                 ms until the next unread record may go if reading stopped now
    pace  v    = (U' - U0) / (t' - t0)       record time read per clock time, see below
    at pace    = S / (1 - v)  if v < 1       else never: the distance to the frontier does not shrink

**By bytes** (`retention.bytes` = B, for each partition). Kafka keeps at least B bytes and at most one segment more. How
many offsets K are at least kept is not known exactly, because batches are compressed; each of these is a lower bound:

    (log end - log start) * B / (B + segment.bytes)     what the log is seen to hold
    B / (bytes per record + 70)                         keys and values as read, 70 for what Kafka adds at most
    at pace    = (K - (log end - N)) / (w - r)  if w > r, else never;   reading stopped: r = 0
    w, r       = offsets written, and read, per ms

**Pace** is between two landed batches: the newest one, t', and the newest before it that had landed an hour ago (the
oldest, if all are younger), t0. When the newest is overdue (twice the usual interval, and an hour or a quarter of R)
the time up to now counts too, so that a pipeline that stands still has the pace 0. A partition that the newest batch
read to its end keeps up, whatever v says, unless that batch is overdue; so does one that was read up to a transaction
which has been open for less than an hour or a quarter of R.

The limits act side by side: the earlier one counts. Where nothing is unread, nothing is at risk, but the time until
retention would reach the next record that is written is still there (`stopped_ms`). Both numbers err towards too early.
Compaction is not retention: what it removes has been superseded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import inf

from tidegate.core.source.port import Lane, LogState
from tidegate.core.source.progress import BatchLook, Progress

HOUR_MS = 3_600_000
HORIZON_MS = HOUR_MS
FAR_MS = 365 * 24 * HOUR_MS
"""A forecast beyond it is `never`: it rests on an hour."""
RECORD_OVERHEAD = 70
"""Bytes that Kafka adds to a record at most: a batch of its own."""
SEGMENT_BYTES = 1024**3

NEVER, AHEAD, PASSING, UNKNOWN = "never", "ahead", "passing", "unknown"


@dataclass(frozen=True, kw_only=True)
class LossForecast:
    """`state`: never | ahead (in `at_pace_ms`) | passing (the next unread records may be deleted at any moment, or are
    gone) | unknown (`reason` says why).

    `stopped_ms`: until the next unread or new record may be deleted if reading stopped now; None: never, or unknown.
    `room_ms`: the same if nothing were unread. `limit`: time | bytes, which of the two acts first; empty if none does,
    or if that is not known. `behind_ms` is now - U, `unread` counts offsets. `held`: an open transaction holds all back
    that is unread."""

    partition: int
    state: str
    at_pace_ms: int | None = None
    stopped_ms: int | None = None
    room_ms: int | None = None
    limit: str = ""
    behind_ms: int | None = None
    unread: int = 0
    reason: str = ""
    held: bool = False


@dataclass(frozen=True)
class _Limit:
    """One kind of retention in ms; inf: never, None: unknown, `why`."""

    name: str
    at_pace: float | None
    stopped: float | None
    room: float | None
    why: str = ""


_NONE = _Limit("", inf, inf, inf)
"""Nothing is ever deleted by it."""


@dataclass(frozen=True)
class _Case:
    """One partition at one instant."""

    number: int
    offsets: Lane
    topic: LogState
    progress: Progress
    now_ms: int

    @property
    def next(self) -> int:
        return self.progress.next_offset(self.number, self.offsets.log_start)

    @property
    def unread(self) -> int:
        return max(0, self.offsets.high_watermark - self.next)

    @property
    def held(self) -> bool:
        return bool(self.unread) and self.next >= self.offsets.last_stable_offset

    @property
    def position_ms(self) -> int | None:
        """U; a partition that the newest batch did not know has been made since."""
        read = self.progress.read
        if not self.unread:
            return self.now_ms
        if read is None:
            return None
        found = read.position_ms(self.number) if self.number in read.partitions else read.clock_ms
        return None if found is None else min(found, self.now_ms)

    @property
    def overdue(self) -> bool:
        """Whether no batch has landed for longer than usual."""
        landed, base = self.progress.landed, self.progress.base
        if landed is None or landed.landed_ms is None:
            return True
        usual = 0.0
        if base is not None and base.landed_ms is not None:
            usual = (landed.landed_ms - base.landed_ms) / max(1, landed.batch_id - base.batch_id)
        return self.now_ms - landed.landed_ms > max(2 * usual, self.patience_ms)

    @property
    def patience_ms(self) -> float:
        return HORIZON_MS if self.topic.retention_ms is None else min(HORIZON_MS, self.topic.retention_ms / 4)

    @property
    def keeps_up(self) -> bool:
        """Nothing is unread, or only what came after the newest batch, which is not overdue; or what a transaction
        holds back that is as young."""
        landed = self.progress.landed
        look = None if landed is None else landed.partitions.get(self.number)
        if not self.unread:
            return True
        if look is None:  # a partition that has been made since
            return landed is not None and not self.overdue
        since = look.open_transaction_since_ms
        young = look.to_a_transaction and since is not None and self.now_ms - since <= self.patience_ms
        return (look.to_the_end or young) and not self.overdue

    def pace(self, reached: Callable[[BatchLook], int | None]) -> float | None:
        """What the landed batches have `reached`, per ms between them; never below 0: a producer that goes back in time
        does not make reading go back. None where that takes two batches, or they met nothing of this partition."""
        landed, base = self.progress.landed, self.progress.base
        if landed is None or base is None or landed.landed_ms is None or base.landed_ms is None:
            return 0.0 if self.overdue and landed is not None else None
        now, then = reached(landed), reached(base)
        end = self.now_ms if self.overdue else landed.landed_ms
        return None if now is None or then is None else max(0.0, (now - then) / max(1, end - base.landed_ms))


def forecast(topic: LogState, progress: Progress, now_ms: int) -> tuple[LossForecast, ...]:
    """One for each Kafka partition that the broker has, in order."""
    return tuple(_partition(_Case(p, o, topic, progress, now_ms)) for p, o in sorted(topic.partitions.items()))


def _partition(case: _Case) -> LossForecast:
    progress, offsets = case.progress, case.offsets
    answer = partial(LossForecast, partition=case.number, unread=case.unread)
    if progress.newest is None:
        return answer(state=UNKNOWN, reason="no batch has been planned yet")
    if progress.topic_id != case.topic.topic_id:
        return answer(state=UNKNOWN, reason="the topic was recreated: its offsets are not the ledger's", unread=0)
    if offsets.log_start > case.next:
        gone = f"offsets [{case.next}, {offsets.log_start}) are gone already"
        return answer(state=PASSING, at_pace_ms=0, stopped_ms=0, reason=gone)
    if not case.topic.traits.expires:
        return answer(state=NEVER, reason="this kind of source forgets nothing")
    if case.topic.deletes is False:
        return answer(state=NEVER, reason="the topic is compacted, nothing is deleted")
    if case.topic.deletes is None:
        return answer(state=UNKNOWN, reason="the topic's settings may not be read")
    behind = None if case.position_ms is None else case.now_ms - case.position_ms
    return _earlier(case, [_by_time(case), _by_bytes(case)], behind)


def _earlier(case: _Case, limits: list[_Limit], behind: int | None) -> LossForecast:
    """The limit that acts first; one that is not known matters where the other never acts."""
    known = [x for x in limits if x.at_pace is not None]
    first = min(known, key=lambda x: (x.at_pace, inf if x.stopped is None else x.stopped), default=None)
    doubts = [x.why for x in limits if x.at_pace is None]
    found = LossForecast(
        partition=case.number,
        state=UNKNOWN,
        stopped_ms=_least([x.stopped for x in limits]),
        room_ms=_least([x.room for x in limits]),
        behind_ms=behind,
        unread=case.unread,
        held=case.held,
    )
    if first is None or (doubts and first.at_pace == inf):
        return replace(found, reason="; ".join(doubts))
    assert first.at_pace is not None
    if first.at_pace <= 0:
        return replace(found, state=PASSING, at_pace_ms=0, limit=first.name, reason=first.why)
    if first.at_pace > FAR_MS:
        return replace(found, state=NEVER, limit=first.name, reason=first.why)
    return replace(found, state=AHEAD, at_pace_ms=int(first.at_pace), limit=first.name)


def _least(values: list[float | None]) -> int | None:
    """None: never, or one of them is not known."""
    known = [v for v in values if v is not None]
    return None if len(known) < len(values) or min(known) == inf else int(min(known))


def _by_time(case: _Case) -> _Limit:
    retention, position = case.topic.retention_ms, case.position_ms
    if retention is None:
        return _NONE
    if position is None:
        return _Limit("time", inf if case.keeps_up else None, None, None, _no_position(case))
    slack = max(0, position + retention - case.now_ms)
    if slack == 0:
        return _Limit("time", 0, 0, retention, "the next unread records are older than retention.ms")
    if case.keeps_up:
        return _Limit("time", inf, slack, retention)
    pace = case.pace(lambda batch: batch.position_ms(case.number))
    if pace is None:
        return _Limit("time", None, slack, retention, "the pace takes two landed batches that read this partition")
    return _Limit("time", inf if pace >= 1 else slack / (1 - pace), slack, retention)


def _no_position(case: _Case) -> str:
    if case.progress.read is None:
        return "no batch has landed yet"
    return "the newest batch has no Kafka timestamp of this partition"


def _by_bytes(case: _Case) -> _Limit:
    if case.topic.retention_bytes is None:
        return _NONE
    kept = _kept_offsets(case, case.topic.retention_bytes)
    written = _write_rate(case)
    if written == 0:
        return _NONE
    if kept is None or written is None:
        why = "how many records retention.bytes holds is not known" if kept is None else "no batch has landed yet"
        return _Limit("bytes", inf if case.keeps_up else None, None, None, why)
    left = max(0.0, kept - case.unread)
    if left == 0:
        why = "more is unread than retention.bytes surely holds"
        return _Limit("bytes", 0, 0, kept / written, why)
    if case.keeps_up:
        return _Limit("bytes", inf, left / written, kept / written)
    read = case.pace(lambda batch: batch.partitions[case.number].end if case.number in batch.partitions else None)
    if read is None:
        why = "the pace takes two landed batches that met this partition"
        return _Limit("bytes", None, left / written, kept / written, why)
    return _Limit("bytes", inf if read >= written else left / (written - read), left / written, kept / written)


def _kept_offsets(case: _Case, limit: int) -> float | None:
    """K: at least so many offsets before the log's end are kept."""
    held = case.offsets.high_watermark - case.offsets.log_start
    segment = SEGMENT_BYTES if case.topic.segment_bytes is None else case.topic.segment_bytes
    seen = held * limit / (limit + segment)
    for batch in (case.progress.read, case.progress.base):
        look = None if batch is None else batch.partitions.get(case.number)
        if look is not None and look.read and look.bytes:
            return max(seen, limit / (look.bytes / look.read + RECORD_OVERHEAD))
    return seen if case.offsets.log_start else None  # a log that has never been cut may hold far more


def _write_rate(case: _Case) -> float | None:
    """w: offsets per ms since the batch that the pace is measured from."""
    for batch in (case.progress.base, case.progress.landed):
        look = None if batch is None else batch.partitions.get(case.number)
        if batch is not None and look is not None:
            return max(0, case.offsets.high_watermark - look.high_watermark) / max(1, case.now_ms - batch.clock_ms)
    return None
