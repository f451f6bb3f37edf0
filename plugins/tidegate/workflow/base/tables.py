"""The catalogue's tables come first: they have a batch's columns before any of its rows can be seen."""

from __future__ import annotations

from tidegate.core.base.errors import CatalogueMismatch
from tidegate.core.spec.compatibility import altered
from tidegate.core.target.catalogue import TableDef
from tidegate.core.target.tables import data_table
from tidegate.workflow.base.context import Context


def bring_up(ctx: Context, table: TableDef) -> None:
    """The table is there, and has the columns of `table`. Raises CatalogueError.

    No intent is needed: what is added is added once, and a request that arrives late finds it done."""
    try:
        ctx.catalogue.ensure_table(table)
    except CatalogueMismatch:
        for line in ctx.catalogue.evolve_table(table):
            ctx.say(f"{table.name}: {line}")
        ctx.catalogue.ensure_table(table)


def before_planning(ctx: Context) -> None:
    """Before the first batch by another spec than the last one's: a table that cannot take its columns refuses it while
    the change can still be taken back.

    Raises CatalogueError; a pipeline whose columns stay needs no catalogue to plan."""
    version = ctx.ledger.batches.newest_spec(ctx.name)
    if version is None or version == ctx.spec_version:
        return
    if altered(ctx.ledger.pipelines.spec(ctx.name, version), ctx.pipeline):
        bring_up(ctx, data_table(ctx.pipeline))
