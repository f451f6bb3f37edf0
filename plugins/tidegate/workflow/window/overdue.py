"""Windows that are due, for people: which, since when, why nothing comes, and the command that fills them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from tidegate.core.audit.stranded import stranded
from tidegate.core.base.instants import iso, span
from tidegate.core.base.wording import many, those
from tidegate.core.look.blocking import next_step, should_be_ready_ms
from tidegate.core.look.survey import SurveyLedger
from tidegate.core.look.views import LATELY_MS
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.window import watermark
from tidegate.core.window.cut import window_start
from tidegate.core.window.due import ArchiveNote, Due, stretches
from tidegate.core.window.due import due as due_without
from tidegate.core.window.forecast import Forecast
from tidegate.core.window.states import WindowKey
from tidegate.core.window.watermark import Certificate, TopicFacts
from tidegate.kinds import source_kind

RANGES_SHOWN = 3
PUBLISHING = 3
"""So many windows within LATELY_MS, and somebody is at work on what is due."""
MAINTAINED_MS = 3_600_000
"""The maintenance DAG looks every ten minutes; so long without a word from it, and it does not run."""


@dataclass(frozen=True)
class Concern:
    """Why a pipeline is not well, and what to do. `kind` is one of core.notices.KINDS, `subject` what it is about."""

    what: str
    advice: str
    kind: str = ""
    subject: str = ""


def due_since(reads: SurveyLedger, dues: Iterable[tuple[Pipeline, Due]]) -> dict[str, int]:
    """By pipeline, of those with a window that is due: when the first batch landed after which the oldest could be
    published (UTC ms)."""
    return _passed_ms(reads, [(pipeline, next(iter(due)).end_ms) for pipeline, due in dues if due])


def late(reads: SurveyLedger, dues: Iterable[tuple[Pipeline, Due]], now_ms: int) -> set[str]:
    """Pipelines whose oldest due window could have been published for longer than `archive.sla`: what `due_since` says
    exactly, by a number of statements that does not grow with batches."""
    oldest = {p.name: (p, next(iter(due)).end_ms) for p, due in dues if due}
    before = {name: now_ms - p.archive.sla_ms - 1 for name, (p, end_ms) in oldest.items()
              if now_ms - end_ms > p.archive.sla_ms}  # fmt: skip
    found = reads.landed_before_each(before) if before else {}
    return {name for name, one in found.items() if _passed(*oldest[name], one.facts)}


def _passed_ms(reads: SurveyLedger, asked: Iterable[tuple[Pipeline, int]]) -> dict[str, int]:
    """By pipeline: when the batch landed that carried the watermark over an instant which it has passed by now. One
    that no batch has landed for is left out. Watermarks only rise, so batches are halved, all pipelines' at once."""
    by_name = {pipeline.name: (pipeline, instant_ms) for pipeline, instant_ms in asked}
    ready = reads.landed_upto_each(dict.fromkeys(by_name)) if by_name else {}
    unready = dict.fromkeys(ready, 0)
    while middles := {n: (unready[n] + x.batch_id) // 2 for n, x in ready.items() if x.batch_id - unready[n] > 1}:
        found = reads.landed_upto_each(middles)
        for name, middle in middles.items():
            one = found.get(name)
            if one is None or one.batch_id <= unready[name] or not _passed(*by_name[name], one.facts):
                unready[name] = middle
            else:
                ready[name] = one
    return {name: one.landed_ms for name, one in ready.items()}


def _passed(pipeline: Pipeline, instant_ms: int, facts: TopicFacts) -> bool:
    low = watermark.global_watermark(watermark.watermarks(pipeline.windows, facts))
    return low is not None and low >= instant_ms


def unready(
    pipeline: Pipeline, reads: SurveyLedger, waits: Certificate, expected: Forecast | None, now_ms: int
) -> list[Concern]:
    """What is to be said of a window that is not ready `archive.sla` after it should have been. `waits` is the oldest
    one that is not ready, `expected` when it will be.

    There is no such time for loads of old data (idle: follow), nor for the first load as long as it comes nearer."""
    windows, window, sla_ms = pipeline.windows, waits.window, pipeline.archive.sla_ms
    if waits.ready or windows.idle == "follow" or should_be_ready_ms(windows, window, 0) + sla_ms >= now_ms:
        return []  # as most are: no need to ask for more
    name = pipeline.name
    newest = reads.landed_upto_each({name: None}).get(name)
    if newest is None:
        return []
    passed = waits.watermark_ms is not None and waits.watermark_ms >= window.start_ms
    if not passed and expected is not None and expected.at_ms is not None:
        return []
    if passed:
        front_ms = _passed_ms(reads, [(pipeline, window.start_ms)]).get(name)
    else:
        front_ms = reads.landed_upto_each({name: 1}).get(name, newest).landed_ms
    late_ms = now_ms - should_be_ready_ms(windows, window, front_ms or 0)
    if late_ms <= sla_ms:
        return []
    advice = next_step(name, windows, waits, source_kind(pipeline.source.kind).remedy)
    quiet_ms = now_ms - newest.landed_ms
    if quiet_ms > sla_ms:
        advice = f"no batch has landed for {span(quiet_ms)}: is {name}.ingest paused, or failing? {advice}"
    what = f"window {iso(window.start_ms)} is not ready {span(late_ms)} after it should have been: {waits.reason}"
    return [Concern(what, advice, "unready_window")]


def ended(due: Due, note: ArchiveNote | None) -> tuple[int, ...]:
    """Windows (starts) that are still due, and whose archive run had ended when maintenance last looked."""
    return tuple(start for start in note.ended if due.holds(start)) if note else ()


def concerns(
    pipeline: Pipeline,
    due: Due,
    since_ms: int | None,
    note: ArchiveNote | None,
    now_ms: int,
    free: Due | None = None,
    waited: str = "",
) -> list[Concern]:
    """What has ended without a publication at once, what nobody publishes once `archive.sla` is over.

    `free`: those of `due` that wait for nothing but a run (None: all), ready since `since_ms`; or `waited` says in
    words for how long, longer than `archive.sla`, the oldest has been ready."""
    name, over = pipeline.name, ended(due, note)
    found = _left_for_good(pipeline, note)
    if over:
        runs = (
            f"the archive runs of {those(len(over), 'window', 'have')}"
            if len(over) > 1
            else "the archive run of a window has"
        )
        found.append(
            Concern(
                f"{runs} ended without a publication: {_instants(over)}",
                f"look at the log of the failed task and mend what it says, then{_clear(name, over, due)}",
                "late_window",
            )
        )
    if since_ms is not None and now_ms - since_ms > pipeline.archive.sla_ms:
        waited = span(now_ms - since_ms)
    free = due if free is None else free
    if waited and free.count > sum(map(free.holds, over)):
        oldest = next(iter(free))
        what = f"{count(free)} ready and not published, the oldest ({iso(oldest.start_ms)}) for {waited}"
        fill = filling(name, free, over)
        found.append(Concern(f"{what}: {ranges(free)}", _remedy(name, fill, note, now_ms), "late_window"))
    return found


def _left_for_good(pipeline: Pipeline, note: ArchiveNote | None) -> list[Concern]:
    """Landed rows that no run will publish, as maintenance found them; looked at again by this host's zone data."""
    starts = note.stranded or () if note is not None else ()
    published = note.published if note is not None else ()
    found = [s for s in (stranded(pipeline.name, pipeline.windows, at, published) for at in starts) if s is not None]
    if not found:
        return []
    others = f" and {many(len(found) - 1, 'other window')}" if len(found) > 1 else ""
    what = f"landed rows of window {iso(found[0].start_ms)}{others} will never be published: {found[0].why}"
    return [Concern(what, found[0].advice, "late_window", f"stranded {found[0].start_ms}")]


def _remedy(name: str, fill: str, note: ArchiveNote | None, now_ms: int) -> str:
    if note is not None and note.paused:
        return f"{name}.archive was paused when last looked at: unpause it, or run: {fill}"
    if note is None or not note.noted_ms or now_ms - note.noted_ms > MAINTAINED_MS:
        return (
            f"{name}.maintain, which makes the missing runs, has not looked for an hour: unpause {name}.archive "
            f"and {name}.maintain, or run: {fill}"
        )
    why = "its runs have failed, wait for slots of the pool, or have not been made yet"
    return f"{name}.archive is not paused: {why}; look at its grid and `tidegate doctor {name}`, or run: {fill}"


def backfill(name: str, first: WindowKey, last: WindowKey) -> str:
    """The command that publishes these windows."""
    return f"airflow dags backfill {name}.archive -s {iso(first.start_ms)} -e {iso(last.start_ms)}"


def filling(name: str, due: Due, over: tuple[int, ...], held: Iterable[int] = ()) -> str:
    """The command that publishes those of `due` that have no run which has ended (`over`) and are not `held`; "" for
    none. A backfill leaves a run that has failed as it is, and begins nothing after it, unless it is told to."""
    left = due_without(due.windows, due.parts, sorted({*over, *held}))
    if not left:
        return ""
    first = next(iter(left))
    *_, (_, last) = left.ranges
    command = backfill(name, first, last)
    if any(first.start_ms < start < last.start_ms for start in over):
        command = command.replace(" backfill ", " backfill --rerun-failed-tasks ", 1)
    return command


def to_fill(name: str, due: Due, over: tuple[int, ...], held: Iterable[int], lately: int) -> str:
    """What helps the due windows, in words; "" for nothing. A backfill would only disturb whoever publishes them now:
    `lately` windows were published in the last minutes."""
    command = filling(name, due, over, held)
    if command and not over and lately >= PUBLISHING:
        return f"being published: {lately:,} in the last {LATELY_MS // 60_000} minutes"
    return f"to fill: {command}" if command else ""


def clear(name: str, first_ms: int, last_ms: int) -> str:
    """The command that has the archive runs of these windows (starts) run again: a backfill leaves runs that have
    failed as they are."""
    return f"airflow tasks clear {name}.archive --yes -s {iso(first_ms)} -e {iso(last_ms)}"


def _clear(name: str, over: tuple[int, ...], due: Due) -> str:
    """Range by range: whatever lies between is published, and clearing it would verify all of it."""
    parts = list(stretches(due.windows, over))
    command = clear(name, parts[0].start, window_start(parts[0].end - 1, due.windows))
    return (
        f": {command}"
        if len(parts) == 1
        else f", and likewise for the {many(len(parts) - 1, 'other range')}: {command}"
    )


def count(due: Due) -> str:
    """`1 window is`, `12 windows are`."""
    return those(due.count, "window")


def ranges(due: Due) -> str:
    """First and last window of each part: `2026-11-20T04:00Z .. 15:00Z, 2026-11-21T02:00Z`."""
    parts = list(due.ranges)
    shown = [_range(first.start_ms, last.start_ms) for first, last in parts[:RANGES_SHOWN]]
    if len(parts) > RANGES_SHOWN:
        last = _range(parts[-1][0].start_ms, parts[-1][1].start_ms)
        shown.append(f"and {many(len(parts) - RANGES_SHOWN, 'more range')}, the last {last}")
    return ", ".join(shown)


def _range(first_ms: int, last_ms: int) -> str:
    first, last = iso(first_ms), iso(last_ms)
    if first == last:
        return first
    return f"{first} .. {last.partition('T')[2] if first[:10] == last[:10] else last}"


def _instants(starts: tuple[int, ...]) -> str:
    return ", ".join(islice(map(iso, starts), RANGES_SHOWN)) + (", ..." if len(starts) > RANGES_SHOWN else "")


def plain(due: Due) -> list[dict[str, int]]:
    """For JSON."""
    return [
        {"first_ms": first.start_ms, "last_ms": last.start_ms, "windows": Due(due.windows, (part,)).count}
        for part, (first, last) in zip(due.parts, due.ranges, strict=True)
    ]
