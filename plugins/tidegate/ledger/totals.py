"""Running sums over landed batches, and those over what has landed since they were last advanced.

What is LANDED is final, and at most one batch of a pipeline is not: the newest. One that is ABANDONED is final once
another has been planned after it: until then storage may say that it has landed. So the sums up to a batch below it
never change.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from sqlalchemy import and_, func, insert, select, update
from sqlalchemy.engine import Connection

from tidegate.core.base.plain import dumps, from_plain, to_plain
from tidegate.core.batch.states import ABANDONED, INGEST, LANDED, OPEN_STATES
from tidegate.core.batch.totals import BatchSteps, Spent, Sums, Totals
from tidegate.ledger import schema
from tidegate.ledger.rows import FATES
from tidegate.ledger.store import Part, asked, row_of

t, b = schema.totals, schema.batches
MOST = 20_000
"""Batches that one transaction adds up."""
NEWEST = 2**62
_SPANS = {
    "plan": ("b.planned_ms", "b.clock_ms"),
    "start": ("b.began_ms", "b.planned_ms"),
    "write": ("b.sealed_ms", "b.began_ms"),
    "job": ("b.job_ms", "0"),
    "land": ("b.landed_ms", "b.sealed_ms"),
}
"""Step -> end and beginning; one that is null is not known."""


class SqlTotals(Part):
    """core.totals.TotalsLedger on PostgreSQL or SQLite."""

    def advance(self, name: str) -> bool:
        with self._store.begin() as c:
            row = row_of(c, t, pipeline=name)
            through, old = _read(row)
            last = _last_final(c, name)
            upto = min(last, through + MOST)
            if upto <= through:
                return False
            new = old + _newer(c, {name: (through, upto)}).get(name, Totals())
            values = {"through_batch": upto, "content": dumps(new)}
            if row is None:
                c.execute(insert(t).values(pipeline=name, **values))
            else:
                same = and_(t.c.through_batch == row.through_batch, t.c.content == row.content)
                change = update(t).where(t.c.pipeline == name, same).values(**values)
                self._store.compare_and_set(c, change, f"the sums of {name}")
        return upto < last


def totals(c: Connection, names: Sequence[str]) -> dict[str, Totals]:
    """Sums of each pipeline: four statements, whatever the number of pipelines and of batches. In one snapshot."""
    standing = {row.pipeline: _read(row) for row in c.execute(select(t).where(t.c.pipeline.in_(names)))}
    known = {name: standing.get(name, (0, Totals())) for name in names}
    newer = _newer(c, {name: (through, NEWEST) for name, (through, _) in known.items()})
    return {name: old + newer.get(name, Totals()) for name, (_, old) in known.items()}


def _read(row: Any | None) -> tuple[int, Totals]:
    """Sums of a version that knew other ones do not count: they are made again from the first batch on."""
    if row is None:
        return 0, Totals()
    try:
        found: Totals = from_plain(Totals, _plain(row.content))
    except ValueError:
        return 0, Totals()
    return row.through_batch, found


def _plain(content: str) -> Any:
    """Raises ValueError unless it has every field: a dataclass would take a default for one that is missing."""
    plain = json.loads(content)
    if not _same_shape(plain, to_plain(Totals())):
        raise ValueError("other sums")
    return plain


def _same_shape(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same_shape(one[k], other[k]) for k in one)
    return type(one) is type(other)


def _newest(name: str) -> Any:
    return select(b.c.batch_id, b.c.state).where(b.c.pipeline == name).order_by(b.c.batch_id.desc()).limit(1)


def _last_final(c: Connection, name: str) -> int:
    newest = c.execute(_newest(name)).first()
    if newest is None:
        return 0
    last: int = newest.batch_id - (newest.state == ABANDONED)
    unfinished = select(func.min(b.c.batch_id)).where(b.c.pipeline == name, b.c.state.in_(OPEN_STATES))
    first_open = c.scalar(unfinished)
    return last if first_open is None else min(last, first_open - 1)


# ---------------------------------------------------------------- what has landed since


def _newer(c: Connection, spans: Mapping[str, tuple[int, int]]) -> dict[str, Totals]:
    """Sums over each pipeline's batches with ids in `(low, high]`."""
    wanted = [(name, low, high) for name, (low, high) in spans.items()]
    found: dict[str, Totals] = defaultdict(Totals)
    for row in asked(c, _RANGES, wanted):
        sums = Sums(**{f.name: int(getattr(row, f.name) or 0) for f in fields(Sums)})
        found[row.pipeline] += Totals(ingested=sums) if row.kind == INGEST else Totals(redriven=sums)
    for row in asked(c, _TAKEN, wanted):
        found[row.pipeline] += Totals(taken=int(row.taken or 0))
    for row in asked(c, _STEPS, wanted):
        spent = {k: Spent(int(getattr(row, f"{k}_ms") or 0), int(getattr(row, f"{k}_n") or 0)) for k in _SPANS}
        found[row.pipeline] += Totals(steps=BatchSteps(**spent))
    return found


_LANDED = (
    "FROM asked AS a JOIN batches AS b ON b.pipeline = a.pipeline AND b.batch_id > a.low AND b.batch_id <= a.high "
    f"AND b.state = '{LANDED}' "
)
_ASKED = "WITH asked(pipeline, low, high) AS (VALUES {rows}) SELECT a.pipeline, "
_PLAIN = ("read", *FATES, "rerouted", "bytes")
_RANGES = (
    _ASKED
    + 'b.kind, sum(r."end" - r.start) AS offsets, '
    + ", ".join(f'sum(r."{name}") AS "{name}"' for name in _PLAIN)
    + ", sum(abs(r.read - ("
    + " + ".join(f"r.{name}" for name in FATES)
    + "))) AS unaccounted "
    + _LANDED
    + "JOIN batch_ranges AS r ON r.pipeline = b.pipeline AND r.batch_id = b.batch_id GROUP BY a.pipeline, b.kind"
)
_TAKEN = (
    _ASKED + "sum(r.dirty) AS taken FROM asked AS a "
    "JOIN row_owners AS o ON o.pipeline = a.pipeline AND o.owner > a.low AND o.owner <= a.high AND o.kind = 'dirty' "
    "JOIN batch_ranges AS r ON r.pipeline = o.pipeline AND r.batch_id = o.batch_id GROUP BY a.pipeline"
)
_STEPS = (
    _ASKED
    + ", ".join(
        f"sum(CASE WHEN {end} > {start} THEN {end} - {start} ELSE 0 END) AS {step}_ms, "
        f"count({end} - {start}) AS {step}_n"
        for step, (end, start) in _SPANS.items()
    )
    + f" {_LANDED}AND b.kind = '{INGEST}' GROUP BY a.pipeline"
)
