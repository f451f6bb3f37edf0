"""Bugs in redrives."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import func, select

from tests.mutants import seams
from tests.mutants.names import HEALS, ONCE
from tests.mutants.planting import Bug, Patch, nothing
from tidegate.ledger import schema


def _only_said(original, ctx):
    for batch_id, _owner in ctx.ledger.redrives.duties(ctx.name):
        ctx.ledger.redrives.cleared(ctx.name, batch_id)
    return [], []


def _of_any_kind(original, c, name, topic_id):
    b = schema.batches
    newest = select(func.max(b.c.batch_id)).where(b.c.pipeline == name, b.c.topic_id == topic_id)
    return c.scalar(newest) or 0


def _from_the_topic(original, *args):
    return replace(original(*args), sources=())


BUGS = (
    Bug(
        "redriven rows stay in the dirty table",
        "Redrive: a row belongs to the redrive alone",
        "dirty_rows_are_redriven",
        ONCE,
        (Patch(seams.SET_REDRIVEN_ASIDE, _only_said),),
    ),
    Bug(
        "landing a redrive takes nothing over",
        "Redrive: a row belongs to the redrive alone",
        "dirty_rows_are_redriven",
        ONCE,
        (Patch(seams.TAKE_OVER, nothing),),
    ),
    Bug(
        "a redrive moves the planned ends",
        "Redrive: planned ends stay where they are",
        "dirty_rows_are_redriven",
        HEALS,
        (Patch(seams.NEWEST_BATCH, _of_any_kind),),
        why="Kafka's group remembers how far it was",
    ),
    Bug(
        "a replay reads a redrive's rows from the topic",
        "Redrive: its rows are those of its files",
        "an_hour_with_redriven_rows_is_rebuilt",
        HEALS,
        (Patch(seams.PART_OF_A_REBUILD, _from_the_topic),),
        why="it would take what lies between for its own, so its rows per batch are others than the ledger's",
    ),
)
