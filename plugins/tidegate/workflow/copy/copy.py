"""Reads a mirror's source tables in chunks: cut ranges of its key, read them by a Spark job, accept what it has read.

Any step may be run again, by several tasks at once: an attempt of a chunk is accepted by compare-and-set, at most one.
What is read waits in its files until `apply` merges it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tidegate.core.base.errors import (
    JobFailed,
    LedgerError,
    LostComparison,
    NotReady,
    PathMissing,
    SpecError,
    TidegateError,
)
from tidegate.core.base.plain import loads, to_plain
from tidegate.core.base.wording import many
from tidegate.core.batch.jobs import CopyPlan
from tidegate.core.batch.rules_version import COPYING_RULES
from tidegate.core.copy.complete import kept
from tidegate.core.copy.days import all_read
from tidegate.core.copy.jobs import ChunkPlan, ChunkReceipt, CopiedTable
from tidegate.core.copy.port import Database, ReadAfter, TableRange
from tidegate.core.copy.rounds import BRINGS_NOTHING, RESUMED_MS, UNDER_WAY, Chunk, Round, RoundState, damaged
from tidegate.core.copy.steps import cut, of_server, to_read, too_old, uncut
from tidegate.core.mirror.applies import Told
from tidegate.core.mirror.parts import KeyPart, covers, is_all
from tidegate.core.spec.pipeline import Copy
from tidegate.core.target.paths import RECEIPT, join
from tidegate.workflow.apply import complete
from tidegate.workflow.apply.apply import keyed
from tidegate.workflow.apply.copies import CopyFacts, gather, sizes
from tidegate.workflow.base import preflight, servers
from tidegate.workflow.base.context import ATTEMPTS, Context, guard
from tidegate.workflow.base.jobs import run_to_its_end
from tidegate.workflow.copy import standing
from tidegate.workflow.copy.drop import is_dropped, keep_rows
from tidegate.workflow.copy.standing import Greatest, no_files
from tidegate.workflow.copy.tables import Keys, SourceTables, section

_AGAIN = (
    "the next try reads them again; of a table that is idle in PostgreSQL change any row first: what is read is as new "
    "as the newest event that was merged"
)
CHUNKS_FOR_A_TASK = 8
"""Chunks of one job, for each that is read at once: what is accepted stays."""


@dataclass(frozen=True, kw_only=True)
class Read:
    """What a run has read: `chunks` with `rows` in all. `round`: the one that it worked on, 0 for none. `left`: more is
    to be read, and this run had no time for it."""

    round: int = 0
    chunks: int = 0
    rows: int = 0
    left: bool = False


def copy(
    ctx: Context,
    database: Database,
    go_on: Callable[[], bool] = lambda: True,
    compared: bool = False,
    greatest: Greatest = no_files,
    server: str = "",
) -> Read:
    """Read what is left of the newest round; begin the first one. `go_on` is asked before each job but the first.
    `compared`: of the round that is to be compared; `greatest`: of a mirror by days. `server`: the one whose `database`
    it is, where there are several.

    Raises NotReady (S4: no event has been merged yet), SpecError (the source's table is another than the spec's),
    SourceError, StorageAhead (R11), JobFailed, LostComparison."""
    guard(ctx)
    preflight.check(ctx)
    _prepare(ctx)
    if standing.needs_nothing(ctx):
        return Read()
    done, lost = Read(), 0
    while True:
        try:
            tables = SourceTables(ctx, database, server)
            told = _told(ctx, greatest, server)
            round_, chunks = _next(ctx, database, tables, told, compared)
            if round_ is None or (done.chunks and not go_on()):
                return replace(done, left=round_ is not None)
            accepted = _read(ctx, database, tables, told, chunks)
            if not accepted:
                ctx.say(f"{ctx.name}: another task reads these chunks: they are left to it")
                return replace(done, left=True)
        except LostComparison:
            lost += 1
            if lost == ATTEMPTS:
                raise
            continue
        rows = done.rows + sum(c.rows for c in accepted)
        done = Read(round=round_.number, chunks=done.chunks + len(accepted), rows=rows)
        _say_how_far(ctx, database, tables, round_)


def _prepare(ctx: Context) -> None:
    if ctx.keyed is not None:  # days are prepared when they are published
        ctx.keyed.prepare()


def _next(
    ctx: Context, database: Database, tables: SourceTables, told: Told, compared: bool
) -> tuple[Round | None, list[Chunk]]:
    """The round that is to go on, with the chunks to read now; no round if all is read. Begins the first one."""
    standing.refuse_forgotten(ctx, told)
    keep_rows(ctx, tables.server)
    facts = gather(ctx, told)
    mine = of_server(facts.rounds, tables.server)
    if not compared and all(one.state in (*BRINGS_NOTHING, RoundState.COMPARED) for one in mine):
        _wait_for_comparison(ctx, mine)
        # a comparison is no copy, and one that was given up has no successor yet
        _begin(ctx, tables, told, facts, part=servers.part(ctx, tables.server))
        return _next(ctx, database, tables, told, compared)
    found = to_read(mine, facts.chunks, compared)
    if found is None:
        _whole_by_days(ctx, facts)
        return None, []
    round_, left = found
    _refuse_other(ctx, round_, tables)
    most = _at_once(section(ctx))
    if round_.state in UNDER_WAY and not round_.ended and len(left) < most:
        _cut(ctx, database, tables, round_, facts)
        return _next(ctx, database, tables, told, compared)
    return round_, left[:most]


def _wait_for_comparison(ctx: Context, rounds: Sequence[Round]) -> None:
    """One round of a server is under way at a time: its first copy comes behind a comparison, unless that died long
    ago. Raises NotReady, LostComparison."""
    for one in (each for each in rounds if each.state == RoundState.COMPARED):
        if ctx.clock.now_ms() - one.begun_ms < RESUMED_MS:
            raise NotReady(
                f"{ctx.name}: comparison {one.number} is under way: the first copy begins once it has ended",
                advice=f"if it died: tidegate compare {ctx.name} ends it, and a day after it began it is given up",
            )
        ctx.ledger.copies.give_up(one, "its comparison died long ago, and the first copy waits")


def _whole_by_days(ctx: Context, facts: CopyFacts) -> None:
    """A copy that is read is whole, and the next day takes it; of a table in Iceberg its snapshot says so."""
    if ctx.keyed is not None:
        return
    for one in facts.rounds:
        if all_read(one, facts.chunks.get(one.number, ())):
            ctx.ledger.copies.whole(ctx.name, one.number)
            ctx.say(f"{ctx.name}: {one.words} is whole: the next day that is published has its rows")


def _told(ctx: Context, greatest: Greatest, server: str = "") -> Told:
    """What the table says. Raises NotReady (S4)."""
    told = standing.told(ctx, greatest, server)
    if told.copied.whole_of(server) is None or is_dropped(ctx, told.copied, server):
        _wait_for_the_connector(ctx, told.of_server(server), server)
    return told


def _wait_for_the_connector(ctx: Context, told: Told, server: str) -> None:
    """S4: a connector that dies before it has noted any place begins at the log's end, and what changed meanwhile never
    comes. Raises NotReady, and the refusal itself where no waiting heals it."""
    ask = ctx.connectors.get(server)
    if ask is None or told.begins is None:
        return
    slot = section(ctx).server(server).slot
    advice = "wait until it has noted its first place (offset.flush.interval.ms); then this goes on by itself"
    try:
        position = ask().position
    except TidegateError as e:
        if isinstance(e, LedgerError) or not e.retry:
            raise
        what = f"{ctx.name}: nobody says that its connector would go on after a restart: {e.args[0]}"
        raise NotReady(what, advice=e.advice or advice) from None
    if slot is not None and position[0] < told.begins[1]:
        raise NotReady(f"{ctx.name}: the slot {slot} has confirmed no merged event yet", advice=advice)


def again(
    ctx: Context,
    database: Database,
    why: str,
    keys: Keys | None = None,
    greatest: Greatest = no_files,
    server: str = "",
) -> Round:
    """A new round, which reads the whole source table once more, or some `keys` of it, of one `server` where there are
    several; one of them that is OPEN is given up for it, but never one of the whole table for some of its keys.

    Raises as `copy` does; LostComparison where another task begins one; for some keys NotReady while all are read, or
    never were, SpecError where the table has no parts."""
    guard(ctx)
    if ctx.keyed is None:
        preflight.check(ctx)  # days say which copies they have taken
    _prepare(ctx)
    tables = SourceTables(ctx, database, server)
    told = _told(ctx, greatest, server)
    part = _part(ctx, tables, told, keys)
    _look(ctx, server)
    rounds = list(ctx.ledger.copies.rounds(ctx.name))
    for one in rounds:
        if keys is not None and one.state == RoundState.OPEN and is_all(one.part) and covers(one.part, part):
            raise NotReady(f"{ctx.name}: {one.words} is under way: it reads these keys, too")
        if one.state in UNDER_WAY and one.server == tables.server:
            ctx.ledger.copies.give_up(one, f"read again: {why}")
    return _begin(ctx, tables, told, CopyFacts(rounds, {}), why, part=part)


def _look(ctx: Context, server: str) -> None:
    """S12: what begins after a look has found the connector at a place makes good what it has left out before."""
    if ctx.keyed is not None:
        complete.look(ctx, server)


def _part(ctx: Context, tables: SourceTables, told: Told, keys: Keys | None) -> KeyPart | None:
    if keys is None:
        return servers.part(ctx, tables.server)
    if ctx.keyed is None:
        what = f"{ctx.name}: a mirror by days has no parts"
        raise SpecError(what, advice="a day takes a copy as a whole: the whole table can be read again")
    if told.copied.whole_of(tables.server) is None:
        raise NotReady(f"{ctx.name}: its first copy is not whole: it reads these keys, too")
    return tables.part(keys)


def to_compare(ctx: Context, database: Database, keys: Keys | None = None, server: str = "") -> Round:
    """The round that is to be compared: the one that is under way for that, or a new one; of some `keys` only, and of
    one `server`, where there are several. Raises as `copy` does; NotReady while a copy of it is under way; for some
    keys as `again` does."""
    guard(ctx)
    keyed(ctx).prepare()
    tables, told = SourceTables(ctx, database, server), _told(ctx, no_files, server)
    part = _part(ctx, tables, told, keys)
    _look(ctx, server)
    rounds = list(ctx.ledger.copies.rounds(ctx.name))
    for one in (each for each in rounds if each.server == tables.server):
        if one.state == RoundState.COMPARED:
            if ctx.clock.now_ms() - one.begun_ms < RESUMED_MS and _reads(one, tables) and one.part == part:
                return one
            ctx.ledger.copies.give_up(one, "its comparison died long ago, or was of another table or other keys")
        if one.state == RoundState.OPEN:
            what = f"{ctx.name}: {one.words} is under way: it mends what it finds"
            raise NotReady(what, advice="compare once it is whole; tidegate status says how far it is")
    return _begin(ctx, tables, told, CopyFacts(rounds, {}), "to be compared", only=True, part=part)


def _at_once(spec: Copy) -> int:
    return spec.tasks * CHUNKS_FOR_A_TASK


# ---------------------------------------------------------------- rounds and chunks


def _begin(
    ctx: Context,
    tables: SourceTables,
    told: Told,
    facts: CopyFacts,
    why: str = "",
    only: bool = False,
    part: KeyPart | None = None,
) -> Round:
    """S1: a number that no row of the table has. `only`: to be compared. `part`: its keys."""
    newest = max([told.copied.newest, *(one.number for one in facts.rounds)])
    columns = kept(ctx.pipeline)
    begun = ctx.ledger.copies.begin(ctx.name, newest + 1, tables.spelled, tables.key, why, only, part, columns)
    ctx.say(f"{ctx.name}: {begun.words} of {begun.table} begins, by {', '.join(begun.key)}")
    return begun


def _reads(round_: Round, tables: SourceTables) -> bool:
    return (round_.table, round_.key) == (tables.spelled, tables.key)


def _refuse_other(ctx: Context, round_: Round, tables: SourceTables) -> None:
    if not _reads(round_, tables):
        raise SpecError(
            f"{ctx.name}: copy {round_.number} reads {round_.table} by {', '.join(round_.key)}, and now it would be "
            f"{tables.spelled} by {', '.join(tables.key)}",
            advice=f"take the change back, or read all again: tidegate copy {ctx.name} --again --why ...",
        )


def _cut(ctx: Context, database: Database, tables: SourceTables, round_: Round, facts: CopyFacts) -> None:
    """Cut further chunks, of one table after the other, or see that there are no more."""
    spec, chunks = section(ctx), facts.chunks.get(round_.number, ())
    left, most = uncut(tables.names, chunks, round_.part), _at_once(spec)
    ranges: list[TableRange] = []
    while left and len(ranges) < most:
        (name, after), room = left.pop(0), most - len(ranges)
        table = tables.described(name)
        found, ended = cut(after, database.bounds(table, after, spec.chunk_rows, room), room, round_.part)
        ranges += [TableRange(name, keys) for keys in found]
        if not ended:
            left = [(name, found[-1].upper), *left]
    ctx.ledger.copies.cut(round_, chunks[-1].number if chunks else 0, ranges, not left)


# ---------------------------------------------------------------- reading


def _read(ctx: Context, database: Database, tables: SourceTables, told: Told, chunks: Sequence[Chunk]) -> list[Chunk]:
    """Those that were accepted; none where another task has begun each of them anew. Raises JobFailed."""
    names = [chunk.table for chunk in chunks]
    read = {name: tables.to_read(name) for name in names}
    tries = [ctx.ledger.copies.attempt(chunk, ctx.nonce()) for chunk in chunks]
    job = _plan(ctx, database, read, told, tries, tables.server)
    ctx.say(f"{ctx.name}: reading {many(len(tries), 'chunk')}, {tries[0].number} to {tries[-1].number}")
    error = run_to_its_end(ctx, job, ctx.layout.copy_plan(job.attempt))
    for name in read:
        if not tables.unchanged(name):
            # its rows would lack what the events of before them have brought of a new column
            raise LostComparison(f"{ctx.name}: {name} was altered while it was read: its chunks are read again")
    accepted, overtaken, why = [], 0, ""
    for one in tries:
        try:
            found = _accepted(ctx, told, one, tables.server)
        except LostComparison:
            overtaken += 1  # another task has begun another attempt: that one's counts
            continue
        if isinstance(found, str):
            why = why or found
        else:
            accepted.append(found)
    if overtaken == len(tries):
        return []
    if error is not None and (not accepted or not error.retry):
        raise error
    if error is not None:
        ctx.say(f"{many(len(tries) - len(accepted), 'chunk')} not read: {error}")
    if not accepted:
        raise JobFailed(f"{ctx.name}: no chunk was accepted: {why}", advice=_AGAIN)
    return accepted


def _plan(
    ctx: Context,
    database: Database,
    read: Mapping[str, CopiedTable],
    told: Told,
    tries: Sequence[Chunk],
    server: str,
) -> CopyPlan:
    """S2: what is in progress is asked once the position is known, never before."""
    spec, place = section(ctx), {name: n for n, name in enumerate(read)}
    last = told.of_server(server).last_position
    position = None if last is None else (last[0], 0)
    after = ReadAfter(position, database.in_progress())
    chunks = tuple(
        ChunkPlan(c.number, c.batch_id, c.attempt, ctx.layout.copied(c.attempt), c.keys, place[c.table]) for c in tries
    )
    return CopyPlan(
        attempt=chunks[0].attempt,
        attempt_dir=chunks[0].attempt_dir,
        pipeline=to_plain(ctx.pipeline),
        topic=ctx.pipeline.source.topic,
        nonce=tries[0].nonce,
        epoch=tries[0].epoch,
        spec_version=ctx.spec_version,
        rules_version=COPYING_RULES,
        tables=tuple(read.values()),
        chunks=chunks,
        after=after,
        rate=spec.rate,
        tasks=spec.tasks,
        server=server,
    )


def _accepted(ctx: Context, told: Told, chunk: Chunk, server: str) -> Chunk | str:
    """The chunk with what its attempt has read, or why it is to be read again: it left no receipt, or what it read may
    not be merged. Raises LostComparison."""
    home = ctx.layout.copied(chunk.attempt)
    try:
        receipt = loads(ChunkReceipt, ctx.storage.read(join(home, RECEIPT)))
    except PathMissing:
        return "its job left no receipt"
    of = told.of_server(server)
    assert of.begins is not None
    low = (*receipt.low, chunk.round)
    why = damaged(receipt.files, sizes(ctx, home)) or too_old(low, told.copied, of.purged_below, of.begins, server)
    if why is not None:
        ctx.say(f"{ctx.name}: chunk {chunk.number} is to be read again: {why}")
        return why
    return ctx.ledger.copies.accept(chunk, receipt.low, receipt.high, receipt.files)


def _say_how_far(ctx: Context, database: Database, tables: SourceTables, round_: Round) -> None:
    chunks = ctx.ledger.copies.chunks(ctx.name, round_.number)
    rows = sum(c.rows for c in chunks)
    about = 0 if not is_all(round_.part) else sum(database.rows_about(tables.described(name)) for name in tables.names)
    of = f" of about {about:,}" if about > rows else ""
    ctx.say(f"{ctx.name}: {round_.words}: {rows:,}{of} rows read")
