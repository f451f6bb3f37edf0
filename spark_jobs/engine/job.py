"""The driver's side of a job: cut the plan into tasks, run them, and put the receipt there last."""

from __future__ import annotations

import functools
import itertools
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from spark_jobs.engine.failures import refuse, reported
from spark_jobs.engine.places import combined
from spark_jobs.engine.settlement import settle, verify
from spark_jobs.engine.slowness import together
from spark_jobs.engine.tally import merge
from spark_jobs.engine.targets import cut_copies
from spark_jobs.engine.task import MAX_SAMPLES, Piece, Task, TaskResult, run_task
from spark_jobs.engine.zones import check_zone_data
from tidegate.core.base.fields import read_as
from tidegate.core.base.offsets import OffsetRange, pack
from tidegate.core.base.partition_values import PartitionValues
from tidegate.core.base.plain import dumps, from_plain
from tidegate.core.base.storage import Storage
from tidegate.core.batch.jobs import JobPart, ReadPlan, ReplayPlan, kind_of
from tidegate.core.batch.rules_version import KNOWN_RULES
from tidegate.core.files import slow_path
from tidegate.core.files.overflow import Known, overflow_values, staying
from tidegate.core.files.receipt import DATA, DIRTY, LATE, RangeResult, ReadingNote, Receipt
from tidegate.core.source.records import Reader
from tidegate.core.source.unreadable import recreated
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.target.paths import RECEIPT, join
from tidegate.core.window.lateness import POLICIES, REROUTE
from tidegate.kinds import source_kind

TASK_RECORDS, SMALLEST = 500_000, 50_000
"""Records for one task where nobody knows how many can run at once: some seconds of work, against which a task's start
and a further file for each partition weigh little. `pack` takes less than SMALLEST for not worth a task's start."""
RunTasks = Callable[[Callable[..., TaskResult], Sequence[Task]], Iterable[TaskResult]]
"""`run_tasks(fn, tasks)`: call `fn(task, attempt)` for each, anywhere; `attempt` makes file names unique. Of several
calls for a task the result of one counts."""


def run_plan(
    plan: ReadPlan,
    storage: Storage,
    run_tasks: RunTasks | None = None,
    open_reader: Callable[[ReadPlan], Reader] | None = None,
    *,
    open_storage: Callable[[str], object] | None = None,
    tasks: int | None = 1,
) -> Receipt:
    """Run a plan and write `_receipt.json`, one for each window of a replay that names its targets; on any failure
    write `failure.json` and raise JobError.

    Without `run_tasks` everything runs in this process, on `storage` itself, which then needs `open_new`. Elsewhere,
    workers open theirs with `open_storage(uri)`. `tasks` is the number of tasks that can run at once; None where
    nobody knows it: see `cut`.
    """
    try:
        run_tasks = run_tasks or (lambda run, works: [run(work, 0) for work in works])
        receipt = _run(
            plan, storage, run_tasks, open_reader or open_source, open_storage or (lambda uri: storage), tasks
        )
        if not plan.targets:  # else each window has one of its own
            storage.write_new(join(plan.attempt_dir, RECEIPT), dumps(receipt).encode())
        return receipt
    except Exception as e:
        raise reported(storage, plan.attempt_dir, e) from e


def open_source(plan: ReadPlan) -> Reader:
    """The reader of the plan's kind of source, with the plan's settings and whatever secrets this process was given."""
    from spark_jobs.engine.secrets import client_secrets

    return source_kind(kind_of(plan)).reader(plan, {**plan.bootstrap, **client_secrets()})


def _run(
    plan: ReadPlan,
    storage: Storage,
    run_tasks: RunTasks,
    open_reader: Callable[[ReadPlan], Reader],
    open_storage: Callable[[str], object],
    tasks: int | None,
) -> Receipt:
    started = time.monotonic()
    pipeline = from_plain(Pipeline, plan.pipeline)
    _check_plan(plan, pipeline)
    check_zone_data(plan)
    _check_topic(plan, open_reader)
    results = _run_all(run_tasks, functools.partial(run_task, plan, open_storage, open_reader), cut(plan, tasks))
    staying = _staying(plan, pipeline, results)
    if staying:
        # tasks know nothing of each other: together they let in too many values, so all is read once more
        for kind in (DATA, LATE, DIRTY):
            for directory in {plan.attempt_dir, *(t.attempt_dir for t in plan.targets)}:
                storage.delete(join(directory, kind))
        again = replace(plan, known=Known.of(staying))
        # numbers, and so names of files, are new ones
        renumbered = [replace(t, number=t.number + len(results)) for t in cut(plan, tasks)]
        results = _run_all(run_tasks, functools.partial(run_task, again, open_storage, open_reader), renumbered)
        if _staying(again, pipeline, results):
            raise refuse("reading the same offsets twice gave other partition values", retry=True)
    receipt = _combine(plan, results, time.monotonic() - started)
    if receipt.slow and isinstance(plan, ReplayPlan):  # what a batch's receipt says is told when it is sealed
        _tell(slow_path.told(receipt.slow, receipt.read_rows, receipt.slow_seconds))
    if plan.targets:
        settle(plan, storage, receipt, results)
    else:
        planned = [r for part in plan.parts for r in part.ranges]
        verify(storage, plan.attempt_dir, receipt, planned, "this attempt")
    return receipt


