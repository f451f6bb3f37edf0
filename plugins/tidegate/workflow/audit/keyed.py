"""Gathers what a deep audit of a keyed table compares: one snapshot, and the batches 1 to `upto` that it says it holds
(M4). What has landed does not change and a snapshot does not either, so merges go on meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Protocol

from tidegate.core.audit.keyed import problems
from tidegate.core.audit.problems import Problem
from tidegate.core.audit.scope import Part
from tidegate.core.base.errors import CatalogueError, StorageAhead, StorageError
from tidegate.core.base.plain import to_plain
from tidegate.core.base.wording import many
from tidegate.core.batch.jobs import ApplyPlan
from tidegate.core.batch.rules_version import COPYING_RULES
from tidegate.core.copy.checksums import Sums, TableKeys
from tidegate.core.mirror.comparison import Compared, Recomputed
from tidegate.core.mirror.jobs import Bucket, EventFile, Position
from tidegate.core.target.port import PrefixTarget
from tidegate.core.target.prefix import Prefix
from tidegate.workflow.apply.apply import event_files
from tidegate.workflow.apply.copies import chunk_files, merged_chunks
from tidegate.workflow.apply.upkeep import buckets_now
from tidegate.workflow.base import servers
from tidegate.workflow.base.context import Context
from tidegate.workflow.base.pace import Pace

MOST_EVENTS = 500_000
"""Of files that are read at once: then it says how far it is."""
SPACE = "TMPDIR needs about twice the space of the landed files; without --deep the table is not compared"


class TableReader(Protocol):
    """Makes a keyed table anew from the files of its batches, and compares. Raises TidegateError when it cannot work at
    all."""

    def begin(self, plan: ApplyPlan, buckets: Sequence[int]) -> None:
        """What follows is about these buckets of the plan's table; the directory is the reader's to choose, files are
        still to come."""
        ...

    def events(self, files: Sequence[EventFile]) -> str:
        """Take up the events of further files. Returns why they could not be read, empty if they were."""
        ...

    def compare(self, bucket: Bucket, below: Position | None = None) -> Compared:
        """The bucket as these events make it, against the files that the table has of it. `below`: the events are rows
        of the source, of which it is the smallest LOW."""
        ...

    def within(self, keys: Sequence[TableKeys]) -> None:
        """What follows is about these keys alone, until the next `begin`."""
        ...

    def sums(self, bucket: Bucket) -> Sums:
        """Checksums of the rows that the table has of the bucket, by the parts of `within`."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Found:
    """`sums` is None where the table was not compared; `notes` say why. `unsettled`: the table has moved on, and its
    old files may be gone."""

    sums: Recomputed | None = None
    problems: tuple[Problem, ...] = ()
    unsettled: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()


def recompute(ctx: Context, reader: TableReader, part: Part, known: bool = False) -> Found:
    """Hold the buckets of a keyed table, or those that the part draws, against what its batches make; nothing of any
    other table. `known`: whether the audit has problems to tell already, so that it is worth its end.

    Raises StorageError where it cannot be done and nothing of that is known."""
    table = ctx.keyed
    if table is None:
        return Found()
    try:
        prefix, held = table.held()
        plan = _plan(ctx, table, prefix)
        drawn = [n for n in range(plan.buckets) if part.draws("bucket", str(n))]
        reader.begin(plan, drawn)
    except CatalogueError as e:
        return Found(notes=(f"the table was not compared with its batches: {str(e).splitlines()[0]}",))
    try:
        chunks = merged_chunks(ctx, prefix)
    except StorageAhead as e:
        return Found(notes=(f"the table was not compared with its batches and copies: {e.args[0]}",))
    landed = chain((chunk_files(ctx, c) for c in chunks), (event_files(ctx, n) for n in _batches(ctx, prefix.upto)))
    events, unread = take_up(ctx, reader, landed, prefix.events + sum(c.rows for c in chunks))
    if unread and not known:
        raise StorageError(f"{table.name}: the events of its batches cannot be read: {unread}", advice=SPACE)
    if unread:
        return Found(notes=(f"the table was not compared with its batches, which cannot be read: {unread}",))
    compared = list(compare(ctx, reader, drawn, held))
    wrong = problems(ctx.name, table.name, prefix, compared, whole=len(drawn) == plan.buckets)
    sums = Recomputed(
        upto=prefix.upto,
        buckets=len(compared),
        rows=sum(one.rows for one in compared),
        tombstones=sum(one.tombstones for one in compared),
        events=events,
        kept_out=sum(one.kept_out for one in compared),
    )
    gone = {f"bucket {one.bucket}" for one in compared if one.unread or one.unmade}
    if not gone or table.standing().snapshot == prefix.snapshot:
        return Found(sums, tuple(wrong))
    still, moved = ([p for p in wrong if (p.subject in gone) is there] for there in (False, True))
    return Found(sums, tuple(still), tuple(moved))


