"""`tidegate schema`: columns for fields that no column takes."""

from __future__ import annotations

import difflib
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from tidegate.cli import surroundings
from tidegate.cli.failures import NOT_WELL, Commands, Failed
from tidegate.cli.output import json_option, print_json, progress
from tidegate.core.base.errors import TidegateError
from tidegate.core.base.instants import iso
from tidegate.core.base.wording import many
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.spec.proposals import Proposal
from tidegate.core.spec.schema_changes import SchemaChange, in_force, outgrown, proposed


@click.group(cls=Commands)
def schema() -> None:
    """Columns for fields that no column takes."""


@schema.command()
@surroundings.pipeline_argument
@json_option
def show(pipeline: str, as_json: bool) -> None:
    """List the columns that were accepted beside the YAML's, and those that have grown (`unknown_fields: evolve`):
    their types, the first record that had each, and who took it up.

    A column stays in force until the YAML names it, or reads its field: then the YAML decides, but that a type which
    has grown stays. `tidegate schema propose --write` adds the lines, and writes the types.

    \b
    Examples:
      tidegate schema show orders
      tidegate schema show orders --json

    \b
    Exit code: 0 well; 2 a YAML is wrong; 3 cannot tell.
    """
    spec = surroundings.pipeline_named(pipeline)
    with surroundings.ledger() as ledger:
        accepted = ledger.schema_changes.changes(pipeline)
    added = {c.name for c in in_force(spec, accepted).columns} - {c.name for c in spec.columns}
    grown = outgrown(spec, accepted)
    if as_json:
        columns = [
            {
                "column": a.column, "type": a.type, "path": a.path, "batch": a.batch_id, "partition": a.partition,
                "offset": a.offset, "why": a.why, "by": a.actor, "at": iso(a.at_ms), "in_yaml": a.column not in added,
                "yaml_type": spec.column(a.column).type if a.column in grown else None,
            }
            for a in accepted
        ]  # fmt: skip
        print_json({"pipeline": pipeline, "unknown_fields": spec.format.unknown_fields, "columns": columns})
        return
    if not accepted:
        click.echo(f"{pipeline}: no column was accepted beside the YAML's")
    for a in accepted:
        whose = "not in the YAML" if a.column in added else "the YAML decides"
        if a.column in grown:
            whose = f"the YAML says {spec.column(a.column).type}, which it has outgrown"
        click.echo(f"{a.column} {a.type}, from {a.path}: {whose}; first seen in {a.place}")
        click.echo(f"  accepted {iso(a.at_ms)} by {a.actor} ({a.why})")


@schema.command()
@surroundings.pipeline_argument
@click.option(
    "--records", type=click.IntRange(1, 1_000_000), default=10_000, show_default=True, help="How many to read."
)
@click.option("--write", is_flag=True, help="Add the lines to the pipeline's YAML.")
@json_option
def propose(pipeline: str, records: int, write: bool, as_json: bool) -> None:
    """Read the newest records, and those at which a batch stopped, and propose columns for what no column takes.

    Nothing is committed to Kafka, and nothing is written without --write: then the lines are added at the end of
    `columns`, the rest of the file stays as it is, and the change is shown. Types are those of the values; of change
    events in Avro those of the newest schema. Columns that were accepted (`tidegate schema show`) come first, and the
    types to which columns of the YAML have grown are written there.

    \b
    Examples:
      tidegate schema propose flights
      tidegate schema propose flights --records 100000 --write

    \b
    Exit code: 0 well; 1 the lines could not be written; 2 a YAML is wrong; 3 cannot tell.
    """
    spec = surroundings.pipeline_named(pipeline)
    path = surroundings.pipelines_folder() / f"{pipeline}.yaml"
    read, proposals, grown = _proposals(spec, records)
    text, written = "", False
    if write and (grown or any(p.usable for p in proposals)):
        text = _write(path, proposals, grown)
        written = True
    if as_json:
        columns = [
            {"field": p.field, "column": p.column, "type": p.type, "seen": p.seen, "note": p.note, "line": p.line}
            for p in proposals
        ]
        found = {"pipeline": pipeline, "records": read, "columns": columns, "grown": grown}
        print_json({**found, "file": str(path), "written": written})
        return
    for name, kind in grown.items():
        click.echo(f"column {name} has grown from {spec.column(name).type} to {kind}")
    if proposals:
        click.echo(
            f"{many(read, 'record')}; {many(len(proposals), 'field')} that no column takes. Add to columns in {path}:"
        )
        for p in proposals:
            click.echo(f"  {p.line}")
    else:
        click.echo(f"{many(read, 'record')}: every field has its column")
    if written:
        click.echo(text, nl=False)
        click.echo(f"written; now: tidegate spec validate {path}, then clear a task that was refused")


