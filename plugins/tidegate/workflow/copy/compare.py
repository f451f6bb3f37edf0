"""Holds a mirror against its source: the source's rows are read as for a copy, and compared with the table instead of
merged; exact while both move, since each row says as of which position of the log it was so (S1, S2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from tidegate.core.base.errors import LostComparison, StorageError
from tidegate.core.copy.port import Database, LogPosition
from tidegate.core.copy.rounds import Chunk, ChunkState, Round, RoundState
from tidegate.core.mirror.comparison import Compared, Sample
from tidegate.core.mirror.copied import RoundIn
from tidegate.core.mirror.jobs import START, Bucket, Position, TableColumn
from tidegate.core.spec.change_events import SAYS_HOW, SHARD_PATHS
from tidegate.workflow.apply.apply import apply, keyed
from tidegate.workflow.apply.complete import told
from tidegate.workflow.apply.copies import chunk_files
from tidegate.workflow.apply.upkeep import buckets_now
from tidegate.workflow.audit.keyed import TableReader, job, take_up
from tidegate.workflow.base.context import Context
from tidegate.workflow.copy.copy import copy, to_compare
from tidegate.workflow.copy.tables import Keys, SourceTables, copied_columns

SAMPLES = 10
"""Keys that are named."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """`rows`: of the source. `differ`: number of keys by `core.mirror.comparison.Kind`, those with any; `samples`: some
    of them. `exact`: every change up to the last read was merged before it was compared; else a key that differs may
    have an event on its way. `round`: the copy that has read the source; `mended`: it was merged, and is whole."""

    round: int
    rows: int
    differ: dict[str, int]
    samples: tuple[Sample, ...] = ()
    exact: bool = True
    mended: bool = False


KINDS = {
    "lacking": "in the source, not in the mirror",
    "surplus": "in the mirror, not in the source",
    "other": "in both, with other values",
    "doubled": "twice in the mirror",
}
"""What each kind of difference means."""


def in_words(name: str, found: Report) -> str:
    """The report as lines for a log; the first one says how many keys differ."""
    keys = sum(found.differ.values())
    lines = [f"{name}: {keys:,} of {found.rows:,} keys differ from the source" if keys else f"{name}: nothing differs"]
    lines += [f"  {count:,} {KINDS[kind]}" for kind, count in found.differ.items()]
    lines += [
        f"  {one.key}: the mirror has {one.table or 'none'}; the source {one.batches or 'none'}"
        for one in found.samples
    ]
    if not found.exact:
        lines.append("  the mirror was not seen to have caught up: a key that differs may have an event on its way")
    if keys:
        lines.append(f"  what to do: tidegate compare {name} --fix --why ...")
    return "\n".join(lines)


def compare(
    ctx: Context,
    database: Database,
    reader: TableReader,
    wait: Callable[[], bool],
    fix: str = "",
    keys: Keys | None = None,
) -> Report:
    """Read the source's table, or some `keys` of it, let the mirror catch up with it, and hold both against each other.

    `wait` is asked before each further look at how far the mirror is; False: look no more. `fix`: why what differs is
    to be put right: then what was read is merged, as a copy. Raises as `copy` and `apply` do; StorageError where rows
    cannot be compared."""
    round_ = to_compare(ctx, database, keys)
    copy(ctx, database, compared=True)
    chunks = _read(ctx, round_)
    exact = _caught_up(ctx, max((c.high for c in chunks if c.high is not None), default=(0, 0)), wait)
    found = _held_against(ctx, reader, round_, chunks, compared_columns(ctx, SourceTables(ctx, database)))
    differ: Counter[str] = Counter()
    for one in found:
        differ.update(dict(one.differ))
    samples = tuple(s for one in found for s in one.samples)[:SAMPLES]
    rows, wrong, mended = sum(c.rows for c in chunks), sum(differ.values()), False
    if fix and wrong:
        ctx.ledger.copies.merge(round_, fix)
        rounds = apply(ctx).told.copied.rounds
        mended = any(one.swept for one in rounds if one.number == round_.number or _covers(one, round_))
    else:
        ctx.ledger.copies.give_up(round_, f"compared: {wrong:,} of {rows:,} keys differ")
    return Report(round=round_.number, rows=rows, differ=dict(differ), samples=samples, exact=exact, mended=mended)


def _read(ctx: Context, round_: Round) -> list[Chunk]:
    """All of its chunks. Raises LostComparison where another task has ended it, so that some were not read."""
    now = next((one for one in ctx.ledger.copies.rounds(ctx.name) if one.number == round_.number), round_)
    chunks = list(ctx.ledger.copies.chunks(ctx.name, round_.number))
    if now.state != RoundState.COMPARED or not now.ended or any(c.state != ChunkState.READ for c in chunks):
        raise LostComparison(f"{ctx.name}: another task has ended comparison {round_.number}; compare again")
    return chunks


def _caught_up(ctx: Context, high: LogPosition, wait: Callable[[], bool]) -> bool:
    """Whether nothing in the table is older than `high` (S9'), after merging what has landed."""
    while True:
        table = apply(ctx).told
        found = told(ctx, table, table.upto)
        if found is not None and found.position >= high:
            return True
        if ctx.connector is None or not wait():
            return False


def compared_columns(ctx: Context, source: SourceTables) -> tuple[TableColumn, ...]:
    """Those of the table that the source has, all shards: of one that it has dropped the mirror keeps older values.
    Computed ones are compared where the source has all that is read."""
    shards = [copied_columns(ctx, source.described(name)) for name in source.names]
    there = set.intersection(*({c.name for c in columns} for columns in shards))
    read = [c for c in ctx.pipeline.decoded_columns if c.name not in SAYS_HOW]
    there |= {c.name for c in read if c.path in SHARD_PATHS}
    computed = {c.name for c in ctx.pipeline.columns if c.expr is not None} if len(there) == len(read) else set()
    wanted = there | computed | SAYS_HOW | {""}
    return tuple(c for c in keyed(ctx).columns() if c.of in wanted)


def _held_against(
    ctx: Context, reader: TableReader, round_: Round, chunks: list[Chunk], columns: tuple[TableColumn, ...]
) -> list[Compared]:
    table = keyed(ctx)
    prefix, held = table.held()
    plan = job(
        ctx,
        first=1,
        last=prefix.upto,
        key=table.key,
        buckets=buckets_now(ctx, table, prefix),
        purged_below=START,
        base=(),
        columns=columns,
        fields=table.fields(),
        part=round_.part,
    )
    numbers = range(plan.buckets)
    reader.begin(plan, numbers)
    _, unread = take_up(ctx, reader, (chunk_files(ctx, c) for c in chunks), sum(c.rows for c in chunks))
    if unread:
        raise StorageError(f"{ctx.name}: what copy {round_.number} has read cannot be read again: {unread}")
    there, below = {b.number: b for b in held}, _smallest(chunks)
    found = [reader.compare(there.get(n, Bucket(n, ())), below) for n in numbers]
    wrong = next((one.unread or one.unmade for one in found if one.unread or one.unmade), "")
    if wrong:
        raise StorageError(f"{table.name}: rows cannot be compared: {wrong}")
    return found


def _covers(one: RoundIn, round_: Round) -> bool:
    """Whether it is a later reading of the whole table."""
    return one.number > round_.number and one.part is None


def _smallest(chunks: list[Chunk]) -> Position:
    return min((c.position for c in chunks), default=START)