def take_up(ctx: Context, reader: TableReader, batches: Iterable[list[EventFile]], due: int) -> tuple[int, str]:
    """Number of events that the reader has now, `due` in all, and why it cannot read the rest."""
    pace, events = Pace(ctx.say), 0
    for files in _groups(batches):
        unread = reader.events(files)
        if unread:
            return events, unread
        events += _events(files)
        pace.say(partial("read {:,} of {}".format, events, many(due, "event")))
    return events, ""


def _batches(ctx: Context, upto: int) -> list[int]:
    """Those with events, up to that one."""
    return sorted(n for n, rows in ctx.ledger.applies.landed(ctx.name, 0).rows.items() if rows and n <= upto)


def _groups(batches: Iterable[list[EventFile]]) -> Iterator[list[EventFile]]:
    """Files of not many more events than can be read at once: of whole batches, or a part of a large one."""
    waiting: list[EventFile] = []
    events = 0
    for files in batches:
        if waiting and events + _events(files) > MOST_EVENTS:
            yield waiting
            waiting, events = [], 0
        for file in files:
            if events >= MOST_EVENTS:  # by this batch alone
                yield waiting
                waiting, events = [], 0
            waiting.append(file)
            events += file.rows
    if waiting:
        yield waiting


def _events(files: Iterable[EventFile]) -> int:
    return sum(f.rows for f in files)


def compare(ctx: Context, reader: TableReader, drawn: Sequence[int], held: Iterable[Bucket]) -> Iterator[Compared]:
    """These buckets one after the other; those that are not `held` are empty."""
    pace, there = Pace(ctx.say), {b.number: b for b in held}
    for done, number in enumerate(drawn, 1):
        yield reader.compare(there.get(number, Bucket(number, ())))
        pace.say(partial("compared {:,} of {}".format, done, many(len(drawn), "bucket")))


def _plan(ctx: Context, table: PrefixTarget, prefix: Prefix) -> ApplyPlan:
    return job(
        ctx,
        first=1,
        last=prefix.upto,
        key=table.key,
        buckets=buckets_now(ctx, table, prefix),
        purged_below=prefix.purged_below,
        swept_below=prefix.copied.swept_below,
        swept_parts=prefix.copied.swept_parts,
        servers=servers.known(ctx, prefix),
        base=(),
        columns=table.columns(),
        fields=table.fields(),
    )


def job(ctx: Context, **of_table: Any) -> ApplyPlan:
    """What the reader is told of the table. Contradicting events are here only if a person has let the order decide
    (M7)."""
    return ApplyPlan(
        attempt="audit",
        attempt_dir="",
        pipeline=to_plain(ctx.pipeline),
        topic=ctx.pipeline.source.topic,
        nonce="audit",
        spec_version=ctx.spec_version,
        rules_version=COPYING_RULES,
        events=(),
        take_conflicts=True,
        **of_table,
    )
