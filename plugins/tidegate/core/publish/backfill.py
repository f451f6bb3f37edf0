"""What a backfill does with each window of its range, by what the ledger and the scheduler say of it.

To fill: the window is to be published. To rebuild (`replay`): its run is to succeed after this backfill began it; a
backfill is told from others by its mark, which stands at the runs it began, so that the same one can be gone on with.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tidegate.core.publish import catchup
from tidegate.core.window.states import WindowKey

DONE = "done"  # published, or rebuilt by this backfill
WORKING = "working"  # it has a run that is queued or at work, by whatever it was begun
CLEAR = "clear"  # its run has ended without what is wanted: it is to run again
CREATE = "create"  # no run
FAILED = "failed"  # its run was begun by this process, and has ended without what is wanted
NOT_READY = "not ready"  # the watermark has not passed its end; whatever run it has may wait for long
NOT_PUBLISHED = "not published"  # there is nothing to rebuild
STARTABLE = (CLEAR, CREATE)


@dataclass(frozen=True)
class Run:
    """The run of a window. `active`: queued or at work; `succeeded`: it has ended well; `mark`: of the backfill that
    began it, if one did."""

    run_id: str
    active: bool
    succeeded: bool
    mark: str | None = None


@dataclass(frozen=True)
class Facts:
    """Of the ledger: windows (starts) of the range with a generation in force, and the watermark (UTC ms)."""

    published: frozenset[int]
    watermark_ms: int | None

    def ready(self, key: WindowKey) -> bool:
        return self.watermark_ms is not None and key.end_ms <= self.watermark_ms


def to_fill(key: WindowKey, run: Run | None, facts: Facts, tried: Container[int]) -> str:
    """The verdict on a window that is to be published. The runs must have been looked at before the ledger: one that
    ends between the two looks has published."""
    if key.start_ms in facts.published:
        return DONE
    if not facts.ready(key):
        return NOT_READY
    if run is not None and run.active:
        return WORKING
    if key.start_ms in tried:
        return FAILED
    return CREATE if run is None else CLEAR


def to_rebuild(key: WindowKey, run: Run | None, facts: Facts, tried: Container[int], mark: str) -> str:
    """The verdict on a window that is to be rebuilt by the backfill of this mark."""
    if run is not None and run.active:
        return WORKING
    if run is not None and run.succeeded and run.mark == mark:
        return DONE
    if key.start_ms in tried:
        return FAILED
    if key.start_ms not in facts.published:
        return NOT_PUBLISHED
    return CREATE if run is None else CLEAR


def unfinished_mark(runs: Mapping[int, Run], keys: Sequence[WindowKey], prefix: str) -> str | None:
    """The mark of the newest backfill of just this range (its mark begins with `prefix`, and ends with when it began)
    that has not rebuilt every window; None if there is none."""
    marks = {run.mark for run in runs.values() if run.mark is not None and run.mark.startswith(prefix)}
    if not marks:
        return None
    newest = max(marks)
    done = sum(1 for key in keys if (run := runs.get(key.start_ms)) and run.succeeded and run.mark == newest)
    return newest if done < len(keys) else None


def by_catch_up(verdicts: Iterable[str]) -> bool:
    """Whether so many windows have no run that one process publishes them, instead of two for each."""
    return sum(verdict == CREATE for verdict in verdicts) >= catchup.FEWEST


def chosen(verdicts: Iterable[tuple[WindowKey, str]], room: int, newest_first: bool) -> list[WindowKey]:
    """Windows to begin now: `room` at most, oldest first unless told otherwise."""
    startable = [key for key, verdict in verdicts if verdict in STARTABLE]
    if newest_first:
        startable.reverse()
    return startable[: max(0, room)]
