"""`tidegate status`: every pipeline on one screen, or one in detail."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from tidegate.cli import loss_warning, status_table, surroundings
from tidegate.cli.failures import NOT_WELL, WELL, WRONG
from tidegate.cli.output import advice, console, json_option, paragraph, paragraphs, print_json
from tidegate.cli.status_table import Line
from tidegate.cli.topics import topics
from tidegate.core.base.errors import SpecError
from tidegate.core.base.instants import iso, span
from tidegate.core.base.plain import to_plain
from tidegate.core.base.wording import many, offsets, those
from tidegate.core.tell.subjects import said

if TYPE_CHECKING:
    from rich.console import Console

    from tidegate.core.batch.states import OpenBatch
    from tidegate.core.look.status import PipelineStatus
    from tidegate.core.look.survey import Survey
    from tidegate.core.look.views import BatchRow, Overview
    from tidegate.core.mirror.applies import Merging
    from tidegate.ledger import SqlLedger
    from tidegate.spec.loader import Loaded

KAFKA_S = 2.0
EVENTS = 8
DUE_LISTED = 1000
"""Most windows that JSON names one by one; its ranges hold all."""
NOT_ASKED = "not asked"


@click.command()
@click.argument("pipeline", required=False, shell_complete=surroundings.complete_pipeline)
@json_option
@click.option("--no-kafka", is_flag=True, help="Don't ask Kafka for the lag.")
def status(pipeline: str | None, as_json: bool, no_kafka: bool) -> None:
    """Show the state of pipelines: open batch, lag, watermark, windows, blocks, due windows.

    Without PIPELINE it shows every YAML of the pipelines folder, an invalid one with file, line and field.

    \b
    Examples:
      tidegate status
      tidegate status flights
      tidegate status --json | jq '.pipelines[] | select(.well | not) | .name'

    \b
    Exit code: 0 every pipeline is well; 1 one is not (blocked, refused, hours overdue, records about to be lost, an
    audit that found problems); 2 a YAML is invalid; 3 the ledger gives no answer.
    """
    with surroundings.ledger() as ledger:
        lines = _gather(ledger, pipeline, not no_kafka)
        strangers = [] if pipeline else sorted(set(ledger.reads.names()) - {line.name for line in lines})
        left_open = {name: one for name in strangers if (one := ledger.batches.open(name)) is not None}
    if as_json:
        found = [_plain(line) for line in lines]
        print_json({"well": _exit_code(lines) == WELL, "pipelines": found, "without_yaml": strangers})
    elif pipeline:
        _print_one(lines[0])
    else:
        _print_all(lines, strangers, left_open)
    raise SystemExit(_exit_code(lines))


MANY_HELD = 3


def _exit_code(lines: Iterable[Line]) -> int:
    codes = [WELL]
    for line in lines:
        if line.error is not None:
            codes.append(WRONG)
        elif line.status is not None and not line.status.well:
            codes.append(NOT_WELL)
    return max(codes)


# ---------------------------------------------------------------- gather


def _gather(ledger: SqlLedger, name: str | None, ask_kafka: bool) -> list[Line]:
    from tidegate.adapters.clock import SystemClock
    from tidegate.workflow.look.status import statuses

    loaded = [_in_force(one, ledger) for one in surroundings.loaded_pipelines(name)]
    answers = topics(loaded, KAFKA_S) if ask_kafka else {}
    sound, now_ms = [one.pipeline for one in loaded if one.pipeline is not None], SystemClock().now_ms()
    states = {one: (topic, now_ms) for one, topic in answers.items() if not isinstance(topic, str)}
    found = statuses(sound, states, ledger.reads, now_ms, EVENTS if name else 1)
    silent = {one.name: answers.get(one.name, NOT_ASKED) for one in sound if one.name not in states}
    return [Line(one.name, found.get(one.name), str(one.error or "") or None, silent.get(one.name)) for one in loaded]


def _in_force(one: Loaded, ledger: SqlLedger) -> Loaded:
    """The YAML's pipeline as tasks have it, or why they cannot."""
    from tidegate.workflow.base.columns import in_force

    if one.pipeline is None:
        return one
    try:
        return replace(one, pipeline=in_force(one.pipeline, ledger))
    except SpecError as e:
        return replace(one, pipeline=None, error=e)