def _run_all(run_tasks: RunTasks, run: Callable[..., TaskResult], tasks: Sequence[Task]) -> list[TaskResult]:
    results = list(run_tasks(run, tasks))
    for note in dict.fromkeys(note for r in results for note in r.notes):
        _tell(note)
    return results


def _tell(text: str) -> None:
    print(f"tidegate: {text}", file=sys.stderr, flush=True)


def _staying(plan: ReadPlan, pipeline: Pipeline, results: list[TaskResult]) -> dict[int, set[PartitionValues]]:
    """The values of each window that keep partitions of their own, if tasks have let in more; else nothing."""
    beyond, limit = overflow_values(pipeline), pipeline.sink.max_partitions
    rows: dict[int, dict[PartitionValues, int]] = {}
    for file in (f for r in results for f in r.files):
        if file.kind == DATA and file.values and file.values != beyond and file.window_ms is not None:
            found = rows.setdefault(file.window_ms, {})
            found[file.values] = found.get(file.values, 0) + file.rows
    known = plan.known.by_window()
    changed = False
    for window, found in rows.items():
        before = known.get(window, set())
        if len(before | set(found)) > limit and not set(found) <= before:
            known[window] = staying(found, before, limit)
            changed = changed or not set(found) <= known[window]
    return known if changed else {}


def _check_plan(plan: ReadPlan, pipeline: Pipeline) -> None:
    if isinstance(plan, ReplayPlan):
        if plan.window_ms is None and not plan.targets:
            raise refuse("a replay plan must name its window")
    elif len(plan.parts) > 1:
        raise refuse(f"a plan of mode {plan.mode} has one part")
    for part in plan.parts:
        _check_policy(part, pipeline)
    strange = {plan.rules_version, *(p.rules_version for p in plan.parts)} - KNOWN_RULES
    if strange:
        known = ", ".join(map(str, sorted(KNOWN_RULES)))
        raise refuse(
            f"the plan needs rules version {max(strange)}, this worker knows {known}",
            advice="run workers and control plane from the same release",
        )


def _check_policy(part: JobPart, pipeline: Pipeline) -> None:
    policy = (pipeline if part.pinned is None else from_plain(Pipeline, part.pinned)).late_policy
    if policy not in POLICIES:
        raise refuse(
            f"late.policy {policy!r} of batch {part.batch_id} is not known to this worker; there are "
            f"{', '.join(POLICIES)}",
            advice="run workers and control plane from the same release",
            field="late.policy",
        )
    if policy == REROUTE and part.floor.reroute_ms is None:
        raise refuse(
            f"the plan of batch {part.batch_id} does not say which window late rows go to (late.policy is reroute)",
            advice="run workers and control plane from the same release",
            field="late.policy",
        )


def _check_topic(plan: ReadPlan, open_reader: Callable[[ReadPlan], Reader]) -> None:
    if all(part.sources for part in plan.parts) and (plan.parts or plan.copies):
        return  # Kafka is not read
    reader = open_reader(plan)
    try:
        found = reader.topic_id()
    finally:
        reader.close()
    if found is not None and found != plan.topic_id:
        raise recreated(plan.topic, plan.topic_id, found)


