"""What operators say of pauses: the newest event about a pipeline's DAGs. Nothing else of the ledger rests on it."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from sqlalchemy import select
from sqlalchemy.engine import Connection

from tidegate.core.base.errors import LostComparison, StepMissing
from tidegate.core.tell.pauses import Pause, ordered, without
from tidegate.ledger import schema
from tidegate.ledger.store import Part

e, p = schema.events, schema.pipelines
SUBJECT, PAUSED, UNPAUSED = "DAGs", "paused on purpose", "unpaused"


class SqlPauses(Part):
    """core.pausing.PauseLedger on PostgreSQL or SQLite."""

    def standing(self, name: str) -> Pause | None:
        with self._store.begin() as c:
            return standing(c, name)

    def pause(self, name: str, kinds: Collection[str], why: str, until_ms: int | None, old: Pause | None) -> Pause:
        with self._store.begin() as c:
            self._compare(c, name, old)
            now_ms = self._store.read_now(c)
            since_ms = now_ms if old is None else old.since_ms
            mine = ordered({*kinds, *(old.kinds if old is not None else ())})
            self._say(c, name, Pause(0, since_ms, self._store.actor, why, mine, until_ms))
            made = standing(c, name)
        assert made is not None
        return made

    def unpause(self, name: str, kinds: Collection[str], old: Pause) -> Pause | None:
        with self._store.begin() as c:
            self._compare(c, name, old)
            left = without(old, kinds)
            if left is None:
                self._store.note(c, name, UNPAUSED, SUBJECT, {"kinds": list(old.kinds), "why": old.why})
            else:
                self._say(c, name, left)
            return standing(c, name)

    def _say(self, c: Connection, name: str, pause: Pause) -> None:
        detail = {
            "kinds": list(pause.kinds), "why": pause.why, "by": pause.by,
            "since_ms": pause.since_ms, "until_ms": pause.until_ms,
        }  # fmt: skip
        self._store.note(c, name, PAUSED, SUBJECT, detail)

    def _compare(self, c: Connection, name: str, old: Pause | None) -> None:
        """The pipeline's row is locked: of two that have read the same, one comes second."""
        if c.scalar(select(p.c.name).where(p.c.name == name).with_for_update()) is None:
            raise StepMissing(
                f"the ledger does not know {name}: no run has registered it",
                advice="a new DAG is paused until it is unpaused: nothing runs, and there is nothing to explain",
            )
        if standing(c, name) != old:
            raise LostComparison(f"the pause of {name}: somebody else has changed it meanwhile")


def standing(c: Connection, name: str) -> Pause | None:
    mine = select(e).where(e.c.pipeline == name, e.c.subject == SUBJECT)
    row = c.execute(mine.order_by(e.c.id.desc()).limit(1)).one_or_none()
    return None if row is None else pause_of(row)


def newest_of(name: Any, subject: str, what: str | None = None) -> Any:
    """Id of the newest event about `subject`, as a part of another statement: a probe of an index."""
    one = e.alias()
    where = [one.c.pipeline == name, one.c.subject == subject]
    if what is not None:
        where.append(one.c.what == what)
    return select(one.c.id).where(*where).order_by(one.c.id.desc()).limit(1).scalar_subquery()


def pause_of(row: Any) -> Pause | None:
    """What an event about the DAGs says; None where they go on."""
    if row.what != PAUSED:
        return None
    said = json.loads(row.detail)
    return Pause(row.id, said["since_ms"], said["by"], said["why"], tuple(said["kinds"]), said["until_ms"])
