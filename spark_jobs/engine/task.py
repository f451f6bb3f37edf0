"""One task: its exact ranges are fetched, decoded, routed and written in one pass; only counts come back."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.engine import native
from spark_jobs.engine.decoder import decoder_for
from spark_jobs.engine.failures import JobError, refuse
from spark_jobs.engine.formats import Bad, Decoded, Decoder
from spark_jobs.engine.gather import Gatherer
from spark_jobs.engine.places import TaskOverflow
from spark_jobs.engine.redrive import Readers
from spark_jobs.engine.rewrite.move import Copier
from spark_jobs.engine.route import Routed, Router, partition_text
from spark_jobs.engine.sinks import format_of
from spark_jobs.engine.slowness import Slowness
from spark_jobs.engine.tally import Tally
from spark_jobs.engine.targets import Targets
from spark_jobs.engine.together import Span, Spans, Together
from spark_jobs.engine.unknown import unknown_field, wider_column
from spark_jobs.engine.write import BATCH_LABEL, Files
from spark_jobs.engine.zones import check_zone_data
from tidegate.core.base.offsets import OffsetRange
from tidegate.core.base.plain import from_plain
from tidegate.core.batch.jobs import Copy, JobPart, ReadPlan, ReplayPlan
from tidegate.core.batch.rules_version import LEAVING_RULES
from tidegate.core.files.receipt import DATA, DIRTY, LATE, BatchRows, DirtySample, Failure, FileEntry, RangeResult
from tidegate.core.files.slow_path import Slow
from tidegate.core.source import behind
from tidegate.core.source.coordinates import HEADER
from tidegate.core.source.records import Chunk, Reader
from tidegate.core.spec import paths
from tidegate.core.spec.pipeline import EventTime, Pipeline
from tidegate.core.spec.schema_changes import STOPS

MAX_SAMPLES, SAMPLE_CHARACTERS = 20, 300
KEEP_MEMORY_MS = 1_000


@dataclass(frozen=True)
class Piece:
    """A range, or a piece of one, and the index of the plan's part whose rules it goes by."""

    part: int
    range: OffsetRange


@dataclass(frozen=True)
class Task:
    """`copies`: indices of the plan's."""

    number: int
    pieces: tuple[Piece, ...]
    copies: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class TaskResult:
    """`results` has one entry per piece, in order.

    Of a replay with several windows: `shares` are rows by piece and window, chosen and written; `copied` what came from
    files, by window; `refused` the windows with rows that today's columns cannot decode.

    `slow`: messages that were decoded one by one, and why; `slow_seconds`: CPU time that they took."""

    task: Task
    results: tuple[RangeResult, ...] = ()
    files: tuple[FileEntry, ...] = ()
    samples: tuple[DirtySample, ...] = ()
    unknown_fields: tuple[str, ...] = ()
    overflow: tuple[TaskOverflow, ...] = ()
    notes: tuple[str, ...] = ()
    shares: tuple[tuple[int, int, int, int], ...] = ()
    copied: tuple[tuple[int, BatchRows], ...] = ()
    refused: tuple[tuple[int, Failure], ...] = ()
    slow: tuple[Slow, ...] = ()
    slow_seconds: float = 0.0


def run_task(
    plan: ReadPlan,
    open_storage: Callable[[str], object],
    open_reader: Callable[[ReadPlan], Reader],
    task: Task,
    attempt: int = 0,
) -> TaskResult:
    """One attempt of a task; `attempt` is in the names of its files, so that no other attempt touches them."""
    check_zone_data(plan)  # executors are other hosts than the driver
    storage = open_storage(plan.attempt_dir)
    readers = Readers(plan, open_reader, lambda uri: open_storage(uri).open_existing(uri))  # type: ignore[attr-defined]
    try:
        return _Worker(plan, storage, task, attempt).run(readers)
    finally:
        readers.close()


