"""Windows and generations in the ledger: closing in two steps, generations by epoch, intents before changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from sqlalchemy import Table, and_, delete, func, insert, or_, select, update
from sqlalchemy.engine import Connection

from tidegate.core.base.errors import LedgerError, LostComparison
from tidegate.core.base.instants import iso
from tidegate.core.base.plain import dumps, loads
from tidegate.core.files.landed import LandedFile, OwedSpan
from tidegate.core.files.receipt import DATA, LATE, FileEntry, content_digest
from tidegate.core.publish.grounds import Grounds
from tidegate.core.restore.record import Moved
from tidegate.core.window.answer import Answer
from tidegate.core.window.states import (
    BUILDING,
    BUILT,
    CLOSED,
    CLOSING,
    CURRENT,
    DISCARDED,
    OPEN,
    REOPEN,
    RETIRED,
    SWAPPING,
    BuildingGeneration,
    BuiltGeneration,
    Generation,
    PublishedGeneration,
    Window,
    WindowKey,
)
from tidegate.core.window.watermark import Certificate, TopicFacts
from tidegate.ledger import intents, reopenings, rows, schema
from tidegate.ledger.comparing import building as _building
from tidegate.ledger.comparing import in_state as _in_state
from tidegate.ledger.comparing import lock as _lock
from tidegate.ledger.comparing import subject as _subject
from tidegate.ledger.facts import earlier_facts, topic_facts
from tidegate.ledger.grounds import grounds_of
from tidegate.ledger.store import Store, row_of, rows_of
from tidegate.ledger.truths import stored_answer

w, g = schema.windows, schema.generations


class SqlWindows:
    def __init__(self, store: Store) -> None:
        self._store = store

    # ------------------------------------------------------------ looking

    def facts(self, name: str) -> TopicFacts:
        with self._store.begin() as c:
            return topic_facts(c, name)

    def earlier_facts(self, name: str) -> TopicFacts:
        with self._store.begin() as c:
            return earlier_facts(c, name)

    def get(self, name: str, key: WindowKey) -> Window:
        with self._store.begin() as c:
            row = row_of(c, w, pipeline=name, start_ms=key.start_ms)
            newest, current = self._numbers(c, name, key)
        if row is None:
            return Window(key, OPEN, None, None, 0)
        return Window(key, row.state, row.closing_batch, current, newest)

    def _numbers(self, c: Connection, name: str, key: WindowKey) -> tuple[int, int | None]:
        """(newest generation number or 0, the one in force)."""
        mine = and_(g.c.pipeline == name, g.c.window_ms == key.start_ms)
        newest = c.scalar(select(func.max(g.c.number)).where(mine, g.c.state != DISCARDED)) or 0
        return newest, c.scalar(select(g.c.number).where(mine, g.c.state == CURRENT))

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
        if row.state == BUILDING:
            return BuildingGeneration(name, key, number, row.epoch, row.nonce, row.kind, batches, late)
        files = tuple(rows.file_entry(r) for r in rows_of(c, schema.generation_files, **where))
        if row.state in (BUILT, SWAPPING, DISCARDED):
            return BuiltGeneration(
                name, key, number, row.epoch, row.kind, batches, row.directory, files, row.digest, row.state,
                row.location, late,
            )  # fmt: skip
        return PublishedGeneration(
            name,
            key,
            number,
            row.kind,
            batches,
            row.location,
            files,
            row.digest,
            row.published_ms,
            row.state,
            row.announced_ms is not None,
            row.epoch,
            late,
            row.spec_version,
        )

    def holds(self, generation: BuildingGeneration) -> bool:
        with self._store.begin() as c:
            return c.scalar(select(g.c.number).where(_building(generation))) is not None

    def published_starts(self, name: str) -> set[int]:
        with self._store.begin() as c:
            return set(c.scalars(select(g.c.window_ms).where(g.c.pipeline == name, g.c.state == CURRENT)))

    def announced(self, name: str, key: WindowKey, number: int) -> None:
        mine = and_(g.c.pipeline == name, g.c.window_ms == key.start_ms, g.c.number == number)
        with self._store.begin() as c:
            change = update(g).where(mine, g.c.published_ms.is_not(None), g.c.announced_ms.is_(None))
            if c.execute(change.values(announced_ms=self._store.instant)).rowcount:
                self._store.note(c, name, "announced", _subject(key), {"generation": number})
            elif c.scalar(select(g.c.published_ms).where(mine)) is None:
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
        return [OwedSpan(r.batch_id, r.partition, r.rows, r.min_offset, r.max_offset) for r in found]

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
                c.execute(
                    insert(w).values(
                        pipeline=name,
                        start_ms=key.start_ms,
                        end_ms=key.end_ms,
                        state=CLOSING,
                        closing_batch=pipeline.next_batch_id,
                    )
                )
                detail = {"closing_batch": pipeline.next_batch_id, "reason": certificate.reason}
                self._store.note(c, name, "closing", _subject(key), detail)
        return certificate

    def finish_close(self, name: str, key: WindowKey) -> list[int]:
        with self._store.begin() as c:
            row = row_of(c, w, pipeline=name, start_ms=key.start_ms)
            if row is None or row.state != CLOSING:
                raise LostComparison(f"window {iso(key.start_ms)} of {name} is not closing")
            waiting = reopenings.unfinished_below(c, name, row.closing_batch)
            if waiting:
                return waiting
            change = update(w).where(w.c.pipeline == name, w.c.start_ms == key.start_ms, w.c.state == CLOSING)
            self._store.compare_and_set(
                c, change.values(state=CLOSED, closed_ms=self._store.instant), f"closing window {iso(key.start_ms)}"
            )
            self._store.raise_version(c, name)
            batches = reopenings.contributors(c, name, key.start_ms)
            reopenings.insert_building(c, name, key, 1, "archive", batches)
            self._store.note(c, name, "closed", _subject(key), {"batches": batches})
        return []

    # ------------------------------------------------------------ generations

    def begin_generation(self, name: str, key: WindowKey, current: int, kind: str, why: str = "") -> int:
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
            reopenings.insert_building(c, name, key, number, kind, batches, late, spec)
            detail = {"generation": number, "kind": kind, "batches": batches}
            detail |= ({"late": sorted(late)} if late else {}) | ({"why": why} if why else {})
            self._store.note(c, name, "generation begun", _subject(key), detail)
        return number

    def take(self, name: str, key: WindowKey, number: int, nonce: str, above: int = 0) -> BuildingGeneration:
        with self._store.begin() as c:
            now = self._generation(c, name, key, number)
            if not isinstance(now, BuildingGeneration):
                raise LostComparison(f"generation {number} of {iso(key.start_ms)} is {now.state} already")
            epoch = max(now.epoch, above) + 1
            change = update(g).where(_building(now)).values(epoch=epoch, nonce=nonce, began_ms=self._store.instant)
            self._store.compare_and_set(c, change, f"taking generation {number}")
            self._store.note(c, name, "assembling", _subject(key), {"generation": number, "epoch": epoch})
        return replace(now, epoch=epoch, nonce=nonce)

    def built(
        self, generation: BuildingGeneration, directory: str, files: Iterable[FileEntry], spec: int | None = None
    ) -> BuiltGeneration:
        files, name, key = tuple(files), generation.pipeline, generation.window
        digest = content_digest(files)
        with self._store.begin() as c:
            change = update(g).where(_building(generation))
            change = change.values(
                state=BUILT,
                kind=generation.kind,  # a first one whose landed files were lost has become a heal
                directory=directory,
                rows=sum(f.rows for f in files),
                digest=digest,
                built_ms=self._store.instant,
            )
            if spec is not None:
                change = change.values(spec_version=spec)
            self._store.compare_and_set(c, change, f"generation {generation.number} built")
            where = {"pipeline": name, "window_ms": key.start_ms, "number": generation.number}
            # of a try that was taken back
            c.execute(delete(schema.generation_files).where(*_of(schema.generation_files, where)))
            if files:
                values = [where | rows.file_values(f) for f in files]
                c.execute(insert(schema.generation_files), values)
            detail = {"generation": generation.number, "kind": generation.kind, "files": len(files), "digest": digest}
            self._store.note(c, name, "built", _subject(key), detail)
        return BuiltGeneration(
            name, key, generation.number, generation.epoch, generation.kind, generation.batches, directory, files,
            digest, late=generation.late,
        )  # fmt: skip

    def still(self, generation: BuiltGeneration) -> bool:
        with self._store.begin() as c:
            return self._still(c, generation)

    def _still(self, c: Connection, generation: BuiltGeneration | PublishedGeneration) -> bool:
        newest, _ = self._numbers(c, generation.pipeline, generation.window)
        held = c.scalar(select(g.c.number).where(_in_state(generation, generation.state)))
        return newest == generation.number and held is not None

    def take_back(self, generation: BuiltGeneration, nonce: str) -> BuildingGeneration:
        name, key, number = generation.pipeline, generation.window, generation.number
        with self._store.begin() as c:
            change = update(g).where(_in_state(generation, BUILT)).values(state=BUILDING, nonce=nonce)
            self._store.compare_and_set(c, change, f"taking generation {number} back")
            reopenings.show_again(c, name, key, generation.late)
            self._store.note(c, name, "taken back", _subject(key), {"generation": number})
        return BuildingGeneration(
            name, key, number, generation.epoch, nonce, generation.kind, generation.batches, generation.late
        )

    def discard(self, generation: BuildingGeneration | BuiltGeneration, why: str) -> None:
        name, key = generation.pipeline, generation.window
        held = _building(generation) if isinstance(generation, BuildingGeneration) else _in_state(generation, BUILT)
        with self._store.begin() as c:
            change = update(g).where(held).values(state=DISCARDED)
            self._store.compare_and_set(c, change, f"discarding generation {generation.number}")
            self._store.note(c, name, "discarded", _subject(key), {"generation": generation.number, "why": why})

    def begin_swap(self, generation: BuiltGeneration, location: str | None = None) -> BuiltGeneration:
        name, key = generation.pipeline, generation.window
        with self._store.begin() as c:
            _lock(c, name, key)
            if not self._still(c, generation):
                raise LostComparison(f"generation {generation.number} of {iso(key.start_ms)} has been overtaken")
            change = update(g).where(_in_state(generation, BUILT)).values(state=SWAPPING, location=location)
            self._store.compare_and_set(c, change, f"swapping in generation {generation.number}")
            self._store.note(c, name, "swapping", _subject(key), {"generation": generation.number})
        return replace(generation, state=SWAPPING, location=location)

    def publish(
        self, generation: BuiltGeneration, location: str, certificate: str, moved: Moved | None = None
    ) -> PublishedGeneration:
        name, key = generation.pipeline, generation.window
        mine = and_(g.c.pipeline == name, g.c.window_ms == key.start_ms)
        with self._store.begin() as c:
            _lock(c, name, key)
            now = self._store.read_now(c)
            intents.refuse_doubt(c, generation, location, now)
            change = update(g).where(_in_state(generation, SWAPPING))
            change = change.values(state=CURRENT, location=location, published_ms=now)
            self._store.compare_and_set(c, change, f"publishing generation {generation.number}")
            older = update(g).where(mine, g.c.state == CURRENT, g.c.number < generation.number)
            c.execute(older.values(state=RETIRED, retired_ms=now))
            detail = {"generation": generation.number, "location": location, "certificate": certificate}
            if moved is not None:
                left = update(g).where(mine, g.c.number == moved.number, g.c.location == location)
                self._store.compare_and_set(c, left.values(location=moved.place), f"moving generation {moved.number}")
                detail["moved"] = moved
            intents.forget_outlived(c, name, key.start_ms, now)
            # an alarm on the way here is over, as a batch's is when it lands
            c.execute(update(w).where(w.c.pipeline == name, w.c.start_ms == key.start_ms).values(blocked=None))
            self._store.note(c, name, "published", _subject(key), detail)
        return PublishedGeneration(
            name, key, generation.number, generation.kind, generation.batches, location, generation.files,
            generation.digest, now, epoch=generation.epoch, late=generation.late,
        )  # fmt: skip

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
        with self._store.begin() as c:
            change = update(w).where(w.c.pipeline == name, w.c.start_ms == key.start_ms).values(blocked=reason)
            self._store.compare_and_set(c, change, f"blocking window {iso(key.start_ms)}")
            self._store.note(c, name, "blocked", _subject(key), {"reason": reason})


def _of(table: Table, where: dict[str, Any]) -> list[Any]:
    return [table.c[column] == value for column, value in where.items()]
