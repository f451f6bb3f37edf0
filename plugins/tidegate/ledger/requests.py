"""What people ask for on the board, in the event log: who, when, why; each request once."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.engine import Connection

from tidegate.core.base.errors import LedgerError
from tidegate.core.look.views import Event
from tidegate.ledger import schema
from tidegate.ledger.reads_rows import event
from tidegate.ledger.store import Part

_LOOKED_AT = 100
"""So many requests of a kind may come between two clicks on one button."""


class SqlRequests(Part):
    def ask(self, name: str, what: str, subject: str, token: str, detail: dict[str, Any]) -> int:
        """Note a request; the event's id. A second click brings the same `token`, and finds the first one's.

        Raises LedgerError for a pipeline that the ledger does not know."""
        p = schema.pipelines
        with self._store.begin() as c:
            mine = update(p).where(p.c.name == name).values(version=p.c.version)  # two clicks come one after the other
            if c.execute(mine).rowcount != 1:
                raise LedgerError(
                    f"pipeline {name} is not in the ledger", advice="let its DAG be parsed, or register it"
                )
            number = _find(c, name, what, subject, token)
            if number is None:
                self._store.note(c, name, what, subject, detail | {"token": token})
                number = _find(c, name, what, subject, token)
            assert number is not None
            return number

    def find(self, name: str, what: str, subject: str, token: str) -> int | None:
        """The id of the request that `ask` has noted."""
        with self._store.begin() as c:
            return _find(c, name, what, subject, token)

    def event(self, name: str, number: int) -> Event | None:
        """One event of this pipeline."""
        e = schema.events
        with self._store.begin() as c:
            x = c.execute(select(e).where(e.c.pipeline == name, e.c.id == number)).first()
        return None if x is None else event(x)


def _find(c: Connection, name: str, what: str, subject: str, token: str) -> int | None:
    e = schema.events
    asked = select(e.c.id, e.c.detail).where(e.c.pipeline == name, e.c.subject == subject, e.c.what == what)
    for row in c.execute(asked.order_by(e.c.id.desc()).limit(_LOOKED_AT)):
        if json.loads(row.detail).get("token") == token:
            return int(row.id)
    return None
