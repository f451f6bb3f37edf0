"""What to do about a Kafka partition that holds a window, and what is odd about a topic as a whole."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.core.base.instants import iso, span
from tidegate.core.source.trouble import Remedy, Trouble, What
from tidegate.core.spec.pipeline import Windows
from tidegate.core.tell.pauses import Pause
from tidegate.core.window.readiness import Certificate
from tidegate.core.window.states import WindowKey
from tidegate.core.window.watermark import Held, PartitionWatermark, TopicFacts, lag_ms, watermarks

YOUNG_MS = 15 * 60_000
"""Kafka ends a transaction once its producer's time-out is over; brokers allow none that is longer, by default."""


def next_step(pipeline: str, windows: Windows, certificate: Certificate, source: Remedy) -> str:
    """What helps against the first partition that blocks, one that nothing heals by itself before the others."""
    blocking = [m for m in certificate.partitions if m.partition in set(certificate.blockers)]
    now_ms = certificate.decided_ms
    stuck = [m for m in blocking if _stays(windows, m, now_ms)]
    if not blocking:
        return f"look at the runs of {pipeline}.ingest"
    return _advice(pipeline, windows, (stuck or blocking)[0], now_ms, source)


def unread_step(
    pipeline: str, certificate: Certificate, unread: Mapping[int, int], pause: Pause | None, scheduled: bool,
    landed_ms: int | None,
) -> str:  # fmt: skip
    """What reads the records that wait in a partition that blocks and that no batch has planned; "" for none."""
    waiting = {p: unread[p] for p in certificate.blockers if unread.get(p)}
    if not waiting:
        return ""
    now_ms = certificate.decided_ms
    where = ", ".join(map(str, sorted(waiting)))
    said = f"records wait: {sum(waiting.values()):,} in partition{'s' if len(waiting) > 1 else ''} {where}"
    if pause is not None and pause.covers("ingest", now_ms):
        return f"{said}; {pipeline}.ingest is {pause.words()}; to go on: tidegate unpause {pipeline} --only ingest"
    if not scheduled:
        return f"{said}; {pipeline}.ingest has no schedule: airflow dags trigger {pipeline}.ingest"
    quiet = "" if landed_ms is None else f"; no batch has landed for {span(max(0, now_ms - landed_ms))}"
    return f"{said}; the next run of {pipeline}.ingest reads them{quiet}: is it paused, or failing? Look at its runs"


def should_be_ready_ms(windows: Windows, window: WindowKey, front_ms: int) -> int:
    """The time by which a window should be ready (UTC ms): its end and `watermark_delay`, or when those before it were
    (`front_ms`), if they were late themselves; where the clock closes windows of a silent topic, `topic_silence` later.

    It goes by nothing that changes while the window waits: what was late does not cease to be."""
    return max(window.end_ms + windows.watermark_delay_ms, front_ms) + silence_ms(windows)


def silence_ms(windows: Windows) -> int:
    """How much later a window is ready if its topic is silent and the clock closes it."""
    return windows.topic_silence_ms if windows.idle == "clock" and windows.on_silence == "close" else 0


def _stays(windows: Windows, mark: PartitionWatermark, now_ms: int) -> bool:
    if mark.open_transaction_since_ms is not None:
        return not _young(mark, now_ms)
    if not mark.drained:
        return False
    alone = mark.held == Held.ALONE and windows.on_silence == "hold"
    return windows.idle == "wait" or mark.held == Held.LAG or alone


def _young(mark: PartitionWatermark, now_ms: int) -> bool:
    since_ms = mark.open_transaction_since_ms
    return since_ms is not None and now_ms - since_ms < YOUNG_MS


def _advice(pipeline: str, windows: Windows, mark: PartitionWatermark, now_ms: int, source: Remedy) -> str:
    who = f"partition {mark.partition}"
    if _young(mark, now_ms):
        return f"nothing yet: {source(Trouble(What.YOUNG_TRANSACTION, within=span(YOUNG_MS)))}"
    if mark.open_transaction_since_ms is not None:
        ended = source(Trouble(What.TRANSACTION))
        return f"commit or abort the transaction that is open in {who}: {ended}"
    if not mark.drained:
        return f"nothing if {pipeline}.ingest is running: it still has to read {who} to its end"
    if windows.idle == "wait":
        return (
            f"{who} needs a later record; if it is to stay quiet, windows.idle: clock (a live topic) or follow (a load "
            "of old data) lets another time stand in"
        )
    if windows.idle == "follow":
        return "nothing if more is to come: a later record in any partition helps; if the load is over, it is complete"
    if mark.held == Held.LAG:
        return (
            "windows.idle: follow for a load of old data; for a live topic that is always so far behind, a longer "
            "windows.idle_max_lag, or null"
        )
    if mark.held == Held.BEHIND:
        return f"nothing: {who} counts as idle once it has been quiet for {span(windows.topic_silence_ms)}"
    alive = "nothing if later records are to come; is the producer alive?"
    silence = span(windows.topic_silence_ms)
    if windows.on_silence == "close":
        return f"{alive} Once the topic has been silent for {silence} the clock closes windows (on_silence: close)"
    return (
        f"{alive} windows.on_silence: close lets the clock close windows once the topic has been silent for {silence}"
    )


def oddities(windows: Windows, facts: TopicFacts, now_ms: int, unread: int | None) -> list[tuple[str, str]]:
    """(what, what to do) about a topic whose windows hold though it is read to its end. `unread` records wait in Kafka;
    None: the source was not asked."""
    marks = watermarks(windows, facts)
    if windows.idle != "clock" or not marks or not all(m.drained for m in marks):
        return []
    if any(m.held == Held.LAG for m in marks):
        lag = lag_ms(facts)
        how_old = "no event time was read" if lag is None else f"the newest event was {span(lag)} old when it was read"
        return [
            (
                f"{how_old}: windows.idle: clock does not stand in for idle partitions, and windows hold",
                "windows.idle: follow for a load of old data; a longer windows.idle_max_lag, or null, if the topic is "
                "always so far behind",
            )
        ]
    advanced = max((p.advanced_ms for p in facts.partitions if p.advanced_ms is not None), default=None)
    if windows.on_silence == "hold" and unread == 0 and advanced is not None:
        quiet = now_ms - advanced
        if quiet >= windows.topic_silence_ms:
            return [
                (
                    f"the topic has been silent since {iso(advanced // 1000 * 1000)}, for {span(quiet)}: windows hold",
                    "are the producers alive? windows.on_silence: close lets the clock close windows of a silent topic",
                )
            ]
    return []
