"""Output of `tidegate backfill`: a bar in a terminal, lines elsewhere, and a summary of what is left."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from tidegate.cli.output import progress
from tidegate.core.base.instants import iso
from tidegate.core.publish.backfill import by_catch_up
from tidegate.core.publish.catchup import SAY_EVERY, pace

if TYPE_CHECKING:
    from tidegate.airflow.backfill.range_runs import RangeRuns
    from tidegate.workflow.publish.backfill import Asked, Line, Progress

NAMED = 10
Show = Callable[["Progress", str], None]


@contextmanager
def shown(dag_id: str, asked: Asked) -> Iterator[Show]:
    """A function to call after each look, with what hinders the work."""
    if sys.__stderr__ is not None and sys.__stderr__.isatty():
        with _bar(dag_id, len(asked.keys)) as show:
            yield show
    else:
        yield _lines(asked)


@contextmanager
def _bar(dag_id: str, total: int) -> Iterator[Show]:
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Bar(*columns, TextColumn("{task.fields[now]}"), console=Console(file=sys.__stderr__)) as bar:
        task, speed = bar.add_task(dag_id, total=total, now=""), _Pace()

        def show(found: Progress, hindrance: str) -> None:
            counts = found.counts
            now = [
                f"{counts[word]} {word}"
                for word in ("working", "failed", "not ready", "not published")
                if word in counts
            ]
            now_done = counts.get("done", 0)
            bar.update(task, completed=now_done, now=hindrance or ", ".join(now) + speed.words(found))

        yield show


def _lines(asked: Asked) -> Show:
    """Print a line for each window that has changed, and for each new hindrance."""
    before: dict[int, str] = {}
    said, speed = [""], _Pace()

    def show(found: Progress, hindrance: str) -> None:
        done = found.counts.get("done", 0)
        for line in found.lines:
            start = line.key.start_ms
            changed = line.verdict != before.get(start, "done")  # windows done at the first look are no news
            if changed and line.verdict in ("done", "working", "failed"):
                progress(f"{iso(start)} {_word(line, asked)} ({done:,} of {len(found.lines):,} done)")
            before[start] = line.verdict
        if speed.due(found):
            progress(f"{done:,} of {len(found.lines):,} done{speed.words(found)}")
        if hindrance and hindrance != said[0]:
            progress(hindrance)
        said[0] = hindrance

    return show


class _Pace:
    """Speed of the work since the first look."""

    def __init__(self) -> None:
        self._began, self._first, self._said = time.monotonic(), -1, 0

    def due(self, found: Progress) -> bool:
        """Whether enough windows have been finished since the last line for another one."""
        self.words(found)
        done = found.counts.get("done", 0) - self._first
        if done - self._said < SAY_EVERY:
            return False
        self._said = done
        return True

    def words(self, found: Progress) -> str:
        """`, 130 a minute, about 6 minutes left`."""
        done = found.counts.get("done", 0)
        if self._first < 0:
            self._first = done
        return pace(done - self._first, found.counts.get("working", 0), time.monotonic() - self._began)


def _word(line: Line, asked: Asked) -> str:
    if line.verdict == "done":
        return "published" if asked.mark is None else "rebuilt"
    return {"working": "is being worked on", "failed": "FAILED"}[line.verdict]


def dry_lines(found: Progress, asked: Asked) -> Iterator[str]:
    """A line for each window."""
    done = "published" if asked.mark is None else "rebuilt by the replay that continues"
    words = {
        "done": f"{done}: left alone",
        "working": "has a run at work: would wait for it",
        "clear": "has a run that has ended: would clear it",
        "create": "has no run: would create one",
        "not ready": "is not ready: the watermark has not passed its end",
        "not published": "is not published: nothing to rebuild",
    }
    if asked.may_catch_up and by_catch_up(line.verdict for line in found.lines):
        words["create"] = "has no run: the catch_up task of its maintenance DAG would publish it"
    for line in found.lines:
        run = f" ({line.run.run_id})" if line.run is not None and line.verdict in ("working", "clear") else ""
        yield f"{iso(line.key.start_ms)} {words[line.verdict]}{run}"


def summary(found: Progress, asked: Asked, name: str, runs: RangeRuns) -> Iterator[str]:
    """Say how many are done, and why the others are not, with what to do."""
    what = "published" if asked.mark is None else "rebuilt"
    yield f"{found.counts.get('done', 0):,} of {len(found.lines):,} windows are {what}"
    yield from _left(found, "failed", "failed")
    for run_id in [line.run.run_id for line in found.lines if line.verdict == "failed" and line.run][:1]:
        tasks = ", ".join(runs.failed_tasks(run_id)) or "none of its tasks"
        yield f"  what to do: read the log of {runs.dag_id}, run {run_id} (failed: {tasks}); fix it, run this again"
    yield from _left(found, "not ready", "not ready: the watermark has not passed their ends")
    if found.counts.get("not ready"):
        yield f"  what to do: tidegate status {name} says what holds it; or run this again with --wait 2h"
    yield from _left(found, "not published", "not published: there is nothing to rebuild")
    if found.counts.get("not published"):
        yield "  what to do: the same command without --replay publishes them"
    yield from _left(found, "working", "still being worked on")
    for verdict in ("clear", "create"):
        yield from _left(found, verdict, "not begun")


def _left(found: Progress, verdict: str, words: str) -> Iterator[str]:
    starts = [iso(line.key.start_ms) for line in found.lines if line.verdict == verdict]
    if starts:
        more = ", ..." if len(starts) > NAMED else ""
        yield f"{len(starts):,} {words}: {', '.join(starts[:NAMED])}{more}"
