"""`tidegate explain`: one window, in words to act on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from rich.table import Table
from rich.text import Text

from tidegate.cli import surroundings
from tidegate.cli.failures import NOT_WELL, WELL
from tidegate.cli.output import advice, console, json_option, paragraph, paragraphs, print_json
from tidegate.cli.windows import parse_window
from tidegate.core.base.errors import TidegateError
from tidegate.core.base.instants import iso
from tidegate.core.base.wording import many
from tidegate.core.window.cut import window_id
from tidegate.core.window.states import BUILDING, CURRENT

if TYPE_CHECKING:
    from rich.console import Console

    from tidegate.core.publish.grounds import Grounds
    from tidegate.core.source.port import LogState
    from tidegate.core.spec.pipeline import Pipeline
    from tidegate.core.window.readiness import Certificate
    from tidegate.workflow.look.explanation import Explanation

KAFKA_S = 2.0
MANY = 10
"""Most lines of a list for people; `--json` has all."""


@click.command()
@surroundings.pipeline_argument
@click.argument("window")
@json_option
def explain(pipeline: str, window: str, as_json: bool) -> None:
    """Say in which state a window is, why, and what to do next.

    WINDOW is an instant in it (UTC unless it names a zone), the table's partition, or the window's id.

    \b
    Examples:
      tidegate explain flights 2013-01-26T16
      tidegate explain flights 2013-01-26T16:00+01:00
      tidegate explain flights date=2013-01-26/hour=16
      tidegate explain flights 20130126T160000Z --json

    \b
    Exit code: 0 it is published; 1 it is not; 2 no such pipeline or window; 3 the ledger gives no answer.
    """
    from tidegate.workflow.look.explanation import explain as explanation_of

    spec = surroundings.pipeline_named(pipeline)
    key = parse_window(spec, window)
    with surroundings.ledger() as ledger:
        found = explanation_of(surroundings.context(spec, ledger), ledger.reads, key, _topic(spec))
    if as_json:
        print_json(found)
    else:
        _print(found)
    raise SystemExit(WELL if found.published else NOT_WELL)


def _topic(spec: Pipeline) -> LogState | None:
    """The topic's state; None where Kafka gives no answer: the ledger alone explains the window then."""
    try:
        return surroundings.source(spec, timeout_s=KAFKA_S).look(spec.source.topic)
    except TidegateError:
        return None


# ---------------------------------------------------------------- for people


def _print(e: Explanation) -> None:
    out = console()
    style = "bold green" if e.published else "bold yellow"
    out.print(Text(f"{e.pipeline} {iso(e.window.start_ms)} to {iso(e.window.end_ms)}: {e.summary}", style=style))
    holds_command = "airflow " in e.next_step or "tidegate " in e.next_step
    (advice if holds_command else paragraph)(out, "next", e.next_step)
    paragraph(out, "window", f"{e.state}, {e.partition}, id {window_id(e.window.start_ms)}{_closed(e)}")
    if e.view.window is not None and e.view.window.blocked:
        paragraph(out, "BLOCKED", e.view.window.blocked, "red")
    opens_again = e.published and not e.now.ready  # which no window does, whatever the watermark
    if e.now.reason not in e.summary and not opens_again:
        paragraph(out, "now", _certificate(e.now))
    if e.stored is not None and (e.stored.ready, e.stored.reason) != (e.now.ready, e.now.reason):
        paragraph(out, "stored", f"{_certificate(e.stored)} (decided {iso(e.stored.decided_ms // 1000 * 1000)})")
    if not e.published and not e.now.ready:
        _print_partitions(out, e.now)
    _print_generations(out, e)
    _print_grounds(out, e.grounds, e.read_again)
    _print_shares(out, e)
    for reached in e.deliveries:
        paragraph(out, "delivery", f"{reached.name}: {reached.said}")
        if reached.next_step:
            advice(out, "", reached.next_step)
    for intent in e.view.intents:
        text = f"no answer yet for a change to {intent.location}; it may be executed until {iso(intent.deadline_ms)}"
        paragraph(out, "catalogue", text, "yellow")
    told = (f"{_time(event.at_ms)}  {event.what}{_detail(event.detail)}  ({event.actor})" for event in e.view.events)
    paragraphs(out, "events", told)


def _closed(e: Explanation) -> str:
    row = e.view.window
    return f", closed {_time(row.closed_ms)}" if row is not None and row.closed_ms else ""


def _certificate(c: Certificate) -> str:
    return f"{'ready' if c.ready else 'not ready'}: {c.reason}"


def _print_partitions(out: Console, certificate: Certificate) -> None:
    table = _table("partition", "watermark", "by", "newest event", "drained", "last read", padding=1)
    blockers = set(certificate.blockers)
    shown = sorted(certificate.partitions, key=lambda p: (p.partition not in blockers, p.partition))[: 2 * MANY]
    for p in shown:
        blocks = p.partition in blockers
        drained = "yes" if p.drained else "no"
        table.add_row(
            f"{p.partition}{' blocks' if blocks else ''}",
            iso(p.watermark_ms),
            p.basis,
            iso(p.max_event_ms),
            drained,
            _time(p.advanced_ms),
            style="yellow" if blocks else "",
        )
    if certificate.partitions:
        out.print(table)
    _more(out, len(certificate.partitions) - len(shown), "partition")


