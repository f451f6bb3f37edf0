"""Cut logs, and where reading goes on if not at the planned end: decided once, read by the next plan."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import and_, delete, insert, select, update
from sqlalchemy.engine import Connection

from tidegate.core.batch.states import Plan
from tidegate.core.source.log_cut import Cut, Resumption
from tidegate.ledger import schema
from tidegate.ledger.store import Part, columns, read_as, rows_of

s, k, p = schema.resumptions, schema.log_cuts, schema.pipelines


class SqlCuts(Part):
    """core.logcut.CutLedger."""

    def open(self, name: str) -> tuple[Cut, ...]:
        with self._store.begin() as c:
            return open_cuts(c, [name]).get(name, ())

    def remember(self, name: str, version: int, cuts: Iterable[Cut]) -> None:
        with self._store.begin() as c:
            self._store.raise_version(c, name, version)
            for cut in cuts:
                c.execute(delete(k).where(k.c.pipeline == name, k.c.partition == cut.partition))
                c.execute(insert(k).values(pipeline=name, found_ms=self._store.now_ms(), **asdict(cut)))
                self._store.note(c, name, "log cut", f"partition {cut.partition}", {"reason": cut.words()})

    def settle(self, name: str, cut: Cut, resumed: Resumption) -> None:
        with self._store.begin() as c:
            same = and_(*(k.c[column].is_not_distinct_from(value) for column, value in asdict(cut).items()))
            gone = delete(k).where(k.c.pipeline == name, same)
            self._store.compare_and_set(c, gone, f"the cut of partition {cut.partition}")
            self._store.raise_version(c, name)
            put(c, name, resumed)
            detail = {"cut": [cut.start, cut.end], "goes on at": resumed.offset, "why": resumed.why}
            what = "rewound" if resumed.lost_start is None else "skipped"
            self._store.note(c, name, what, f"partition {cut.partition}", detail)

    def resumptions(self, name: str) -> tuple[Resumption, ...]:
        with self._store.begin() as c:
            return decided(c, name)

    def restore(self, name: str, resumed: Iterable[Resumption]) -> None:
        with self._store.begin() as c:
            for one in resumed:
                put(c, name, one)


def open_cuts(c: Connection, names: Sequence[str]) -> dict[str, tuple[Cut, ...]]:
    """Open cuts of the accepted topics, by pipeline."""
    columns = (k.c.partition, k.c.topic_id, k.c.after_batch, k.c.start, k.c.end, k.c.leader_epoch)
    mine = and_(p.c.name == k.c.pipeline, p.c.topic_id == k.c.topic_id)
    statement = select(k.c.pipeline, *columns).select_from(k.join(p, mine)).where(k.c.pipeline.in_(names))
    found: dict[str, tuple[Cut, ...]] = {}
    for name, *row in c.execute(statement.order_by(k.c.pipeline, k.c.partition)):
        found[name] = (*found.get(name, ()), Cut(*row))
    return found


def decided(c: Connection, name: str, **where: Any) -> tuple[Resumption, ...]:
    """Decisions about cut logs, oldest first."""
    return tuple(read_as(Resumption, r) for r in rows_of(c, s, pipeline=name, **where) if r.after_batch)


def put(c: Connection, name: str, one: Resumption) -> None:
    """Store it in place of an earlier decision about the same batch and partition."""
    row = {"pipeline": name, "after_batch": one.after_batch, "partition": one.partition}
    c.execute(delete(s).where(*(s.c[column] == value for column, value in row.items())))
    c.execute(insert(s).values(**row, **columns(one, "topic_id", "offset", "lost_start", "leader_epoch", "why")))


def keep_starts(c: Connection, plan: Plan, why: str) -> None:
    """The first batch on its topic is forgotten: the next one begins where it began, not where `source.start` says
    by then."""
    if plan.is_redrive:
        return
    begun = {p.partition: p.start for p in plan.partitions} | {x.partition: x.start for x in plan.losses}
    for partition, offset in begun.items():
        kept = Resumption(partition=partition, after_batch=0, topic_id=plan.topic_id, offset=offset, why=why)
        put(c, plan.pipeline, kept)


def taken_up(c: Connection, plan: Plan, newest: int) -> None:
    """The plan goes on where this was decided after batch `newest`."""
    mine = (s.c.pipeline == plan.pipeline, s.c.topic_id == plan.topic_id, s.c.after_batch == newest)
    c.execute(update(s).where(*mine).values(batch_id=plan.batch_id))


def rewound(c: Connection, name: str, topic_id: str | None) -> int:
    """The newest batch after which reading went back, 0 for none."""
    mine = [s.c.pipeline == name, s.c.topic_id == topic_id, s.c.after_batch > 0, s.c.lost_start.is_(None)]
    newest = select(s.c.after_batch).where(*mine).order_by(s.c.after_batch.desc()).limit(1)
    return c.scalar(newest) or 0