class _Worker:
    def __init__(self, plan: ReadPlan, storage: Any, task: Task, attempt: int) -> None:
        pa.set_cpu_count(1)
        _keep_memory()
        self._plan, self._task = plan, task
        self._pipeline = from_plain(Pipeline, plan.pipeline)
        labels = {BATCH_LABEL: str(plan.batch_id), "tidegate.epoch": str(plan.epoch)}
        name, homes = f"{task.number:05d}-{attempt}", {t.window_ms: t.attempt_dir for t in plan.targets}
        self._files = Files(self._pipeline, plan.attempt_dir, name, labels, storage.open_new, homes)
        sources = [(p.range.partition, plan.parts[p.part].batch_id) for p in task.pieces]
        known = plan.known.by_window()
        self._gatherer = Gatherer(self._pipeline, self._files, plan.topic, sources, known)
        self._copier = Copier(self._pipeline, self._files, storage.open_existing)
        self._targets = Targets(plan)
        self._chosen: dict[tuple[int, int], int] = {}
        self._rules = {part: _Rules(self._pipeline, plan.parts[part]) for part in {p.part for p in task.pieces}}
        self._samples: list[DirtySample] = []
        self._unknown: dict[str, None] = {}
        self._together = Together()
        self._slow = Slowness()

    def run(self, readers: Readers) -> TaskResult:
        try:
            tallies = self._read(readers)
            self._gatherer.flush()
            copies = [self._plan.copies[i] for i in self._task.copies]
            copied = tuple((c.window_ms, one) for c in copies for one in self._copy(c))
            entries = self._files.close()
        except BaseException:
            self._gatherer.abandon()
            self._files.abandon()
            raise
        return TaskResult(
            task=self._task,
            results=tuple(self._result(i, tally) for i, tally in enumerate(tallies)),
            files=tuple(entries),
            samples=tuple(self._samples),
            unknown_fields=tuple(self._unknown),
            overflow=self._gatherer.overflowed(),
            notes=(*native.notes(), *self._gatherer.notes),
            shares=tuple((*key, rows, self._files.shares.get(key, 0)) for key, rows in self._chosen.items()),
            copied=copied,
            refused=tuple(self._targets.refused.items()),
            slow=self._slow.told,
            slow_seconds=self._slow.seconds,
        )

    def _result(self, index: int, tally: Tally) -> RangeResult:
        data, late, dirty = (self._files.written.get((index, kind), 0) for kind in (DATA, LATE, DIRTY))
        return tally.result(data, late, dirty)

    def _copy(self, copy: Copy) -> list[BatchRows]:
        """A file that is not what it should be refuses its window."""
        try:
            return self._copier.copy(copy)
        except JobError as e:
            if e.failure.retry or self._targets.alone:
                raise
            self._targets.refused[copy.window_ms] = e.failure
            return []

    def _read(self, readers: Readers) -> list[Tally]:
        tallies: list[Tally] = []
        part: int | None = None
        for index, piece in enumerate(self._task.pieces):
            if piece.part != part:
                self._handle(part)
                part = piece.part
            tallies.append(tally := Tally(range=piece.range))
            for chunk in readers.of_part(part).read(piece.range):
                if len(chunk):
                    tally.consume(chunk)
                    self._together.add(index, piece.range, tally, chunk)
                    if self._together.enough:
                        self._handle(part)
        self._handle(part)
        return tallies

    def _handle(self, part: int | None) -> None:
        """Everything that has been read and waits, by the rules of its part."""
        found = self._together.take()
        if found is not None:
            handle = self._rebuild if isinstance(self._plan, ReplayPlan) else self._ingest
            handle(self._rules[part], *found)  # type: ignore[index]

    def _ingest(self, rules: _Rules, chunk: Chunk, spans: Spans) -> None:
        decoded = rules.decode(chunk, spans)
        self._slow.add(decoded.slow)
        self._note_unknown(rules.decoder, decoded, chunk, spans)
        routed = rules.router.route(chunk, decoded)
        wanted = valid = _all_but(len(chunk), routed.bad)
        moving = pc.if_else(pc.and_(valid, routed.plausible), routed.event, None)
        if decoded.kept is not None:  # filtered rows move the watermark too
            wanted = pc.and_(valid, pc.fill_null(decoded.kept, False))
        for span in spans:
            span.tally.events(moving.slice(span.start, span.count))
            if decoded.kept is not None:
                span.tally.filtered += _true(valid, span) - _true(wanted, span)
        wanted = _count_late(routed, wanted, spans)
        self._sample(chunk, spans, routed.bad)
        self._gatherer.add_dirty(chunk, spans, routed.bad)
        self._gatherer.add(chunk, spans, decoded.table, routed, wanted)

    def _rebuild(self, rules: _Rules, chunk: Chunk, spans: Spans) -> None:
        """Membership by the pinned rules of the range's batch, columns by the pipeline of the plan."""
        pinned = rules.decode(chunk, spans)
        self._slow.add(pinned.slow)
        routed, wanted = self._targets.choose(rules.router.route(chunk, pinned), rules.batch_id)
        wanted = pc.and_(wanted, _all_but(len(chunk), routed.bad))
        if pinned.kept is not None:
            wanted = pc.and_(wanted, pc.fill_null(pinned.kept, False))
        moving = pc.if_else(pc.and_(wanted, routed.plausible), routed.event, None)
        for span in spans:
            span.tally.dropped += span.count - _true(wanted, span)
            span.tally.events(moving.slice(span.start, span.count))
        if not pc.any(wanted).as_py():
            return
        rows = pinned
        if rules.today is not None:
            rows, wanted = self._by_today(rules.today, chunk, spans, routed, wanted)
            values = rules.today.values(rows)
            routed = replace(routed, values=values, bad={})
        if self._plan.targets:
            self._count_windows(routed, wanted, spans)
        self._gatherer.add(chunk, spans, rows.table, routed, wanted)

    def _count_windows(self, routed: Routed, wanted: pa.Array, spans: Spans) -> None:
        for span in spans:
            windows = routed.window.slice(span.start, span.count).filter(wanted.slice(span.start, span.count))
            for found in pc.value_counts(windows).to_pylist():
                key = (span.piece, found["values"])
                self._chosen[key] = self._chosen.get(key, 0) + found["counts"]

    def _by_today(
        self, today: _Today, chunk: Chunk, spans: Spans, routed: Routed, wanted: pa.Array
    ) -> tuple[Decoded, pa.Array]:
        """Today's columns, and the rows that are still wanted: not those of a window that is refused for one of them.

        Raises JobError where there is no other window."""
        rows = today.decode(chunk)
        self._slow.seconds += rows.slow.seconds  # its messages have been counted, by the rules that chose them
        refused = {i: why for i, why in (today.misfits(rows) | rows.bad).items() if wanted[i].as_py()}
        by_window: dict[int, dict[int, Bad]] = {}
        for i, why in refused.items():
            by_window.setdefault(routed.window[i].as_py(), {})[i] = why
        for window, bad in by_window.items():
            error = _undecodable(chunk, spans, bad)
            if self._targets.alone:
                raise error
            self._targets.refused[window] = error.failure
        return rows, self._targets.without_refused(routed.window, wanted)

    def _note_unknown(self, decoder: Decoder, decoded: Decoded, chunk: Chunk, spans: Spans) -> None:
        for name, (row, example) in decoded.unknown.items():
            if self._pipeline.format.unknown_fields in STOPS:
                partition = spans.of(row).range.partition
                shown = escaped(example.encode())
                raise unknown_field(self._pipeline, decoded.unknown, chunk, partition, shown, decoder)
            if len(self._unknown) < 1000:
                self._unknown.setdefault(name)
        for row, _ in decoded.wider.values():
            raise wider_column(self._pipeline, decoded.wider, chunk, spans.of(row).range.partition)

    def _sample(self, chunk: Chunk, spans: Spans, bad: dict[int, Bad]) -> None:
        for i in sorted(bad)[: MAX_SAMPLES - len(self._samples)]:
            why, raw, partition = bad[i], escaped(chunk.values[i] or b""), spans.of(i).range.partition
            self._samples.append(DirtySample(partition, chunk.offsets[i], _told(why.reason), _told(why.field), raw))


