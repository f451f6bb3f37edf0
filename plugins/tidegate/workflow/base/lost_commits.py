"""Notices a ledger that lost commits (R11): storage or Kafka's consumer group knows more than the ledger. Then nothing
new is planned or closed.

A database that fails over may forget its last commits, one that is restored from a backup forgets a day. What they
decided has happened all the same: planning from such a ledger would read offsets twice.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.core.base.errors import LostComparison, SourceError, SourceUnavailable, StorageAhead
from tidegate.core.base.instants import iso
from tidegate.core.batch.planning import PlanningView
from tidegate.core.restore.record import GenerationRecord, contradiction
from tidegate.core.target.paths import parse_assembly
from tidegate.core.window.cut import window_end
from tidegate.core.window.states import CLOSING, BuildingGeneration, WindowKey
from tidegate.workflow.base import records
from tidegate.workflow.base.context import ATTEMPTS, Context

SHOWN = 3


def refuse_if_ahead(ctx: Context, next_batch_id: int) -> None:
    """Raises StorageAhead with what storage has that the ledger does not know.

    Batch ids have no holes, so one look at the next id is enough. Another run may plan and land that very batch between
    the caller's look at the ledger and this one at storage: the ledger is read again before the alarm (R10)."""
    for _ in range(ATTEMPTS):
        path = _taken(ctx, next_batch_id)
        if path is None:
            return refuse_unknown_publications(ctx)
        known = planned_next(ctx)
        if known == next_batch_id:
            records.batch_record(ctx, next_batch_id)  # raises if it is a pipeline's of another name
            raise StorageAhead(f"{ctx.name}: the ledger's next batch is {next_batch_id}, but {path} exists")
        next_batch_id = known
    raise LostComparison(f"{ctx.name}: the ledger moved {ATTEMPTS} times while storage was compared with it")


def _taken(ctx: Context, batch_id: int) -> str | None:
    """The path by which storage says that there was a batch of this id; None if it says nothing of it."""
    paths = (ctx.layout.high_water_mark(batch_id), ctx.layout.landed(batch_id))
    return next((path for path in paths if ctx.storage.exists(path)), None)


def planned_next(ctx: Context) -> int:
    """The id that the next batch will get."""
    row = ctx.ledger.pipelines.row(ctx.name)
    return 1 if row is None else row.next_batch_id


def refuse_unknown_publications(ctx: Context) -> None:
    """Raises StorageAhead. Asked before anything is published or put right: a publication by a ledger that is behind
    would make it look new, and its catalogue would bring an old generation back."""
    name = ctx.name
    unknown = _not_closing(ctx, unknown_publications(ctx))
    if unknown:
        records.generation_record(ctx, next(iter(unknown.values())))  # raises if it is a pipeline's of another name
        shown = ", ".join(f"generation {number} of {iso(start)}" for start, number in list(unknown)[:SHOWN])
        more = f" and {len(unknown) - SHOWN} more" if len(unknown) > SHOWN else ""
        raise StorageAhead(f"{name}: storage has records of publications that the ledger does not know: {shown}{more}")


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


def _not_closing(ctx: Context, unknown: dict[tuple[int, int], str]) -> dict[tuple[int, int], str]:
    """Without first generations of windows that are CLOSING: what they are of is decided when the window is CLOSED, and
    the record is held against that (R14)."""
    left = dict(unknown)
    for start, number in unknown:
        key = WindowKey(start, window_end(start, ctx.pipeline.windows))
        alone = number == 1 and not any(s == start and n > 1 for s, n in unknown)
        if alone and ctx.ledger.windows.get(ctx.name, key).state == CLOSING:
            del left[start, number]
    return left


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
    wrong = contradiction(record, data, held_late(ctx, generation.window))
    if wrong is not None:
        raise StorageAhead(f"{iso(generation.window.start_ms)}: {wrong.why}")
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


def refuse_if_group_is_ahead(ctx: Context, view: PlanningView) -> None:
    """Raises StorageAhead if this very ledger once told Kafka of offsets that it does not remember planning."""
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
    if not _beyond(told, view):
        return
    now = ctx.ledger.batches.planning_view(ctx.name)  # R10: another run may have landed a batch since `view` was read
    if now.accepted_topic_id != view.accepted_topic_id:
        return  # these are offsets of a topic that is not read any more; the plan, being of the old one, is refused
    for partition, offset in _beyond(told, now):
        planned = now.planned_ends.get(partition)
        raise StorageAhead(
            f"{ctx.name}: {ctx.kind.title}'s group {group_of(ctx)} is at offset {offset} of partition {partition}, "
            f"the ledger has planned up to {planned if planned is not None else 'nothing'}"
        )


def _beyond(told: Mapping[int, int], view: PlanningView) -> list[tuple[int, int]]:
    """(partition, offset) of which Kafka was told, though the ledger has not planned as far."""
    return sorted((p, offset) for p, offset in told.items() if offset > view.planned_ends.get(p, -1))


def group_of(ctx: Context) -> str:
    return f"tidegate-{ctx.name}"


def group_mark(ctx: Context, topic_id: str, rewound: int = 0) -> str:
    """Written with the group's offsets: another environment may use the same group on the same cluster. `rewound`: the
    batch after which reading went back; what was told before says nothing of what was planned since."""
    return f"{ctx.ledger.recovery.identity(ctx.name)} {topic_id}" + (f" {rewound}" if rewound else "")