# ---------------------------------------------------------------- as JSON


def _plain(line: Line) -> dict[str, Any]:
    from tidegate.core.look import overdue

    if line.status is None:
        return {"name": line.name, "well": False, "error": line.error}
    s, v, o = line.status, line.status.survey, line.status.overview
    plain: dict[str, Any] = {"name": s.name, "well": s.well, "error": None, "registered": v is not None}
    plain |= {
        "level": s.level,
        "concerns": to_plain(s.concerns),
        "lag": {"records": s.lag.records, "by_partition": s.lag.partitions, "lost": s.lag.lost} if s.lag else None,
        "unread_records": s.lag.unread if s.lag else None,
        "kafka": line.kafka,
        "time_to_loss": loss_warning.plain(s.loss),
        "watermark_ms": s.watermark_ms,
        "next_window": _window(s.next_window),
        "expected": to_plain(s.expected),
        "due": [{"start_ms": k.start_ms, "end_ms": k.end_ms} for k in islice(s.due, DUE_LISTED)],
        "due_count": s.due.count,
        "due_ranges": overdue.plain(s.due),
        "due_since_ms": s.due_since_ms,
        "held": [{"start_ms": h.window_ms, **to_plain(h.comparison)} for h in s.held[:DUE_LISTED]],
        "held_count": len(s.held),
        "merging": _merging(s.merging),
        "copy": to_plain(s.reading),
        "deliveries": to_plain(s.backlogs),
        "due_ended": [iso(start) for start in overdue.ended(s.due, s.archive)],
        "archive_paused": s.archive.paused if s.archive else None,
        "archive_looked_at_ms": (s.archive.noted_ms or None) if s.archive else None,
        "blocks": to_plain(s.blocks),
        "side_duties": list(o.side_duties) if o else [],
        "paused_on_purpose": s.pause,
        "late_over_budget": [iso(c.window.start_ms) for c in s.late_left if c.over],
    }
    if v is not None and o is not None:
        plain |= {
            "open_batch": _batch(o.open_batch),
            "newest_landed": _batch(o.newest_landed),
            "batches": o.batches,
            "windows": o.windows,
            "generations": o.generations,
            "published_rows": v.published.rows,
            "late_now": v.late_now,
            "totals": to_plain(v.totals.balance),
            "lost_offsets": v.lost,
            "unanswered_intents": o.intents,
            "events": to_plain(o.events),
        }
    return plain


def _merging(merging: Merging | None) -> dict[str, Any] | None:
    """Of a mirror: its table, and what waits to be merged."""
    if merging is None:
        return None
    refused = merging.refused
    return {
        "table": to_plain(merging.told),
        "looked_at_ms": merging.told_ms,
        "newest_batch": merging.newest,
        "waiting_batches": merging.waiting,
        "waiting_since_ms": merging.since_ms,
        "refused": None if refused is None else refused.why,
    }


def _window(certificate: Any) -> dict[str, Any] | None:
    if certificate is None:
        return None
    return {
        "start_ms": certificate.window.start_ms,
        "end_ms": certificate.window.end_ms,
        "reason": certificate.reason,
        "blockers": list(certificate.blockers),
    }


def _batch(batch: BatchRow | None) -> dict[str, Any] | None:
    if batch is None:
        return None
    ranges = [{"partition": r.range.partition, "start": r.range.start, "end": r.range.end} for r in batch.ranges]
    fields = (
        "batch_id", "state", "epoch", "records", "refused", "released", "blocked", "planned_ms", "sealed_ms",
        "landed_ms",
    )  # fmt: skip
    return {name: getattr(batch, name) for name in fields} | {"ranges": ranges}


# ---------------------------------------------------------------- for people


