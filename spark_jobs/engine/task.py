"""One task: its exact ranges are fetched, decoded, routed and written in one pass; only counts come back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.engine.checksum import connect
from spark_jobs.engine.dirty import Readers
from spark_jobs.engine.failures import from_exception, refuse
from spark_jobs.engine.fetch import Chunk, Reader
from spark_jobs.engine.formats import Bad, Decoded, Decoder, decoder_for
from spark_jobs.engine.gather import Gatherer
from spark_jobs.engine.places import TaskOverflow
from spark_jobs.engine.route import Routed, Router, partition_text, refuse_misfits
from spark_jobs.engine.sinks import format_of
from spark_jobs.engine.tally import Tally
from spark_jobs.engine.unknown import unknown_field
from spark_jobs.engine.write import Files
from tidegate.core.batch import JobPart, JobPlan
from tidegate.core.offsets import OffsetRange
from tidegate.core.pipeline import EventTime, Pipeline
from tidegate.core.plain import from_plain
from tidegate.core.receipt import DATA, DIRTY, LATE, DirtySample, Failure, FileEntry, RangeResult

MAX_SAMPLES, SAMPLE_CHARACTERS = 20, 300


@dataclass(frozen=True)
class Piece:
    """A range, or a piece of one, and the index of the plan's part whose rules it goes by."""

    part: int
    range: OffsetRange


@dataclass(frozen=True)
class Task:
    number: int
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class TaskResult:
    """`results` has one entry per piece, in order; all empty if `failure` is set."""

    task: Task
    results: tuple[RangeResult, ...] = ()
    files: tuple[FileEntry, ...] = ()
    samples: tuple[DirtySample, ...] = ()
    unknown_fields: tuple[str, ...] = ()
    overflow: tuple[TaskOverflow, ...] = ()
    failure: Failure | None = None


def run_task(
    plan: JobPlan,
    open_storage: Callable[[str], object],
    open_reader: Callable[[JobPlan], Reader],
    task: Task,
    attempt: int = 0,
) -> TaskResult:
    """Never raises: what went wrong comes back as a value, so that Spark does not repeat what cannot succeed."""
    try:
        storage = open_storage(plan.attempt_dir)
        readers = Readers(plan, open_reader, lambda uri: open_storage(uri).open_existing(uri))  # type: ignore[attr-defined]
        try:
            return _Worker(plan, storage.open_new, task, attempt).run(readers)  # type: ignore[attr-defined]
        finally:
            readers.close()
    except Exception as e:
        return TaskResult(task, failure=from_exception(e))


