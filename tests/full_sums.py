"""The sums over all landed batches, added up row by row: what running sums are compared with."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select
from sqlalchemy.engine import Engine

from tidegate.ledger import schema


def full_sums(engine: Engine, name: str) -> dict[str, Any]:
    """As `to_plain(Totals)` has it."""
    with engine.connect() as c:

        def rows(table: Any) -> list[Any]:
            return c.execute(select(table).where(table.c.pipeline == name)).all()

        landed = {b.batch_id: b for b in rows(schema.batches) if b.state == "LANDED"}
        ranges = [r for r in rows(schema.batch_ranges) if r.batch_id in landed]
        owned = {o.batch_id for o in rows(schema.row_owners) if o.kind == "dirty"}
    plain = ("read", "data", "late", "dirty", "filtered", "dropped", "rerouted", "bytes")
    sums = {kind: dict.fromkeys((*plain, "offsets", "unaccounted"), 0) for kind in ("ingest", "redrive")}
    for r in ranges:
        mine = sums[landed[r.batch_id].kind]
        for key in plain:
            mine[key] += getattr(r, key) or 0
        mine["offsets"] += r.end - r.start
        mine["unaccounted"] += abs(r.read - (r.data + r.late + r.dirty + r.filtered + r.dropped))
    steps = {key: {"ms": 0, "count": 0} for key in ("plan", "start", "write", "job", "land")}
    for b in landed.values():
        if b.kind == "ingest":
            for key, start, end in (
                ("plan", b.clock_ms, b.planned_ms),
                ("start", b.planned_ms, b.began_ms),
                ("write", b.began_ms, b.sealed_ms),
                ("job", 0, b.job_ms),
                ("land", b.sealed_ms, b.landed_ms),
            ):
                if start is not None and end is not None:
                    steps[key]["ms"] += max(0, end - start)
                    steps[key]["count"] += 1
    taken = sum(r.dirty for r in ranges if r.batch_id in owned)
    return {"ingested": sums["ingest"], "redriven": sums["redrive"], "taken": taken, "steps": steps}
