"""`tidegate audit`: the promise, proved against the ledger, the files and the catalogue."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from tidegate.cli import surroundings
from tidegate.cli.failures import CANNOT_TELL, NOT_WELL, WELL
from tidegate.cli.output import advice, console, json_option, paragraph, print_json, progress
from tidegate.cli.progress_bar import following
from tidegate.cli.windows import last_option, parse_ends
from tidegate.core.audit.scope import Part
from tidegate.core.base.fields import columns
from tidegate.core.base.instants import span
from tidegate.core.base.offsets import Interval
from tidegate.core.base.plain import to_plain
from tidegate.core.base.wording import many, size
from tidegate.core.tell.subjects import said

if TYPE_CHECKING:
    from tidegate.core.spec.pipeline import Pipeline
    from tidegate.workflow.audit.audit import Depth, Report

PERCENT = click.FloatRange(0, 100, min_open=True)


@click.command()
@surroundings.pipeline_argument
@json_option
@click.option("--deep", is_flag=True, help="Read every row as well: what it holds, Kafka partition and offset.")
@click.option("-s", "--start", "first", metavar="WINDOW", help="Only the files of a range of windows: its first one.")
@last_option
@click.option("--sample", type=PERCENT, metavar="PERCENT", help="With --deep: read so many of the files, drawn anew.")
@click.option("--no-files", is_flag=True, help="Don't look into files: their lengths only, no footers.")
@click.option("--no-catalogue", is_flag=True, help="Don't ask Hive for the partitions.")
@click.option("--no-kafka", is_flag=True, help="Don't ask Kafka for the topic's offsets.")
@click.option("-q", "--quiet", is_flag=True, help="No progress on standard error.")
def audit(
    pipeline: str,
    as_json: bool,
    deep: bool,
    first: str | None,
    last: str | None,
    sample: float | None,
    no_files: bool,
    no_catalogue: bool,
    no_kafka: bool,
    quiet: bool,
) -> None:
    """Prove that every record is in the table exactly once: read = data + late + dirty + filtered + dropped.

    It proves this for every range of every landed batch and for every window, and compares the ledger with the files
    (their lengths and footers), the catalogue's partitions, and the records in storage from which a lost ledger is
    rebuilt. With --deep it reads every row: the checksum over all values must be the manifest's, each Kafka offset
    that the ledger calls read must be in one file, once, and each record must agree with the ledger. It says
    first how much it will read, then how long the rest will take. It changes nothing. A separate process reads the
    files; memory does not grow with the table.

    Of a mirror --deep also makes the table anew from its batches, bucket by bucket, and compares: keys that differ are
    named. Meanwhile the events wait in TMPDIR, which needs about twice the space of their files. A --sample is of
    buckets then. Of a mirror by days it makes each published day anew, from the day before and its events.

    With a range (-s, -e) or a --sample it looks at some of the files: it still checks the whole ledger against itself,
    but says nothing about the other files, nor whether each offset is in one file.

    While the pipeline works, files move. So it looks for each finding again, and reports it only if it stays.

    \b
    Examples:
      tidegate audit flights
      tidegate audit flights --deep
      tidegate audit flights --deep -s 2013-01-01 -e 2013-01-31T23:00
      tidegate audit flights --deep --sample 5
      tidegate audit flights --json | jq .balanced

    \b
    Exit code: 0 balanced, or nothing wrong in the part that it looked at; 1 not, each problem with what to do;
    2 no such pipeline, or usage; 3 the ledger or the filesystem gives no answer, or the pipeline moved the findings
    at each look.
    """
    from tidegate.workflow.audit.audit import Depth

    spec = surroundings.pipeline_named(pipeline)
    if deep and no_files:
        raise click.UsageError("--deep reads the files: it does not go with --no-files")
    if sample is not None and not deep:
        raise click.UsageError("--sample is a share of what --deep reads: it needs --deep")
    if last is not None and first is None:
        raise click.UsageError("-e needs -s")
    part = _part(spec, first, last, sample)
    depth = Depth(not no_files, deep, not no_catalogue, not no_kafka, part)
    report = _carry_out(spec, depth, quiet)
    if as_json:
        print_json(plain(report))
    else:
        _print(report)
    raise SystemExit(NOT_WELL if report.problems else CANNOT_TELL if report.unsettled else WELL)


def _part(spec: Pipeline, first: str | None, last: str | None, sample: float | None) -> Part:
    """Raises BadParameter."""
    within = None
    if first is not None:
        begin, end = parse_ends(spec, first, last)
        within = Interval(begin.start_ms, end.end_ms)
    return Part(within, 1.0 if sample is None else sample / 100, secrets.randbits(32))


def _carry_out(spec: Pipeline, depth: Depth, quiet: bool) -> Report:
    from tidegate.adapters.footers import FooterProcess
    from tidegate.adapters.mirror_comparison import TableProcess
    from tidegate.workflow.audit import audit as workflow

    with surroundings.ledger() as ledger:
        ctx = surroundings.context(spec, ledger)
        who: dict[str, Any] = {"user": spec.sink.user, "secrets": surroundings.storage_secrets(spec)}
        reader, tables = FooterProcess(**who), TableProcess(**who)
        if quiet:
            return workflow.audit(ctx, ledger.reads, reader, depth, tables=tables)
        due, seconds = workflow.ahead(ctx, ledger.reads, depth) if depth.footers else (None, 0.0)
        if due is not None:
            words = f"{many(due.files, 'file')} of {size(due.bytes)}, {many(due.rows, 'row')}"
            takes = f": about {span(round(seconds * 1000))}" if seconds >= 1 else ""
            progress(f"{spec.name}: {'reads' if depth.coordinates else 'looks at'} {words}{takes}")
        with following(f"{spec.name}: audit", 0 if due is None else due.files) as seen:
            ctx.say = seen.say
            return workflow.audit(ctx, ledger.reads, reader, depth, lambda: seen.next(""), tables)


def plain(report: Report) -> dict[str, Any]:
    """The report as JSON has it; the names are a promise."""
    t, b = report.totals, report.totals.balance
    return {
        "pipeline": report.pipeline,
        "balanced": _verdict(report),
        **columns(b, "offsets", "read", "gaps", "data", "late", "dirty", "filtered", "dropped", "rerouted"),
        "late_taken_up": t.reopened,
        **columns(t, "reread", "published", "waiting", "abandoned", "lost", "unfinished"),
        "batches": report.batches,
        "windows": {"published": report.windows_published, "waiting": report.windows_waiting},
        "files": {
            "count": report.files,
            "bytes": report.bytes,
            "rows": report.rows_in_files,
            "coordinates": report.coordinates,
            "read": report.files_read,
        },
        "part": None if report.part is None else _part_plain(report.part),
        "catalogue": {"partitions": report.partitions_in_catalogue},
        "mirror": to_plain(report.keyed),
        **to_plain(columns(report, "recomputed", "produced", "problems", "unsettled", "notes")),
        "seconds": round(report.seconds, 2),
    }


def _verdict(report: Report) -> bool | None:
    """Whether all is balanced; None after a look at a part, or where the pipeline moved the findings."""
    if report.problems:
        return False
    return None if report.part is not None or report.unsettled else True


def _part_plain(part: Part) -> dict[str, Any]:
    within = part.within
    windows = None if within is None else {"start_ms": within.start, "end_ms": within.end}
    return {"windows": windows, "share": part.share, "seed": part.seed}


def _words(report: Report) -> tuple[str, str]:
    """The verdict and its style."""
    if report.problems:
        return f"NOT BALANCED: {many(len(report.problems), 'problem')}", "bold red"
    if report.unsettled:
        what = f"{many(len(report.unsettled), 'finding')} could not be settled while the pipeline moved files"
        return f"{what}: run this again", "bold yellow"
    if report.part is None:
        return "balanced", "bold green"
    what = f"the ledger is balanced, and nothing is wrong in {many(report.files_read, 'file')} that were looked into"
    return f"{what}; nothing is said of the others", "bold green"


def _print(report: Report) -> None:
    out = console()
    t = report.totals
    for n, problem in enumerate(report.problems, 1):
        paragraph(out, f"problem {n}", f"{said(problem.subject)}: {problem.what}", "red")
        if problem.advice:
            advice(out, "  to do", problem.advice)
    for problem in report.unsettled:
        paragraph(out, "unsettled", f"{said(problem.subject)}: {problem.what}", "yellow")
    for note in report.notes:
        paragraph(out, "note", note, "yellow")
    batches = ", ".join(f"{n:,} {state}" for state, n in report.batches.items()) or "none"
    paragraph(out, "batches", batches + (f" ({many(t.unfinished, 'offset')} under way)" if t.unfinished else ""))
    if report.keyed is None:
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
    late += f" {t.reread:+,} by second readings" if t.reread else ""
    if report.keyed is None:
        paragraph(out, "data", f"{b.data:,}{late} = published {t.published:,} + waiting {t.waiting:,}")
    else:
        k = report.keyed
        paragraph(out, "data", f"{b.data:,} = merged {k.events:,} + waiting {b.data - k.events:,}")
        paragraph(
            out,
            "mirror",
            f"{many(k.rows, 'row')} + {many(k.tombstones, 'tombstone')} + {k.purged:,} purged = "
            f"{k.inserted:,} inserted, by batches 1 to {k.upto}",
        )
    if report.recomputed is not None:
        r = report.recomputed
        held = f"{many(r.rows, 'row')} and {many(r.tombstones, 'tombstone')} in {many(r.buckets, 'bucket')}"
        out_of_it = f"; {many(r.kept_out, 'key')} kept out by the purge" if r.kept_out else ""
        made = f"what {many(r.events, 'event')} of batches 1 to {r.upto} make"
        if report.keyed is None:
            made = f"what the days before and {many(r.events, 'event')} make, {many(r.days, 'day')}"
        paragraph(out, "compared", f"{held} with {made}{out_of_it}")
    paragraph(out, "total", b.text())
    verdict, style = _words(report)
    out.print(Text(f"{report.pipeline}: {verdict} ({report.seconds:.1f} s)", style=style))


def _files(report: Report) -> str:
    words = [f"{report.files:,} in their places, {many(report.bytes, 'byte')}"]
    if report.rows_in_files is not None:
        words.append(f"{many(report.rows_in_files, 'row')} by their footers")
    if report.part is not None:
        words.append(f"{report.files_read:,} of them looked into")
    if report.coordinates is not None:
        words.append(f"{report.coordinates:,} Kafka coordinates read")
    return "; ".join(words)


def _topic(report: Report) -> str:
    p, b = report.produced, report.totals.balance
    assert p is not None
    earlier = f" + {p.earlier:,} of topics before it" if p.earlier else ""
    words = f"{many(p.offsets, 'offset')}{earlier} = {b.offsets:,} landed + {p.not_planned:,} not planned yet"
    if report.totals.unfinished:
        words += f" + {report.totals.unfinished:,} under way"
    rest = p.offsets + p.earlier - b.offsets - p.not_planned - report.totals.unfinished
    return words + (f" + {rest:,} lost or abandoned" if rest else "")
