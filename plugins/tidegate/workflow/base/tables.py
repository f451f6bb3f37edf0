"""The tables come first: they have a batch's columns before any of its rows can be seen."""

from __future__ import annotations

from dataclasses import replace

from tidegate.core.spec.compatibility import altered
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.target.port import SideTarget, Target
from tidegate.kinds import target_kind
from tidegate.workflow.base.context import Context


def before_planning(ctx: Context) -> None:
    """Prepare the tables before the first batch by another spec than the last one's: a table that cannot take its
    columns refuses it while the change can still be taken back; and before the very first one where files need ids of
    its fields, so that a table of others is refused while the pipeline may still name another one.

    Raises CatalogueError; a pipeline whose columns stay needs no catalogue to plan."""
    version = ctx.ledger.batches.newest_spec(ctx.name)
    if version is None:
        pinned(ctx)
    elif version != ctx.spec_version and altered(ctx.ledger.pipelines.spec(ctx.name, version), ctx.pipeline):
        ctx.table.prepare()


def pinned(ctx: Context) -> Pipeline:
    """Today's spec as a plan pins it: with the ids of the tables' fields, where files have to say them.

    The tables are asked once for each version of the spec, and made for it; afterwards the ledger knows. Raises
    CatalogueError."""
    if target_kind(ctx.pipeline.sink.kind).stored is None:
        return ctx.pipeline
    if not ctx.pipeline.sink.fields:
        known = ctx.ledger.pipelines.spec(ctx.name, ctx.spec_version).sink.fields
        if not known:
            tables: list[Target | SideTarget] = [ctx.target, *ctx.sides.values()]
            for table in tables:
                table.prepare()
            asked = tuple(field for table in tables for field in table.fields())
            known = ctx.ledger.pipelines.pin(ctx.name, ctx.spec_version, asked).sink.fields
        ctx.pipeline = replace(ctx.pipeline, sink=replace(ctx.pipeline.sink, fields=known))
    return ctx.pipeline