def _undecodable(chunk: Chunk, spans: Spans, refused: dict[int, Bad]) -> JobError:
    first = min(refused)
    samples = "; ".join(
        f"partition {spans.of(i).range.partition} offset {chunk.offsets[i]}: {refused[i].field}: {refused[i].reason}"
        for i in sorted(refused)[:3]
    )
    return refuse(
        f"replay refused: today's columns cannot decode rows that are data: {samples}",
        advice="change the columns so that these rows fit, or keep the published generation",
        partition=spans.of(first).range.partition,
        offset=chunk.offsets[first],
        field=refused[first].field,
    )


class _Rules:
    """Rules of membership for one part; `today` only where columns are decoded by another spec than membership."""

    def __init__(self, pipeline: Pipeline, part: JobPart) -> None:
        deciding = _deciding(pipeline, part)
        self.batch_id, self._behind = part.batch_id, part.behind
        self._leaves = part.rules_version >= LEAVING_RULES
        self.decoder: Decoder = decoder_for(deciding, part.rules_version)
        self.router = Router(deciding, part.floor, part.clock_ms)
        same = (deciding.columns, deciding.format, deciding.event_time, deciding.partition_by)
        today = (pipeline.columns, pipeline.format, pipeline.event_time, pipeline.partition_by)
        self.today = None if same == today else _Today(pipeline, deciding.event_time, part.rules_version)

    def decode(self, chunk: Chunk, spans: Spans) -> Decoded:
        """With copies that came behind the mark of a failover among the bad rows (F3)."""
        decoded = self.decoder.decode(chunk)
        for i, headers in enumerate(chunk.headers or ()) if self._behind is not None else ():
            values = [value for name, value in headers or () if name == HEADER]
            if values and self._behind.has(spans.of(i).range.partition, chunk.offsets[i], values):
                decoded.bad[i] = Bad(behind.REASON, behind.FIELD)
        for i in itertools.compress(range(len(chunk)), chunk.copies or ()) if self._leaves else ():
            decoded.bad[i] = Bad(behind.REASON, behind.FIELD)
        return decoded