def _print_generations(out: Console, e: Explanation) -> None:
    if not e.view.generations:
        return
    table = _table("generation", "state", "kind", "rows", "files", "batches", "published", "digest")
    for g in e.view.generations:
        table.add_row(
            str(g.number),
            g.state + (f"({g.epoch})" if g.state == BUILDING else "") + (", deleted" if g.cleaned_ms else ""),
            g.kind,
            "" if g.rows is None else f"{g.rows:,}",
            f"{len(g.files):,}",
            _short_list(g.batches),
            "-" if g.published_ms is None else iso(g.published_ms // 1000 * 1000),
            (g.digest or "")[:12],
            style="green" if g.state == CURRENT else "",
        )
    out.print(table)
    for g in e.view.generations:
        if g.state == CURRENT and g.location:
            paragraph(out, "location", g.location)


def _print_grounds(out: Console, grounds: Grounds | None, again: int | None) -> None:
    """Print the batches and offsets that the generation in force rests on, in few lines."""
    if grounds is None or grounds.closing_batch is None:
        return
    floor = f", floor up to {iso(grounds.floor_ms)}" if grounds.floor_ms is not None else ""
    if again is not None:
        paragraph(out, "first reading", f"what follows is of it; the rows in force are of generation {again}'s reading")
    paragraph(
        out,
        "rests on",
        f"{many(grounds.rows, 'row')} in {many(grounds.range_count, 'range')} of "
        f"{many(len(grounds.batches), 'batch')}{floor}; rows "
        f"that batch {grounds.closing_batch} and later ones bring for it are late",
    )
    table = _table("partition", "rows", "first", "last", "batches", "offsets", "gaps")
    for p in grounds.partitions[:MANY]:
        table.add_row(*(f"{n:,}" for n in (p.partition, p.rows, p.first, p.last, p.batches, p.offsets, p.gaps)))
    if grounds.partitions:
        out.print(table)
    _more(out, len(grounds.partitions) - MANY, "partition")
    for g in grounds.gap_intervals[:MANY]:
        paragraph(out, "gap", f"batch {g.batch_id} partition {g.partition}: no record at offsets [{g.start}, {g.end})")
    for lost in grounds.losses[:MANY]:
        where = f"batch {lost.batch_id} partition {lost.partition}: offsets [{lost.start}, {lost.end})"
        paragraph(out, "lost", f"{where} were never read ({lost.reason})", "yellow")


def _print_shares(out: Console, e: Explanation) -> None:
    if not e.shares:
        paragraph(out, "rows", "no landed batch has any")
        return
    table = _table("batch", "landed", "rows", "late", "offsets of its rows, by Kafka partition")
    for share in e.shares[: 2 * MANY]:
        told = list(share.partitions.items())[:MANY]
        spans = ", ".join(f"{p}: {n:,} in [{low}, {high}]" for p, (n, low, high) in told)
        spans += f", and {len(share.partitions) - MANY:,} more" if len(share.partitions) > MANY else ""
        spans += f"; {many(share.rerouted, 'row')} came late for earlier windows (rerouted)" if share.rerouted else ""
        name = f"{share.batch_id} (redrive of {_short_list(share.sources)})" if share.sources else str(share.batch_id)
        table.add_row(name, _time(share.landed_ms), f"{share.rows:,}", f"{share.late:,}", spans)
    out.print(table)
    _more(out, len(e.shares) - 2 * MANY, "batch")


def _more(out: Console, count: int, what: str) -> None:
    if count > 0:
        paragraph(out, "", f"and {many(count, f'more {what}')}: --json has them all")


def _table(*columns: str, padding: int = 2) -> Any:
    table = Table(box=None, padding=(0, padding, 0, 0), header_style="bold")
    for name in columns:
        number = name in ("rows", "files", "late")
        long = name.startswith("offsets")
        table.add_column(name, justify="right" if number else "left", overflow="fold", no_wrap=not long)
    return table


def _short_list(ids: tuple[int, ...]) -> str:
    shown = ", ".join(map(str, ids[:4]))
    return f"{shown}, ... ({len(ids)})" if len(ids) > 4 else shown


def _time(at_ms: int | None) -> str:
    return "-" if at_ms is None else iso(at_ms // 1000 * 1000)


def _detail(detail: Any) -> str:
    """The few words of an event's detail that say why."""
    if not isinstance(detail, dict):
        return ""
    words = [f"{k} {v}" for k, v in detail.items() if k in ("generation", "epoch", "kind", "reason", "why", "batches")]
    return f" ({', '.join(words)})" if words else ""