def _print_all(lines: list[Line], strangers: list[str], left_open: dict[str, OpenBatch]) -> None:
    out = console()
    if lines:
        out.print(status_table.table(lines, out.width))
    else:
        out.print(f"no pipelines in {surroundings.pipelines_folder()}: one YAML file is one pipeline")
    for line in lines:
        if line.error is not None:
            out.print(Text(f"\n{line.error}"), soft_wrap=True)
        for c in line.status.concerns if line.status else ():
            out.print(Text(f"\n{line.name}: {c.what}"))
            out.print(Text(f"  what to do: {c.advice}"), soft_wrap=True)
        if line.status is not None and line.status.pause is not None:
            out.print(Text(f"\n{line.name}: {line.status.pause.words()}"))
        if line.status is not None and loss_warning.warns(line.status.loss):
            out.print(Text(f"\n{line.name}: {loss_warning.words(line.status.loss)}"))
    silent = [line for line in lines if line.kafka not in (None, NOT_ASKED)]
    if silent:
        names = ", ".join(line.name for line in silent)
        out.print(Text(f"\nlag not known of {names}: {silent[0].kafka}"), soft_wrap=True)
    if strangers:
        out.print(Text(f"\nin the ledger, without a YAML here: {', '.join(strangers)}"))
    for name, one in left_open.items():
        what = f"batch {one.plan.batch_id} of {name} is {one.state}, and no task goes on with it"
        out.print(Text(f"{what}: bring its YAML back"), soft_wrap=True)


def _print_one(line: Line) -> None:
    from tidegate.core.deliver.due import in_words

    out = console()
    s = line.status
    if s is None:
        out.print(Text(line.error or "", style="red"))
        return
    word, colour = status_table.word(s)
    out.print(Text(f"{s.name}: {word}", style=f"bold {colour}"))
    if s.pause is not None:
        paragraph(out, "paused", s.pause.words(), "yellow")
        advice(out, "  to go on", f"tidegate unpause {s.name}")
    for c in s.concerns:
        paragraph(out, "why", c.what, "red")
        advice(out, "  to do", c.advice)
    v, o = s.survey, s.overview
    if v is None or o is None:
        paragraph(out, "batches", "none: no run has registered this pipeline yet")
        paragraph(out, "behind", _behind_words(line))
        return
    paragraph(out, "open batch", _open_words(o.open_batch))
    if o.newest_landed is not None:
        n = o.newest_landed
        paragraph(out, "landed", f"batch {n.batch_id}, {_ago(n.landed_ms)}, {offsets(n.records)}; {_counts(o.batches)}")
    paragraph(out, "behind", _behind_words(line))
    if s.loss is not None:
        loss_warning.show(out, line.name, s.loss)
    paragraph(out, "rows", _rows_words(v))
    if s.merging is not None:
        _print_merges(out, s.merging)
    else:
        _print_windows(out, s, v, o)
    if s.copy_words:
        paragraph(out, "copy", s.copy_words)
    for backlog in s.backlogs:
        paragraph(out, "delivery", f"{backlog.name}: {in_words(backlog, s.now_ms)}")
    if o.side_duties:
        batches = ", ".join(map(str, o.side_duties))
        paragraph(out, "to do", f"late and dirty files of batch {batches} are not in their tables yet")
    if v.lost:
        paragraph(out, "lost", f"{those(v.lost, 'offset', 'were')} gone from the topic before they were read")
    if o.intents:
        paragraph(out, "catalogue", f"{many(o.intents, 'change')} without an answer")
    told = (f"{iso(e.at_ms // 1000 * 1000)}  {said(e.subject)}: {e.what}  ({e.actor})" for e in o.events)
    paragraphs(out, "events", told)


def _print_merges(out: Console, merging: Merging) -> None:
    told = merging.told
    if told is None or told.upto == 0:
        paragraph(out, "table", "nothing is merged yet")
    else:
        stand = f"{many(told.rows, 'row')} and {many(told.tombstones, 'tombstone')}"
        paragraph(out, "table", f"batches 1 to {told.upto}: {stand}, of {many(told.events, 'event')}")
    if merging.waiting:
        wait = f"{many(merging.waiting, 'landed batch')}, the oldest since {_ago(merging.since_ms)}"
        paragraph(out, "to merge", wait)
    else:
        paragraph(out, "to merge", "none")


