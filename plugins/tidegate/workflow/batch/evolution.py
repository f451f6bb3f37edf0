"""A field that stopped a batch becomes a column, or the column of one grows, where the YAML allows it: the table first,
then the ledger, then the batch goes on with the same offsets."""

from __future__ import annotations

from dataclasses import replace

from tidegate.core.base.errors import BatchRefused, CatalogueMismatch, LedgerError, LostComparison
from tidegate.core.batch.refusal import FieldsRefused, RefusalKind
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.spec.schema_changes import BY_POLICY, EVOLVE, SchemaChange, in_force, objections
from tidegate.kinds import target_kind
from tidegate.workflow.base.context import ATTEMPTS, Context


def take_up(ctx: Context, batch_id: int, refused: BatchRefused) -> Context:
    """The context of the pipeline with columns for the refused fields, or wider ones, once the table has them and the
    ledger knows.

    Each step can be run again, and a death between two of them leaves a refused batch, whose next try comes here again.
    Raises `refused` where no column is accepted, CatalogueError, LedgerError."""
    found = refused.columns if isinstance(refused, FieldsRefused) else ()
    if ctx.pipeline.format.unknown_fields != EVOLVE or not found:
        raise refused
    types = {c.name: c.type for c in ctx.pipeline.columns}
    wanted = [
        SchemaChange(
            column=c.name,
            type=c.type,
            path=c.path,
            batch_id=batch_id,
            partition=refused.partition,
            offset=refused.offset,
            before=types.get(c.name, ""),
        )
        for c in found
    ]
    _prepare(ctx, in_force(ctx.pipeline, wanted), refused)
    accepted = _accept(ctx, wanted)
    pipeline = in_force(ctx.pipeline, accepted)
    if pipeline == ctx.pipeline:
        raise refused
    for c in (c for c in pipeline.columns if c.type != types.get(c.name)):
        what = f"column {c.name} {c.type} is accepted"
        if c.name in types:
            what = f"column {c.name} grows from {types[c.name]} to {c.type}"
        ctx.say(f"batch {batch_id}: {what} by {BY_POLICY}")
    return replace(ctx, pipeline=pipeline, spec_version=ctx.register(pipeline))


def _prepare(ctx: Context, pipeline: Pipeline, refused: BatchRefused) -> None:
    """Give the table the columns. Raises BatchRefused for a table that cannot have them."""
    wrong = objections(ctx.pipeline, pipeline, target_kind(pipeline.sink.kind).promotes)
    advice = "name the field in the YAML under another name (from: says which field), then clear the write task"
    try:
        if not wrong:
            replace(ctx, pipeline=pipeline).table.prepare()
            return
    except CatalogueMismatch as e:
        wrong = (str(e.args[0]),)
        if refused.kind == RefusalKind.WIDER_TYPE:
            advice = (
                f"{e.advice}; or set format.unknown_fields to ignore: only a value that does not fit stops a batch then"
            )
    raise BatchRefused(
        f"{refused.args[0]}; the table cannot take its column: {wrong[0]}",
        advice=advice,
        kind=refused.kind,
        partition=refused.partition,
        offset=refused.offset,
    ) from None


def _accept(ctx: Context, wanted: list[SchemaChange]) -> tuple[SchemaChange, ...]:
    """Two attempts may meet the field at once: the second one finds what the first one has accepted."""
    for _ in range(ATTEMPTS):
        try:
            return ctx.ledger.schema_changes.accept(ctx.name, wanted)
        except LostComparison:
            continue
    raise LedgerError(f"{ctx.name}: could not accept a column: others keep writing")
