"""Windows and generations in the ledger: closing in two steps, generations by epoch, intents before changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sqlalchemy import Table, and_, bindparam, case, delete, func, insert, or_, select, update
from sqlalchemy.engine import Connection

from tidegate.core.base.errors import LedgerError, LostComparison
from tidegate.core.base.instants import iso
from tidegate.core.base.plain import dumps, loads
from tidegate.core.daily.purge import KEPT_OUT
from tidegate.core.files.landed import LandedFile, OwedSpan
from tidegate.core.files.receipt import DATA, LATE, FileEntry
from tidegate.core.publish.grounds import Grounds
from tidegate.core.replay.reread import NOTED
from tidegate.core.window import transitions
from tidegate.core.window.answer import Answer
from tidegate.core.window.readiness import Certificate
from tidegate.core.window.states import (
    ARCHIVE,
    BUILDING,
    BUILT,
    CLOSING,
    CURRENT,
    DISCARDED,
    OPEN,
    REOPEN,
    SWAPPING,
    BuildingGeneration,
    BuiltGeneration,
    Generation,
    GenerationKind,
    Moved,
    PublishedGeneration,
    Window,
    WindowKey,
)
from tidegate.core.window.watermark import TopicFacts
from tidegate.ledger import intents, moves, reopenings, rows, schema
from tidegate.ledger.applies import SUBJECT
from tidegate.ledger.comparison import as_read as _as_read
from tidegate.ledger.comparison import lock as _lock
from tidegate.ledger.completeness import stored_answer
from tidegate.ledger.facts import NOTHING, earlier_facts, topic_facts
from tidegate.ledger.grounds import grounds_of
from tidegate.ledger.store import Part, insert_all, read_as, row_of, rows_of

w, g = schema.windows, schema.generations
_NUMBERS = select(
    func.max(case((g.c.state != DISCARDED, g.c.number))), func.max(case((g.c.state == CURRENT, g.c.number)))
).where(g.c.pipeline == bindparam("name"), g.c.window_ms == bindparam("start_ms"))


class SqlWindows(Part):
    # ------------------------------------------------------------ looking

    def facts(self, name: str) -> TopicFacts:
        with self._store.begin() as c:
            return topic_facts(c, name)

    def earlier_facts(self, name: str) -> TopicFacts:
        with self._store.begin() as c:
            return earlier_facts(c, [name]).get(name, NOTHING)

    def get(self, name: str, key: WindowKey) -> Window:
        with self._store.begin() as c:
            row = row_of(c, w, pipeline=name, start_ms=key.start_ms)
            newest, current = self._numbers(c, name, key)
        if row is None:
            return Window(key, OPEN, None, None, 0)
        return Window(key, row.state, row.closing_batch, current, newest)

    def _numbers(self, c: Connection, name: str, key: WindowKey) -> tuple[int, int | None]:
        """(newest generation number or 0, the one in force)."""
        newest, current = c.execute(_NUMBERS, {"name": name, "start_ms": key.start_ms}).one()
        return newest or 0, current

    def generation(self, name: str, key: WindowKey, number: int) -> Generation:
        with self._store.begin() as c:
            return self._generation(c, name, key, number)

    def _generation(self, c: Connection, name: str, key: WindowKey, number: int) -> Generation:
        where = {"pipeline": name, "window_ms": key.start_ms, "number": number}
        row = row_of(c, g, **where)
        if row is None:
            raise LedgerError(f"the ledger has no generation {number} of {name} {iso(key.start_ms)}")
        made = rows_of(c, schema.generation_batches, **where)
        batches = tuple(r.batch_id for r in made)
        late = tuple(r.batch_id for r in made if r.kind == LATE)
        known = {"window": key, "batches": batches, "late": late}
        if row.state == BUILDING:
            return read_as(BuildingGeneration, row, **known)
        known["files"] = tuple(rows.file_entry(r) for r in rows_of(c, schema.generation_files, **where))
        if row.state in (BUILT, SWAPPING, DISCARDED):
            return read_as(BuiltGeneration, row, **known)
        return read_as(PublishedGeneration, row, **known, announced=row.announced_ms is not None)

    def holds(self, generation: BuildingGeneration) -> bool:
        with self._store.begin() as c:
            return c.scalar(select(g.c.number).where(_as_read(generation))) is not None

    def published_starts(self, name: str) -> set[int]:
        with self._store.begin() as c:
            return set(c.scalars(select(g.c.window_ms).where(g.c.pipeline == name, g.c.state == CURRENT)))

    def announced(self, name: str, key: WindowKey, number: int) -> None:
        mine = and_(g.c.pipeline == name, g.c.window_ms == key.start_ms, g.c.number == number)
        with self._store.begin() as c:
            step = transitions.announce(name, key, number)
            if not moves.moved(self._store, c, g, step) and c.scalar(select(g.c.published_ms).where(mine)) is None:
                # told of what a database that failed over has forgotten: the next try publishes it again
                raise LostComparison(f"generation {number} of {iso(key.start_ms)} is not published any more")

    def landed_files(self, name: str, key: WindowKey, batches: Iterable[int]) -> list[LandedFile]:
        f = schema.batch_files
        statement = select(f).where(
            f.c.pipeline == name, f.c.batch_id.in_(list(batches)), f.c.kind == DATA, f.c.window_ms == key.start_ms
        )
        with self._store.begin() as c:
            found = c.execute(statement.order_by(f.c.batch_id, f.c.path)).all()
        return [LandedFile(r.batch_id, rows.file_entry(r)) for r in found]

    def owed(self, name: str, key: WindowKey, batches: Iterable[int], late: Iterable[int] = ()) -> list[OwedSpan]:
        t, came_late = schema.batch_window_totals, set(late)
        data = and_(t.c.kind == DATA, t.c.batch_id.in_([i for i in batches if i not in came_late]))
        mine = or_(data, and_(t.c.kind == LATE, t.c.batch_id.in_(sorted(came_late))))
        statement = select(t).where(t.c.pipeline == name, t.c.window_ms == key.start_ms, mine)
        with self._store.begin() as c:
            found = c.execute(statement.order_by(t.c.batch_id, t.c.partition)).all()
        return [read_as(OwedSpan, r) for r in found]

    def grounds(self, name: str, key: WindowKey, batches: Iterable[int], late: Iterable[int] = ()) -> Grounds:
        with self._store.begin() as c:
            return grounds_of(c, name, key, batches, late)

    # ------------------------------------------------------------ certificates and closing

    def save_certificate(self, certificate: Certificate) -> None:
        key = {"pipeline": certificate.pipeline, "start_ms": certificate.window.start_ms}
        with self._store.begin() as c:
            # a sensor's old "blocked" must not cover the answer that the window was closed on
            if certificate.ready or row_of(c, w, **key) is None:
                self._save_certificate(c, certificate)

    def _save_certificate(self, c: Connection, certificate: Certificate) -> None:
        """The newest answer stands; what a window was closed on goes into the event log too."""
        t = schema.certificates
        where = and_(t.c.pipeline == certificate.pipeline, t.c.window_ms == certificate.window.start_ms)
        values = {"ready": certificate.ready, "content": dumps(certificate), "decided_ms": certificate.decided_ms}
        if c.execute(update(t).where(where).values(**values)).rowcount == 0:
            key = {"pipeline": certificate.pipeline, "window_ms": certificate.window.start_ms}
            c.execute(insert(t).values(**key, **values))

    def certificate(self, name: str, key: WindowKey) -> Certificate | None:
        with self._store.begin() as c:
            row = row_of(c, schema.certificates, pipeline=name, window_ms=key.start_ms)
        return row and loads(Certificate, row.content)

    def begin_close(
        self,
        name: str,
        key: WindowKey,
        certify: Callable[[TopicFacts], Certificate],
        weigh: Callable[[Certificate, Answer | None], Certificate] | None = None,
    ) -> Certificate:
        with self._store.begin() as c:
            pipeline = row_of(c, schema.pipelines, name=name)
            if pipeline is None:
                raise LedgerError(f"pipeline {name} is not in the ledger")
            if row_of(c, w, pipeline=name, start_ms=key.start_ms) is not None:
                raise LostComparison(f"window {iso(key.start_ms)} of {name} is closed already")
            certificate = certify(topic_facts(c, name))
            if certificate.ready and weigh is not None:
                certificate = weigh(certificate, stored_answer(c, name, key))
            self._save_certificate(c, certificate)
            if certificate.ready:
                # R5: a plan made from the state before this one is refused; one made after sees the window closing
                self._store.raise_version(c, name, pipeline.version)
                step = transitions.begin_close(name, key, pipeline.next_batch_id, certificate.reason)
                moves.move(self._store, c, w, step)
        return certificate

    def finish_close(self, name: str, key: WindowKey) -> list[int]:
        with self._store.begin() as c:
            row = row_of(c, w, pipeline=name, start_ms=key.start_ms)
            if row is None or row.state != CLOSING:
                raise LostComparison(f"window {iso(key.start_ms)} of {name} is not closing")
            waiting = reopenings.unfinished_below(c, name, row.closing_batch)
            if waiting:
                return waiting
            batches = reopenings.contributors(c, name, key.start_ms)
            moves.move(self._store, c, w, transitions.finish_close(name, key, batches))
            self._store.raise_version(c, name)
            first = transitions.begin(transitions.FIRST, name, key, 1, ARCHIVE)
            reopenings.insert_building(self._store, c, first, batches)
        return []

    # ------------------------------------------------------------ generations

    def begin_generation(self, name: str, key: WindowKey, current: int, kind: GenerationKind, why: str = "") -> int:
        mine = and_(g.c.pipeline == name, g.c.window_ms == key.start_ms)
        with self._store.begin() as c:
            _lock(c, name, key)
            newest, in_force = self._numbers(c, name, key)
            if newest != current or in_force != current:
                raise LostComparison(f"generation {current} of {iso(key.start_ms)} is not the newest any more")
            number = (c.scalar(select(func.max(g.c.number)).where(mine)) or 0) + 1
            batches = reopenings.contributors(c, name, key.start_ms)
            late = reopenings.carried(c, name, key, current)
            if kind == REOPEN:
                fresh = reopenings.settled(c, name, key, late)
                if not fresh:
                    raise LostComparison(f"no late rows of {iso(key.start_ms)} wait any more")
                late |= dict.fromkeys(fresh, False)
            spec = reopenings.forgotten(c, name, key, current) if kind == REOPEN else None
            more = {"batches": batches} | ({"late": sorted(late)} if late else {}) | ({"why": why} if why else {})
            step = transitions.begin(transitions.BEGIN, name, key, number, kind, **more)
            reopenings.insert_building(self._store, c, step, batches, late, {"spec_version": spec})
        return number

    def take(self, name: str, key: WindowKey, number: int, nonce: str, above: int = 0) -> BuildingGeneration:
        with self._store.begin() as c:
            now = self._generation(c, name, key, number)
            if not isinstance(now, BuildingGeneration):
                raise LostComparison(f"generation {number} of {iso(key.start_ms)} is {now.state} already")
            step = transitions.take(now, nonce, above)
            moves.move(self._store, c, g, step)
        return step.after

    def built(
        self,
        generation: BuildingGeneration,
        directory: str,
        files: Iterable[FileEntry],
        spec: int | None = None,
        noted: Mapping[str, str] | None = None,
    ) -> BuiltGeneration:
        built = transitions.built(generation, directory, tuple(files))
        where = transitions.of_generation(built.pipeline, built.window.start_ms, built.number).row
        with self._store.begin() as c:
            content = ({} if spec is None else {"spec_version": spec}) | _why(noted or {})
            moves.move(self._store, c, g, transitions.build(generation, built, noted or {}), content)
            if noted and KEPT_OUT in noted and built.number == 1:  # a rebuild says nothing new
                detail = {"day": iso(built.window.start_ms), "events": noted[KEPT_OUT]}
                self._store.note(c, built.pipeline, KEPT_OUT, SUBJECT, detail)
            # of a try that was taken back
            c.execute(delete(schema.generation_files).where(*_of(schema.generation_files, where)))
            insert_all(c, schema.generation_files, [{**where, **rows.file_values(f)} for f in built.files])
        return built

    def still(self, generation: BuiltGeneration | PublishedGeneration) -> bool:
        with self._store.begin() as c:
            return self._still(c, generation)

    def _still(self, c: Connection, generation: BuiltGeneration | PublishedGeneration) -> bool:
        newest, _ = self._numbers(c, generation.pipeline, generation.window)
        held = c.scalar(select(g.c.number).where(_as_read(generation)))
        return newest == generation.number and held is not None

    def take_back(self, generation: BuiltGeneration, nonce: str) -> BuildingGeneration:
        step = transitions.take_back(generation, nonce)
        with self._store.begin() as c:
            moves.move(self._store, c, g, step)
            reopenings.show_again(self._store, c, generation.pipeline, generation.window, generation.late)
        return step.after

    def discard(self, generation: BuildingGeneration | BuiltGeneration, why: str) -> None:
        moves.alone(self._store, g, transitions.discard(generation, why))

    def begin_swap(self, generation: BuiltGeneration, location: str | None = None) -> BuiltGeneration:
        name, key, step = generation.pipeline, generation.window, transitions.begin_swap(generation, location)
        with self._store.begin() as c:
            _lock(c, name, key)
            if not self._still(c, generation):
                raise LostComparison(f"generation {generation.number} of {iso(key.start_ms)} has been overtaken")
            moves.move(self._store, c, g, step)
        return step.after

    def publish(
        self, generation: BuiltGeneration, location: str, certificate: str, moved: Moved | None = None
    ) -> PublishedGeneration:
        name, key, store = generation.pipeline, generation.window, self._store
        mine = (g.c.pipeline == name, g.c.window_ms == key.start_ms)
        with store.begin() as c:
            _lock(c, name, key)
            now = store.read_now(c)
            intents.refuse_doubt(c, generation, location, now)
            more = {} if moved is None else {"moved": moved}
            step = transitions.publish(generation, location, now, certificate, **more)
            moves.move(store, c, g, step, now=now)
            moves.move_all(store, c, g, transitions.RETIRE, *mine, g.c.number < generation.number, now=now)
            if moved is not None:
                moves.move(store, c, g, transitions.move(name, key, moved.number, location, moved.place))
            intents.forget_outlived(c, name, key.start_ms, now)
            moves.moved(store, c, w, transitions.end_alarm(name, key))
        return step.after

    # ------------------------------------------------------------ intents (R8)

    def declare_intent(self, generation: BuiltGeneration | PublishedGeneration, location: str, ttl_ms: int) -> str:
        name, key, now = generation.pipeline, generation.window, self._store.instant
        with self._store.begin() as c:
            _lock(c, name, key)
            if not self._still(c, generation):
                raise LostComparison(f"generation {generation.number} of {iso(key.start_ms)} has been overtaken")
            intents.refuse_doubt(c, generation, location, now)
            return intents.declare(c, generation, location, now + ttl_ms)

    def answer_intent(self, call_id: str) -> None:
        with self._store.begin() as c:
            intents.answer(c, call_id)

    def block(self, name: str, key: WindowKey, reason: str) -> None:
        moves.alone(self._store, w, transitions.block(name, key, reason))


def _why(noted: Mapping[str, str]) -> dict[str, Any]:
    """What stays of a second reading's words for as long as its generation is known."""
    return {"why": noted[NOTED]} if NOTED in noted else {}


def _of(table: Table, where: Mapping[str, object]) -> list[Any]:
    return [table.c[column] == value for column, value in where.items()]
