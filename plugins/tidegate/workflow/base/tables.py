"""The catalogue's tables come first: they have a batch's columns before any of its rows can be seen."""

from __future__ import annotations

from tidegate.core.spec.compatibility import altered
from tidegate.workflow.base.context import Context


def before_planning(ctx: Context) -> None:
    """Prepare the tables before the first batch by another spec than the last one's: a table that cannot take its
    columns refuses it while the change can still be taken back.

    Raises CatalogueError; a pipeline whose columns stay needs no catalogue to plan."""
    version = ctx.ledger.batches.newest_spec(ctx.name)
    if version is None or version == ctx.spec_version:
        return
    if altered(ctx.ledger.pipelines.spec(ctx.name, version), ctx.pipeline):
        ctx.target.prepare()
