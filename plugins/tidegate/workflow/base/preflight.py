"""The preflight of a task (R11): asks storage, and the source, whether the ledger has lost commits, before anything is
planned, closed, published or deleted. `core.restore.ahead` decides.

`check` is for what plans, closes or deletes, `check_given_up` for what closes, `check_publications` for what publishes
or fixes a generation, `check_source` for what reads on.
"""

from __future__ import annotations

from tidegate.core.base.errors import LostComparison, SourceError, SourceUnavailable
from tidegate.core.batch.planning import PlanningView
from tidegate.core.batch.states import SealedBatch
from tidegate.core.restore import ahead
from tidegate.core.restore.record import GenerationRecord
from tidegate.core.target.paths import parse_assembly
from tidegate.core.window.cut import window_from
from tidegate.core.window.states import CLOSING, BuildingGeneration, WindowKey
from tidegate.workflow.base import records
from tidegate.workflow.base.context import ATTEMPTS, Context
from tidegate.workflow.base.renames import MovedOn


def check(ctx: Context, next_batch_id: int | None = None) -> None:
    """Raises StorageAhead with what storage has that the ledger does not know.

    `next_batch_id`: as the caller's look at the ledger said, by default asked here. Batch ids have no holes, so one
    look at the next id is enough. Another run may plan and land that very batch between the look at the ledger and
    this one at storage: the ledger is read again before the alarm (R10)."""
    looked = _planned_next(ctx) if next_batch_id is None else next_batch_id
    for _ in range(ATTEMPTS):
        path = _taken(ctx, looked)
        if path is None:
            return check_publications(ctx)
        known = _planned_next(ctx)
        if known == looked:
            records.batch_record(ctx, looked)  # raises if it is a pipeline's of another name
            raise ahead.unknown_batch(ctx.name, looked, path)
        looked = known
    raise LostComparison(f"{ctx.name}: the ledger moved {ATTEMPTS} times while storage was compared with it")


def _taken(ctx: Context, batch_id: int) -> str | None:
    """The path by which storage says that there was a batch of this id; None if it says nothing of it."""
    paths = (ctx.layout.high_water_mark(batch_id), ctx.layout.landed(batch_id))
    return next((path for path in paths if ctx.storage.exists(path)), None)


def _planned_next(ctx: Context) -> int:
    """The id that the next batch will get."""
    row = ctx.ledger.pipelines.row(ctx.name)
    return 1 if row is None else row.next_batch_id


def check_publications(ctx: Context) -> None:
    """Raises StorageAhead. Asked before anything is published or put right: a publication by a ledger that is behind
    would make it look new, and its catalogue would bring an old generation back."""
    unknown = unknown_publications(ctx)
    for start in ahead.held_against_the_close(unknown):
        key = window_from(start, ctx.pipeline.windows)
        if ctx.ledger.windows.get(ctx.name, key).state == CLOSING:
            del unknown[start, 1]
    if unknown:
        records.generation_record(ctx, next(iter(unknown.values())))  # raises if it is a pipeline's of another name
        raise ahead.unknown_publications(ctx.name, unknown)


def check_given_up(ctx: Context) -> None:
    """Raises StorageAhead if the newest batch was given up though it has landed: a window that closes now would be
    without its rows. Leaves the batch's mark if it has none, so that it cannot land later."""
    records.mark_if_abandoned(ctx, _planned_next(ctx) - 1)


def check_source(ctx: Context, view: PlanningView) -> None:
    """Raises StorageAhead if this very ledger once told the source of offsets that it does not remember planning."""
    if view.accepted_topic_id is None or not ctx.source.traits.remembers:
        return  # storage is the only witness
    topic = ctx.pipeline.source.topic
    try:
        told = ctx.source.remembered(group_of(ctx), topic, group_mark(ctx, view.accepted_topic_id, view.rewound))
    except SourceUnavailable:
        raise
    except SourceError as e:
        ctx.say(f"the consumer group was not compared with the ledger: {str(e).splitlines()[0]}")
        return
    if not ahead.beyond(told, view):
        return
    now = ctx.ledger.batches.planning_view(ctx.name)  # R10: another run may have landed a batch since `view` was read
    if now.accepted_topic_id != view.accepted_topic_id:
        return  # these are offsets of a topic that is not read any more; the plan, being of the old one, is refused
    for partition, offset in ahead.beyond(told, now):
        group = f"{ctx.kind.title}'s group {group_of(ctx)}"
        raise ahead.unplanned_offset(ctx.name, group, partition, offset, now)


