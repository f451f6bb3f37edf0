"""Holds a mirror against its source: the source's rows are read as for a copy, and compared with the table instead of
merged; exact while both move, since each row says as of which position of the log it was so (S1, S2)."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from itertools import pairwise

from tidegate.core.base.errors import LostComparison, NotReady, StorageError, TidegateError
from tidegate.core.base.instants import span
from tidegate.core.base.plain import LEFT_OUT
from tidegate.core.base.wording import many
from tidegate.core.copy.checksums import fewer, read_all, spelled_keys
from tidegate.core.copy.complete import unmerged
from tidegate.core.copy.places import connector_of
from tidegate.core.copy.port import Database, LogPosition
from tidegate.core.copy.rounds import RESUMED_MS, WAS_COMPARED, Chunk, ChunkState, Claim, Round, RoundState
from tidegate.core.mirror.applies import Told
from tidegate.core.mirror.comparison import Compared, Sample
from tidegate.core.mirror.copied import RoundIn
from tidegate.core.mirror.jobs import START, Bucket, Position, TableColumn, spelled
from tidegate.core.mirror.parts import covers, is_all
from tidegate.core.spec.change_events import SAYS_HOW, SHARD_PATHS
from tidegate.workflow.apply.apply import apply, keyed
from tidegate.workflow.apply.complete import caught_up_with, made_good
from tidegate.workflow.apply.copies import chunk_files
from tidegate.workflow.audit.keyed import TableReader, take_up
from tidegate.workflow.base import servers
from tidegate.workflow.base.context import Context
from tidegate.workflow.base.pace import Pace
from tidegate.workflow.copy.copy import again, copy, to_compare
from tidegate.workflow.copy.each import of_each
from tidegate.workflow.copy.held import Held, begun
from tidegate.workflow.copy.narrow import Narrowed, keys_of, narrow
from tidegate.workflow.copy.tables import Keys, SourceTables, copied_columns, section

LOOK_S = 5.0
SAMPLES = 10
"""Keys that are named."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """`rows`: of the source. `differ`: number of keys by `core.mirror.comparison.Kind`, those with any; `samples`: some
    of them. `exact`: every change up to the last read was merged before it was compared, or nothing differs; else a key
    that differs may have an event on its way. `round`: the copy that has read the source; `mended`: it was merged, and
    is whole.

    `keys`: these alone were compared. `server`: the one that it was compared with, where there are several;
    `unanswered`: why it was not; `not_yet`: since it is too early for it.

    `read`: rows of the source that were read, all others being equal by `parts` checksums; `unsummed`: why there were
    none; empty also where a comparison that died went on, whose checksums are forgotten."""

    round: int
    rows: int
    differ: dict[str, int]
    samples: tuple[Sample, ...] = ()
    exact: bool = True
    mended: bool = False
    read: int = 0
    parts: int = 0
    unsummed: str = ""
    keys: Keys | None = field(default=None, metadata=LEFT_OUT)
    server: str = field(default="", metadata=LEFT_OUT)
    unanswered: str = field(default="", metadata=LEFT_OUT)
    not_yet: bool = field(default=False, metadata=LEFT_OUT)

    @property
    def of(self) -> str:
        """` of server a`; nothing of the only one."""
        return f" of server {self.server}" if self.server else ""


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
    if found.unanswered:
        return f"{name}{found.of}: not compared: {found.unanswered}"
    differ = f"{keys:,} of {found.rows:,} keys differ from the source" if keys else "nothing differs"
    lines = [f"{name}{found.of}: {differ}"]
    lines.append(f"  {how_much(found)}")
    lines += [f"  {count:,} {KINDS[kind]}" for kind, count in found.differ.items()]
    lines += [
        f"  {one.key}: the mirror has {one.table or 'none'}; the source {one.batches or 'none'}"
        for one in found.samples
    ]
    if not found.exact:
        lines.append("  the mirror was not seen to have caught up: a key that differs may have an event on its way")
    if keys:
        lines.append(f"  what to do: {to_fix(name, found)}")
    return "\n".join(lines)


def to_fix(name: str, found: Report) -> str:
    """The command that puts right what differs, of no other keys than those that were compared."""
    some = "" if found.keys is None else f" --from {found.keys[0]} --until {found.keys[1]}"
    one = f" --server {found.server}" if found.server else ""
    return f"tidegate compare {name}{one}{some} --fix --why ..."


def how_much(found: Report) -> str:
    """`1,500 of 100,000 rows read; 120 parts by checksum`, or why all were read."""
    words = f"{found.read:,} of {many(found.rows, 'row')} read"
    if found.unsummed:
        return f"{words}: {found.unsummed}"
    return f"{words}; {many(found.parts, 'part')} by checksum" if found.parts else words


def compare(
    ctx: Context,
    database: Database,
    reader: TableReader,
    wait: Callable[[], bool],
    fix: str = "",
    keys: Keys | None = None,
    server: str = "",
) -> Report:
    """Read of the source's tables, or of some `keys` of one, what differs by its checksum, let the mirror catch up with
    that, and compare both row by row. `server`: the one whose `database` it is, where there are several.

    `wait` is asked before each further look at how far the mirror is; False: look no more. `fix`: why what differs is
    to be put right: then what was read is merged, as a copy; where only some of it was read, these ranges are read
    again for that, or all tables where a copy has no parts.

    Raises as `copy` and `apply` do; StorageError where rows cannot be compared, NotReady where a purge has come between
    (S7)."""
    round_ = to_compare(ctx, database, keys, server)
    counts = _counts(ctx, wait, server)
    seen = [] if counts is None else [counts]
    columns = compared_columns(ctx, SourceTables(ctx, database, server))
    narrowed = _narrowed(ctx, database, reader, round_, columns)
    if isinstance(narrowed, Narrowed):
        seen.append(narrowed.told)
    copy(ctx, database, compared=True, server=server)
    chunks = _read(ctx, round_)
    high = max((c.high for c in chunks if c.high is not None), default=(0, 0))
    exact = not chunks or _caught_up(ctx, high, server)
    everything = read_all(chunks, round_.part, SourceTables(ctx, database, server).names)

    def rows() -> list[Compared]:
        # of what the source has dropped since some of what was read may have no values
        there = compared_columns(ctx, SourceTables(ctx, database, server))
        held = begun(ctx, reader, tuple(c for c in columns if c in there), round_.part)
        seen.append(held.told)
        if not everything:
            reader.within(keys_of(ctx, database, chunks, server))
        compared = _compared_with(ctx, reader, round_, chunks, held)
        _refuse_purged(ctx, round_, chunks, held, compared)
        return compared

    found = rows() if chunks else []
    if not exact and any(one.differ for one in found):
        exact = _waited(ctx, high, wait, server)
        found = rows()
    differ: Counter[str] = Counter()
    for one in found:
        differ.update(dict(one.differ))
    samples = tuple(s for one in found for s in one.samples)[:SAMPLES]
    wrong, read = sum(differ.values()), sum(c.rows for c in chunks)
    report = Report(
        round=round_.number,
        rows=read,
        differ=dict(differ),
        samples=samples,
        exact=exact or not wrong,
        read=read,
        keys=keys,
        server=server,
    )
    if isinstance(narrowed, Narrowed):
        report = replace(report, rows=narrowed.rows, parts=narrowed.parts)
    elif narrowed is not None:
        report = replace(report, unsummed=narrowed)
    if fix and wrong and everything:
        ctx.ledger.copies.merge(round_, fix)
        return replace(report, mended=_is_whole(apply(ctx).told.copied.rounds, round_))
    if not wrong and counts is not None and narrowed is not None:  # of what a task before has summed nobody knows when
        _confirm(ctx, round_, {c.of for c in columns}, seen)
    ctx.ledger.copies.give_up(round_, f"{WAS_COMPARED}{wrong:,} of {report.rows:,} keys differ")
    return replace(report, mended=_read_again(ctx, database, chunks, fix, server)) if fix and wrong else report


def looks_for(seconds: float, say: Callable[[str], None] = lambda _: None) -> Callable[[], bool]:
    """What `compare` waits by: it sleeps before each further look at the mirror, for so long in all, and says so."""
    until, told = time.monotonic() + seconds, False

    def further() -> bool:
        nonlocal told
        if not told:
            say(f"it looks every {LOOK_S:.0f} s, for {span(max(0, int(1000 * (until - time.monotonic()))))} at most")
            told = True
        time.sleep(LOOK_S)
        return time.monotonic() < until

    return further


def compare_each(
    ctx: Context,
    opened: Callable[[str], AbstractContextManager[tuple[Database, TableReader]]],
    waits: Callable[[], Callable[[], bool]],
    fix: str = "",
    keys: Callable[[Database, str], Keys | None] = lambda *_: None,
    server: str = "",
) -> list[Report]:
    """Compare with the only server, or with each of several, or with one of them, one after the other: one that gives
    no answer holds up none of the others, and its report says why. `opened` gives the database of a server, `waits` and
    `keys` what `compare` takes for it.

    Raises as `compare` does; of several servers what is no fault of one of them."""

    def of_one(name: str) -> Report:
        with opened(name) as (database, reader):
            return compare(ctx, database, reader, waits(), fix, keys(database, name), name)

    each = () if server else servers.names(ctx)
    return [
        Report(round=0, rows=0, differ={}, server=name, unanswered=str(one), not_yet=isinstance(one, NotReady))
        if isinstance(one, TidegateError)
        else one
        for name, one in of_each(each, of_one)
    ] or [of_one(server)]


def _confirm(ctx: Context, round_: Round, compared: set[str], seen: Sequence[Told]) -> None:
    """What the newest whole copy did not read is as the source has it, of columns that were there from the beginning of
    this comparison; nothing where the table was taken back meanwhile. `seen`: what it said each time."""
    table = seen[-1]
    whole = table.copied.whole_of(round_.server)
    if whole is None or not is_all(round_.part) or not all(later.has(one) for one, later in pairwise(seen)):
        return
    rounds = ctx.ledger.copies.rounds(ctx.name)
    known = next((one.as_of(table).columns for one in rounds if one.number == whole.number), ())
    columns = sorted({*known, *compared.intersection(round_.columns)})
    mine = tuple(one for one in table.copied.rounds if one.server == round_.server)
    claim = Claim(table.upto, mine, tuple(columns))
    ctx.ledger.copies.confirm(ctx.name, whole.number, round_.number, claim)


def _narrowed(
    ctx: Context, database: Database, reader: TableReader, round_: Round, columns: tuple[TableColumn, ...]
) -> Narrowed | str | None:
    """Cut what is to be read of the round; None if a comparison that died has done so. Why nothing can be narrowed."""
    if round_.ended or ctx.ledger.copies.chunks(ctx.name, round_.number):
        return None
    found = narrow(ctx, database, reader, columns, round_.part)
    if isinstance(found, Narrowed):
        try:
            ctx.ledger.copies.cut(round_, 0, found.differing, True)
        except LostComparison:
            raise _ended(ctx, round_) from None
    return found


def _read_again(ctx: Context, database: Database, chunks: list[Chunk], why: str, server: str) -> bool:
    """Whether the keys of these chunks, which are ranges with others between, were all read once more, and merged; of
    tables that have no parts (S5) all keys."""
    mended, some, tables = True, list[Keys | None]([None]), SourceTables(ctx, database, server)
    if tables.why_no_parts() is None:
        some = [spelled_keys(keys, len(tables.key)) for keys in fewer([c.keys for c in chunks])]
    for keys in some:
        round_ = again(ctx, database, why, keys, server=server)
        copy(ctx, database, server=server)
        mended = _is_whole(apply(ctx).told.copied.rounds, round_) and mended
    return mended


def _is_whole(rounds: Iterable[RoundIn], round_: Round) -> bool:
    return any(one.swept for one in rounds if one.number == round_.number or _covers(one, round_))


def _read(ctx: Context, round_: Round) -> list[Chunk]:
    """All of its chunks. Raises LostComparison where another task has ended it, so that some were not read."""
    now = next((one for one in ctx.ledger.copies.rounds(ctx.name) if one.number == round_.number), round_)
    chunks = list(ctx.ledger.copies.chunks(ctx.name, round_.number))
    if now.state != RoundState.COMPARED or not now.ended or any(c.state != ChunkState.READ for c in chunks):
        raise _ended(ctx, round_)
    return chunks


def _ended(ctx: Context, round_: Round) -> LostComparison:
    return LostComparison(f"{ctx.name}: another task has ended comparison {round_.number}; compare again")


def _counts(ctx: Context, wait: Callable[[], bool], server: str) -> Told | None:
    """S12: the table that has what is in the topic as the comparison begins, if to find no difference makes something
    good; before that no row is compared: rows can be equal by chance while a change waits. It waits for that."""
    told, look = ctx.ledger.applies.told(ctx.name), ctx.ledger.copies.newest_looks(ctx.name).get(server)
    rounds = ctx.ledger.copies.rounds(ctx.name)
    lacks, cured, _ = made_good(ctx.pipeline, told or Told(), server, rounds)
    if look is None or not (lacks or look.gap >= max(cured, 1)):
        return told if lacks else None
    table, now = apply(ctx).told, ctx.ledger.copies.newest_looks(ctx.name)[server]

    def left(upto: int) -> int:
        return len(unmerged(now, ctx.ledger.copies.merged_ends(ctx.name, upto)))

    if not left(table.upto):
        return table
    if not ctx.ledger.copies.merged_ends(ctx.name, table.upto):
        return None  # records were lost, or left out: nothing is told anyway
    ctx.say(f"{ctx.name}: waiting until what was in {many(left(table.upto), 'partition')} of the topic is merged (S12)")
    while wait():
        table = apply(ctx).told
        if not left(table.upto):
            return table
    ctx.say(f"{ctx.name}: nobody waits any longer: rows that are equal do not say that nothing is missing")
    return None


def _caught_up(ctx: Context, high: LogPosition, server: str) -> bool:
    """Whether nothing in the table is older than `high` (S9'), after merging what has landed."""
    table = apply(ctx).told
    found = caught_up_with(ctx, table, table.upto, server)
    return found is not None and found.position >= high


def _waited(ctx: Context, high: LogPosition, wait: Callable[[], bool], server: str) -> bool:
    """The same, once it is so, or nobody waits any longer: a key that differs may have an event on its way."""
    if server not in ctx.connectors:
        return False
    who, slot, pace = connector_of(server), section(ctx).server(server).slot, Pace(ctx.say)

    def stands() -> str:
        last = ctx.ledger.copies.newest_looks(ctx.name).get(server)
        at = "not said yet how far it is" if last is None else f"delivered up to {last.position}"
        return f"{ctx.name}: the {who} has {at}, what was read is as of {high}"

    ctx.say(f"{ctx.name}: keys differ whose events may be on their way: waiting for the {who}")
    ctx.say(stands())
    if slot is not None:
        ctx.say(f"{ctx.name}: while PostgreSQL is idle its slot {slot} stays where it is: any change of a row moves it")
    while wait():
        if _caught_up(ctx, high, server):
            return True
        pace.say(stands)
    ctx.say(f"{stands()}: nobody waits any longer")
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


def _compared_with(ctx: Context, reader: TableReader, round_: Round, chunks: list[Chunk], held: Held) -> list[Compared]:
    _, unread = take_up(ctx, reader, (chunk_files(ctx, c) for c in chunks), sum(c.rows for c in chunks))
    if unread:
        raise StorageError(f"{ctx.name}: what copy {round_.number} has read cannot be read again: {unread}")
    there, below = {b.number: b for b in held.there}, _smallest(chunks)
    found = [reader.compare(there.get(n, Bucket(n, ())), below) for n in range(held.buckets)]
    wrong = next((one.unread or one.unmade for one in found if one.unread or one.unmade), "")
    if wrong:
        raise StorageError(f"{ctx.name}: rows cannot be compared: {wrong}")
    return found


def _refuse_purged(ctx: Context, round_: Round, chunks: list[Chunk], held: Held, compared: list[Compared]) -> None:
    """S7: purges wait for a comparison for a day. A row that was read before that, and then deleted, may have left no
    tombstone: nothing tells it from one that the mirror lacks. Ends the comparison. Raises NotReady, LostComparison."""
    below = held.told.of_server(round_.server).purged_below
    if _smallest(chunks) >= below or not any(kind == "lacking" for one in compared for kind, _ in one.differ):
        return
    why = f"a purge at {spelled(below)} came behind rows that it has read"
    ctx.ledger.copies.give_up(round_, why)
    raise NotReady(
        f"{ctx.name}: comparison {round_.number} has ended: {why}, so that keys which the mirror lacks may be deleted",
        advice=f"compare again, fewer keys at a time if that takes longer than {span(RESUMED_MS)}: copy.compare_rows "
        "in the YAML, or --from and --until",
    )


def _covers(one: RoundIn, round_: Round) -> bool:
    """Whether it is a later reading of these keys."""
    return one.number > round_.number and covers(one.part, round_.part)


def _smallest(chunks: list[Chunk]) -> Position:
    return min((c.position for c in chunks), default=START)
