"""Bugs in how a table without a log is read: `test_planted.py` names what finds each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from spark_jobs.engine.tally import merge
from tests.mutants import seams
from tests.mutants.planting import Bug, Patch, always
from tidegate.core.batch.planning import NothingToPlan
from tidegate.core.copy.port import KeyRange


def _with_both_bounds(original, keys, compare, *more):
    return original(keys, lambda bound, operator: compare(bound, f"{operator[0]}="), *more)


def _without_the_last(original, self, database, table):
    return original(self, database, table)[:-1]


def _without_bounds_between(original, self, database, table):
    """A key that is a bound is in no chunk."""
    found = original(self, database, table)
    return tuple(KeyRange(c.lower, None if c.upper is None else (c.upper[0] - 1,)) for c in found)


def _without_overlap(original, kind, table, column, window, overlap_ms, timezone="UTC"):
    return original(kind, table, column, window, 0, timezone)


def _to_the_end_of_the_hour(original, kind, table, column, window, overlap_ms, timezone="UTC"):
    found = original(kind, table, column, window, overlap_ms, timezone)
    return replace(found, upper=f"{found.upper[:11]}01:00:00.000000")


def _before_its_delay(original, windows, start, clock_ms):
    return original(windows, start, clock_ms + windows.watermark_delay_ms)


def _the_newest_one(original, windows, start, clock_ms):
    """Days that were missed are left out."""
    found = original(windows, start, clock_ms)
    if isinstance(found, NothingToPlan) or found.end >= found.backlog:
        return found
    return replace(found, start=found.start + found.backlog - found.end, end=found.backlog)


def _half_of_them(original, plan):
    tasks = original(plan)
    return tasks[: max(1, len(tasks) // 2)]


def _whatever_was_read(original, whole, pieces):
    """A window from half of its chunks: what is missing counts as a gap."""
    found = sorted(pieces, key=lambda p: p.range.start)
    return replace(merge_known(found), range=whole, gaps=_gaps(whole, found))


def merge_known(pieces: list[Any]) -> Any:
    first = pieces[0]
    return replace(first, **{n: sum(getattr(p, n) for p in pieces) for n in ("read", "data", "late", "dirty")})


def _gaps(whole: Any, pieces: list[Any]) -> Any:
    from tidegate.core.base.offsets import Interval, subtract, union

    seen = [i for p in pieces for i in subtract(Interval(p.range.start, p.range.end), p.gaps)]
    return subtract(Interval(whole.start, whole.end), union(seen))


def _by_its_rows(original, part, whole, pieces):
    """The watermark is what rows say: their window's beginning."""
    return merge(whole, pieces)


def _as_a_log(original, ctx, batch, receipt):
    ctx.source = _Rereadable(ctx.source)
    return original(ctx, batch, receipt)


class _Rereadable:
    def __init__(self, source: Any) -> None:
        self._source, self.traits = source, replace(source.traits, rereadable=True)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)


def _without_origins(original, generations, number):
    """What a rollback brought back counts as rows of the generation before it."""
    return original([replace(g, origin=None) for g in generations], number)


def _as_it_is_printed(original, column):
    """Floats lose their digits."""
    import pyarrow as pa

    if pa.types.is_floating(column.type):
        return pa.array([None if v is None else f"{v:.6g}" for v in column.to_pylist()], pa.string())
    return original(column)


def _bug(name: str, rule: str, *patches: tuple[str, Any]) -> Bug:
    return Bug(name, rule, "a table", "the test", tuple(Patch(seam, bug) for seam, bug in patches))


OFFLINE_BUGS = {
    bug.name: bug
    for bug in (
        _bug("bounds are in two chunks", "chunks", (seams.BOUNDS_IN_SQL, _with_both_bounds)),
        _bug("bounds are in no chunk", "chunks", (seams.CHUNKS_OF_A_TABLE, _without_bounds_between)),
        _bug("the last chunk is left out", "chunks", (seams.CHUNKS_OF_A_TABLE, _without_the_last)),
        _bug(
            "the last chunk is left out, and nobody looks", "chunks",
            (seams.CHUNKS_OF_A_TABLE, _without_the_last), (seams.ALL_CHUNKS, always(True)),
        ),
        _bug("the overlap is dropped", "column", (seams.TIMES_OF_A_WINDOW, _without_overlap)),
        _bug("a window goes on for an hour", "column", (seams.TIMES_OF_A_WINDOW, _to_the_end_of_the_hour)),
        _bug("a window is read before its delay", "due", (seams.DUE_WINDOW, _before_its_delay)),
        _bug("days that were missed are left out", "due", (seams.DUE_WINDOW, _the_newest_one)),
        _bug("half of the chunks are read", "whole", (seams.CUT_READINGS, _half_of_them)),
        _bug(
            "half of the chunks are a window", "whole",
            (seams.CUT_READINGS, _half_of_them), (seams.MERGE_PIECES, _whatever_was_read),
        ),
        _bug("rows say how far a table is read", "whole", (seams.READ_WHOLE, _by_its_rows)),
        _bug("a second reading must be the first", "R1", (seams.OTHER_RECORDS, _as_a_log)),
        _bug("the database's clock is not asked", "due", (seams.REFUSE_EARLY, always(None))),
        _bug("a table may be altered while it is read", "R1", (seams.ALTERED, always(None))),
        _bug("a rebuild owes what the first reading had", "second reading", (seams.REREAD_OWED, always(None))),
        _bug("dirty rows of the first reading do not matter", "second reading", (seams.REREAD_MIXED, always(None))),
        _bug("rows that do not fit are left out", "second reading", (seams.REREAD_WRONG, always(None))),
        _bug("a rollback is of the reading before it", "second reading", (seams.READING_OF, _without_origins)),
        _bug("a replay goes on with a second reading", "second reading", (seams.SAME_ROWS, always(True))),
        _bug("the audit owes the first reading", "second reading", (seams.AUDITED_READING, always(None))),
        _bug("numbers lose digits on their way", "values", (seams.RECORDS_OF_ROWS, _as_it_is_printed)),
    )
}  # fmt: skip
