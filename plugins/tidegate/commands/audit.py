"""`tidegate audit`: the promise, proved against the ledger, the files and the catalogue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tidegate.commands import surroundings
from tidegate.commands.failures import NOT_WELL, WELL
from tidegate.commands.output import advice, console, json_option, paragraph, print_json, progress
from tidegate.core.wording import many

if TYPE_CHECKING:
    from tidegate.workflow.audit import Report


@click.command()
@surroundings.pipeline_argument
@json_option
@click.option("--deep", is_flag=True, help="Read every row's Kafka partition and offset as well.")
@click.option("--no-files", is_flag=True, help="Don't look into files: their lengths only, no footers.")
@click.option("--no-catalogue", is_flag=True, help="Don't ask Hive for the partitions.")
@click.option("--no-kafka", is_flag=True, help="Don't ask Kafka for the topic's offsets.")
@click.option("-q", "--quiet", is_flag=True, help="No progress on standard error.")
def audit(
    pipeline: str,
    as_json: bool,
    deep: bool,
    no_files: bool,
    no_catalogue: bool,
    no_kafka: bool,
    quiet: bool,
) -> None:
    """Prove that every record is in the table exactly once: read = data + late + dirty + filtered + dropped.

    For every range of every landed batch and for every window; the ledger is held against the files (their lengths
    and what their footers say) and the catalogue's partitions. With --deep every row is read: each Kafka offset that
    the ledger says was read must be in one file, once. Nothing is changed. Files are read in a process of its own;
    memory does not grow with the table.

    \b
    Examples:
      tidegate audit flights
      tidegate audit flights --deep                # every row's coordinates; about a minute for 100 million
      tidegate audit flights --json | jq .balanced

    \b
    Exit code: 0 balanced; 1 not, each problem with what to do; 2 no such pipeline;
    3 the ledger or the filesystem gives no answer.
    """
    from tidegate.adapters.footers import FooterProcess
    from tidegate.workflow.audit import Depth
    from tidegate.workflow.audit import audit as audit_of

    spec = surroundings.pipeline_named(pipeline)
    if deep and no_files:
        raise click.UsageError("--deep reads the files: it does not go with --no-files")
    depth = Depth(
        footers=not no_files,
        coordinates=deep,
        catalogue=not no_catalogue,
        broker=not no_kafka,
    )
    say = (lambda line: None) if quiet else progress
    with surroundings.ledger() as ledger:
        ctx = surroundings.context(spec, ledger, say)
        report = audit_of(ctx, ledger.reads, FooterProcess(user=ctx.pipeline.sink.user), depth)
    if as_json:
        print_json(plain(report))
    else:
        _print(report)
    raise SystemExit(WELL if report.balanced else NOT_WELL)


def plain(report: Report) -> dict[str, Any]:
    """The report as JSON has it; the names are a promise."""
    from tidegate.core.plain import to_plain

    t, b = report.totals, report.totals.balance
    return {
        "pipeline": report.pipeline,
        "balanced": report.balanced,
        "offsets": b.offsets,
        "read": b.read,
        "gaps": b.gaps,
        "data": b.data,
        "late": b.late,
        "dirty": b.dirty,
        "filtered": b.filtered,
        "dropped": b.dropped,
        "rerouted": b.rerouted,
        "late_taken_up": t.reopened,
        "published": t.published,
        "waiting": t.waiting,
        "abandoned": t.abandoned,
        "lost": t.lost,
        "unfinished": t.unfinished,
        "batches": report.batches,
        "windows": {"published": report.windows_published, "waiting": report.windows_waiting},
        "files": {
            "count": report.files,
            "bytes": report.bytes,
            "rows": report.rows_in_files,
            "coordinates": report.coordinates,
        },
        "catalogue": {"partitions": report.partitions_in_catalogue},
        "produced": to_plain(report.produced),
        "problems": to_plain(report.problems),
        "notes": list(report.notes),
        "seconds": round(report.seconds, 2),
    }


def _print(report: Report) -> None:
    from rich.text import Text

    from tidegate.core.subjects import said

    out = console()
    t = report.totals
    for n, problem in enumerate(report.problems, 1):
        paragraph(out, f"problem {n}", f"{said(problem.subject)}: {problem.what}", "red")
        if problem.advice:
            advice(out, "  to do", problem.advice)
    for note in report.notes:
        paragraph(out, "note", note, "yellow")
    batches = ", ".join(f"{n:,} {state}" for state, n in report.batches.items()) or "none"
    paragraph(out, "batches", batches + (f" ({many(t.unfinished, 'offset')} under way)" if t.unfinished else ""))
    windows = f"{report.windows_published:,} published, {report.windows_waiting:,} with rows waiting"
    paragraph(out, "windows", windows)
    paragraph(out, "files", _files(report))
    if report.partitions_in_catalogue is not None:
        paragraph(out, "catalogue", f"{many(report.partitions_in_catalogue, 'partition')}")
    if report.produced is not None:
        paragraph(out, "topic", _topic(report))
    b = t.balance
    gaps = f"{many(b.offsets, 'offset')} = read {b.read:,} + gaps {b.gaps:,}"
    extra = [f"{n:,} {word}" for n, word in ((t.abandoned, "abandoned"), (t.lost, "lost to retention")) if n]
    paragraph(out, "offsets", gaps + (f"; besides {' and '.join(extra)}" if extra else ""))
    late = f" + {t.reopened:,} late ones that windows took up" if t.reopened else ""
    paragraph(out, "data", f"{b.data:,}{late} = published {t.published:,} + waiting {t.waiting:,}")
    paragraph(out, "total", b.text())
    verdict = "balanced" if report.balanced else f"NOT BALANCED: {many(len(report.problems), 'problem')}"
    style = "bold green" if report.balanced else "bold red"
    out.print(Text(f"{report.pipeline}: {verdict} ({report.seconds:.1f} s)", style=style))


def _files(report: Report) -> str:
    words = [f"{report.files:,} in their places, {many(report.bytes, 'byte')}"]
    if report.rows_in_files is not None:
        words.append(f"{many(report.rows_in_files, 'row')} by their footers")
    if report.coordinates is not None:
        words.append(f"{report.coordinates:,} Kafka coordinates read")
    return "; ".join(words)


def _topic(report: Report) -> str:
    p, b = report.produced, report.totals.balance
    assert p is not None
    words = f"{many(p.offsets, 'offset')} = {b.offsets:,} landed + {p.not_planned:,} not planned yet"
    if report.totals.unfinished:
        words += f" + {report.totals.unfinished:,} under way"
    rest = p.offsets - b.offsets - p.not_planned - report.totals.unfinished
    return words + (f" + {rest:,} lost or abandoned" if rest else "")
