"""Failovers in the ledger: one transaction switches the active site, and says what is never read of which topic."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import insert, select, update
from sqlalchemy.engine import Connection

from tidegate.core.base.errors import LedgerError, LostComparison
from tidegate.core.base.offsets import Interval, union
from tidegate.core.base.plain import dumps, loads
from tidegate.core.batch.states import OpenBatch
from tidegate.core.failover.states import Certificate, Failover, FailoverRecord, Switch
from tidegate.ledger import ends, recovery, schema
from tidegate.ledger.store import Part, Store, insert_all, read_as, row_of, rows_of

f, s, e = schema.failovers, schema.stretches, schema.site_ends


_Parts = Mapping[str, Mapping[Any, Sequence[Interval]]]
"""By topic id, then by partition, which is a text in JSON."""


class SqlFailovers(Part):
    """core.failover.states.FailoverLedger on PostgreSQL or SQLite."""

    # ------------------------------------------------------------ looking

    def newest(self, name: str) -> Failover | None:
        with self._store.begin() as c:
            row = c.execute(select(f).where(f.c.pipeline == name).order_by(f.c.number.desc()).limit(1)).first()
        return None if row is None else _failover(row)

    def history(self, name: str) -> list[Failover]:
        with self._store.begin() as c:
            return [_failover(row) for row in rows_of(c, f, pipeline=name)]

    def stretches(self, name: str, topic_id: str) -> dict[int, tuple[Interval, ...]]:
        with self._store.begin() as c:
            return stretches_of(c, name, topic_id)

    def left(self, name: str, topic_id: str) -> tuple[dict[int, int], dict[int, int]]:
        with self._store.begin() as c:
            at = ends.reach(c, name, topic_id)
        return at.ends, at.epochs

    def record(self, name: str, number: int) -> FailoverRecord:
        with self._store.begin() as c:
            row = row_of(c, f, pipeline=name, number=number)
            if row is None:
                raise LedgerError(f"the ledger has no failover {number} of {name}")
            mine = select(s).where(s.c.pipeline == name, s.c.number == number)
            found: dict[str, dict[str, list[Interval]]] = defaultdict(lambda: defaultdict(list))
            for one in c.execute(mine.order_by(s.c.topic_id, s.c.partition, s.c.start)):
                found[one.topic_id][str(one.partition)].append(Interval(one.start, one.end))
        stretches = {topic: {p: tuple(parts) for p, parts in of.items()} for topic, of in found.items()}
        return FailoverRecord(pipeline=name, failover=_failover(row), stretches=stretches)

    def noted(self, name: str, number: int, site: str) -> dict[int, int]:
        with self._store.begin() as c:
            return {row.partition: row.end for row in rows_of(c, e, pipeline=name, number=number, site=site)}

    # ------------------------------------------------------------ changing

    def note_ends(self, name: str, number: int, site: str, found: Mapping[int, int]) -> None:
        key = {"pipeline": name, "number": number, "site": site}
        with self._store.begin() as c:
            _compare_newest(c, name, number)
            now = self._store.read_now(c)
            insert_all(c, e, [key | {"partition": p, "end": end, "noted_ms": now} for p, end in sorted(found.items())])
            self._store.note(c, name, "site returned", f"site {site}", {"ends": dict(found), "after failover": number})

    def restore(self, record: FailoverRecord, withdrawn: OpenBatch | None, why: str) -> None:
        one, name, p = record.failover, record.pipeline, schema.pipelines
        topics = (one.certificate.before_topic_id, one.certificate.topic_id)  # a batch may have been adopted before
        with self._store.begin() as c:
            change = update(p).where(p.c.name == name, p.c.topic_id.in_(topics))
            change = change.values(topic_id=one.certificate.topic_id, version=p.c.version + 1)
            self._store.compare_and_set(c, change, f"failover {one.number} of {name}")
            _compare_newest(c, name, one.number - 1)
            if withdrawn is not None:
                recovery.withdraw(self._store, c, withdrawn, f"failover to site {one.site}: {why}", True)
            _insert(self._store, c, name, one, record.stretches, one.why)

    def switch(self, switch: Switch, why: str) -> None:
        name, certificate, p = switch.pipeline, switch.certificate, schema.pipelines
        with self._store.begin() as c:
            seen = (p.c.name == name, p.c.version == switch.version, p.c.topic_id == certificate.before_topic_id)
            change = update(p).where(*seen).values(topic_id=certificate.topic_id, version=p.c.version + 1)
            self._store.compare_and_set(c, change, f"failover {switch.number} of {name}")
            _compare_newest(c, name, switch.number - 1)
            if switch.withdrawn is not None:
                recovery.withdraw(self._store, c, switch.withdrawn, f"failover to site {switch.site}", True)
            _insert(self._store, c, name, switch, switch.stretches, why)


def _insert(store: Store, c: Connection, name: str, switch: Switch | Failover, stretches: _Parts, why: str) -> None:
    key = {"pipeline": name, "number": switch.number}
    row = key | {"site": switch.site, "before": switch.before, "certificate": dumps(switch.certificate), "why": why}
    c.execute(insert(f).values(**row, at_ms=switch.at_ms if isinstance(switch, Failover) else store.read_now(c)))
    found = [
        key | {"topic_id": topic_id, "partition": int(partition), "start": one.start, "end": one.end}
        for topic_id, by_partition in sorted(stretches.items())
        for partition, parts in sorted(by_partition.items())
        for one in parts
    ]
    insert_all(c, s, found)
    left = {str(x.partition): [x.left, x.landed, x.crossed] for x in switch.certificate.crossings}
    detail = {"before": switch.before, "why": why, "stopped": switch.certificate.stopped, "left, landed, crossed": left}
    pairs = {str(x.partition): str(x.pair) for x in switch.certificate.crossings if x.pair is not None}
    detail |= {"pairs": pairs} if pairs else {}
    store.note(c, name, "failover", f"site {switch.site}", detail)


def _compare_newest(c: Connection, name: str, number: int) -> None:
    newest = c.scalar(select(f.c.number).where(f.c.pipeline == name).order_by(f.c.number.desc()).limit(1)) or 0
    if newest != number:
        raise LostComparison(f"failover {newest} of {name} is the newest one, not {number}")


def active(c: Connection, name: str) -> str | None:
    """Name of the active site; None while it has always been the first."""
    found: str | None = c.scalar(select(f.c.site).where(f.c.pipeline == name).order_by(f.c.number.desc()).limit(1))
    return found


def landed_before(c: Connection, name: str, topic_id: str | None) -> dict[int, int]:
    """Where batches of a topic ended, or would have begun, when its site was left; empty if it never was.

    For a site whose first batch was withdrawn: the ledger keeps the beginning of one topic only."""
    left = select(f).where(f.c.pipeline == name).order_by(f.c.number.desc())
    for one in map(_failover, c.execute(left)):
        if one.certificate.before_topic_id == topic_id:
            return {crossing.partition: crossing.landed for crossing in one.certificate.crossings}
    return {}


def stretches_of(c: Connection, name: str, topic_id: str | None) -> dict[int, tuple[Interval, ...]]:
    """By partition; none of a topic that no site had."""
    found: dict[int, list[Interval]] = defaultdict(list)
    for row in rows_of(c, s, pipeline=name, topic_id=topic_id) if topic_id is not None else ():
        found[row.partition].append(Interval(row.start, row.end))
    return {partition: union(parts) for partition, parts in found.items()}


def all_stretches(c: Connection, name: str) -> dict[str, dict[int, tuple[Interval, ...]]]:
    """By topic id, then by partition."""
    topics = c.scalars(select(s.c.topic_id).where(s.c.pipeline == name).distinct().order_by(s.c.topic_id))
    return {topic_id: stretches_of(c, name, topic_id) for topic_id in list(topics)}


def _failover(row: object) -> Failover:
    return read_as(Failover, row, certificate=loads(Certificate, row.certificate))  # type: ignore[attr-defined]
