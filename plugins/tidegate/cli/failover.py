"""`tidegate failover`: the source goes on at another site, and comes back."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from tidegate.cli import surroundings
from tidegate.cli.failures import NOT_WELL, Failed
from tidegate.cli.output import json_option, print_json, sure, why_option, yes_option
from tidegate.core.base.fields import columns
from tidegate.core.base.wording import many
from tidegate.core.failover.crossing import Crossing, Pair

if TYPE_CHECKING:
    from tidegate.core.failover.decision import Decision
    from tidegate.workflow.base.context import Context
    from tidegate.workflow.failover.survey import Said
    from tidegate.workflow.failover.switch import Returned

Pairs = dict[int, tuple[int, int]]


def _marks(_ctx: click.Context, _param: click.Parameter, given: tuple[str, ...]) -> dict[int, int]:
    found = {}
    for one in given:
        partition, equals, offset = one.partition("=")
        if not (equals and partition.isdigit() and offset.isdigit()):
            raise click.BadParameter(f"{one} is not PARTITION=OFFSET")
        _once(found, int(partition))
        found[int(partition)] = int(offset)
    return found


def _pairs(_ctx: click.Context, _param: click.Parameter, given: tuple[str, ...]) -> dict[int, tuple[int, int]]:
    found = {}
    for one in given:
        partition, equals, places = one.partition("=")
        before, colon, here = places.partition(":")
        if not (equals and colon and partition.isdigit() and before.isdigit() and here.isdigit()):
            raise click.BadParameter(f"{one} is not PARTITION=OFFSET:THERE")
        _once(found, int(partition))
        found[int(partition)] = (int(before), int(here))
    return found


def _once(found: Container[int], partition: int) -> None:
    """Which of two was meant is not guessed."""
    if partition in found:
        raise click.BadParameter(f"partition {partition} is named twice")


_to = click.option("--to", "site", required=True, metavar="SITE", help="The site (source.sites) that takes over.")
_stopped = click.option("--stopped", is_flag=True, help="Say that copying to the site has stopped, where no copier has "
                        "a transactional.id that could be fenced.")  # fmt: skip
_mark = click.option("--mark", "marks", multiple=True, callback=_marks, metavar="P=OFFSET",
                     help="Where the copies of a partition end, if producers write there already.")  # fmt: skip
_pair = click.option("--pair", "pairs", multiple=True, callback=_pairs, metavar="P=OFFSET:THERE",
                     help="Of copies without the header tidegate-source: the record at OFFSET of partition P has its "
                     "copy at THERE. You say with it that the copier is exact: each record once, in order, none left "
                     "out.")  # fmt: skip
_plan = click.option("--plan", "digest", metavar="DIGEST", help="Refuse if the plan is not the one of this digest.")


@click.group()
def failover() -> None:
    """Go on reading at a copy of the topic at another site, and come back."""


@failover.command()
@surroundings.pipeline_argument
@_to
@_stopped
@_mark
@_pair
@json_option
def plan(pipeline: str, site: str, stopped: bool, marks: dict[int, int], pairs: Pairs, as_json: bool) -> None:
    """Show what a failover would do, and change nothing.

    For each partition: where the batches of the active site end, how far the copies reach, from which offset on
    reading would begin at the other site, and what never crossed. What cannot be proven is refused by name.

    \b
    Examples:
      tidegate failover plan flights --to bergen
      tidegate failover plan flights --to bergen --stopped --pair 0=117000:118250

    \b
    Exit code: 0 it can be run; 1 refused; 2 usage; 3 the site's brokers or the ledger give no answer.
    """
    from tidegate.workflow.failover.survey import survey

    with _context(pipeline, stopped, marks, pairs) as (ctx, given):
        decision = survey(ctx, site, given)
        _tell(decision, as_json)
        _refuse(decision)


@failover.command()
@surroundings.pipeline_argument
@_to
@_stopped
@_mark
@_pair
@_plan
@why_option
@yes_option
def run(
    pipeline: str,
    site: str,
    stopped: bool,
    marks: dict[int, int],
    pairs: Pairs,
    digest: str | None,
    why: str,
    yes: bool,
) -> None:
    """Go on at another site: fence its copiers, look again, and switch in the ledger.

    An open batch is planned again at the new site. The switch is one comparison in the ledger: a task that plans or
    seals at the old site afterwards is refused. Interrupted at any moment, run it again.

    \b
    Examples:
      tidegate failover run flights --to bergen --why "Oslo has no power"
      tidegate failover run flights --to bergen --stopped --mark 0=118270 --why "producers write in Bergen since 02:10"

    \b
    Exit code: 0 done; 1 refused; 2 usage; 3 the site's brokers or the ledger give no answer.
    """
    with _context(pipeline, stopped, marks, pairs) as (ctx, given):
        _switch(ctx, site, given, digest, why, yes)


@failover.command()
@surroundings.pipeline_argument
@click.option("--to", "site", metavar="SITE", help="The site that has returned; by default the first one.")
@_stopped
@_mark
@_pair
@_plan
@why_option
@yes_option
def back(
    pipeline: str,
    site: str | None,
    stopped: bool,
    marks: dict[int, int],
    pairs: Pairs,
    digest: str | None,
    why: str,
    yes: bool,
) -> None:
    """Go back to a site that was active before, in two steps.

    First, once its brokers answer and before anything is copied there: the command notes where the site's own records
    end, and says what of them never crossed. Then start the copier back, and let it catch up. Second: the same command
    switches. What never crossed is read as batches of its own; what had crossed is not read again.

    \b
    Examples:
      tidegate failover back flights --why "Oslo has power again"
      tidegate failover back flights --why "copied back, producers stand still"

    \b
    Exit code: 0 done; 1 refused; 2 usage; 3 the site's brokers or the ledger give no answer.
    """
    from tidegate.workflow.failover import switch
    from tidegate.workflow.failover.survey import noted

    with _context(pipeline, stopped, marks, pairs) as (ctx, given):
        name = site or next((one.name for one in ctx.pipeline.source.sites), "")
        newest = ctx.ledger.failovers.newest(ctx.name)
        if noted(ctx, ctx.ledger.failovers.history(ctx.name), name):
            _switch(ctx, name, given, digest, why, yes)
            return
        found = switch.ends_of(ctx, name)
        for line in _returned(name, found):
            click.echo(line)
        sure(why, yes, "Note these ends?")
        switch.note(ctx, name, found, 0 if newest is None else newest.number)
        starts = dict.fromkeys(ctx.ledger.batches.planning_view(ctx.name).planned_ends, 0)  # of those that came since
        starts |= {} if newest is None else {c.partition: c.mark for c in newest.certificate.crossings}
        click.echo(f"noted. Now copy from site {ctx.pipeline.source.site} to site {name}, from these offsets on:")
        for partition, mark in sorted(starts.items()):
            click.echo(f"  partition {partition}: {mark}")
        click.echo("once that has caught up, run this command again; if the copier writes no header, with")
        pairs_then = (f"--pair {p.partition}={starts.get(p.partition, 0)}:{p.end}" for p in found)
        click.echo(f"  {' '.join(pairs_then)}")


@failover.command()
@surroundings.pipeline_argument
@why_option
@yes_option
def adopt(pipeline: str, why: str, yes: bool) -> None:
    """Write back switches that the ledger has lost, from their records in storage.

    A replica of the ledger's database that was promoted may lack its last commits. Batches that landed at the site
    since then come back by `tidegate repair PIPELINE --adopt`, after this command.

    \b
    Example:
      tidegate failover adopt flights --why "the ledger's replica was promoted"

    \b
    Exit code: 0 done; 1 refused; 2 usage; 3 the ledger gives no answer.
    """
    from tidegate.workflow.failover import records

    with _context(pipeline) as (ctx, _):
        for record in records.lost(ctx):
            one = record.failover
            click.echo(f"failover {one.number}: from site {one.before} to site {one.site}, because: {one.why}")
        sure(why, yes, "Write them back?")
        records.adopt(ctx, why)


def _switch(ctx: Context, site: str, said: Said, digest: str | None, why: str, yes: bool) -> None:
    from tidegate.workflow.failover import switch
    from tidegate.workflow.failover.survey import survey

    decision = survey(ctx, site, said)
    _tell(decision, False)
    _refuse(decision)
    if digest is not None and digest != decision.digest:
        raise Failed(f"{ctx.name}: the plan is {decision.digest} by now, not {digest}: look at it again", NOT_WELL)
    sure(why, yes, f"Go on at site {site}?")
    decision = survey(ctx, site, said, fence=True)
    if decision.refusals:
        _tell(decision, False)
        click.echo(f"site {decision.facts.before} stays active; copiers that were fenced have to be started again")
    _refuse(decision)
    done = switch.apply(ctx, decision, why)
    click.echo(f"site {site} is active (failover {done.number}): the next run of {ctx.name}.ingest reads there")


def _refuse(decision: Decision) -> None:
    if decision.refusals:
        count = many(len(decision.refusals), "reason")
        raise Failed(f"{decision.facts.pipeline}: no failover to {decision.facts.site}: {count} above", NOT_WELL)


def _tell(decision: Decision, as_json: bool) -> None:
    if as_json:
        print_json(_plain(decision))
        return
    for line in _lines(decision):
        click.echo(line)


def _lines(decision: Decision) -> Iterator[str]:
    facts = decision.facts
    yield f"{facts.pipeline}: site {facts.before} is active, by batches of topic id {facts.before_topic_id}"
    yield f"site {facts.site}: topic {facts.topic.topic}, id {facts.topic.topic_id}; copying: {facts.stopped or '?'}"
    if facts.batch is not None and not decision.refusals:
        yield f"batch {facts.batch.plan.batch_id} is {facts.batch.state}: it is planned again at site {facts.site}"
    if facts.others:
        yield f"copies of topic id {', '.join(sorted(facts.others))} there are skipped: those sites were active before"
    for name in facts.never:
        yield f"site {name} was never active: what is copied from it behind a mark is taken for new records"
    for crossing in decision.crossings:
        yield from _of_partition(crossing, facts.before, facts.site)
    for refusal in decision.refusals:
        yield f"REFUSED, {refusal.line}"
        yield f"  what to do: {refusal.advice}"
    if decision.switch is not None:
        yield f"plan {decision.digest}"


def _of_partition(crossing: Crossing, before: str, site: str) -> Iterator[str]:
    reach = "nothing has crossed" if crossing.crossed is None else f"copies reach up to {crossing.crossed}"
    at_least = crossing.pair is not None and crossing.to_read > 0  # offsets without a record above what has landed
    reach += " or beyond" if at_least else ""
    yield f"  partition {crossing.partition}: {before} has landed up to {crossing.landed}; {reach}"
    if crossing.pair is not None:
        yield f"    counted from pair {crossing.pair} on; compared with what {before} has, once that returns"
    said = [f"{many(crossing.to_read, 'copied record')} to read"]
    if crossing.repeats:
        said.append(f"{many(crossing.repeats, 'repeat')} skipped")
    if crossing.strays:
        said.append(f"{many(crossing.strays, 'record')} of another site skipped: read there")
    yield f"    {site}: mark {crossing.mark}, {', '.join(said)}; new records from there on"
    if crossing.unknown_here:
        yield f"    landed, but unknown to {site}: up to {many(crossing.unknown_here, 'offset')} of {before}"
    left, which = f"{crossing.left}", "they are read when it returns"
    if at_least:
        left, which = f"{crossing.left} or a later one", "it says which when it returns"
    yield f"    of {before}, offsets from {left} on never crossed: {which}"


def _returned(site: str, found: Iterable[Returned]) -> Iterator[str]:
    yield f"site {site} has returned; of its own records these never crossed:"
    for one in found:
        count = many(one.end - one.left, "offset")
        yield f"  partition {one.partition}: [{one.left}, {one.end}), {count} at most"


def _plain(decision: Decision) -> dict[str, Any]:
    facts = decision.facts
    return {
        **columns(facts, "pipeline", "site", "before", "before_topic_id", "stopped"),
        "topic_id": facts.topic.topic_id,
        "partitions": decision.crossings,
        "refusals": decision.refusals,
        "plan": None if decision.switch is None else decision.digest,
    }


@contextmanager
def _context(
    pipeline: str, stopped: bool = False, marks: dict[int, int] | None = None, pairs: Pairs | None = None
) -> Iterator[tuple[Context, Said]]:
    """A context that looks and switches, and reaches the other sites; and what the options say."""
    from tidegate.adapters.rows import RowProcess
    from tidegate.wiring import command_lookup, standby_of
    from tidegate.workflow.failover.overlap import Known
    from tidegate.workflow.failover.survey import Said

    spec = surroundings.pipeline_named(pipeline)
    with ExitStack() as stack:
        ledger = stack.enter_context(surroundings.ledger())
        ctx = surroundings.context(spec, ledger, click.echo)
        ctx.standby = partial(standby_of, spec, lookup=command_lookup)
        known = None
        if pairs:
            rows = stack.enter_context(RowProcess(secrets=surroundings.storage_secrets(spec)))
            known = Known(ledger.reads, rows, {p: Pair(*places) for p, places in pairs.items()})
        yield ctx, Said(marks=marks or {}, stopped=stopped, known=known)
