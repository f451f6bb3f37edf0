"""Rows that the ledger lost, written again from what storage recorded of them (R11)."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import and_, delete, func, or_, select, update
from sqlalchemy.engine import Connection
from sqlalchemy.sql import ColumnElement

from tidegate.core.base.errors import LedgerError, LostComparison
from tidegate.core.base.instants import iso
from tidegate.core.base.plain import loads
from tidegate.core.batch import transitions as of_batches
from tidegate.core.batch.states import OVER_STATES, AbandonedBatch, OpenBatch, SealedBatch
from tidegate.core.files.receipt import DATA, LATE
from tidegate.core.restore.record import BatchRecord, Decoder, GenerationRecord
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.window import transitions
from tidegate.core.window.states import (
    ARCHIVE,
    BUILT,
    CLOSED,
    CURRENT,
    DISCARDED,
    FORGOTTEN,
    HEAL,
    REOPEN,
    REPLAY,
    REREAD,
    RETIRED,
    GenerationState,
    Moved,
    WindowKey,
)
from tidegate.core.window.transitions import UNFINISHED
from tidegate.ledger import ends, log_cut, moves, reopenings, rows, schema
from tidegate.ledger.comparison import subject
from tidegate.ledger.specs import registered
from tidegate.ledger.store import Part, Store, in_parts, insert_all, row_of, scalar

b, g, w = schema.batches, schema.generations, schema.windows
# runs stay bound to the id
_OF_A_BATCH = (
    schema.batch_ranges,
    schema.batch_partitions,
    schema.losses,
    schema.batch_files,
    schema.batch_sources,
)
_DECODED = (REPLAY, HEAL, REREAD)
"""Kinds whose rows are all by the columns of one spec."""


class SqlRecovery(Part):
    """core.ledger.RecoveryLedger."""

    # ------------------------------------------------------------ looking

    def identity(self, name: str) -> str:
        with self._store.begin() as c:
            row = row_of(c, schema.pipelines, name=name)
        if row is None:
            raise LedgerError(f"pipeline {name} is not in the ledger", advice="its first ingest run registers it")
        return f"{name}@{row.created_ms}"

    def record(self, batch: SealedBatch | AbandonedBatch) -> BatchRecord:
        plan = batch.plan
        with self._store.begin() as c:
            spec = row_of(c, schema.spec_versions, pipeline=plan.pipeline, version=plan.spec_version)
            resumed = log_cut.decided(c, plan.pipeline, batch_id=plan.batch_id)
        if spec is None:
            raise LedgerError(f"the ledger has no spec version {plan.spec_version} of {plan.pipeline}")
        pipeline = loads(Pipeline, spec.compiled)
        if isinstance(batch, AbandonedBatch):
            return BatchRecord(plan, pipeline, spec.fingerprint, abandoned=batch.reason, resumed=resumed)
        return BatchRecord(plan, pipeline, spec.fingerprint, manifest=batch.manifest, resumed=resumed)

    def decoders(self, name: str, key: WindowKey, number: int) -> tuple[Decoder, ...]:
        v = schema.spec_versions
        with self._store.begin() as c:
            row = row_of(c, g, pipeline=name, window_ms=key.start_ms, number=number)
            if row is None or row.kind == ARCHIVE:
                return ()
            one = () if row.spec_version is None else (v.c.version == row.spec_version,)
            statement = select(v.c.fingerprint, v.c.compiled).where(v.c.pipeline == name, *one).order_by(v.c.version)
            return tuple(Decoder(r.fingerprint, loads(Pipeline, r.compiled)) for r in c.execute(statement))

    def newest_publication_ms(self, name: str) -> int | None:
        with self._store.begin() as c:
            return scalar(c, select(func.max(g.c.published_ms)).where(g.c.pipeline == name), int)

    def begun_ms(self, name: str, key: WindowKey, number: int) -> int | None:
        e = schema.events
        with self._store.begin() as c:
            if number == 1:
                row = row_of(c, w, pipeline=name, start_ms=key.start_ms)
                adopted = and_(
                    e.c.pipeline == name, e.c.subject == subject(key), e.c.what == transitions.ADOPT_AS_CLOSING.event
                )
                if row is None or c.scalar(select(e.c.at_ms).where(adopted).limit(1)) is not None:
                    return None  # it was closed before, in a history that is lost
                closed_ms: int | None = row.closed_ms
                return closed_ms
            # not `began_ms` of its row, which is of its newest try
            mine = and_(e.c.pipeline == name, e.c.subject == subject(key))
            return scalar(c, select(func.max(e.c.at_ms)).where(mine, e.c.what == transitions.BEGIN.event), int)

    def unknown_generations(self, name: str, found: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
        wanted, known = sorted(set(found)), set()
        with self._store.begin() as c:
            for starts in in_parts(start for start, _ in wanted):
                mine = and_(g.c.pipeline == name, g.c.window_ms.in_(starts))
                known |= {(start, number) for start, number in c.execute(select(g.c.window_ms, g.c.number).where(mine))}
        return [one for one in wanted if one not in known]

    def unfinished_generations(self, name: str, found: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
        wanted = set(found)
        given_up = and_(g.c.state == DISCARDED, g.c.kind == REOPEN)
        mine = and_(g.c.pipeline == name, or_(g.c.state.in_(UNFINISHED), given_up))
        statement = select(g.c.window_ms, g.c.number).where(mine)
        with self._store.begin() as c:
            return sorted(wanted & {(r.window_ms, r.number) for r in c.execute(statement)}) if wanted else []

    def contributors(self, name: str, key: WindowKey) -> list[int]:
        with self._store.begin() as c:
            return reopenings.contributors(c, name, key.start_ms)

    # ------------------------------------------------------------ changing

    def set_aside(self, record: GenerationRecord, why: str) -> None:
        name = record.pipeline
        with self._store.begin() as c:
            reopenings.show_again(self._store, c, name, record.window, record.late)
            detail = {"generation": record.number, "epoch": record.epoch, "batches": record.batches, "why": why}
            self._store.note(c, name, "record set aside", subject(record.window), detail)

    def withdraw(self, batch: OpenBatch | AbandonedBatch, why: str, same_starts: bool = False) -> None:
        with self._store.begin() as c:
            withdraw(self._store, c, batch, why, same_starts)

    def restore(
        self, record: GenerationRecord, state: GenerationState, why: str, gone: bool = False, moved: Moved | None = None
    ) -> list[int]:
        name, start = record.pipeline, record.window.start_ms
        with self._store.begin() as c:
            pending = self._pending(c, record)
            if pending:
                self._begin_close(c, record, pending, why)
                return pending
            self._close(c, record)
            owing = reopenings.contributors(c, name, start)
            if owing != sorted(set(record.batches) - set(record.late)):
                what = f"window {iso(start)}: the record is of batches {list(record.batches)}"
                raise LostComparison(f"{what}, by the ledger rows came from {owing}")
            self._clear_unfinished(c, record)
            if state == CURRENT:
                self._retire(c, record)
            if moved is not None:
                left = transitions.move(name, record.window, moved.number, record.location, moved.place)
                moves.move(self._store, c, g, left)
            # else rows that a forgotten spec has decoded would be taken for those of the others
            versions = [registered(self._store, c, d.spec, d.fingerprint) for d in record.decoders]
            decoded_by = versions[0] if record.kind in _DECODED and len(versions) == 1 else None
            if record.kind != ARCHIVE and not versions:
                decoded_by = FORGOTTEN  # by an earlier release, which did not name them
            self._insert(c, record, state, gone, decoded_by, why)
            if state in (BUILT, CURRENT):
                lower = (*_of_window(record), g.c.number > 1, g.c.number < record.number)
                moves.move_all(self._store, c, g, transitions.OVERTAKE, *lower)
        return []

    def _pending(self, c: Connection, record: GenerationRecord) -> list[int]:
        """Batches that are open while the window is not CLOSED: they were planned with the window open, perhaps."""
        row = row_of(c, w, pipeline=record.pipeline, start_ms=record.window.start_ms)
        if row is not None and row.state == CLOSED:
            return []
        is_open = and_(b.c.pipeline == record.pipeline, b.c.state.not_in(OVER_STATES))
        if row is not None:
            is_open = and_(is_open, b.c.batch_id < row.closing_batch)  # later ones saw it closing
        return list(c.scalars(select(b.c.batch_id).where(is_open).order_by(b.c.batch_id)))

    def _begin_close(self, c: Connection, record: GenerationRecord, pending: list[int], why: str) -> None:
        """Begin to close it in two steps, as every window closes (R5): plans made from now on see its rows as late."""
        name, key, p = record.pipeline, record.window, schema.pipelines
        if row_of(c, w, pipeline=name, start_ms=key.start_ms) is not None:
            return
        following = c.scalar(select(p.c.next_batch_id).where(p.c.name == name))
        moves.move(self._store, c, w, transitions.adopt_as_closing(name, key, following, pending, why))
        self._store.raise_version(c, name)

    def _retire(self, c: Connection, record: GenerationRecord) -> None:
        """The one in force, and at the same instant those after it that were forgotten: in their order they went."""
        mine = (*_of_window(record), g.c.number < record.number)
        current = c.scalar(select(g.c.number).where(*mine, g.c.state == CURRENT))
        if current is not None:
            moves.move_all(self._store, c, g, transitions.RETIRE_FORGOTTEN, *mine, g.c.number >= current)

    def _close(self, c: Connection, record: GenerationRecord) -> None:
        name, key = record.pipeline, record.window
        row = row_of(c, w, pipeline=name, start_ms=key.start_ms)
        if row is not None and row.state == CLOSED:
            return
        if row is None:
            p = schema.pipelines
            following = c.scalar(select(p.c.next_batch_id).where(p.c.name == name))
            moves.move(self._store, c, w, transitions.adopt_as_closed(name, key, following))
        else:
            moves.move(self._store, c, w, transitions.close_adopted(name, key))
        self._store.raise_version(c, name)

    def _clear_unfinished(self, c: Connection, record: GenerationRecord) -> None:
        key = {"pipeline": record.pipeline, "window_ms": record.window.start_ms, "number": record.number}
        row = row_of(c, g, **key)
        if row is None:
            return
        if row.state not in transitions.CLEAR_AWAY.start:
            raise LostComparison(f"generation {record.number} is {row.state} in the ledger already")
        step = transitions.clear_away(record.pipeline, record.window, record.number, row.state, row.epoch)
        moves.move(self._store, c, g, step)
        for table in (schema.generation_batches, schema.generation_files):
            c.execute(delete(table).where(*(table.c[column] == value for column, value in key.items())))

    def _insert(
        self, c: Connection, record: GenerationRecord, state: GenerationState, gone: bool, spec: int | None, why: str
    ) -> None:
        now = self._store.instant
        name, key, number = record.pipeline, record.window, record.number
        step = transitions.restore(name, key, number, state, record.location, why)
        values: dict[str, object] = {
            "epoch": record.epoch,
            "kind": record.kind,
            "directory": record.directory,
            "rows": sum(f.rows for f in record.files),
            "digest": record.digest,
            "built_ms": now,
            # not `now`, which would hide what is still unknown
            "published_ms": None if state in (BUILT, DISCARDED) else record.recorded_ms,
            "retired_ms": now if state == RETIRED else None,
            "cleaned_ms": now if gone else None,
            "spec_version": spec,
        }
        if record.origin is not None:
            values |= {"origin": record.origin.number, "why": record.origin.why}
        moves.move(self._store, c, g, step, values)
        kinds = {i: LATE if i in record.late else DATA for i in record.batches}
        made = [{**step.row, "batch_id": i, "kind": kind, "cleared": False} for i, kind in kinds.items()]
        insert_all(c, schema.generation_batches, made)
        insert_all(c, schema.generation_files, [{**step.row, **rows.file_values(f)} for f in record.files])


def _of_window(record: GenerationRecord) -> tuple[ColumnElement, ...]:
    return g.c.pipeline == record.pipeline, g.c.window_ms == record.window.start_ms


def withdraw(store: Store, c: Connection, batch: OpenBatch | AbandonedBatch, why: str, same_starts: bool) -> None:
    """Take a batch back, in the caller's transaction: its id and its offsets are the next one's."""
    plan, p = batch.plan, schema.pipelines
    name, batch_id = plan.pipeline, plan.batch_id
    step_back = update(p).where(p.c.name == name, p.c.next_batch_id == batch_id + 1)
    change = step_back.values(next_batch_id=batch_id, version=p.c.version + 1)
    store.compare_and_set(c, change, f"withdrawing batch {batch_id}")
    moves.move(store, c, b, of_batches.withdraw(batch, why))
    for table in _OF_A_BATCH:
        c.execute(delete(table).where(table.c.pipeline == name, table.c.batch_id == batch_id))
    t = schema.totals  # a release before has passed over what was given up: the sums are made again
    c.execute(delete(t).where(t.c.pipeline == name, t.c.through_batch >= batch_id))
    s = schema.resumptions
    c.execute(update(s).where(s.c.pipeline == name, s.c.batch_id == batch_id).values(batch_id=None))
    if same_starts and not ends.newest_batch(c, name, plan.topic_id):
        log_cut.keep_starts(c, plan, why)
