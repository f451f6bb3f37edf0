"""Windows that are due, for people: which, since when, why nothing comes, and the command that fills them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from tidegate.core.base.instants import MINUTE_MS, iso, span
from tidegate.core.base.wording import many, those
from tidegate.core.look.survey import LATELY_MS
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.window.cut import window_start
from tidegate.core.window.due import ArchiveNote, Due, stretches
from tidegate.core.window.due import due as due_without
from tidegate.core.window.kinds import command_of
from tidegate.core.window.states import GenerationKind, WindowKey
from tidegate.core.window.stranded import stranded

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


@dataclass(frozen=True)
class Since:
    """An instant (UTC ms); not `exact`: that late at the latest."""

    ms: int
    exact: bool = True

    def words(self, now_ms: int) -> str:
        """How long ago."""
        return f"{'' if self.exact else 'more than '}{span(now_ms - self.ms)}"


def ended(due: Due, note: ArchiveNote | None) -> tuple[int, ...]:
    """Windows (starts) that are still due, and whose archive run had ended when maintenance last looked."""
    return tuple(start for start in note.ended if due.holds(start)) if note else ()


def concerns(
    pipeline: Pipeline, due: Due, free: Due, since: Since | None, note: ArchiveNote | None, now_ms: int
) -> list[Concern]:
    """What has ended without a publication at once, what no run publishes once `archive.sla` is over.

    `free`: those of `due` that wait for nothing but a run, ready since `since`."""
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
                f"look at the log of the failed task and fix what it says, then{_clear(name, over, due)}",
                "late_window",
            )
        )
    waits = since is not None and now_ms - since.ms > pipeline.archive.sla_ms
    if since is not None and waits and free.count > sum(map(free.holds, over)):
        oldest = iso(next(iter(free)).start_ms)
        what = f"{count(free)} ready and not published, the oldest ({oldest}) for {since.words(now_ms)}"
        fill = filling(name, free, over)
        found.append(Concern(f"{what}: {ranges(free)}{in_turn(due)}", _remedy(name, fill, note, now_ms), "late_window"))
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


def run(name: str, note: ArchiveNote | None, key: WindowKey) -> str:
    """What has one window published, by what maintenance has seen of its archive run: a backfill leaves one that has
    failed as it is."""
    command = backfill(name, key, key)
    if note is not None and key.start_ms in note.ended:
        again = clear(name, key.start_ms, key.start_ms)
        return f"look at the log of the failed task of its archive run and fix what it says, then: {again}"
    if note is not None and note.paused:
        return f"{name}.archive was paused when last looked at: unpause it, or run: {command}"
    return command


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


def to_fill(
    name: str, due: Due, over: tuple[int, ...], held: Iterable[int], lately: int, just_now: bool = False
) -> str:
    """What helps the due windows, in words; "" for nothing. A backfill would only disturb the run that publishes them
    now: `lately` windows were published in the last minutes; or the oldest became due `just_now`."""
    command = filling(name, due, over, held)
    if command and not over and lately >= PUBLISHING:
        return f"being published: {lately:,} in the last {LATELY_MS // MINUTE_MS} minutes"
    fill = f"to fill: {command}" if command else ""
    return by_itself(fill) if fill and not over and just_now else fill


def by_itself(otherwise: str) -> str:
    """What to do about windows that became due just now."""
    return f"nothing yet, runs begin by themselves; if none has in {LATELY_MS // MINUTE_MS} minutes, {otherwise}"


def just_now(since_ms: int | None, note: ArchiveNote | None, now_ms: int) -> bool:
    """Whether windows that are due since then are still waiting for nothing but their runs' next look."""
    return since_ms is not None and now_ms - since_ms < LATELY_MS and (note is None or not note.paused)


def clear(name: str, first_ms: int, last_ms: int) -> str:
    """The command that has the archive runs of these windows (starts) run again: a backfill leaves runs that have
    failed as they are."""
    return f"airflow tasks clear {name}.archive --yes -s {iso(first_ms)} -e {iso(last_ms)}"


def finishing(name: str, start_ms: int, kind: GenerationKind) -> str:
    """The command, for the window that starts then (UTC ms): who began a generation finishes it; the archive run
    finishes a heal, and has run before."""
    return command_of(kind, name, start_ms) or clear(name, start_ms, start_ms)


def _clear(name: str, over: tuple[int, ...], due: Due) -> str:
    """Commands range by range: the windows between are published, and clearing would verify them all."""
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


def in_turn(due: Due) -> str:
    """What to add where later windows wait for the oldest of them, whatever else holds them."""
    return "; each waits for the one before it" if due.windows.follows and due.count > 1 else ""


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
    """Ranges for JSON."""
    return [
        {"first_ms": first.start_ms, "last_ms": last.start_ms, "windows": Due(due.windows, (part,)).count}
        for part, (first, last) in zip(due.parts, due.ranges, strict=True)
    ]
