"""`tidegate repair --adopt`: write back to the ledger what it lost and storage remembers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tidegate.cli.failures import NOT_WELL, Failed
from tidegate.core.base.wording import many

if TYPE_CHECKING:
    from tidegate.workflow.base.context import Context
    from tidegate.workflow.restore.adoption import Survey


def adopt(ctx: Context, why: str | None, yes: bool) -> None:
    """List, ask, adopt. Raises Failed (1) without a reason, or where only a newer backup helps."""
    from tidegate.workflow.restore import adoption

    found = adoption.survey(ctx)
    if found.nothing:
        click.echo(f"{ctx.name}: storage knows nothing that the ledger does not")
        return
    _list(found)
    if found.obstacles:
        raise Failed(
            f"{ctx.name}: {found.obstacles[0]}\n  what to do: restore the ledger from a newer backup", NOT_WELL
        )
    if not why:
        raise Failed(f"{ctx.name}: say --why '...' to write this into the ledger", NOT_WELL)
    if not yes:
        click.confirm("Write this into the ledger?", abort=True)
    adoption.adopt(ctx, found, why)
    click.echo(f"done; now: tidegate audit {ctx.name}, then clear the failed tasks")


def _list(found: Survey) -> None:
    from tidegate.core.base.instants import iso

    if found.withdraw is not None:
        plan = found.withdraw.plan
        click.echo(f"batch {plan.batch_id} ({found.withdraw.state}) gives way to the one that has landed")
    for path in found.unrecorded:
        click.echo(f"{path}: landed, but never counted: it is set aside and its offsets are read again")
    for record in found.batches:
        rows = (
            f"{many(record.manifest.rows, 'row')}" if record.manifest is not None else f"abandoned: {record.abandoned}"
        )
        click.echo(f"batch {record.plan.batch_id}: {many(record.plan.records, 'offset')}, {rows}")
        for r in record.plan.ranges:
            click.echo(f"  {r.topic} partition {r.partition}: offsets [{r.start}, {r.end})")
    for generation in found.generations:
        rows = sum(f.rows for f in generation.files)
        click.echo(f"window {iso(generation.window.start_ms)}: generation {generation.number}, {many(rows, 'row')}")
        wrong = next((w for g, w in found.contradicting if g == generation), None)
        if wrong is not None:
            click.echo(f"  {wrong.why}: {'it is set aside' if wrong.set_aside else 'it cannot be adopted'}")
