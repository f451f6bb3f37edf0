"""Whether storage or Kafka's consumer group knows more than the ledger (R11): then nothing new is planned or closed.

A database that fails over may forget its last commits, one that is restored from a backup forgets a day. What they
decided has happened all the same: planning from such a ledger would read offsets twice.
"""

from __future__ import annotations

from tidegate.core.errors import SourceError, SourceUnavailable, StorageAhead
from tidegate.core.instants import iso
from tidegate.core.layout import parse_assembly
from tidegate.core.planning import PlanningView
from tidegate.core.record import GenerationRecord
from tidegate.core.window import BuildingGeneration, WindowKey
from tidegate.workflow import records
from tidegate.workflow.context import Context

SHOWN = 3


def refuse_if_ahead(ctx: Context, next_batch_id: int) -> None:
    """Raises StorageAhead with what storage has that the ledger does not know.

    Batch ids have no holes, so one look at the next id is enough."""
    name, layout = ctx.name, ctx.layout
    for path in (layout.high_water_mark(next_batch_id), layout.landed(next_batch_id)):
        if ctx.storage.exists(path):
            raise StorageAhead(f"{name}: the ledger's next batch is {next_batch_id}, but {path} exists")
    refuse_unknown_publications(ctx)


def refuse_unknown_publications(ctx: Context) -> None:
    """Raises StorageAhead. Asked before anything is published or put right: a publication by a ledger that is behind
    would make it look new, and its catalogue would bring an old generation back."""
    name = ctx.name
    unknown = unknown_publications(ctx)
    if unknown:
        shown = ", ".join(f"generation {number} of {iso(start)}" for start, number in list(unknown)[:SHOWN])
        more = f" and {len(unknown) - SHOWN} more" if len(unknown) > SHOWN else ""
        raise StorageAhead(f"{name}: storage has records of publications that the ledger does not know: {shown}{more}")


def unknown_publications(ctx: Context, of_all_days: bool = False) -> dict[tuple[int, int], str]:
    """(window start UTC ms, generation) -> path of the record, for those that the ledger has no row of."""
    since_ms = None if of_all_days else ctx.ledger.recovery.newest_publication_ms(ctx.name)
    marks = records.publication_marks(ctx, since_ms)
    if not marks:
        return {}
    unknown = ctx.ledger.recovery.unknown_generations(ctx.name, marks)
    return {key: marks[key] for key in unknown}


def recorded_as_built(ctx: Context, generation: BuildingGeneration) -> GenerationRecord | None:
    """The record of a generation that the ledger still believes to be building: it forgot BUILT.

    Raises StorageAhead if the record is of other batches than the ledger's."""
    marks = records.publication_marks(ctx, ctx.ledger.recovery.newest_publication_ms(ctx.name))
    path = marks.get((generation.window.start_ms, generation.number))
    if path is None:
        return None
    record = records.generation_record(ctx, path)
    if tuple(sorted(record.batches)) != tuple(sorted(generation.batches)):
        raise StorageAhead(
            f"{iso(generation.window.start_ms)}: generation {generation.number} was built of batches "
            f"{list(record.batches)}, the ledger knows of {list(generation.batches)}"
        )
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
    if view.accepted_topic_id is None:
        return
    topic = ctx.pipeline.source.topic
    try:
        told = ctx.source.committed_group(group_of(ctx), topic, group_mark(ctx, view.accepted_topic_id))
    except SourceUnavailable:
        raise
    except SourceError as e:
        ctx.say(f"the consumer group was not compared with the ledger: {str(e).splitlines()[0]}")
        return
    for partition, offset in sorted(told.items()):
        planned = view.planned_ends.get(partition)
        if planned is None or offset > planned:
            raise StorageAhead(
                f"{ctx.name}: Kafka's group {group_of(ctx)} is at offset {offset} of partition {partition}, "
                f"the ledger has planned up to {planned if planned is not None else 'nothing'}"
            )


def group_of(ctx: Context) -> str:
    return f"tidegate-{ctx.name}"


def group_mark(ctx: Context, topic_id: str) -> str:
    """Written with the group's offsets: another environment may use the same group on the same cluster."""
    return f"{ctx.ledger.recovery.identity(ctx.name)} {topic_id}"