def _proposals(spec: Pipeline, records: int) -> tuple[int, list[Proposal], dict[str, str]]:
    """How many records were read, the columns to add, and the types to which those of the YAML have grown."""
    from tidegate.core.spec.proposals import propose, sample_ranges
    from tidegate.sources.sampling import sample

    refused_at, accepted = _told(spec)
    names, grown = {c.name for c in spec.columns}, outgrown(spec, accepted)
    spec = in_force(spec, accepted)
    standing = {c.name for c in spec.columns} - names
    source = surroundings.source(spec)
    topic = source.look(spec.source.topic)
    partitions = {p: (o.log_start, o.last_stable_offset) for p, o in topic.partitions.items()}
    ranges = sample_ranges(partitions, records, refused_at)
    told = source.for_workers()
    settings = told.settings | told.secrets | surroundings.registry(spec)
    found = sample(spec, settings, topic.topic_id, ranges)
    taken = [c.name for c in spec.columns]
    proposals: list[Proposal] = [proposed(a) for a in accepted if a.column in standing]
    for field, (seen, examples) in sorted(found.fields.items(), key=lambda item: (-item[1][0], item[0])):
        proposals.append(propose(field, examples, taken, seen, found.types.get(field)))
        taken.append(proposals[-1].column)
    return found.read, proposals, grown


def _told(spec: Pipeline) -> tuple[tuple[int, int] | None, tuple[SchemaChange, ...]]:
    """The record at which the job of the open batch stopped, None without one; and the columns that were accepted.
    Nothing of either without a ledger to ask."""
    name = spec.name
    try:
        with surroundings.ledger() as ledger:
            batch = ledger.batches.open(name)
            refusal = None if batch is None else ledger.batches.refusal(name, batch.plan.batch_id)
            accepted = () if spec.format.debezium is None else ledger.schema_changes.changes(name)
    except TidegateError as e:
        progress(f"the ledger gives no answer, so only the newest records are read: {e.args[0]}")
        return None, ()
    if refusal is None or refusal.partition is None or refusal.offset is None:
        return None, accepted
    return (refusal.partition, refusal.offset), accepted


def _write(path: Path, proposals: Sequence[Proposal], grown: Mapping[str, str]) -> str:
    """Replace the file at once, if the result is a valid pipeline. Returns the change as a diff."""
    from tidegate.spec.loader import load_text
    from tidegate.spec.new_columns import with_columns, with_types

    content = path.read_bytes()
    before = content.decode("utf-8-sig")
    after = with_columns(with_types(before, str(path), grown), str(path), proposals)
    load_text(path, after)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as draft:
        mark = content[:3] if content.startswith(b"\xef\xbb\xbf") else b""
        draft.write(mark + after.encode())
        draft.flush()
        os.fsync(draft.fileno())
    try:
        shutil.copymode(path, draft.name)
        if path.read_bytes() != content:
            raise Failed(f"{path} has been changed meanwhile; run the command again", NOT_WELL)
        os.replace(draft.name, path)
    except BaseException:
        Path(draft.name).unlink(missing_ok=True)
        raise
    lines = difflib.unified_diff(before.splitlines(True), after.splitlines(True), str(path), str(path), n=1)
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)
