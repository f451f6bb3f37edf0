"""Events of another log than the table's (M8): its positions begin anew, and M2 would lose them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.engine.failures import refuse
from spark_jobs.engine.mirror.numbers import Numbers, numbers
from spark_jobs.engine.mirror.shape import Shape
from spark_jobs.engine.mirror.words import coordinates, position, spelled
from tidegate.core.base.instants import iso
from tidegate.core.batch.refusal import RefusalKind
from tidegate.core.mirror.order import goes_back

ADVICE = (
    "was the source's server set up anew, or has another one taken over? Its log has other positions: make a new "
    "mirror of it, in a table of its own (docs/mirrors.md)"
)
_ALL_THE_SAME = (
    ". To let the order of positions decide all the same: tidegate apply <pipeline> --take-conflicts --why ..."
)


def refuse_other_logs(
    shape: Shape,
    base: pa.Table,
    events: pa.Table,
    at: Numbers,
    stale: tuple[Numbers, Numbers],
    superseded: tuple[Numbers, Numbers],
) -> None:
    """`at`: places of events; of the same order, whether each is beaten by the table (`stale`) or by another event
    (`superseded`), and the place of that among the base's rows or the events. Raises JobError (M8)."""
    if shape.source_ms is None:
        return
    times = numbers(pc.fill_null(events[shape.source_ms], 0)).astype(np.int64)
    newest = _newest_merged(shape, events)
    for (beaten, place), rows in ((stale, base), (superseded, events)):
        some = np.flatnonzero(beaten)
        some = some[times[at[some]] > newest[at[some]]]
        some = some[_behind(_arrivals(shape, events, at[some]), _arrivals(shape, rows, place[some]))]
        if not len(some):
            continue
        known = np.maximum(newest[at[some]], _newest_before(_arrivals(shape, events, at), times[at])[some])
        late = beaten[some]  # those that are left have come later too
        wrong = some[goes_back(late, late, times[at[some]], known)]
        if len(wrong):
            first = int(wrong[np.argmin(times[at[wrong]])])
            _refuse(shape, events, int(at[first]), rows, int(place[first]), int(times[at[first]]))


def refuse_below_a_reading(
    shape: Shape, base: pa.Table, events: pa.Table, at: Numbers, stale: Numbers, key: Numbers
) -> None:
    """`at`: places of events; of the same order, which are beaten by what stands (`stale`), and the place of their
    key's row (`key`), if it is among the base's.

    Where a copy has read the key, its row, or that it has none (S5), is of no lane, and does not tell whether an event
    is late. What came before it in its lane does, whichever key: a log's positions grow there. Raises JobError (M8)."""
    if shape.source_ms is None:
        return
    times = numbers(pc.fill_null(events[shape.source_ms], 0)).astype(np.int64)
    newest = _newest_merged(shape, events)
    lanes = np.append(numbers(base[shape.partition]), -1)  # the last one is of a key without a row
    some = np.flatnonzero(stale & (lanes[np.minimum(key, len(base))] < 0))
    some = some[times[at[some]] > newest[at[some]]]
    if not len(some):
        return
    known = np.maximum(newest[at[some]], _newest_before(_arrivals(shape, events, at), times[at])[some])
    place, above = _greatest_before(shape, base, events, at[some])
    wrong = np.flatnonzero(goes_back(above, above, times[at[some]], known))
    if len(wrong):
        first = int(wrong[np.argmin(times[at[some[wrong]]])])
        other = int(place[first])
        rows, of = (base, other) if other < len(base) else (events, other - len(base))
        one = int(at[some[first]])
        _refuse(shape, events, one, rows, of, int(times[one]))


def _greatest_before(shape: Shape, base: pa.Table, events: pa.Table, at: Numbers) -> tuple[Numbers, Numbers]:
    """Of these events what has the greatest position of all that came before in the same lane: its place among the
    base's rows and the events behind them, and whether that position is greater than the event's own."""
    count = len(base) + len(events)
    each = [_arrivals(shape, rows, np.arange(len(rows))) for rows in (base, events)]
    lane, batch, offset = (np.concatenate(both) for both in zip(*each, strict=True))
    commit, row = (
        np.concatenate([numbers(rows[name]).astype(np.int64) for rows in (base, events)])
        for name in (shape.commit, shape.row)
    )
    ascending = np.lexsort((row, commit))
    steps = (np.diff(commit[ascending], prepend=-1) != 0) | (np.diff(row[ascending], prepend=-1) != 0)
    rank = np.empty(count, np.int64)
    rank[ascending] = np.cumsum(steps)  # equal positions have one rank
    order = np.lexsort((offset, batch, lane))
    best = np.full(count, -1, np.int64)
    for mine in np.split(order, np.flatnonzero(np.diff(lane[order])) + 1):
        best[mine[1:]] = np.maximum.accumulate(rank[mine])[:-1]
    mine = best[len(base) + at]
    place = ascending[np.searchsorted(rank[ascending], np.maximum(mine, 1))]
    return place, mine > rank[len(base) + at]


_Arrivals = tuple[Numbers, Numbers, Numbers]
"""Lane, batch and offset. A lane has the order of one log: it is a Kafka partition, of several servers of each one's
events in it."""


def _arrivals(shape: Shape, rows: pa.Table, at: Numbers) -> _Arrivals:
    lane, batch, offset = (
        numbers(rows[name])[at].astype(np.int64) for name in (shape.partition, shape.batch, shape.offset)
    )
    if shape.servers is not None:  # each has a clock of its own
        lane = lane * (len(shape.servers.logs) + 1) + shape.places_of_servers(rows)[at]
    return lane, batch, offset


def _newest_merged(shape: Shape, events: pa.Table) -> Numbers:
    """The newest time of all events of each one's server that are merged."""
    if shape.servers is None:
        return np.full(len(events), shape.newest_ms, np.int64)
    known = np.array([*(log.newest_ms for log in shape.servers.logs), 0], np.int64)
    return known[shape.places_of_servers(events)]


def _behind(mine: _Arrivals, theirs: _Arrivals) -> Numbers:
    (lane, batch, offset), (other, before, there) = mine, theirs
    return (lane == other) & ((batch > before) | ((batch == before) & (offset > there)))


def _newest_before(arrivals: _Arrivals, times: Numbers) -> Numbers:
    """The newest time of all that came before in the same lane, of this merge; 0 without any."""
    lane, batch, offset = arrivals
    order = np.lexsort((offset, batch, lane))
    found = np.zeros(len(times), np.int64)
    for mine in np.split(order, np.flatnonzero(np.diff(lane[order])) + 1):
        found[mine[1:]] = np.maximum.accumulate(times[mine])[:-1]
    return found


def _refuse(shape: Shape, events: pa.Table, one: int, rows: pa.Table, other: int, at_ms: int) -> None:
    where = "the table's row" if rows is not events else "an event"
    raise refuse(
        f"positions go back: {spelled(shape, events, one)} at {position(shape, events, one)}, from "
        f"{coordinates(shape, events, one)}, happened at {iso(at_ms)}, later than all that came before; but "
        f"{where} from {coordinates(shape, rows, other)} is at the greater {position(shape, rows, other)}",
        advice=ADVICE if shape.by_days else ADVICE + _ALL_THE_SAME,
        partition=events[shape.partition][one].as_py(),
        offset=events[shape.offset][one].as_py(),
        kind=RefusalKind.GOES_BACK,
    )
