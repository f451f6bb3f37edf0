"""`tidegate dirty`: what to fix before a redrive."""

from __future__ import annotations

import click

from tidegate.cli import surroundings
from tidegate.cli.failures import NOT_WELL, WELL
from tidegate.cli.output import advice, console, json_option, paragraph, print_json
from tidegate.core.base.wording import many
from tidegate.core.dirty.redrive import Cause, DirtyBatch
from tidegate.core.source import behind

_SHOWN = 20


@click.command()
@surroundings.pipeline_argument
@click.option("--batch", "batches", type=int, multiple=True, metavar="ID", help="Only of this batch; may be repeated.")
@click.option("--last", type=click.IntRange(min=1), default=100, show_default=True, help="Look into so many batches.")
@json_option
def dirty(pipeline: str, batches: tuple[int, ...], last: int, as_json: bool) -> None:
    """Show why rows are dirty: how many by field and reason, with examples, the most frequent first.

    Redriven rows count where they are now. The command looks into the newest batches with dirty rows.

    \b
    Examples:
      tidegate dirty flights
      tidegate dirty flights --batch 12 --json | jq '.causes[0]'

    \b
    Exit code: 0 no row is dirty; 1 some are; 2 usage; 3 the ledger gives no answer.
    """
    from tidegate.adapters.dirty_rows import DirtyProcess
    from tidegate.workflow.dirty import redrive

    spec = surroundings.pipeline_named(pipeline)
    with surroundings.ledger() as ledger:
        ctx = surroundings.context(spec, ledger)
        found = [b for b in ledger.redrives.dirty_batches(spec.name) if not batches or b.batch_id in batches]
        looked = found[-last:]
        causes: list[Cause] = []
        notes: list[str] = []
        if looked:
            with DirtyProcess(user=spec.sink.user, secrets=surroundings.storage_secrets(spec)) as reader:
                causes, notes = redrive.causes(ctx, reader, [b.batch_id for b in looked])
    if as_json:
        told = [{"batch_id": b.batch_id, "rows": b.count, "topic_id": b.topic_id} for b in found]
        print_json({"pipeline": spec.name, "batches": told, "causes": causes, "notes": notes})
    else:
        _print(spec.name, found, looked, causes, notes)
    raise SystemExit(NOT_WELL if found else WELL)


def _print(name: str, found: list[DirtyBatch], looked: list[DirtyBatch], causes: list[Cause], notes: list[str]) -> None:
    out = console()
    if not found:
        out.print(f"{name}: no row is dirty")
        return
    rows = sum(b.count for b in found)
    out.print(
        f"{name}: {many(rows, 'dirty row')} in {many(len(found), 'batch')} "
        f"({found[0].batch_id} to {found[-1].batch_id})"
    )
    if len(looked) < len(found):
        paragraph(out, "looked", f"into the newest {many(len(looked), 'batch')}")
    for cause in causes[:_SHOWN]:
        others = " (the others with other values)" if cause.varies else ""
        paragraph(out, f"{many(cause.rows, 'row')}", f"{cause.field or 'record'}: {cause.reason}{others}", "bold")
        for e in cause.examples:
            paragraph(out, "", f"batch {e.batch_id}, partition {e.partition} offset {e.offset}: {e.raw}")
    if len(causes) > _SHOWN:
        paragraph(out, "more", f"{len(causes) - _SHOWN:,} more causes: --json has them")
    for note in notes:
        paragraph(out, "note", note, "yellow")
    advice(out, "next", _way_on(name, causes))


def _way_on(name: str, causes: list[Cause]) -> str:
    """A redrive leaves copies from another site alone."""
    fix = f"fix the spec, then: tidegate redrive {name}"
    rows, copies = sum(c.rows for c in causes), sum(c.rows for c in causes if behind.is_told(c.field, c.reason))
    if not copies:
        return fix
    leave = (
        f"nothing for {many(copies, 'row')} from another site: they are read there when it is active again (if it "
        f"never will be: tidegate redrive {name} --copies)"
    )
    return leave if copies == rows else f"{fix}; {leave}"
