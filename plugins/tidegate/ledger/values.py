"""Which dynamic partition values windows have already."""

from __future__ import annotations

import json
from collections import defaultdict

from sqlalchemy import and_, or_, select
from sqlalchemy.engine import Connection

from tidegate.core.base.partition_values import PartitionValues
from tidegate.core.batch.states import LANDED
from tidegate.core.files.receipt import DATA
from tidegate.core.window.states import CLOSED
from tidegate.ledger import schema
from tidegate.ledger.store import matched


def landed_values(
    connection: Connection, name: str, first_ms: int, last_ms: int | None
) -> dict[int, set[PartitionValues]]:
    """Values by window: of the data files of landed batches, in windows that start in `[first_ms, last_ms]` and,
    without a `last_ms`, are not CLOSED."""
    b, f, w = schema.batches, schema.batch_files, schema.windows
    landed = and_(matched(b, f, "batch_id"), b.c.state == LANDED)
    source = f.join(b, landed)
    wanted = [f.c.pipeline == name, f.c.kind == DATA, f.c.window_ms >= first_ms]
    if last_ms is None:
        source = source.outerjoin(w, and_(w.c.pipeline == f.c.pipeline, w.c.start_ms == f.c.window_ms))
        wanted.append(or_(w.c.state.is_(None), w.c.state != CLOSED))
    else:
        wanted.append(f.c.window_ms <= last_ms)
    statement = select(f.c.window_ms, f.c.partition_values).distinct().select_from(source).where(*wanted)
    found: dict[int, set[PartitionValues]] = defaultdict(set)
    for row in connection.execute(statement):
        found[row.window_ms].add(tuple((column, value) for column, value in json.loads(row.partition_values)))
    return dict(found)
