"""A mirror's rows as its table has them, for a reader of buckets."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.core.mirror.applies import Told
from tidegate.core.mirror.jobs import START, Bucket, TableColumn
from tidegate.core.mirror.parts import KeyPart
from tidegate.workflow.apply.apply import keyed
from tidegate.workflow.apply.upkeep import buckets_now
from tidegate.workflow.audit.keyed import TableReader, job
from tidegate.workflow.base.context import Context


@dataclass(frozen=True)
class Held:
    """A snapshot's `there`, buckets with rows, of `buckets` in all; `told`: what it says of itself."""

    there: tuple[Bucket, ...]
    buckets: int
    told: Told


def begun(ctx: Context, reader: TableReader, columns: tuple[TableColumn, ...], part: KeyPart | None = None) -> Held:
    """Tell the reader of the table as it stands; what follows is about these columns of its rows, or of those of a
    `part` of the keys."""
    table = keyed(ctx)
    prefix, held = table.held()
    plan = job(
        ctx,
        first=1,
        last=prefix.upto,
        key=table.key,
        buckets=buckets_now(ctx, table, prefix),
        purged_below=START,
        base=(),
        columns=columns,
        fields=table.fields(),
        part=part,
    )
    reader.begin(plan, range(plan.buckets))
    return Held(tuple(held), plan.buckets, Told.by(prefix))