def landed(ctx: Context, batch: SealedBatch) -> bool:
    """Whether storage says that this very attempt has landed. Raises StorageAhead for the mark of another attempt: a
    task of a ledger that lost commits has landed this id."""
    batch_id = batch.plan.batch_id
    record = records.batch_record(ctx, batch_id)
    if record is None:
        if not ctx.storage.exists(ctx.layout.high_water_mark(batch_id)):
            return False
        record = records.batch_record(ctx, batch_id)  # another task may have written it between the two looks
    if record is None:
        return True
    if ahead.other_attempt(record, batch.nonce):
        if ctx.ledger.batches.get(ctx.name, batch_id) != batch:  # R10: before any alarm
            raise MovedOn
        raise ahead.unknown_attempt(batch_id)
    return True


def group_of(ctx: Context) -> str:
    return f"tidegate-{ctx.name}"


def group_mark(ctx: Context, topic_id: str, rewound: int = 0) -> str:
    """Written with the group's offsets: another environment may use the same group on the same cluster. `rewound`: the
    batch after which reading went back; what was told before says nothing of what was planned since."""
    return f"{ctx.ledger.recovery.identity(ctx.name)} {topic_id}" + (f" {rewound}" if rewound else "")


def unknown_publications(ctx: Context, of_all_days: bool = False) -> dict[tuple[int, int], str]:
    """(window start UTC ms, generation) -> path of the record, for those that the ledger has no row of."""
    since_ms = None if of_all_days else ctx.ledger.recovery.newest_publication_ms(ctx.name)
    if since_ms is not None:
        since_ms = min(since_ms, ctx.ledger.now_ms())  # a release before had it from its host, days ahead perhaps
    marks = records.publication_marks(ctx, since_ms)
    if not marks:
        return {}
    unknown = ctx.ledger.recovery.unknown_generations(ctx.name, marks)
    return {key: marks[key] for key in unknown}


def held_late(ctx: Context, window: WindowKey) -> tuple[int, ...]:
    """Batches whose late rows the generation in force holds."""
    current = ctx.ledger.windows.get(ctx.name, window).current
    if current is None:
        return ()
    return ctx.ledger.windows.generation(ctx.name, window, current).late


def recorded_as_built(ctx: Context, generation: BuildingGeneration) -> GenerationRecord | None:
    """The record of a generation that the ledger still believes to be building: it forgot BUILT.

    However much was published since: its task may come back days later. Raises StorageAhead if the record is of other
    batches than the ledger's."""
    begun_ms = ctx.ledger.recovery.begun_ms(ctx.name, generation.window, generation.number)
    marks = records.publication_marks(ctx, begun_ms)
    path = marks.get((generation.window.start_ms, generation.number))
    if path is None:
        return None
    record = records.generation_record(ctx, path)
    data = set(generation.batches) - set(generation.late)
    wrong = ahead.contradiction(record, data, held_late(ctx, generation.window))
    if wrong is not None:
        raise ahead.contradicted(record, wrong)
    return record


def highest_epoch(ctx: Context, window: WindowKey, number: int) -> int:
    """The highest epoch for which a directory of this generation exists, 0 for none.

    A ledger that lost commits counts epochs anew: directories of the lost ones must lie below the next (R3)."""
    found = [0]
    for folder in (ctx.layout.assemblies(), ctx.layout.generations()):
        for name in ctx.storage.list_names(folder) or []:
            mark = parse_assembly(name)
            if mark is not None and (mark.window_ms, mark.number) == (window.start_ms, number):
                found.append(mark.epoch)
    return max(found)
