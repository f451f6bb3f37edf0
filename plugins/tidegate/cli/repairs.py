"""Commands that change something in the ledger, each with a reason for the event log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tidegate.cli import surroundings
from tidegate.cli.failures import NOT_WELL, Failed, named
from tidegate.cli.output import WHY_NEEDED, json_option, print_json, sure, why_option, yes_option
from tidegate.cli.windows import parse_window
from tidegate.core.base.instants import iso
from tidegate.core.base.wording import many, those
from tidegate.core.batch.states import SEALED, OpenBatch
from tidegate.core.tell.subjects import of_window, said

if TYPE_CHECKING:
    from tidegate.core.spec.pipeline import Pipeline
    from tidegate.ledger import SqlLedger
    from tidegate.workflow.base.context import Context
    from tidegate.workflow.restore.adoption import Survey


@click.command()
@surroundings.pipeline_argument
@click.option("--list", "only_list", is_flag=True, help="List the blocks (this is what happens without options).")
@click.option("--batch", type=int, metavar="ID", help="Clear the block of this open batch.")
@click.option("--window", metavar="WINDOW", help="Clear the block of this window.")
@click.option("--abandon", type=int, metavar="ID", help="Give up this open batch: its offsets are never read.")
@click.option("--force", is_flag=True, help="With --abandon: also what Kafka still holds of it.")
@click.option("--reread", type=int, metavar="ID", help="Forget this open batch: its offsets are planned anew.")
@click.option("--release", type=int, metavar="ID", help="Let this batch land although it is too dirty, for once.")
@click.option("--adopt", is_flag=True, help="Write back what the ledger lost and storage remembers.")
@why_option
@yes_option
@json_option
def repair(
    pipeline: str,
    only_list: bool,
    batch: int | None,
    window: str | None,
    abandon: int | None,
    force: bool,
    reread: int | None,
    release: int | None,
    adopt: bool,
    why: str,
    yes: bool,
    as_json: bool,
) -> None:
    """List what alarms have blocked, clear one, give up or release an open batch, or rebuild what the ledger lost.

    Clearing changes nothing but the block: the next try of the task looks at files and ledger again, and raises the
    alarm again if they still contradict each other.

    --reread is for an open batch that cannot be written or landed as it was planned: retention passed some of its
    offsets, or its files were lost after it was SEALED. The next ingest run plans the remaining offsets anew; the lost
    ones become a recorded loss (source.on_data_loss: record). It refuses a batch that has landed.

    --abandon is for a batch of which Kafka no longer holds anything. Its ranges stay in the ledger as a term of the
    balance, and the next ingest run begins after them. It refuses while Kafka still holds any of them: --reread
    loses less; --force gives all of them up. It refuses a batch whose rows are safe (SEALED, landed, or written by a
    complete attempt).

    --release is for a batch that was refused as too dirty (`dirty:`), and shall land as it is: all its dirty rows go
    into the dirty table, by the spec that it was refused with; a newer spec waits for the next batch. The
    limits stay the same for every other batch.

    --adopt is for a ledger that lost commits: a database that failed over, or was restored from a backup, or is new
    and empty. Batches and published windows come back from the records that storage keeps beside the files; the
    command lists them first, and reads nothing from Kafka again. Without --why it only lists. If a window's record
    contradicts batches that have landed since, the window is published anew: the record is set aside, and its files
    are used again. If an open batch may have rows of a window, the window begins to close; run this again if its
    publish task asks for it.

    \b
    Examples:
      tidegate repair flights
      tidegate repair flights --batch 12 --why "restored landed/12 from the snapshot"
      tidegate repair flights --window 2013-01-26T16 --why "removed a stray file"
      tidegate repair flights --reread 12 --why "retention passed its first offsets"
      tidegate repair flights --abandon 12 --why "retention passed all of it while ingest was off"
      tidegate repair flights --release 12 --why "the test producer of today, they know"
      tidegate repair flights --adopt
      tidegate repair flights --adopt --why "restored from the backup of 02:00"

    \b
    Exit code: 0 nothing is blocked, the block is cleared, the batch given up or released; 1 something is blocked, or
    refused; 2 usage; 3 the ledger or the storage gives no answer.
    """
    spec = surroundings.pipeline_named(pipeline)
    given = sum(option is not None for option in (batch, window, abandon, reread, release)) + adopt
    if given > 1:
        raise click.UsageError("only one of --batch, --window, --abandon, --reread, --release and --adopt")
    if force and abandon is None:
        raise click.UsageError("--force goes with --abandon")
    if as_json and given:
        raise click.UsageError("--json goes with the list of blocks alone: what changes the ledger is for people")
    with surroundings.ledger() as ledger, named(pipeline):
        if only_list or not given:
            _list_blocks(ledger, pipeline, as_json)
        elif adopt:
            _adopt(surroundings.context(spec, ledger, click.echo), why, yes)
        elif not why:
            raise click.UsageError(WHY_NEEDED)
        elif abandon is not None:
            _abandon(surroundings.context(spec, ledger), abandon, why, yes, force)
        elif reread is not None:
            _reread(surroundings.context(spec, ledger), reread, why, yes)
        elif release is not None:
            _release(surroundings.context(spec, ledger), release, why, yes)
        else:
            _clear(ledger, spec, batch, window, why, yes)


def _list_blocks(ledger: SqlLedger, name: str, as_json: bool) -> None:
    blocks, batch = ledger.pipelines.blocks(name), ledger.batches.open(name)
    refusal = None if batch is None else ledger.batches.refusal(name, batch.plan.batch_id)
    if as_json:
        print_json({"pipeline": name, "blocks": blocks, "refused": refusal and refusal.said})
    for block in () if as_json else blocks:
        kind, _, what = said(block.subject).partition(" ")
        clear = f"clear it: tidegate repair {name} --{kind} {what} --why '...'"
        if kind == "partition":  # of a log that was cut: it takes a decision
            clear = f"decide: tidegate source rewind {name} --why '...', or tidegate source skip {name} --why '...'"
        click.echo(f"{kind} {what}: {block.reason}\n  {clear}")
    if batch is not None and refusal is not None and not as_json:
        batch_id = batch.plan.batch_id
        click.echo(f"batch {batch_id} was refused: {refusal.first_line}\n  {refusal.helps(name, batch_id)}")
    if not blocks and refusal is None and not as_json:
        click.echo(f"{name}: nothing is blocked")
    raise SystemExit(NOT_WELL if blocks or refusal is not None else 0)


def _clear(ledger: SqlLedger, spec: Pipeline, batch: int | None, window: str | None, why: str, yes: bool) -> None:
    key = None if window is None else parse_window(spec, window)
    subject = f"batch {batch}" if key is None else of_window(key.start_ms)
    reason = next((b.reason for b in ledger.pipelines.blocks(spec.name) if b.subject == subject), None)
    if reason is None:
        raise Failed(f"{spec.name}: {said(subject)} is not blocked", NOT_WELL)
    click.echo(f"{said(subject)} is blocked: {reason}")
    sure(why, yes, "Clear the block?")
    if key is None:
        assert batch is not None
        ledger.repairs.clear_batch(spec.name, batch, reason, why)
    else:
        ledger.repairs.clear_window(spec.name, key, reason, why)
    click.echo(f"cleared; now clear the failed task in Airflow, it looks again at {said(subject)}")


def _abandon(ctx: Context, batch_id: int, why: str, yes: bool, force: bool) -> None:
    from tidegate.workflow.maintain import reconcile

    batch = ctx.ledger.batches.open(ctx.name)
    if batch is None or batch.plan.batch_id != batch_id:
        raise Failed(f"{ctx.name}: batch {batch_id} is not the open one; {_open_one(batch)}", NOT_WELL)
    if batch.state == SEALED:
        raise Failed(
            f"{ctx.name}: batch {batch_id} is SEALED: its rows are there; clear the land task instead", NOT_WELL
        )
    reconcile.abandonable(ctx, batch_id, force)
    if batch.plan.is_redrive:
        click.echo(
            f"redrive {batch_id} ({batch.state}) will be ABANDONED: its "
            f"{those(batch.plan.records, 'row', 'stay')} dirty rows"
        )
    else:
        _list_offsets(batch)
    sure(why, yes, "Give them up?")
    reconcile.abandon(ctx, batch_id, why, force)
    if batch.plan.is_redrive:
        click.echo("abandoned: these rows can be redriven again")
    else:
        click.echo(f"abandoned: the next run of {ctx.name}.ingest begins after these offsets")


def _list_offsets(batch: OpenBatch) -> None:
    plan = batch.plan
    click.echo(f"batch {plan.batch_id} ({batch.state}) will be ABANDONED, {those(plan.records, 'offset')} given up:")
    for r in plan.ranges:
        click.echo(f"  {r.topic} partition {r.partition}: offsets [{r.start}, {r.end})")
    click.echo("none of them is ever read, whether or not the topic still holds it")


def _reread(ctx: Context, batch_id: int, why: str, yes: bool) -> None:
    from tidegate.workflow.maintain import reconcile

    batch = ctx.ledger.batches.open(ctx.name)
    click.echo(f"{ctx.name}: {_open_one(batch)}; what its attempts wrote is not used, its offsets are read again")
    sure(why, yes, f"Forget batch {batch_id}?")
    reconcile.reread(ctx, batch_id, why)
    click.echo(f"forgotten: the next run of {ctx.name}.ingest plans these offsets anew")


def _release(ctx: Context, batch_id: int, why: str, yes: bool) -> None:
    from tidegate.workflow.maintain import reconcile

    refused = reconcile.releasable(ctx, batch_id)
    click.echo(refused.splitlines()[0])
    click.echo(f"its dirty rows will go into {ctx.pipeline.sink.table}__dirty, the others into their windows")
    sure(why, yes, f"Let batch {batch_id} land as it is?")
    reconcile.release(ctx, batch_id, refused, why)
    click.echo(f"released: clear the write task of {ctx.name}.ingest, or wait for its next run; nothing is read again")


def _adopt(ctx: Context, why: str, yes: bool) -> None:
    """List, ask, adopt. Raises Failed (1) without a reason, or where only a newer backup helps."""
    from tidegate.workflow.restore import adoption

    found = adoption.survey(ctx)
    if found.nothing:
        click.echo(f"{ctx.name}: storage knows nothing that the ledger does not")
        return
    _list_lost(found)
    if found.obstacles:
        raise Failed(
            f"{ctx.name}: {found.obstacles[0]}\n  what to do: restore the ledger from a newer backup", NOT_WELL
        )
    if not why:
        raise Failed(f"{ctx.name}: say --why '...' to write this into the ledger", NOT_WELL)
    sure(why, yes, "Write this into the ledger?")
    adoption.adopt(ctx, found, why)
    click.echo(f"done; now: tidegate audit {ctx.name}, then clear the failed tasks")


def _list_lost(found: Survey) -> None:
    if found.withdraw is not None:
        plan = found.withdraw.plan
        click.echo(f"batch {plan.batch_id} ({found.withdraw.state}) gives way to the one that has landed")
    for path in found.unrecorded:
        click.echo(f"{path}: landed, but never counted: it is set aside and its offsets are read again")
    for record in found.batches:
        kept = record.manifest
        rows = many(kept.rows, "row") if kept is not None else f"abandoned: {record.abandoned}"
        click.echo(f"batch {record.plan.batch_id}: {many(record.plan.records, 'offset')}, {rows}")
        for r in record.plan.ranges:
            click.echo(f"  {r.topic} partition {r.partition}: offsets [{r.start}, {r.end})")
    for generation in found.generations:
        rows = sum(f.rows for f in generation.files)
        click.echo(f"window {iso(generation.window.start_ms)}: generation {generation.number}, {many(rows, 'row')}")
        wrong = next((w for g, w in found.contradicting if g == generation), None)
        if wrong is not None:
            click.echo(f"  {wrong.why}: {'it is set aside' if wrong.set_aside else 'it cannot be adopted'}")


def _open_one(batch: OpenBatch | None) -> str:
    return "none is open" if batch is None else f"that is batch {batch.plan.batch_id} ({batch.state})"