def _deciding(pipeline: Pipeline, part: JobPart) -> Pipeline:
    """R1: the spec that the part's batch was planned with."""
    return pipeline if part.pinned is None else from_plain(Pipeline, part.pinned)


class _Today:
    """The columns of the plan's pipeline, for rows whose membership another spec has decided. What their values mean
    stays as it was."""

    def __init__(self, pipeline: Pipeline, decided_by: EventTime, rules_version: int) -> None:
        # event time and `where` decide membership: today's are not even looked at
        self._pipeline = replace(pipeline, event_time=EventTime(None), where=None)
        # what the event time came from is no unknown field, as when the row was first decoded
        known = (paths.parse(decided_by.path),) if decided_by.path else ()
        self._decoder = decoder_for(self._pipeline, rules_version, known)

    def decode(self, chunk: Chunk) -> Decoded:
        return self._decoder.decode(chunk)

    def values(self, rows: Decoded) -> dict[str, pa.Array]:
        return {name: partition_text(rows.table.column(name)) for name in self._pipeline.dynamic_partitions}

    def misfits(self, rows: Decoded) -> dict[int, Bad]:
        bad: dict[int, Bad] = {}
        for i, (field, reason) in format_of(self._pipeline.sink.format).unfit(rows.table).items():
            bad[i] = Bad(reason, field)
        return bad


def _keep_memory() -> None:
    """Keep freed memory for the next flush: getting pages from the system again and again costs up to a fifth."""
    try:
        pa.set_memory_pool(pa.jemalloc_memory_pool())
        pa.jemalloc_set_decay_ms(KEEP_MEMORY_MS)
    except NotImplementedError:  # this build of pyarrow is without it
        pass


def _all_but(count: int, bad: dict[int, Bad]) -> pa.Array:
    if not bad:
        return pa.repeat(pa.scalar(True), count)
    flags = [True] * count
    for i in bad:
        flags[i] = False
    return pa.array(flags, pa.bool_())


def _count_late(routed: Routed, wanted: pa.Array, spans: Spans) -> pa.Array:
    """Those of the `wanted` rows that are to be written; rows that are rerouted or dropped are counted."""
    if routed.rerouted is not None:
        rerouted = pc.and_(wanted, routed.rerouted)
        for span in spans:
            span.tally.rerouted += _true(rerouted, span)
    if routed.dropped is None:
        return wanted
    dropped = pc.and_(wanted, routed.dropped)
    for span in spans:
        span.tally.dropped += _true(dropped, span)
    return pc.and_not(wanted, dropped)


def _true(flags: pa.Array, span: Span) -> int:
    return pc.sum(flags.slice(span.start, span.count)).as_py() or 0


def _told(text: str) -> str:
    """What a decoder says may quote the record."""
    return escaped(text.encode("utf-8", "backslashreplace"))


def escaped(raw: bytes) -> str:
    """Bytes for people: bounded, and nothing in it that a terminal or a log would act on."""
    text = raw[: SAMPLE_CHARACTERS * 4].decode("utf-8", "backslashreplace")[:SAMPLE_CHARACTERS]
    return text if text.isprintable() else "".join(map(_printable, text))


def _printable(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()
