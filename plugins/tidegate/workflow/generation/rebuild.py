"""Rebuild windows from Kafka: the ranges of their batch lists, each row judged by its batch's pinned rules (R1).

Windows that are rebuilt together share one reading of each range. Each has a directory, a receipt and a comparison of
its own: one that is refused, or lost to another task, is no concern of the others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tidegate.core.base.errors import BatchRefused, ReplayRefused, SourceError, SourceUnavailable, TidegateError
from tidegate.core.base.fields import read_as
from tidegate.core.base.instants import iso
from tidegate.core.base.offsets import Interval, OffsetRange, union
from tidegate.core.base.plain import to_plain
from tidegate.core.base.wording import many
from tidegate.core.batch.jobs import JobPart, ReplayPlan, Target, part_of
from tidegate.core.batch.rules_version import rules_for, rules_of_replay
from tidegate.core.dirty.redrive import source_batches
from tidegate.core.files.receipt import FileEntry, RangeResult, ReplayReceipt
from tidegate.core.files.second_reading import SecondReading, compare, listed
from tidegate.core.replay.origin import AUTO, KEPT
from tidegate.core.target.paths import join
from tidegate.core.window.states import BuildingGeneration, BuiltGeneration, PublishedGeneration
from tidegate.workflow.base import give_up, switches, tables, zone_data
from tidegate.workflow.base.context import Context
from tidegate.workflow.base.in_force import in_force
from tidegate.workflow.base.jobs import run_replay
from tidegate.workflow.generation import daily
from tidegate.workflow.generation.assembly import collect_written
from tidegate.workflow.generation.origin import Choice, Chooser, Key, Work, renewed
from tidegate.workflow.side import dirty_files


@dataclass(frozen=True)
class Rebuilt:
    """A window's rows, written and compared. Paths of `files` are below `attempt_dir`; `read`: records that the job
    read, for all its windows together."""

    work: Work
    attempt_dir: str
    files: tuple[FileEntry, ...] = ()
    read: int = 0
    copied: int = 0


class _Removed(ReplayRefused):
    """Kafka has fewer records than it had; `removed` by (batch, partition)."""

    def __init__(self, error: ReplayRefused, removed: dict[Key, tuple[Interval, ...]]) -> None:
        super().__init__(error.args[0], advice=error.advice)
        self.removed = removed


def rebuild(ctx: Context, generation: BuildingGeneration) -> BuiltGeneration:
    """BUILDING(epoch) -> BUILT by a Spark job that reads again. Raises ReplayRefused; the current generation stays."""
    found = read_again(ctx, [work_of(ctx, generation)])[generation.window.start_ms]
    if isinstance(found, TidegateError):
        raise found
    return collected(ctx, generation, found)


def work_of(ctx: Context, generation: BuildingGeneration) -> Work:
    g = generation
    name = ctx.layout.replay_name(g.window.start_ms, g.number, g.epoch, g.nonce)
    return read_as(Work, g, attempt=name, removed={}, unpublished=g.number == 1)


def collected(ctx: Context, generation: BuildingGeneration, found: Rebuilt) -> BuiltGeneration:
    """Move only what the receipt names into the generation. Raises MovedOn."""
    return collect_written(ctx, generation, found.attempt_dir, found.files)


def read_again(ctx: Context, works: Sequence[Work], wanted: str = AUTO) -> dict[int, Rebuilt | TidegateError]:
    """The rows of each window, by its start, or why there are none: ReplayRefused, or what its next try may heal.

    Raises SourceUnavailable, and MovedOn where one window alone is asked for."""
    chooser = Chooser(ctx, wanted)
    found: dict[int, Rebuilt | TidegateError] = {}
    choices: list[Choice] = []
    for work in works:
        try:
            choice = chooser.choose(work)
            _refuse_other_zone_data(ctx, chooser, choice)
            choices.append(choice)
        except ReplayRefused as e:
            found[work.window.start_ms] = e
    found |= _together(ctx, chooser, choices)
    for start, error in list(found.items()):
        if isinstance(error, _Removed) and wanted == AUTO:
            found[start] = _with_files(ctx, next(w for w in works if w.window.start_ms == start), error)
    return found


def _refuse_other_zone_data(ctx: Context, chooser: Chooser, choice: Choice) -> None:
    """R1: what is read from Kafka is cut by today's zone data, and must be cut as its batch's plan says."""
    for batch_id in sorted({s.batch_id for s in choice.spans}):
        refused = zone_data.against_replay(ctx, choice.work.window, chooser.batches[batch_id].plan)
        if refused is not None:
            raise refused


def _with_files(ctx: Context, work: Work, error: _Removed) -> Rebuilt | TidegateError:
    """Records that compaction has taken since are in our files."""
    chooser = Chooser(ctx, AUTO)
    try:
        choice = chooser.choose(renewed(ctx, work, removed=error.removed))
    except ReplayRefused as e:
        return ReplayRefused(error.args[0], advice=f"{e.args[0]}; {e.advice}")
    return _together(ctx, chooser, [choice])[work.window.start_ms]


def _together(ctx: Context, chooser: Chooser, choices: list[Choice]) -> dict[int, Rebuilt | TidegateError]:
    """One job for all of them. One that is refused as a whole is halved, until the window that it was for is alone."""
    found: dict[int, Rebuilt | TidegateError] = {}
    todo = []
    for choice in choices:
        if choice.owed:
            todo.append(choice)
        else:
            found[choice.work.window.start_ms] = Rebuilt(choice.work, _directory(ctx, choice.work))
    if not todo:
        return found
    job = _job_plan(ctx, chooser, todo)
    receipts = run_replay(ctx, job, join(ctx.layout.plans(), f"{job.attempt}.json"))
    if len(todo) > 1 and all(isinstance(r, BatchRefused) for r in receipts.values()):
        ctx.say(f"the job for {many(len(todo), 'window')} was refused: they are tried in two halves")
        half = len(todo) // 2
        for some in (todo[:half], todo[half:]):
            found |= _together(ctx, chooser, [replace(c, work=renewed(ctx, c.work)) for c in some])
        return found
    recreated = _recreated(ctx, job)
    for choice in todo:
        start = choice.work.window.start_ms
        receipt = receipts[start]
        if isinstance(receipt, BatchRefused):
            found[start] = ReplayRefused(f"{iso(start)}: {receipt.args[0]}", advice=receipt.advice)
        elif isinstance(receipt, TidegateError):
            found[start] = receipt
        elif recreated is not None and choice.spans:
            found[start] = recreated
        else:
            found[start] = _believed(ctx, choice, receipt)
    return found


def _believed(ctx: Context, choice: Choice, receipt: ReplayReceipt) -> Rebuilt | ReplayRefused:
    try:
        _compare(ctx, choice, receipt)
    except ReplayRefused as e:
        return e
    copied = sum(c.rows for c in receipt.copied)
    if copied:
        ctx.say(f"{iso(choice.work.window.start_ms)}: {many(copied, 'row')} came from the files in force")
    files = receipt.receipt.files
    return Rebuilt(choice.work, _directory(ctx, choice.work), files, receipt.job_read, copied)


def _directory(ctx: Context, work: Work) -> str:
    return join(ctx.layout.attempts(), work.attempt)


# ---------------------------------------------------------------- the job


def _job_plan(ctx: Context, chooser: Chooser, choices: list[Choice]) -> ReplayPlan:
    wanted: dict[int, dict[int, list[Interval]]] = defaultdict(lambda: defaultdict(list))
    for choice in choices:
        for s in choice.spans:
            wanted[s.batch_id][s.partition].append(Interval(s.min_offset, s.max_offset + 1))
    parts = [_part(ctx, chooser, batch_id, spans) for batch_id, spans in sorted(wanted.items())]
    number = {part.batch_id: i for i, part in enumerate(parts)}
    targets = []
    for choice in choices:
        work = choice.work
        mine = {s.batch_id for s in choice.spans}
        targets.append(
            Target(
                window_ms=work.window.start_ms,
                attempt=work.attempt,
                attempt_dir=_directory(ctx, work),
                nonce=work.nonce,
                epoch=work.epoch,
                parts=tuple(sorted(number[i] for i in mine)),
                taken=tuple(i for i in work.late if i in mine),
            )
        )
    first = choices[0].work
    plans = [b.plan for b in chooser.batches.values()]
    of_kafka = [chooser.batches[part.batch_id].plan for part in parts if not part.sources]
    return ReplayPlan(
        attempt=first.attempt,
        attempt_dir=_directory(ctx, first),
        pipeline=to_plain(tables.pinned(ctx)),
        bootstrap=ctx.source.for_workers().settings if of_kafka else {},
        topic=plans[0].topic,
        topic_id=(of_kafka or plans)[0].topic_id,
        parts=tuple(parts),
        nonce=first.nonce,
        epoch=first.epoch,
        spec_version=ctx.spec_version,
        rules_version=max((part.rules_version for part in parts), default=rules_for(ctx.pipeline)),
        window_ms=first.window.start_ms,
        targets=tuple(targets),
        copies=tuple(c for choice in choices for c in choice.copies),
    )


def _part(ctx: Context, chooser: Chooser, batch_id: int, spans: dict[int, list[Interval]]) -> JobPart:
    """Each offset once, whatever the number of windows that it is read for."""
    plan = chooser.batches[batch_id].plan
    decided_by = ctx.pipeline if plan.spec_version == ctx.spec_version else chooser.spec(plan.spec_version)
    pinned = None if decided_by is ctx.pipeline else to_plain(decided_by)
    ranges = tuple(
        OffsetRange(plan.topic, partition, i.start, i.end)
        for partition, intervals in sorted(spans.items())
        for i in union(intervals)
    )
    files = dirty_files.sources(ctx, source_batches(plan)) if plan.is_redrive else ()
    rules = rules_of_replay(plan.rules_version, decided_by, ctx.pipeline)
    behind = switches.behind(ctx, plan)
    return part_of(plan, ranges=ranges, rules_version=rules, pinned=pinned, sources=files, behind=behind)


def _recreated(ctx: Context, job: ReplayPlan) -> ReplayRefused | None:
    """R6: while it was read. Raises SourceUnavailable."""
    if all(part.sources for part in job.parts):
        return None
    try:
        now = ctx.log(job.topic)
    except SourceUnavailable:
        raise
    except SourceError as e:
        return ReplayRefused(f"topic {job.topic} went while it was read: {e.args[0]}", advice=KEPT)
    if not now.is_another(job.topic_id):
        return None
    return ReplayRefused(
        f"topic {now.topic} was recreated: it has id {now.topic_id} now, its records of then ({job.topic_id}) are gone",
        advice=KEPT,
    )


# ---------------------------------------------------------------- the comparison


def _compare(ctx: Context, choice: Choice, found: ReplayReceipt) -> None:
    """What each batch owes, read again: gap by gap, and row by row counted, as the ledger knows it.

    A rebuild never changes what belongs to a window. Raises ReplayRefused."""
    window, receipt = iso(choice.work.window.start_ms), found.receipt
    read: dict[Key, list[RangeResult]] = defaultdict(list)
    for batch_id, r in zip(found.batches, receipt.ranges, strict=True):
        read[batch_id, r.range.partition].append(r)
    counted = sum(r.data for r in receipt.ranges) + sum(c.rows for c in found.copied)
    written = sum(f.rows for f in receipt.files)
    if written != counted:
        raise ReplayRefused(f"{window}: the rebuild wrote {many(written, 'row')} but counted {counted}")
    owing = {(s.batch_id, s.partition) for s in choice.spans}
    for key, results in sorted(read.items()):
        stray = 0 if key in owing else sum(r.data for r in results)
        if stray:
            raise ReplayRefused(
                f"{window}: batch {key[0]}, partition {key[1]} owes nothing, the topic gives {many(stray, 'row')}: "
                "a spec that moves rows?",
                advice=KEPT,
            )
    gaps = {i: ctx.ledger.batches.gaps(ctx.name, i) for i in {s.batch_id for s in choice.spans}}
    removed: dict[Key, tuple[Interval, ...]] = {}
    refusal: ReplayRefused | None = None
    for s in choice.spans:
        key = (s.batch_id, s.partition)
        where = f"{window}: batch {s.batch_id}, partition {s.partition}"
        span = Interval(s.min_offset, s.max_offset + 1)
        results = read.get(key, [])
        holes = [g for r in results for g in r.gaps]
        again = compare(span, gaps[s.batch_id].get(s.partition, ()), holes)
        objection = again.objection(ctx.pipeline.source.gaps)
        if objection is not None:
            raise ReplayRefused(f"{where}: {objection}", advice=KEPT)
        other = _other_rows(where, s.rows, sum(r.data for r in results), again)
        if other is not None:
            refusal = refusal or other
            if not again.vanished:
                raise refusal
            removed[key] = again.vanished
    if refusal is not None:
        raise _Removed(refusal, removed)
    _compare_copied(window, choice, found)


def _other_rows(where: str, owed: int, rows: int, again: SecondReading) -> ReplayRefused | None:
    """Why these are not the rows that the ledger knows, by their number."""
    if rows == owed:
        return None
    gone = f" (nothing any more at {listed(again.vanished)})" if again.vanished else ""
    return ReplayRefused(
        f"{where} owes {many(owed, 'row')}, the topic gives {rows}{gone}: compaction, "
        "retention, or a spec that moves rows",
        advice=KEPT,
    )


def _compare_copied(window: str, choice: Choice, found: ReplayReceipt) -> None:
    """Rows of files against what the ledger says: number, first and last offset of each batch and Kafka partition."""
    carries_batch = all(c.batch_id for c in found.copied)
    due: dict[Key, tuple[int, int, int]] = {}
    for s in choice.copied:
        key = (s.batch_id if carries_batch else 0, s.partition)
        rows, low, high = due.get(key, (0, s.min_offset, s.max_offset))
        due[key] = (rows + s.rows, min(low, s.min_offset), max(high, s.max_offset))
    has = {(c.batch_id, c.partition): (c.rows, c.min_offset, c.max_offset) for c in found.copied}
    for key in sorted(due.keys() | has.keys()):
        if due.get(key) != has.get(key):
            whose = f"batch {key[0]}, partition {key[1]}" if carries_batch else f"partition {key[1]}"
            rows, owed = (side.get(key, (0, 0, 0))[0] for side in (has, due))
            raise ReplayRefused(
                f"{window}: {whose} owes {many(owed, 'row')}, the files in force give {rows}, or others", advice=KEPT
            )


def unchanged(ctx: Context, generation: BuiltGeneration) -> PublishedGeneration | None:
    """A replay whose content is what is published already publishes nothing, and says so."""
    current = in_force(ctx, generation.window)
    if current is None or current.digest != generation.digest or not daily.same_ground(ctx, generation, current):
        return None
    if give_up.give_up(ctx, generation, f"content equals generation {current.number}") is not None:
        return None  # readers may have met it: it goes on
    ctx.say(f"unchanged: the rebuilt content equals generation {current.number} (digest {current.digest[:12]})")
    return current
