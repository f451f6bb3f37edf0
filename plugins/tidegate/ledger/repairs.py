"""What an operator takes back: the block that an alarm has set, and the refusal of a batch that is too dirty."""

from __future__ import annotations

from sqlalchemy import select

from tidegate.core.batch import transitions as batch
from tidegate.core.window import transitions as window
from tidegate.core.window.states import WindowKey
from tidegate.ledger import moves, schema
from tidegate.ledger.store import Part, scalar


class SqlRepairs(Part):
    """core.views.LedgerRepairs. Each method compares with the reason that the operator saw.

    Raises LostComparison where the block is gone, or another one by now: look again before clearing it."""

    def clear_batch(self, name: str, batch_id: int, reason: str, why: str) -> None:
        moves.alone(self._store, schema.batches, batch.unblock(name, batch_id, reason, why))

    def clear_window(self, name: str, key: WindowKey, reason: str, why: str) -> None:
        moves.alone(self._store, schema.windows, window.unblock(name, key, reason, why))

    def release(self, name: str, batch_id: int, refused: str, why: str) -> None:
        step = batch.release(name, batch_id, refused, self._store.actor, why)
        moves.alone(self._store, schema.batches, step)

    def released(self, name: str, batch_id: int) -> str | None:
        b = schema.batches
        with self._store.begin() as c:
            return scalar(c, select(b.c.released).where(b.c.pipeline == name, b.c.batch_id == batch_id), str)
