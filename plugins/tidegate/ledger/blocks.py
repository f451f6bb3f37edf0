"""What waits for a human: alarms of batches, windows and cut logs, of many pipelines at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import fields

from sqlalchemy import literal_column, select
from sqlalchemy.engine import Connection

from tidegate.core.batch.states import OPEN_STATES
from tidegate.core.look.survey import Block, OpenRow
from tidegate.core.source.log_cut import Cut
from tidegate.core.window.cut import window_id
from tidegate.core.window.states import CLOSED, CLOSING
from tidegate.ledger import schema
from tidegate.ledger.log_cut import open_cuts
from tidegate.ledger.store import read_as

b, w = schema.batches, schema.windows
AT_WORK = literal_column(f"(state <> '{CLOSED}' OR blocked IS NOT NULL)")
"""Word by word as the index of such windows says it."""


def blocks(c: Connection, names: Sequence[str]) -> dict[str, tuple[Block, ...]]:
    batches, (_, alarms), cuts = open_batches(c, names), at_work(c, names), open_cuts(c, names)
    return {n: together(batches.get(n), alarms.get(n, ()), cuts.get(n, ())) for n in names}


def together(batch: OpenRow | None, alarms: Iterable[tuple[int, str]], cuts: Iterable[Cut]) -> tuple[Block, ...]:
    found = [Block(f"batch {batch.batch_id}", batch.blocked)] if batch is not None and batch.blocked else []
    found += [Block(f"window {window_id(start_ms)}", why) for start_ms, why in alarms]
    return (*found, *(Block(f"partition {cut.partition}", cut.words()) for cut in cuts))


def open_batches(c: Connection, names: Sequence[str]) -> dict[str, OpenRow]:
    mine = (b.c.pipeline.in_(names), b.c.state.in_(OPEN_STATES))
    rows = c.execute(select(b.c.pipeline, *(b.c[x.name] for x in fields(OpenRow))).where(*mine))
    return {row.pipeline: read_as(OpenRow, row) for row in rows}


def at_work(c: Connection, names: Sequence[str]) -> tuple[dict[str, dict[int, int]], dict[str, list[tuple[int, str]]]]:
    """Windows that are closing, start (UTC ms) -> the batch that is the first to bring them nothing; and the alarms of
    windows (start, reason)."""
    closing: dict[str, dict[int, int]] = defaultdict(dict)
    alarms: dict[str, list[tuple[int, str]]] = defaultdict(list)
    columns = (w.c.pipeline, w.c.start_ms, w.c.state, w.c.closing_batch, w.c.blocked)
    found = select(*columns).where(w.c.pipeline.in_(names), AT_WORK)
    for x in c.execute(found.order_by(w.c.pipeline, w.c.start_ms)):
        if x.state == CLOSING:
            closing[x.pipeline][x.start_ms] = x.closing_batch
        if x.blocked:
            alarms[x.pipeline].append((x.start_ms, x.blocked))
    return closing, alarms