def cut(plan: ReadPlan, tasks: int | None) -> list[Task]:
    """The plan's ranges as tasks of about equal size. Raises JobError if ranges of Kafka overlap.

    Those of parts that are read from dirty files may lie among them: tasks of their own. `tasks` is their number where
    `ingest.task_records` is silent; None: by TASK_RECORDS, so that it depends on the plan alone."""
    if any(part.reading for part in plan.parts):
        return _cut_readings(plan)
    most = from_plain(Pipeline, plan.pipeline).ingest.task_records
    smaller = {"smallest": most} if most and most < SMALLEST else {}
    if most or tasks is None:
        size = most or TASK_RECORDS
        records = sum(r.count for part in plan.parts for r in part.ranges)
        copied = sum(c.source.entry.rows for c in plan.copies)
        tasks = max(1, -(-max(records, copied) // size))
    owners: dict[int, list[tuple[int, int, int]]] = {}
    of_kafka = [(number, part) for number, part in enumerate(plan.parts) if not part.sources]
    for number, part in of_kafka:
        for r in part.ranges:
            owners.setdefault(r.partition, []).append((r.start, r.end, number))
    for partition, found in owners.items():
        found.sort()
        for (_, end, _), (start, _, _) in itertools.pairwise(found):
            if start < end:
                raise refuse(f"the plan reads offset {start} of partition {partition} twice", partition=partition)
    bins = pack([r for _, part in of_kafka for r in part.ranges], tasks, **smaller)
    pieces = [tuple(Piece(_owner(owners, r), r) for r in ranges) for ranges in bins]
    for number, part in enumerate(plan.parts):
        if part.sources:
            pieces += [tuple(Piece(number, r) for r in ranges) for ranges in pack(list(part.ranges), tasks, **smaller)]
    cuts = [Task(i, mine) for i, mine in enumerate(pieces)]
    return cuts + [Task(len(cuts) + i, (), mine) for i, mine in enumerate(cut_copies(plan, tasks))]


def _cut_readings(plan: ReadPlan) -> list[Task]:
    """A table's chunks as tasks: as many as the source may be asked at once."""
    lists = []
    for number, part in enumerate(plan.parts):
        if part.reading is not None:
            chunks = [Piece(number, offsets) for offsets in part.reading.parts(part.ranges[0])]
            at_once = min(part.reading.tasks, len(chunks))
            lists += [tuple(chunks[i::at_once]) for i in range(at_once)]
    return [Task(i, pieces) for i, pieces in enumerate(lists)]


def _owner(owners: dict[int, list[tuple[int, int, int]]], piece: OffsetRange) -> int:
    return next(part for start, end, part in owners[piece.partition] if start <= piece.start and piece.end <= end)


def _combine(plan: ReadPlan, results: list[TaskResult], seconds: float) -> Receipt:
    pieces: dict[int, list[RangeResult]] = {}
    for result in results:
        for piece, found in zip(result.task.pieces, result.results, strict=True):
            pieces.setdefault(piece.part, []).append(found)
    ranges = [_read(part, r, pieces.get(i, [])) for i, part in enumerate(plan.parts) for r in part.ranges]
    files = sorted((f for r in results for f in r.files), key=lambda f: f.path)
    return read_as(
        Receipt,
        plan,
        ranges=tuple(ranges),
        files=tuple(files),
        samples=tuple(s for r in results for s in r.samples)[:MAX_SAMPLES],
        unknown_fields=tuple(sorted({f for r in results for f in r.unknown_fields})),
        seconds=round(seconds, 3),
        overflow=combined([o for r in results for o in r.overflow]),
        slow=together(r.slow for r in results),
        slow_seconds=round(sum(r.slow_seconds for r in results), 3),
        reading=_note(plan, seconds),
    )


def _note(plan: ReadPlan, seconds: float) -> ReadingNote | None:
    reading = plan.parts[0].reading if plan.parts else None
    if reading is None:
        return None
    ended = round(time.time() * 1000)
    table = f"{reading.table.schema}.{reading.table.name}"
    return ReadingNote(
        server=reading.server,
        table=table,
        columns=tuple((c.name, c.type) for c in reading.table.columns),
        chunks=len(reading.chunks),
        began_ms=ended - round(seconds * 1000),
        ended_ms=ended,
    )


def _read(part: JobPart, whole: OffsetRange, pieces: list[RangeResult]) -> RangeResult:
    """A table that was read whole is read up to its window's end, and says no more of time than that."""
    found = _merged(whole, pieces)
    return found if part.reading is None else replace(found, max_event_ms=part.reading.complete_ms)


def _merged(whole: OffsetRange, pieces: list[RangeResult]) -> RangeResult:
    mine = [p for p in pieces if p.range.partition == whole.partition]
    return merge(whole, (p for p in mine if whole.start <= p.range.start and p.range.end <= whole.end))
