"""Late rows that still wait: those that no generation in force has taken up."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import exists, func, literal, literal_column, select, union_all
from sqlalchemy.engine import Connection

from tidegate.core.files.receipt import LATE
from tidegate.core.window.states import CURRENT
from tidegate.ledger import schema
from tidegate.ledger.store import matched

t, g, made, losses = schema.batch_window_totals, schema.generations, schema.generation_batches, schema.losses


def lost_and_late(c: Connection, names: Sequence[str]) -> tuple[dict[str, int], dict[str, int]]:
    """Counts by pipeline, in one statement: offsets that were lost, and late rows of LANDED batches, redrives too, that
    no generation in force holds."""
    of = (losses.c.pipeline.in_(names), t.c.pipeline.in_(names))
    lost = select(literal("lost").label("what"), losses.c.pipeline, func.sum(losses.c.end - losses.c.start))
    held = (matched(made, g, "window_ms", "number"), made.c.batch_id == t.c.batch_id, made.c.kind == LATE)
    taken = exists().where(matched(g, t, "window_ms"), g.c.state == CURRENT, *held)
    late = select(literal("late"), t.c.pipeline, func.sum(t.c.rows))
    # the kind is written out: SQLite finds the index of late rows so
    late = late.where(of[1], literal_column("kind = 'late'"), ~taken)
    found: tuple[dict[str, int], dict[str, int]] = {}, {}
    both = union_all(lost.where(of[0]).group_by(losses.c.pipeline), late.group_by(t.c.pipeline))
    for what, name, count in c.execute(both):
        found[what == "late"][name] = int(count)
    return found
