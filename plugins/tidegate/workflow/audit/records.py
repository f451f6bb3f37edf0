"""The records in `hwm/`, listed and read for an audit. Raises StorageError."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tidegate.core.audit import records as rules
from tidegate.core.audit.problems import Problem
from tidegate.core.base.errors import PathMissing
from tidegate.core.batch.states import ABANDONED, LANDED
from tidegate.core.look.views import BatchRow, GenerationRow, Pinned, Spine
from tidegate.core.restore.record import BatchRecord, GenerationRecord, unpack
from tidegate.core.window.cut import is_number
from tidegate.core.window.states import CURRENT
from tidegate.workflow.base import records
from tidegate.workflow.base.context import Context


class Records:
    """Of the batches that had landed, and of the generations that were in force, when the spine was taken: a record is
    written before the ledger says so. `deep`: each is read, not only looked for."""

    def __init__(self, ctx: Context, spine: Spine, deep: bool) -> None:
        self._ctx, self._deep = ctx, deep
        names = ctx.storage.list_names(ctx.layout.high_water_marks()) or []
        self._batches = {int(name) for name in names if is_number(name)}
        self._newest = spine.next_batch_id - 1
        self._in_force = {g.window_ms: g for g in spine.generations if g.state == CURRENT}
        self._generations = records.publication_marks(ctx, None) if self._in_force else {}

    def of_batch(self, batch: BatchRow, plans: Mapping[int, Pinned | None]) -> Iterator[Problem]:
        number = batch.batch_id
        path = self._ctx.layout.high_water_mark(number)
        if batch.state == ABANDONED:
            if number == self._newest and number not in self._batches:
                return  # the next plan writes it
        elif batch.state != LANDED:
            return
        if number not in self._batches:
            yield rules.lost_batch(number, path)
        elif self._deep:
            try:
                content = self._ctx.storage.read(path)
                record = unpack(BatchRecord, content) if content else None
            except PathMissing:
                yield rules.lost_batch(number, path)
            except ValueError as e:
                yield rules.unreadable_batch(number, path, str(e))
            else:
                if record is not None:  # the first release wrote empty ones: they say that the batch has landed
                    yield from rules.check_batch(batch, plans.get(number), record, path)

    def of_window(self, generation: GenerationRow) -> Iterator[Problem]:
        """Problems of the record of a generation in force."""
        known = self._in_force.get(generation.window_ms)
        if known is None or known.number != generation.number:
            return  # published since
        path = self._generations.get((generation.window_ms, generation.number))
        if path is None:
            if generation.began_ms is not None:  # the first release wrote no such records
                yield rules.lost_generation(generation, self._ctx.layout.publication_marks())
        elif self._deep:
            try:
                record = unpack(GenerationRecord, self._ctx.storage.read(path))
            except PathMissing:
                yield rules.lost_generation(generation, self._ctx.layout.publication_marks())
            except ValueError as e:
                yield rules.unreadable_generation(generation, path, str(e))
            else:
                yield from rules.check_generation(generation, record, path)
