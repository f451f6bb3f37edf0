"""Commands that change something in the ledger, each with a reason for the event log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tidegate.commands import surroundings
from tidegate.commands.explain import parse_window
from tidegate.commands.failures import NOT_WELL, Failed
from tidegate.commands.output import json_option, print_json

if TYPE_CHECKING:
    from tidegate.adapters.ledger import SqlLedger
    from tidegate.core.pipeline import Pipeline
    from tidegate.workflow.context import Context

_why = click.option("--why", metavar="TEXT", help="The reason, for the event log.")
_yes = click.option("--yes", is_flag=True, help="Don't ask.")


@click.command()
@surroundings.pipeline_argument
@click.option("--list", "only_list", is_flag=True, help="List the blocks (this is what happens without options).")
@click.option("--batch", type=int, metavar="ID", help="Clear the block of this open batch.")
@click.option("--window", metavar="WINDOW", help="Clear the block of this window.")
@_why
@_yes
@json_option
def repair(
    pipeline: str, only_list: bool, batch: int | None, window: str | None, why: str | None, yes: bool, as_json: bool
) -> None:
    """List what alarms have blocked, or clear one block once its cause is understood.

    Clearing changes nothing but the block: the next try of the task looks at files and ledger again, and raises the
    alarm again if they still contradict each other.

    \b
    Examples:
      tidegate repair flights
      tidegate repair flights --batch 12 --why "restored landed/12 from the snapshot"
      tidegate repair flights --window 2013-01-26T16 --why "removed a stray file"

    \b
    Exit code: 0 nothing is blocked, or the block is cleared; 1 something is blocked; 2 usage; 3 no ledger.
    """
    spec = surroundings.pipeline_named(pipeline)
    if batch is not None and window is not None:
        raise click.UsageError("either --batch or --window")
    with surroundings.ledger() as ledger:
        if only_list or (batch is None and window is None):
            _list_blocks(ledger, pipeline, as_json)
            return
        if not why:
            raise click.UsageError("--why is needed: it goes into the event log")
        _clear(ledger, spec, batch, window, why, yes)


def _list_blocks(ledger: SqlLedger, name: str, as_json: bool) -> None:
    blocks = ledger.pipelines.blocks(name)
    if as_json:
        print_json({"pipeline": name, "blocks": blocks})
    for block in () if as_json else blocks:
        kind, _, what = block.subject.partition(" ")
        click.echo(f"{block.subject}: {block.reason}\n  clear it: tidegate repair {name} --{kind} {what} --why '...'")
    if not blocks and not as_json:
        click.echo(f"{name}: nothing is blocked")
    raise SystemExit(NOT_WELL if blocks else 0)


def _clear(ledger: SqlLedger, spec: Pipeline, batch: int | None, window: str | None, why: str, yes: bool) -> None:
    from tidegate.core.layout import window_id

    key = None if window is None else parse_window(spec, window)
    subject = f"batch {batch}" if key is None else f"window {window_id(key.start_ms)}"
    reason = next((b.reason for b in ledger.pipelines.blocks(spec.name) if b.subject == subject), None)
    if reason is None:
        raise Failed(f"{spec.name}: {subject} is not blocked", NOT_WELL)
    click.echo(f"{subject} is blocked: {reason}")
    if not yes:
        click.confirm("Clear the block?", abort=True)
    if key is None:
        assert batch is not None
        ledger.repairs.clear_batch(spec.name, batch, reason, why)
    else:
        ledger.repairs.clear_window(spec.name, key, reason, why)
    click.echo(f"cleared; now clear the failed task in Airflow, it looks again at {subject}")


@click.group()
def source() -> None:
    """What concerns a pipeline's topic."""


@source.command()
@surroundings.pipeline_argument
@_why
@_yes
def reset(pipeline: str, why: str | None, yes: bool) -> None:
    """Accept a topic that was recreated: its offsets start anew, by source.start.

    Rows that were landed from the old topic stay. A batch that is open and was planned from the old topic can't be
    read any more: it is ABANDONED, its offsets stay in the ledger as a term of the balance.

    \b
    Example:
      tidegate source reset flights --why "topic recreated with 16 partitions"

    \b
    Exit code: 0 accepted, or nothing to do; 1 refused; 2 usage; 3 Kafka or the ledger gives no answer.
    """
    spec = surroundings.pipeline_named(pipeline)
    with surroundings.ledger() as ledger:
        _reset(surroundings.context(spec, ledger), why, yes)


def _reset(ctx: Context, why: str | None, yes: bool) -> None:
    from tidegate.core.batch import SealedBatch

    name, topic = ctx.name, ctx.source.describe(ctx.pipeline.source.topic)
    row = ctx.ledger.pipelines.row(name)
    if row is None or row.accepted_topic_id is None or row.accepted_topic_id == topic.topic_id:
        click.echo(f"{name}: topic {topic.topic} ({topic.topic_id}) is the accepted one; nothing to do")
        return
    offsets = sum(o.high_watermark - o.log_start for o in topic.partitions.values())
    click.echo(f"{name}: the ledger's offsets belong to topic id {row.accepted_topic_id}")
    click.echo(
        f"{topic.topic} now has id {topic.topic_id}, {len(topic.partitions)} partitions, {offsets:,} offsets; "
        f"reading would begin at: {ctx.pipeline.source.start}"
    )
    open_batch = ctx.ledger.batches.open(name)
    if isinstance(open_batch, SealedBatch) or (open_batch and open_batch.plan.topic_id == topic.topic_id):
        open_batch = None  # a sealed batch has its rows and lands
    if open_batch is not None:
        plan = open_batch.plan
        click.echo(f"batch {plan.batch_id} ({open_batch.state}) will be ABANDONED: {plan.records:,} offsets are lost")
    if not why:
        raise click.UsageError("--why is needed: it goes into the event log")
    if not yes:
        click.confirm("Accept the new topic?", abort=True)
    if open_batch is not None:
        ctx.ledger.batches.abandon(open_batch, f"topic recreated: {why}")
    ctx.ledger.pipelines.accept_topic(name, row.accepted_topic_id, topic.topic_id, why)
    click.echo(f"accepted: the next run of {name}.ingest reads {topic.topic} ({topic.topic_id})")
