"""What an operator takes back: the block that an alarm has set, and the refusal of a batch that is too dirty."""

from __future__ import annotations

from sqlalchemy import select, update

from tidegate.core.window.cut import window_id
from tidegate.core.window.states import WindowKey
from tidegate.ledger import schema
from tidegate.ledger.store import Store, scalar

_OPEN = ("PLANNED", "WRITING", "SEALED")


class SqlRepairs:
    """core.views.LedgerRepairs. Each method compares with the reason that the operator saw.

    Raises LostComparison where the block is gone, or another one by now: look again before clearing it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def clear_batch(self, name: str, batch_id: int, reason: str, why: str) -> None:
        b = schema.batches
        where = (b.c.pipeline == name, b.c.batch_id == batch_id, b.c.state.in_(_OPEN), b.c.blocked == reason)
        with self._store.begin() as c:
            change = update(b).where(*where).values(blocked=None)
            self._store.compare_and_set(c, change, f"clearing the block of batch {batch_id}")
            self._store.note(c, name, "block cleared", f"batch {batch_id}", {"block": reason, "why": why})

    def clear_window(self, name: str, key: WindowKey, reason: str, why: str) -> None:
        w, subject = schema.windows, f"window {window_id(key.start_ms)}"
        where = (w.c.pipeline == name, w.c.start_ms == key.start_ms, w.c.blocked == reason)
        with self._store.begin() as c:
            change = update(w).where(*where).values(blocked=None)
            self._store.compare_and_set(c, change, f"clearing the block of {subject}")
            self._store.note(c, name, "block cleared", subject, {"block": reason, "why": why})

    def release(self, name: str, batch_id: int, refused: str, why: str) -> None:
        b = schema.batches
        where = (b.c.pipeline == name, b.c.batch_id == batch_id, b.c.state == "WRITING", b.c.refused == refused)
        with self._store.begin() as c:
            change = update(b).where(*where).values(refused=None, released=f"{self._store.actor}: {why}")
            self._store.compare_and_set(c, change, f"releasing batch {batch_id}")
            self._store.note(c, name, "released", f"batch {batch_id}", {"refused": refused, "why": why})

    def released(self, name: str, batch_id: int) -> str | None:
        b = schema.batches
        with self._store.begin() as c:
            return scalar(c, select(b.c.released).where(b.c.pipeline == name, b.c.batch_id == batch_id), str)