class _Worker:
    def __init__(self, plan: JobPlan, open_new: Callable, task: Task, attempt: int) -> None:
        pa.set_cpu_count(1)
        self._plan, self._task = plan, task
        self._pipeline = from_plain(Pipeline, plan.pipeline)
        labels = {"tidegate.batch_id": str(plan.batch_id), "tidegate.epoch": str(plan.epoch)}
        self._files = Files(self._pipeline, plan.attempt_dir, f"{task.number:05d}-{attempt}", labels, open_new)
        sources = [(p.range.partition, plan.parts[p.part].batch_id) for p in task.pieces]
        known = plan.known.by_window()
        self._gatherer = Gatherer(self._pipeline, self._files, connect(), plan.topic, sources, known)
        self._rules = {part: _Rules(self._pipeline, plan.parts[part]) for part in {p.part for p in task.pieces}}
        self._samples: list[DirtySample] = []
        self._unknown: dict[str, None] = {}

    def run(self, readers: Readers) -> TaskResult:
        try:
            tallies = [self._piece(i, piece, readers.of_part(piece.part)) for i, piece in enumerate(self._task.pieces)]
            self._gatherer.flush()
            entries = self._files.close()
        except BaseException:
            self._files.abandon()
            raise
        return TaskResult(
            self._task,
            tuple(self._result(i, tally) for i, tally in enumerate(tallies)),
            tuple(entries),
            tuple(self._samples),
            tuple(self._unknown),
            self._gatherer.overflowed(),
        )

    def _result(self, index: int, tally: Tally) -> RangeResult:
        data, late, dirty = (self._files.written.get((index, kind), 0) for kind in (DATA, LATE, DIRTY))
        return tally.result(data, late, dirty)

    def _piece(self, index: int, piece: Piece, reader: Reader) -> Tally:
        tally = Tally(piece.range)
        handle = self._rebuild if self._plan.mode == "replay" else self._ingest
        for chunk in reader.read(piece.range):
            if len(chunk):
                tally.consume(chunk)
                handle(index, piece, chunk, tally)
        return tally

    def _ingest(self, index: int, piece: Piece, chunk: Chunk, tally: Tally) -> None:
        rules, partition = self._rules[piece.part], piece.range.partition
        decoded = rules.decoder.decode(chunk)
        self._note_unknown(decoded, chunk, partition)
        routed = rules.router.route(chunk, decoded)
        keep = _others(len(chunk), routed.bad)
        tally.events(routed.event.take(keep).filter(routed.plausible.take(keep)))
        if decoded.kept is not None:  # after the events: filtered rows move the watermark too
            wanted = keep.filter(decoded.kept.take(keep))
            tally.filtered += len(keep) - len(wanted)
            keep = wanted
        self._sample(partition, chunk, routed.bad)
        self._gatherer.add_dirty(piece.range.topic, partition, index, chunk, routed.bad)
        self._gatherer.add(index, chunk, decoded.table, routed, keep)

    def _rebuild(self, index: int, piece: Piece, chunk: Chunk, tally: Tally) -> None:
        """Membership by the pinned rules of the range's batch, columns by the pipeline of the plan."""
        rules, partition = self._rules[piece.part], piece.range.partition
        pinned = rules.decoder.decode(chunk)
        routed = rules.router.route(chunk, pinned)
        member = pc.and_(pc.equal(routed.window, self._plan.window_ms), pc.invert(routed.late))
        keep = pc.indices_nonzero(member)
        if routed.bad:
            keep = keep.filter(pc.invert(pc.is_in(keep, pa.array(list(routed.bad), pa.uint64()))))
        if pinned.kept is not None:
            keep = keep.filter(pinned.kept.take(keep))
        tally.dropped += len(chunk) - len(keep)
        if not len(keep):
            return
        tally.events(routed.event.take(keep).filter(routed.plausible.take(keep)))
        rows = pinned
        if rules.today is not None:
            rows = self._by_today(rules.today, partition, chunk, keep)
            values = rules.today.values(rows)
            routed = Routed(routed.event, routed.window, routed.late, routed.plausible, values, {})
        self._gatherer.add(index, chunk, rows.table, routed, keep)

    def _by_today(self, today: _Today, partition: int, chunk: Chunk, keep: pa.Array) -> Decoded:
        rows = today.decoder.decode(chunk)
        bad = today.misfits(rows) | rows.bad
        kept = set(keep.to_pylist()) if bad else set()
        refused = {i: why for i, why in bad.items() if i in kept}
        if refused:
            first = min(refused)
            samples = "; ".join(
                f"partition {partition} offset {chunk.offsets[i]}: {refused[i].field}: {refused[i].reason}"
                for i in sorted(refused)[:3]
            )
            raise refuse(
                f"replay refused: today's columns cannot decode rows that are data: {samples}",
                advice="change the columns so that these rows fit, or keep the published generation",
                partition=partition,
                offset=chunk.offsets[first],
                field=refused[first].field,
            )
        return rows

    def _note_unknown(self, decoded: Decoded, chunk: Chunk, partition: int) -> None:
        for name, (_, example) in decoded.unknown.items():
            if self._pipeline.format.unknown_fields == "fail":
                raise unknown_field(self._pipeline, decoded.unknown, chunk, partition, escaped(example.encode()))
            if len(self._unknown) < 1000:
                self._unknown.setdefault(name)

    def _sample(self, partition: int, chunk: Chunk, bad: dict[int, Bad]) -> None:
        for i in sorted(bad)[: MAX_SAMPLES - len(self._samples)]:
            why, raw = bad[i], escaped(chunk.values[i] or b"")
            self._samples.append(DirtySample(partition, chunk.offsets[i], why.reason, why.field, raw))


class _Rules:
    """What decides membership for one part; `today` only where columns are decoded by another spec than membership."""

    def __init__(self, pipeline: Pipeline, part: JobPart) -> None:
        deciding = pipeline if part.pinned is None else from_plain(Pipeline, part.pinned)
        self.batch_id = part.batch_id
        self.decoder: Decoder = decoder_for(deciding, part.rules_version)
        self.router = Router(deciding, part.floor, part.clock_ms)
        same = (deciding.columns, deciding.format, deciding.event_time, deciding.partition_by)
        today = (pipeline.columns, pipeline.format, pipeline.event_time, pipeline.partition_by)
        self.today = None if same == today else _Today(pipeline, part.rules_version)


class _Today:
    """The columns of the plan's pipeline, for rows whose membership another spec has decided. What their values mean
    stays as it was."""

    def __init__(self, pipeline: Pipeline, rules_version: int) -> None:
        # event time and `where` decide membership: today's are not even looked at
        self._pipeline = replace(pipeline, event_time=EventTime(None), where=None)
        self.decoder = decoder_for(self._pipeline, rules_version)

    def values(self, rows: Decoded) -> dict[str, pa.Array]:
        return {name: partition_text(rows.table.column(name)) for name in self._pipeline.dynamic_partitions}

    def misfits(self, rows: Decoded) -> dict[int, Bad]:
        bad: dict[int, Bad] = {}
        for i, (field, reason) in format_of(self._pipeline.sink.format).unfit(rows.table).items():
            bad[i] = Bad(reason, field)
        for name, texts in self.values(rows).items():
            refuse_misfits(name, texts, {}, bad)
        return bad


def _others(count: int, bad: dict[int, Bad]) -> pa.Array:
    if not bad:
        return pa.array(range(count), pa.uint64())
    return pa.array([i for i in range(count) if i not in bad], pa.uint64())


def escaped(raw: bytes) -> str:
    """Bytes for people: bounded, and nothing in it that a terminal or a log would act on."""
    text = raw[: SAMPLE_CHARACTERS * 4].decode("utf-8", "backslashreplace")[:SAMPLE_CHARACTERS]
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
