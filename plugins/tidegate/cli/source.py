"""Commands about a pipeline's topic: one that was recreated, a log that was cut."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from tidegate.cli import surroundings
from tidegate.cli.failures import named
from tidegate.cli.output import sure, why_option, yes_option
from tidegate.core.base.wording import many, those

if TYPE_CHECKING:
    from tidegate.core.source.log_cut import Cut
    from tidegate.workflow.base.context import Context
    from tidegate.workflow.restore.reset import Recreated

_partition = click.option("--partition", type=int, metavar="N", help="Of this Kafka partition alone.")


@click.group()
def source() -> None:
    """Decisions about a pipeline's topic."""


@source.command()
@surroundings.pipeline_argument
@why_option
@click.option("--recreated", is_flag=True, help="It was recreated, though nobody can see it (RocketMQ).")
@yes_option
def reset(pipeline: str, why: str, recreated: bool, yes: bool) -> None:
    """Accept a topic that was recreated: its offsets start anew, and reading begins at offset 0. The command first
    lists the records that retention has taken already; source.on_data_loss says whether the next plan stops there or
    records the loss.

    Kafka gives each topic an id. RocketMQ does not: a recreated topic is noticed while it is shorter than what was
    planned. Where it has grown past that, add --recreated.

    Rows that landed from the old topic stay. An open batch of the old topic can no longer be
    read: it becomes ABANDONED, and its offsets stay in the ledger as a term of the balance.

    \b
    Example:
      tidegate source reset flights --why "topic recreated with 16 partitions"

    \b
    Exit code: 0 accepted, or nothing to do; 1 refused; 2 usage; 3 Kafka or the ledger gives no answer.
    """
    spec = surroundings.pipeline_named(pipeline)
    with surroundings.looking(spec) as ctx:
        _reset(ctx, why, recreated, yes)


def _gone(ctx: Context, found: Recreated) -> Iterator[str]:
    """Say which offsets of the new topic are gone, and what the next plan does about them."""
    if not found.gone:
        return
    records = ctx.pipeline.source.on_data_loss == "record"
    yield f"{those(sum(found.gone.values()), 'offset')} gone from its beginning already:"
    yield from (f"  partition {p}: offsets [0, {count})" for p, count in found.gone.items())
    if records:
        yield "the next plan records them as lost (source.on_data_loss: record)"
    else:
        yield "the next plan stops there (source.on_data_loss: fail); with `record` it notes the loss and goes on"


def _reset(ctx: Context, why: str, recreated: bool, yes: bool) -> None:
    from tidegate.workflow.restore import reset as resetting

    name, found = ctx.name, resetting.survey(ctx, recreated)
    if not isinstance(found, resetting.Recreated):
        click.echo(f"{name}: topic {found.topic} ({found.topic_id}) is the accepted one; nothing to do")
        return
    topic = found.topic
    click.echo(f"{name}: the ledger's offsets belong to topic id {found.old}")
    click.echo(
        f"{topic.topic} now has id {topic.topic_id}, "
        f"{many(len(topic.partitions), 'partition')}, {many(found.offsets, 'offset')}; "
        "it will be read from its beginning"
    )
    for line in _gone(ctx, found):
        click.echo(line)
    if found.landed is not None:
        batch_id = found.landed.plan.batch_id
        click.echo(f"batch {batch_id} ({found.landed.state}) has landed before the ledger says so: its rows are kept")
    if found.given_up is not None:
        plan = found.given_up.plan
        state = found.given_up.state
        click.echo(f"batch {plan.batch_id} ({state}) will be ABANDONED: {those(plan.records, 'offset')} lost")
    sure(why, yes, "Accept the new topic?")
    resetting.accept(ctx, found, why)
    click.echo(f"accepted: the next run of {name}.ingest reads {topic.topic} ({topic.topic_id})")
    if ctx.pipeline.copy is not None:
        click.echo(
            "changes of the old topic that were not read come no more. Once an event of the new one is merged, a copy "
            f"reads what they made: tidegate copy {name} --again --why ..."
        )


@source.command()
@surroundings.pipeline_argument
@_partition
@why_option
@yes_option
def rewind(pipeline: str, partition: int | None, why: str, yes: bool) -> None:
    """After a log was cut (an unclean leader election): go on at the cut, and so read the records that have taken the
    freed offsets.

    Rows of the records that the topic lost stay in the table: they were read and published. Their offsets come a second
    time, in a later batch; a row belongs to the range of its own `_batch_id`. If producers have sent the lost
    records again, the table has their rows twice: compare with the producers, or use `tidegate source skip`.

    \b
    Example:
      tidegate source rewind flights --why "broker 3 lost its disk; producers do not send again"

    \b
    Exit code: 0 decided, or nothing to decide; 1 refused; 2 usage; 3 Kafka or the ledger gives no answer.
    """
    _decide(pipeline, partition, why, yes, skip=False)


@source.command()
@surroundings.pipeline_argument
@_partition
@why_option
@yes_option
def skip(pipeline: str, partition: int | None, why: str, yes: bool) -> None:
    """After a log was cut (an unclean leader election): go on at the planned end. Tidegate never reads the records that
    have taken the freed offsets; the next batch records them as lost.

    It needs a log that has grown past the planned end; before that nothing is lost by `tidegate source rewind`.

    \b
    Example:
      tidegate source skip flights --why "producers have sent again what was lost: it is in the table"

    \b
    Exit code: 0 decided, or nothing to decide; 1 refused; 2 usage; 3 Kafka or the ledger gives no answer.
    """
    _decide(pipeline, partition, why, yes, skip=True)


def _decide(pipeline: str, partition: int | None, why: str, yes: bool, skip: bool) -> None:
    from tidegate.workflow.source import log_cut

    spec = surroundings.pipeline_named(pipeline)
    with surroundings.looking(spec) as ctx, named(pipeline):
        cuts = [c for c in log_cut.survey(ctx) if partition is None or c.partition == partition]
        if not cuts:
            click.echo(f"{pipeline}: no log was cut; nothing to do")
            return
        _show(cuts, skip)
        sure(why, yes, "Go on so?")
        for cut in cuts:
            log_cut.settle(ctx, cut, skip, why)
        click.echo(f"decided: the next run of {pipeline}.ingest goes on there")


def _show(cuts: Sequence[Cut], skip: bool) -> None:
    for cut in cuts:
        click.echo(cut.words())
        freed = f"offsets [{cut.start}, {cut.end})"
        if skip:
            click.echo(f"  reading goes on at offset {cut.end}; {freed} are recorded as lost")
        else:
            click.echo(f"  reading goes on at offset {cut.start}; {freed} are read again: other records have them now")
