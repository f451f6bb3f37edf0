"""Rounds that read a keyed table's source, and their chunks: which attempt of each was accepted."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import and_, case, delete, func, insert, or_, select, union, union_all, update
from sqlalchemy.engine import Connection
from sqlalchemy.sql import ColumnElement

from tidegate.core.base.errors import LostComparison
from tidegate.core.base.plain import dumps, loads
from tidegate.core.base.transition import Step, step
from tidegate.core.batch.states import ABANDONED, INGEST, OVER_STATES
from tidegate.core.copy import transitions
from tidegate.core.copy.complete import Look
from tidegate.core.copy.places import uncured
from tidegate.core.copy.port import KeyRange, LogPosition, TableRange
from tidegate.core.copy.rounds import (
    LOOKS_KEPT,
    UNDER_WAY,
    Chunk,
    ChunkFile,
    ChunkState,
    Claim,
    Reading,
    Round,
    RoundState,
)
from tidegate.core.files.receipt import DIRTY
from tidegate.core.mirror.applies import Told
from tidegate.core.mirror.parts import KeyPart
from tidegate.ledger import moves, schema, schema_copies
from tidegate.ledger.applies import told
from tidegate.ledger.store import Part, in_parts, matched, read_as, row_of, rows_of

r, k, s = schema_copies.copies, schema_copies.chunks, schema_copies.source_looks


class SqlCopies(Part):
    """core.copy.rounds.CopyLedger."""

    # ------------------------------------------------------------ looking

    def newest(self, name: str) -> Round | None:
        found = self.rounds(name)
        return found[-1] if found else None

    def rounds(self, name: str) -> list[Round]:
        with self._store.begin() as c:
            return [_round(row) for row in c.execute(select(r).where(r.c.pipeline == name).order_by(r.c.round))]

    def chunks(self, name: str, round_: int) -> list[Chunk]:
        mine = and_(k.c.pipeline == name, k.c.round == round_)
        with self._store.begin() as c:
            return [_chunk(row) for row in c.execute(select(k).where(mine).order_by(k.c.chunk))]

    def by_number(self, name: str, numbers: Iterable[int]) -> dict[int, Chunk]:
        found: dict[int, Chunk] = {}
        with self._store.begin() as c:
            for some in in_parts(numbers):
                mine = and_(k.c.pipeline == name, k.c.chunk.in_(some))
                found |= {row.chunk: _chunk(row) for row in c.execute(select(k).where(mine))}
        return found

    def looks(self, name: str) -> list[Look]:
        with self._store.begin() as c:
            rows = c.execute(select(s).where(s.c.pipeline == name).order_by(s.c.look))
            return [_look(row) for row in rows]

    def newest_looks(self, name: str) -> dict[str, Look]:
        newest = select(func.max(s.c.look)).where(s.c.pipeline == name).group_by(s.c.server)
        with self._store.begin() as c:
            rows = c.execute(select(s).where(s.c.pipeline == name, s.c.look.in_(newest)))
            return {row.server: _look(row) for row in rows}

    def merged_ends(self, name: str, upto: int) -> dict[int, int]:
        e, b, f, lost = schema.batch_partitions, schema.batches, schema.batch_files, schema.losses
        back, pipelines = schema.resumptions, schema.pipelines
        mine = and_(b.c.pipeline == name, b.c.batch_id <= upto, b.c.state.in_(OVER_STATES))
        read = and_(mine, b.c.kind == INGEST)
        accepted = select(pipelines.c.topic_id).where(pipelines.c.name == name).scalar_subquery()
        gone = union_all(
            select(lost.c.pipeline).where(lost.c.pipeline == name),
            select(b.c.pipeline).where(mine, b.c.state == ABANDONED),
            # what was not read of the old topic when it was recreated is nowhere
            select(b.c.pipeline).where(read, b.c.topic_id.is_distinct_from(accepted)),
            # nor what the log had lost when it was cut
            select(back.c.pipeline).where(back.c.pipeline == name, back.c.after_batch > 0),
            select(f.c.pipeline).where(f.c.pipeline == name, f.c.kind == DIRTY, f.c.rows > 0, f.c.batch_id <= upto),
        )
        with self._store.begin() as c:
            if c.execute(gone.limit(1)).first() is not None:
                return {}
            newest = c.scalar(select(func.max(b.c.batch_id)).where(read)) or 0
            return {r.partition: int(r.planned_end) for r in rows_of(c, e, pipeline=name, batch_id=newest)}

    # ------------------------------------------------------------ changing

    def looked(self, name: str, look: Look) -> None:
        of_server = and_(s.c.pipeline == name, s.c.server == look.server)
        values = {"position": _spelled(look.position), "log_end": _spelled(look.log_end), "at_ms": look.at_ms}
        values |= {"server": look.server, "reader": look.reader, "gap": look.gap}
        with self._store.begin() as c:
            c.execute(insert(s).values(pipeline=name, look=look.number, ends=dumps(dict(look.ends)), **values))
            older = select(s.c.look).where(of_server).order_by(s.c.look.desc()).offset(LOOKS_KEPT).limit(1)
            c.execute(delete(s).where(of_server, s.c.look <= (c.scalar(older) or 0)))

    def begin(
        self,
        name: str,
        number: int,
        table: str,
        key: Sequence[str],
        why: str = "",
        only: bool = False,
        part: KeyPart | None = None,
        columns: Sequence[str] = (),
    ) -> Round:
        arrow = transitions.COMPARE if only else transitions.BEGIN
        state = RoundState.COMPARED if only else RoundState.OPEN
        found = Round(
            pipeline=name,
            number=number,
            table=table,
            key=tuple(key),
            state=state,
            why=why,
            part=part,
            columns=tuple(columns),
        )
        with self._store.begin() as c:
            others = and_(r.c.pipeline == name, r.c.state.in_(UNDER_WAY))
            for other in (_round(row) for row in c.execute(select(r).where(others))):
                if other.server == found.server:
                    raise LostComparison(f"{name}: {other.words} is under way")
            sets = {"table_name": table, "key": dumps(list(key)), "ended": False, "why": why}
            sets |= {"part": None if part is None else dumps(part), "columns": dumps(list(columns))}
            detail = {"table": table} | ({} if part is None else {"part": part.words})
            begun = step(arrow, transitions.of_round(found), found, sets=sets, detail=detail)
            moves.move(self._store, c, r, begun)
        return found

    def cut(self, round_: Round, after: int, ranges: Sequence[TableRange], ended: bool) -> list[Chunk]:
        name = round_.pipeline
        with self._store.begin() as c:
            newest = c.scalar(select(func.max(k.c.chunk)).where(k.c.pipeline == name)) or 0
            last = c.scalar(select(func.max(k.c.chunk)).where(k.c.pipeline == name, k.c.round == round_.number)) or 0
            if last != after:
                raise LostComparison(f"{name}: another task has cut chunks of copy {round_.number}")
            open_ = and_(r.c.pipeline == name, r.c.round == round_.number, r.c.state.in_(UNDER_WAY), ~r.c.ended)
            self._store.compare_and_set(c, update(r).where(open_).values(ended=ended), f"copy {round_.number}")
            found = [
                Chunk(pipeline=name, number=newest + i, round=round_.number, table=one.table, keys=one.keys)
                for i, one in enumerate(ranges, 1)
            ]
            if found:
                c.execute(insert(k), [_values(chunk) for chunk in found])
        return found

    def attempt(self, chunk: Chunk, nonce: str) -> Chunk:
        after = replace(chunk, epoch=chunk.epoch + 1, nonce=nonce)
        sets = {"epoch": after.epoch, "nonce": nonce}
        as_read, named = {"epoch": chunk.epoch}, transitions.of_chunk(chunk)
        tried = step(transitions.ATTEMPT, named, after, state=chunk.state, as_read=as_read, sets=sets)
        return moves.alone(self._store, k, tried)

    def accept(self, chunk: Chunk, low: LogPosition, high: LogPosition, files: Sequence[ChunkFile]) -> Chunk:
        rows = sum(f.rows for f in files)
        after = replace(chunk, state=ChunkState.READ, low=low, high=high, rows=rows, files=tuple(files))
        sets = {"low": _spelled(low), "high": _spelled(high), "rows": rows, "files": dumps(list(files))}
        return moves.alone(self._store, k, _of(transitions.ACCEPT, chunk, after, sets))

    def again(self, chunk: Chunk, why: str) -> Chunk:
        after = replace(chunk, state=ChunkState.CUT, low=None, high=None, rows=0, files=())
        sets = {"low": None, "high": None, "rows": 0, "files": "[]", "read_ms": None}
        return moves.alone(self._store, k, _of(transitions.AGAIN, chunk, after, sets, {"why": why}))

    def whole(self, name: str, number: int) -> None:
        one = transitions.of_round(Round(pipeline=name, number=number, table="", key=(), state=RoundState.OPEN))
        moves.moved_alone(self._store, r, step(transitions.WHOLE, one, None))

    def merge(self, round_: Round, why: str) -> Round:
        after = replace(round_, state=RoundState.OPEN, why=why)
        done = step(transitions.MERGE, transitions.of_round(round_), after, sets={"why": why}, detail={"why": why})
        return moves.alone(self._store, r, done)

    def give_up(self, round_: Round, why: str) -> Round:
        arrow = transitions.END if round_.state == RoundState.COMPARED else transitions.GIVE_UP
        state = RoundState.ENDED if arrow is transitions.END else RoundState.GIVEN_UP
        after = replace(round_, state=state, why=why)
        named, said = transitions.of_round(round_), {"why": why}
        # as it was read: who has compared must not end what another task merges by now
        done = step(arrow, named, after, state=round_.state, sets=said, detail=said)
        return moves.alone(self._store, r, done)

    def confirm(self, name: str, number: int, by: int, claim: Claim) -> None:
        with self._store.begin() as c:
            row = row_of(c, r, pipeline=name, round=number)
            if row is None or row.confirmed >= by:
                return
            still = and_(r.c.pipeline == name, r.c.round == number, r.c.confirmed == row.confirmed)
            sets = {"confirmed": by, "claim": dumps(claim)}
            confirmed = update(r).where(still, r.c.state == RoundState.WHOLE).values(**sets)
            self._store.compare_and_set(c, confirmed, f"copy {number} of {name}")
            known = _round(row).columns
            more = [one for one in claim.columns if one not in known] if known else []
            said = {"comparison": by, "upto": claim.upto} | ({"columns": more} if more else {})
            self._store.note(c, name, "copy confirmed", f"copy {number}", said)

    def forget(self, round_: Round, why: str) -> None:
        name = round_.pipeline
        done = step(transitions.FORGET, transitions.of_round(round_), None, state=round_.state, detail={"why": why})
        with self._store.begin() as c:
            moves.move(self._store, c, r, done)
            newest = c.scalar(select(func.max(k.c.chunk)).where(k.c.pipeline == name)) or 0
            c.execute(delete(k).where(_of_no_round(name, newest)))


def _of_no_round(name: str, newest: int) -> ColumnElement[bool]:
    """Chunks of rounds that are forgotten, but for the `newest` of all; one that was the newest then goes later."""
    known = select(r.c.round).where(r.c.pipeline == name)
    return and_(k.c.pipeline == name, k.c.round.not_in(known), k.c.chunk < newest)


def _of(arrow: Any, chunk: Chunk, after: Chunk, sets: dict[str, Any], detail: Any = None) -> Step[Chunk]:
    as_read = {"epoch": chunk.epoch, "nonce": chunk.nonce}
    named = transitions.of_chunk(chunk)
    return step(arrow, named, after, state=chunk.state, as_read=as_read, sets=sets, detail=detail or {})


def readings(c: Connection, names: Sequence[str]) -> dict[str, Reading]:
    """How far the newest round of these pipelines is, and others that are under way; pipelines that have none are left
    out, by what the ledger has copied of their tables. Seven statements."""
    newest = select(r.c.pipeline, func.max(r.c.round).label("round")).where(r.c.pipeline.in_(names))
    under_way = select(r.c.pipeline, r.c.round).where(r.c.pipeline.in_(names), r.c.state.in_(UNDER_WAY))
    last = union(newest.group_by(r.c.pipeline), under_way).subquery()
    of_newest = select(r).select_from(r.join(last, matched(r, last, "round"))).order_by(r.c.round)
    rounds: dict[str, list[Round]] = {}
    for row in c.execute(of_newest):
        rounds.setdefault(row.pipeline, []).append(_round(row))
    read = case((k.c.state == ChunkState.READ, 1), else_=0)
    sums = (
        select(
            k.c.pipeline,
            k.c.round,
            func.count().label("chunks"),
            func.sum(read).label("read"),
            func.sum(k.c.rows).label("rows"),
            func.max(k.c.read_ms).label("since_ms"),
        )
        .select_from(k.join(last, matched(k, last, "round")))
        .group_by(k.c.pipeline, k.c.round)
    )
    counts = {(row.pipeline, row.round): row for row in c.execute(sums)}
    newest_look = select(s.c.pipeline, func.max(s.c.look).label("look")).where(s.c.pipeline.in_(names))
    last_look = newest_look.group_by(s.c.pipeline, s.c.server).subquery()
    asked: dict[str, dict[str, int]] = {}
    gaps: dict[str, dict[str, int]] = {}
    for row in c.execute(select(s).select_from(s.join(last_look, matched(s, last_look, "look")))):
        asked.setdefault(row.pipeline, {})[row.server] = row.at_ms
        gaps.setdefault(row.pipeline, {})[row.server] = row.gap
    all_keys = or_(r.c.part.is_(None), r.c.part.like('{"columns":[],%'))  # of the table, or of one of its servers
    done = and_(r.c.pipeline.in_(names), r.c.state == RoundState.WHOLE, all_keys)
    newest_whole = select(r.c.pipeline, func.max(r.c.round).label("round")).where(done).group_by(r.c.pipeline, r.c.part)
    last_whole = newest_whole.subquery()
    of_whole = select(r).select_from(r.join(last_whole, matched(r, last_whole, "round")))
    tables = told(c, names)
    whole: dict[str, list[Round]] = {}
    for row in c.execute(of_whole):
        whole.setdefault(row.pipeline, []).append(_round(row).as_of(tables.get(row.pipeline, Told())))
    found = {}
    for name, each in rounds.items():
        some = whole.get(name, [])
        copied = next((one for one in some if one.part is None), None)
        *others, last_one = (_reading(one, counts.get((name, one.number))) for one in each)
        found[name] = replace(
            last_one,
            asked_ms=max(asked.get(name, {}).values(), default=None),
            asked=tuple(sorted(asked.get(name, {}).items())),
            whole=None if copied is None else copied.number,
            columns=_in_all(some),
            columns_of=tuple((one.server, one.columns) for one in some),
            dropped=tuple(one.server for one in some if one.drops),
            gaps=uncured(gaps.get(name, {}), some),
            others=tuple(others),
        )
    return found


def _reading(one: Round, counts: Any) -> Reading:
    """How far it is; `counts` of its chunks, None without any."""
    if counts is None:
        return Reading(round=one)
    chunks, read, rows = int(counts.chunks), int(counts.read), int(counts.rows)
    return Reading(round=one, chunks=chunks, read=read, rows=rows, since_ms=counts.since_ms)


def _in_all(copied: Sequence[Round]) -> tuple[str, ...]:
    """Columns that each of these copies has, of those that know theirs."""
    known = [one.columns for one in copied if one.columns]
    return tuple(name for name in known[0] if all(name in some for some in known)) if known else ()


def _values(chunk: Chunk) -> dict[str, Any]:
    return {
        "pipeline": chunk.pipeline,
        "chunk": chunk.number,
        "round": chunk.round,
        "table_name": chunk.table,
        "key_range": dumps(chunk.keys),
        "state": ChunkState.CUT,
        "epoch": 0,
        "nonce": "",
        "rows": 0,
        "files": "[]",
    }


def _round(row: Any) -> Round:
    part = None if row.part is None else loads(KeyPart, row.part)
    names = () if row.columns is None else tuple(loads(list[str], row.columns))
    key = tuple(loads(list[str], row.key))
    claim = None if row.claim is None else loads(Claim, row.claim)
    return read_as(Round, row, number=row.round, table=row.table_name, key=key, part=part, columns=names, claim=claim)


@functools.lru_cache(maxsize=4096)
def _chunk(row: Any) -> Chunk:
    """Each job of a copy looks at all chunks of its round, and most of them are as they were."""
    return read_as(
        Chunk,
        row,
        number=row.chunk,
        table=row.table_name,
        keys=loads(KeyRange, row.key_range),
        low=_position(row.low),
        high=_position(row.high),
        files=tuple(loads(list[ChunkFile], row.files)),
    )


def _look(row: Any) -> Look:
    position, log_end = _position(row.position), _position(row.log_end)
    assert position is not None
    assert log_end is not None
    return Look(
        position=position, log_end=log_end, at_ms=row.at_ms, ends=loads(dict[int, int], row.ends), server=row.server,
        reader=row.reader, gap=row.gap, number=row.look,
    )  # fmt: skip


def _spelled(position: LogPosition) -> str:
    return ",".join(map(str, position))


def _position(text: str | None) -> LogPosition | None:
    if text is None:
        return None
    commit, row = text.split(",")
    return int(commit), int(row)
