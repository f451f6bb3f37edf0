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