def _print_windows(out: Console, s: PipelineStatus, v: Survey, o: Overview) -> None:
    from tidegate.core.look.concerns import late_words

    paragraph(out, "watermark", iso(s.watermark_ms))
    if s.next_window is not None:
        when = f"; {s.expected.text()}" if s.expected is not None else ""
        paragraph(out, "waits", s.next_window.text().partition(" ")[2] + when)
    windows = f"{v.published.windows:,} published with {many(v.published.rows, 'row')}"
    paragraph(out, "windows", "; ".join(filter(None, (windows, _counts(o.windows), _counts(v.busy)))))
    paragraph(out, "due", _due_words(s))
    if fill := _to_fill(s):
        advice(out, "", fill)
    paragraphs(out, "counts", (f"{iso(h.window_ms)} {h.comparison.text}" for h in s.held[:MANY_HELD]), "yellow")
    if len(s.held) > MANY_HELD:
        paragraph(out, "", f"and {many(len(s.held) - MANY_HELD, 'more window')} that another system's count holds")
    late = late_words(s.late_left, s.name)
    if late:
        advice(out, "late", late)


def _rows_words(survey: Survey) -> str:
    """Totals of all records, and the number of late rows that wait, where it differs."""
    totals = survey.totals.balance
    return totals.text() + (
        f"; of the late rows {survey.late_now:,} still wait" if survey.late_now != totals.late else ""
    )


def _open_words(batch: BatchRow | None) -> str:
    if batch is None:
        return "none"
    ranges = ", ".join(f"{r.range.partition}: [{r.range.start}, {r.range.end})" for r in batch.ranges)
    epoch = f" (epoch {batch.epoch})" if batch.epoch else ""
    what = f"redrive of {many(batch.records, 'dirty row')}" if batch.is_redrive else offsets(batch.records)
    return (
        f"{batch.batch_id} {batch.state}{epoch}, planned {_ago(batch.planned_ms)}, {what}"
        + (f"\npartition {ranges}" if ranges else "")
        + (f"\nmay land with its dirty rows, released by {batch.released}" if batch.released else "")
    )


def _behind_words(line: Line) -> str:
    if line.status is not None and line.status.pipeline.windows.read_whole:
        return "a table does not say how many rows wait before it is read"
    if line.status is None or line.status.lag is None:
        return f"not known: {line.kafka or 'the topic was recreated'}"
    lag = line.status.lag
    worst = sorted(((n, p) for p, n in lag.partitions.items() if n), reverse=True)[:4]
    most = ", ".join(f"partition {p}: {n:,}" for n, p in worst)
    return f"{many(lag.records, 'record')}" + (f" ({most}{', ...' if len(worst) == 4 else ''})" if most else "")


def _due_words(status: PipelineStatus) -> str:
    from tidegate.core.look import overdue

    if not status.due:
        return "none"
    since = f"; the oldest since {_ago(status.due_since_ms)}" if status.due_since_ms else ""
    over = len(overdue.ended(status.due, status.archive))
    which = overdue.ranges(status.due) + overdue.in_turn(status.due)
    return f"{overdue.count(status.due)} due and not published: {which}{since}" + (
        f"; {over:,} of them {'has a run that has' if over == 1 else 'have runs that have'} ended" if over else ""
    )


def _to_fill(status: PipelineStatus) -> str:
    """The command that publishes due windows, except those that another system's count would hold again."""
    from tidegate.core.look import overdue

    over, held = overdue.ended(status.due, status.archive), [h.window_ms for h in status.held]
    lately = 0 if status.survey is None else status.survey.lately
    just_now = overdue.just_now(status.due_since_ms, status.archive, status.now_ms)
    return overdue.to_fill(status.name, status.due, over, held, lately, just_now)


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{n:,} {state}" for state, n in counts.items())


def _ago(at_ms: int | None) -> str:
    if at_ms is None:
        return "never"
    return f"{iso(at_ms // 1000 * 1000)} ({span(time.time_ns() // 1_000_000 - at_ms)} ago)"
