"""When the forecast of losses is a warning (`source.loss_warning`), how loud it is, and its words."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from tidegate.core.base.instants import span
from tidegate.core.source.loss_forecast import AHEAD, NEVER, PASSING, UNKNOWN, LossForecast, forecast
from tidegate.core.source.port import LogState
from tidegate.core.source.progress import Progress
from tidegate.core.source.trouble import Remedy, Trouble, What

OK, WARN, CRITICAL, OFF = "ok", "warn", "critical", "off"
_LOUDEST = (CRITICAL, WARN, UNKNOWN, OK, OFF)


@dataclass(frozen=True)
class TimeToLoss:
    """`level` is that of the loudest partition: ok | warn | critical | unknown | off. `partitions` in order.

    `retention_ms` and `retention_bytes` are the topic's; None: unlimited, or not known."""

    level: str
    partitions: tuple[LossForecast, ...]
    warning_ms: int | None
    retention_ms: int | None
    retention_bytes: int | None

    @property
    def first(self) -> LossForecast | None:
        """The partition to look at first: what passes, what passes soonest, what is not known."""
        rank = {PASSING: 0, AHEAD: 1, UNKNOWN: 2, NEVER: 3}

        def order(f: LossForecast) -> tuple[int, int, float, float, int]:
            at, stopped = f.at_pace_ms, f.stopped_ms
            loud = _LOUDEST.index(level(f, self.warning_ms))
            return loud, rank[f.state], inf if at is None else at, inf if stopped is None else stopped, f.partition

        return min(self.partitions, key=order, default=None)

    @property
    def at_pace_ms(self) -> int | None:
        """Time until the first loss at the present pace; 0 while one is under way; None: never, or not known."""
        return min((f.at_pace_ms for f in self.partitions if f.at_pace_ms is not None), default=None)

    @property
    def stopped_ms(self) -> int | None:
        """The same if reading stopped now."""
        return min((f.stopped_ms for f in self.partitions if f.stopped_ms is not None), default=None)


def time_to_loss(topic: LogState, progress: Progress, now_ms: int, warning_ms: int | None) -> TimeToLoss:
    """The forecast for all partitions; `warning_ms` is `source.loss_warning`."""
    found = forecast(topic, progress, now_ms)
    levels = [level(f, warning_ms) for f in found] or [OK if warning_ms is not None else OFF]
    loudest = min(levels, key=_LOUDEST.index)
    return TimeToLoss(loudest, found, warning_ms, topic.retention_ms, topic.retention_bytes)


def level(found: LossForecast, warning_ms: int | None) -> str:
    """critical: unread records may be deleted now, or at this pace within a quarter of `warning_ms`. warn: at this pace
    within `warning_ms`; or, if reading stopped, within `warning_ms` and a tenth of all the room that there is. Else ok,
    or unknown. off: `warning_ms` is None, no warning is wanted."""
    if warning_ms is None:
        return OFF
    if found.state == PASSING or (found.at_pace_ms is not None and found.at_pace_ms <= warning_ms / 4):
        return CRITICAL
    if found.at_pace_ms is not None and found.at_pace_ms <= warning_ms:
        return WARN
    if found.unread and found.stopped_ms is not None and found.room_ms is not None:
        near = found.stopped_ms <= min(warning_ms, found.room_ms / 10)
        if near:
            return WARN
    return UNKNOWN if found.state == UNKNOWN else OK


# ---------------------------------------------------------------- words


def sentence(loss: TimeToLoss) -> str:
    """`partition 3 loses unread records in about 5 h at the present pace (retention 7 days, 6.8 days behind); ...`"""
    first = loss.first
    if first is None:
        return "the topic has no partitions"
    return f"{_what(first)}{_why(loss, first)}{_if_stopped(first, loss.stopped_ms)}"


def short(loss: TimeToLoss) -> str:
    """A few letters for a table: `5.0 h`, `now`, `-` (never), `?` (not known)."""
    if loss.at_pace_ms is not None:
        return "now" if loss.at_pace_ms == 0 else span(loss.at_pace_ms)
    return "?" if any(f.state == UNKNOWN for f in loss.partitions) else "-"


def remedy(loss: TimeToLoss, topic: str, pipeline: str, source: Remedy) -> str:
    """What to do, in the order of what helps soonest. Which limit took lost records is unknown: it was the only
    one that there is, if there is but one."""
    limit = loss.first.limit if loss.first is not None else ""
    if not limit and loss.retention_ms is None and loss.retention_bytes is not None:
        limit = "bytes"
    then = (
        f"read faster: clear failed {pipeline}.ingest runs, unpause the DAG, raise ingest.max_records or Spark's cores"
    )
    if loss.first is not None and loss.first.held:
        ended = source(Trouble(What.TRANSACTION, topic))
        then = f"end the transaction that is open in partition {loss.first.partition}: {ended}"
    return f"first {source(Trouble(What.EXPIRES, topic, limit or 'time'))}; then {then}"


def _what(f: LossForecast) -> str:
    who = f"partition {f.partition}"
    if f.state == PASSING:
        return f"{who} is losing records: {f.reason}"
    if f.state == AHEAD and f.at_pace_ms is not None:
        return f"{who} loses unread records in about {span(f.at_pace_ms)} at the present pace"
    if f.state == UNKNOWN:
        return f"not known for {who}: {f.reason}"
    return "nothing is lost at the present pace" + (f": {f.reason}" if f.reason else "")


def _why(loss: TimeToLoss, f: LossForecast) -> str:
    facts = []
    if loss.retention_ms is not None:
        facts.append(f"retention {span(loss.retention_ms)}")
    if loss.retention_bytes is not None:
        facts.append(f"retention {loss.retention_bytes:,} bytes a partition")
    if f.unread and f.behind_ms is not None:
        facts.append(f"{span(f.behind_ms)} behind")
    if f.unread:
        facts.append(f"{f.unread:,} unread")
    return f" ({', '.join(facts)})" if facts else ""


def _if_stopped(f: LossForecast, stopped_ms: int | None) -> str:
    if stopped_ms is None or f.state == PASSING:
        return ""
    return f"; if reading stopped now, the first loss is {span(stopped_ms)} away"
