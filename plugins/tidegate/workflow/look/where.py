"""The fate of any record: what the ledger knows of its offset, the row itself, and what Kafka says. Reads only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tidegate.core.base.errors import LedgerError, SpecError, TidegateError
from tidegate.core.batch.readings import whole_window
from tidegate.core.batch.states import LANDED
from tidegate.core.failover.own_records import left_last, sites_read
from tidegate.core.files.receipt import DATA, DIRTY, LATE, FileEntry
from tidegate.core.look.another_reading import fate_of_another
from tidegate.core.look.fate import MISSING, Fate, fate_of
from tidegate.core.look.port import LedgerReads
from tidegate.core.look.sighting import (
    Candidate,
    Life,
    Lookup,
    OffsetFacts,
    Row,
    RowReader,
    Search,
    Sighting,
    Surroundings,
    WindowFacts,
)
from tidegate.core.replay.reread import reading_of
from tidegate.core.source.port import LogState
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.target.paths import join
from tidegate.core.target.tables import told_columns
from tidegate.core.window import readiness, watermark
from tidegate.core.window.cut import window_from
from tidegate.core.window.readiness import Certificate
from tidegate.core.window.states import CURRENT, SWAPPING
from tidegate.workflow.base import places
from tidegate.workflow.base.context import Context
from tidegate.workflow.completeness import ask
from tidegate.workflow.window import turn


@dataclass(frozen=True)
class Answer:
    """`fates`: one for each topic id that knows the offset, newest first. `notes`: what could not be asked."""

    pipeline: str
    partition: int
    offset: int
    fates: tuple[Fate, ...]
    notes: tuple[str, ...] = ()


def where(ctx: Context, reads: LedgerReads, rows: RowReader, partition: int, offset: int) -> Answer:
    """Raises LedgerError, and SpecError with `kafka_columns: false`."""
    return where_all(ctx, reads, rows, [(partition, offset)])[0]


def where_all(ctx: Context, reads: LedgerReads, rows: RowReader, wanted: Sequence[tuple[int, int]]) -> list[Answer]:
    """Look for several at once: the ledger and the broker are asked once. Rows that a moving pipeline hid are looked
    for again."""
    if not ctx.pipeline.kafka_columns:
        raise SpecError(
            f"{ctx.name}: its rows do not carry their Kafka offsets, so nothing says where one is",
            field="kafka_columns: false",
            advice="set kafka_columns: true; rows that land from then on can be found",
        )
    answers = _Where(ctx, reads, rows).answers(wanted)
    again = [i for i, (_, sure) in enumerate(answers) if not sure]
    if again:  # a file that was moving, or one that is lost
        for i, answer in zip(again, _Where(ctx, reads, rows).answers([wanted[i] for i in again]), strict=True):
            answers[i] = answer
    return [answer for answer, _ in answers]


class _Where:
    def __init__(self, ctx: Context, reads: LedgerReads, rows: RowReader) -> None:
        self._ctx, self._reads, self._rows = ctx, reads, rows
        self._specs: dict[int, Pipeline] = {}
        self._topic: LogState | None = None
        self._silence: str | None = None
        self._facts: watermark.TopicFacts | None = None
        self._certificates: dict[int, Certificate] = {}
        self._cuts = ctx.ledger.cuts.open(ctx.name)

    def answers(self, wanted: Sequence[tuple[int, int]]) -> list[tuple[Answer, bool]]:
        """Each with whether it is sure: every file that had to be read was where the ledger said."""
        found = self._reads.offsets(self._ctx.name, wanted)
        if found is None:
            what = f"pipeline {self._ctx.name} is not in the ledger"
            raise LedgerError(what, advice="its first ingest run registers it")
        return [self._answer(facts) for facts in found]

    def _answer(self, facts: OffsetFacts) -> tuple[Answer, bool]:
        notes: list[str] = []
        sure = True
        lives = facts.lives or (Life(topic_id=self._current_topic(notes), accepted=True),)
        fates = []
        for life in lives:
            if life.first_offset is None and not life.accepted:
                continue  # that topic had no such partition
            another = self._of_another_reading(life, facts)
            if another is not None:
                fates.append(another)
                continue
            search = self._search(life, facts)
            if search.unread:
                notes.append(f"not every file could be read: {search.unread}")
            fates.append(fate_of(facts, life, search, self._around(facts, life, search, notes)))
            sure = sure and not search.unread and fates[-1].kind != MISSING
        notes += self._cut(facts)
        found = Answer(self._ctx.name, facts.partition, facts.offset, tuple(fates), tuple(dict.fromkeys(notes)))
        return found, sure

    def _cut(self, facts: OffsetFacts) -> list[str]:
        """What to say of an offset that the log has given to another record."""
        said = []
        if len({life.topic_id for life in facts.lives}) < len(facts.lives):
            said.append("the log was cut (an unclean leader election?): another record has taken the offset since")
        for cut in self._cuts:
            if cut.partition == facts.partition and facts.offset >= cut.start:
                said.append(
                    f"the log was cut at offset {cut.start}, and records from there on are not read: tidegate source "
                    f"rewind {self._ctx.name}, or skip"
                )
        return said

    def _current_topic(self, notes: list[str]) -> str:
        topic = self._ask_kafka(notes)
        return topic.topic_id if topic is not None else ""

    # ------------------------------------------------------------ around

    def _around(self, facts: OffsetFacts, life: Life, search: Search, notes: list[str]) -> Surroundings:
        pinned = self._ctx.pipeline if life.batch is None else self._spec(life.batch.spec_version)
        topic = None
        if life.batch is None and life.loss is None and life.accepted:
            below = life.first_offset is not None and facts.offset < life.first_offset
            topic = None if below else self._ask_kafka(notes)
        if self._ctx.keyed is None:
            left, crossed = self._left(life, facts.partition)
            silence, certificates = self._silence or "", self._readiness(life, search)
            return Surroundings(self._ctx.pipeline, pinned, topic, silence, certificates, left=left, crossed=crossed)
        told = self._ctx.ledger.applies.told(self._ctx.name)
        return Surroundings(
            self._ctx.pipeline, pinned, topic, self._silence or "", {}, None if told is None else told.upto
        )

    def _left(self, life: Life, partition: int) -> tuple[str, int]:
        """The site that the life's topic is of, unless it is active, and up to where its records have crossed."""
        source = self._ctx.pipeline.source
        if life.accepted or not source.sites:
            return "", 0
        history = self._ctx.ledger.failovers.history(self._ctx.name)
        site = sites_read(history).get(life.topic_id, source.site)
        away = None if site == source.site else left_last(history, site)
        if away is None:
            return "", 0
        crossing = away.certificate.of(partition)
        return site, 0 if crossing is None else crossing.left

    def _spec(self, version: int) -> Pipeline:
        if version not in self._specs:
            self._specs[version] = self._ctx.ledger.pipelines.spec(self._ctx.name, version)
        return self._specs[version]

    def _ask_kafka(self, notes: list[str]) -> LogState | None:
        if self._topic is None and self._silence is None:
            try:
                self._topic = self._ctx.log()
            except TidegateError as e:
                self._silence = str(e).splitlines()[0]
        if self._silence is not None:
            notes.append(f"{self._ctx.kind.title} could not be asked: {self._silence}")
        return self._topic

    def _readiness(self, life: Life, search: Search) -> Mapping[int, Certificate]:
        """Certificates of the windows that may be where the row waits."""
        for candidate in search.candidates:
            window = (life.windows or {}).get(candidate.entry.window_ms or 0)
            if candidate.entry.kind == DATA and window is not None and window.row is None and window.placed is None:
                self._certify(window.window_ms)
        return self._certificates

    def _certify(self, window_ms: int) -> None:
        if window_ms in self._certificates:
            return
        spec, name = self._ctx.pipeline, self._ctx.name
        if self._facts is None:
            self._facts = self._ctx.ledger.windows.facts(name)
        key = window_from(window_ms, spec.windows)
        now = self._ctx.clock.now_ms()
        first = ask.first_of(self._ctx.ledger, name, self._facts)
        certificate = readiness.certify(name, spec.windows, self._facts, key, now, first=first)
        self._certificates[window_ms] = turn.in_turn(self._ctx.ledger, spec.windows, certificate)

    # ------------------------------------------------------------ the row

    def _of_another_reading(self, life: Life, facts: OffsetFacts) -> Fate | None:
        """None where the batch has the rows that are in force."""
        batch = life.batch
        if batch is None or batch.state != LANDED or not self._ctx.pipeline.windows.read_whole:
            return None
        key = whole_window(next(r.range for r in batch.ranges if r.range.partition == facts.partition))
        generations = self._reads.window(self._ctx.name, key, 0).generations
        current = next((g for g in generations if g.state == CURRENT), None)
        again = None if current is None else reading_of(generations, current.number)
        if current is None or again is None:
            return None
        mine = [f for f in current.files if _spans(f, facts)]
        window = WindowFacts(key.start_ms, None, current, generations)
        candidates = tuple(self._of_generation(window, f) for f in mine)
        columns = tuple(told_columns(self._ctx.pipeline, c.entry.kind) for c in candidates)
        files = tuple(c.uris for c in candidates)
        lookup = Lookup(facts.partition, facts.offset, batch.batch_id, files, None, columns)
        try:
            row, unread = self._rows.find(lookup) if candidates else (None, "")
        except TidegateError as e:
            row, unread = None, str(e).splitlines()[0]
        found = None if row is None else Sighting(candidates[row.file], row.uri)
        table = self._ctx.pipeline.sink.table
        fate = fate_of_another(table, batch, key.start_ms, current, again, found, unread)
        return replace(fate, topic_id=life.topic_id)

    def _search(self, life: Life, facts: OffsetFacts) -> Search:
        if life.batch is None or life.batch.state != LANDED:
            return Search()
        ranges = (r for r in life.batch.ranges if r.range.partition == facts.partition)
        if any(facts.offset in gap for r in ranges for gap in r.gaps):
            return Search()
        candidates = tuple(self._candidates(life))
        if not candidates:
            return Search()
        event = self._event_column(life.batch.spec_version)
        files = tuple(c.uris for c in candidates)
        columns = tuple(told_columns(self._ctx.pipeline, c.entry.kind) for c in candidates)
        lookup = Lookup(facts.partition, facts.offset, life.batch.batch_id, files, event, columns)
        try:
            row, unread = self._rows.find(lookup)
            before = self._before(life, facts)
        except TidegateError as e:
            return Search(candidates, None, str(e).splitlines()[0])
        if row is None:
            return Search(candidates, None, unread, before)
        seen = Sighting(candidates[row.file], row.uri, row.event_ms, row.reason, row.field, row.raw, row.kafka_ms)
        return Search(candidates, seen, "", before)

    def _before(self, life: Life, facts: OffsetFacts) -> Row | None:
        """The row as it was when it was dirty, if a redrive has taken it up; its last time decides."""
        if not life.earlier:
            return None
        last = life.earlier[-1]
        landed = self._ctx.landed(last.batch.batch_id)
        files = tuple(_uris(places.dirty(self._ctx.layout, last.batch.batch_id, f, landed)) for f in last.files)
        columns = (told_columns(self._ctx.pipeline, DIRTY),) * len(files)
        return self._rows.find(Lookup(facts.partition, facts.offset, last.batch.batch_id, files, None, columns))[0]

    def _candidates(self, life: Life) -> list[Candidate]:
        """The batch's own files, but for windows whose rows a generation owns by now: then that one's."""
        assert life.batch is not None
        found: dict[tuple[int | None, str], Candidate] = {}
        for f in life.files:
            window = (life.windows or {}).get(f.window_ms or 0)
            taken_up = f.kind == LATE and _took_up(window, life.batch.batch_id)
            if window is None or (f.kind != DATA and not taken_up):
                homes = places.side(self._ctx.layout, life.batch, f)
                found[None, f.path] = Candidate(f, _uris(homes))
                continue
            if window.placed is None:
                homes = places.waiting(self._ctx.layout, life.batch, f, window.first)
                found[None, f.path] = Candidate(f, _uris(homes))
                continue
            for mine in window.placed.files:
                found[f.window_ms, mine.path] = self._of_generation(window, mine)
        return sorted(found.values(), key=lambda c: -_density(c.entry))

    def _of_generation(self, window: WindowFacts, f: FileEntry) -> Candidate:
        placed = window.placed
        assert placed is not None
        makes_way = any(g.state == SWAPPING and g.location == placed.location for g in window.others)
        directories = places.generation(self._ctx.pipeline, placed, placed.state == CURRENT, makes_way)
        return Candidate(f, tuple(join(d, f.path) for d in directories), placed.number)

    def _event_column(self, version: int) -> tuple[str, str] | None:
        """The column that holds what event time is made of, if there is one."""
        spec = self._spec(version)
        event = spec.event_time
        if event.path is None:
            return ("_kafka_ts", "timestamp")
        columns = (c for c in spec.data_columns if c.path == event.path)
        return next(((c.name, "timestamp" if c.type == "timestamp" else event.format) for c in columns), None)


def _spans(f: FileEntry, facts: OffsetFacts) -> bool:
    return any(p.partition == facts.partition and p.min_offset <= facts.offset <= p.max_offset for p in f.partitions)


def _took_up(window: WindowFacts | None, batch_id: int) -> bool:
    """Whether the window's generation in force holds the batch's late rows."""
    return window is not None and window.placed is not None and window.placed.took_up(batch_id)


def _uris(homes: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    return tuple(join(directory, path) for directory, path in homes)


def _density(f: FileEntry) -> float:
    """How likely an offset of the file's span is one of its rows: those are looked into first."""
    spanned = sum(p.max_offset - p.min_offset + 1 for p in f.partitions)
    return f.rows / spanned if spanned else 0.0
