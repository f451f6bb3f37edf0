"""Redrive: dirty rows become data once the spec is fixed, by a batch of their own.

Planned here, written and landed as any other batch: the task that finds it open goes on with it. Kafka is not read; it
takes its rows from the dirty files of landed batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tidegate.core.base.errors import (
    BehindBatch,
    LedgerError,
    LostComparison,
    NotReady,
    SpecError,
    StepMissing,
    TidegateError,
)
from tidegate.core.base.wording import many
from tidegate.core.batch.planning import PlanningView
from tidegate.core.batch.rules_version import rules_of_redrive
from tidegate.core.batch.states import REDRIVE, AbandonedBatch, Batch, LandedBatch, Plan
from tidegate.core.dirty import redrive
from tidegate.core.dirty.redrive import Ask, Cause, Choice, DirtyBatch, DirtyReader, source_batches
from tidegate.core.window.lateness import floor_of
from tidegate.core.window.plausibility import horizon_ms
from tidegate.core.window.zonedata import pinned
from tidegate.workflow.base import preflight, records, tables, zone_data
from tidegate.workflow.base.context import ATTEMPTS, Context, guard
from tidegate.workflow.batch import ingest, landing
from tidegate.workflow.side import dirty_files


@dataclass(frozen=True, kw_only=True)
class Redriven:
    """How a redrive ended. `refused`: why it was given up, then nothing has changed."""

    batch_id: int
    sources: tuple[int, ...]
    rows: int
    data: int = 0
    late: int = 0
    dirty: int = 0
    filtered: int = 0
    dropped: int = 0
    rerouted: int = 0
    refused: str = ""

    @property
    def words(self) -> str:
        """The outcome for people."""
        of = f"batch {self.sources[0]}" if len(self.sources) == 1 else f"{many(len(self.sources), 'batch')}"
        name = f"batch {self.batch_id} (redrive of {many(self.rows, 'dirty row')} of {of})"
        if self.refused:
            return f"{name} was given up, every row stays where it is: {self.refused}"
        return f"{name}: {redrive.counted({k: getattr(self, k) for k in redrive.KINDS})}"


def preview(ctx: Context, wanted: Sequence[int] | None = None) -> Choice:
    """What the next redrive would take up; nothing is written. Raises SpecError, StepMissing."""
    _refuse_spec(ctx)
    return _choice(ctx, ctx.ledger.redrives.dirty_batches(ctx.name), wanted, None)


def plan(
    ctx: Context, run: str, wanted: Sequence[int] | None = None, below: int | None = None, copies: bool = False
) -> int | None:
    """Plan a redrive and bind `run` to it; an open one is gone on with. None: nothing is dirty.

    `wanted`: batches whose dirty rows are asked for, by default all of them; `below`: only ids below this one;
    `copies`: rows that are copies from another site are taken, too. Raises
    BehindBatch while another batch is open; NotReady while dirty rows are not in their table yet; SpecError where rows
    cannot be redriven; StepMissing for what is not dirty, and while a batch waits for a human."""
    guard(ctx)
    _refuse_spec(ctx)
    bound = ctx.ledger.batches.bound(ctx.name, run)
    if bound is not None:
        ctx.say(f"this belongs to batch {bound}")
        return bound
    for _ in range(ATTEMPTS):
        landing.finish_side_duties(ctx)
        view = ctx.ledger.batches.planning_view(ctx.name)
        if view.open_batch is not None:
            return _join(ctx, run, view.open_batch)
        preflight.check(ctx, view.next_batch_id)
        records.mark_if_abandoned(ctx, view.next_batch_id - 1)
        found = ctx.ledger.redrives.dirty_batches(ctx.name)
        choice = _choice(ctx, found, wanted, below)
        if not choice.chosen:
            _refuse_unsettled(ctx, [i for i in _unsettled(found, wanted) if below is None or i < below])
            return None
        made = planned(ctx, view, choice, copies)
        zone_data.refuse_to_plan(ctx, made.floor)
        tables.before_planning(ctx)
        try:
            ctx.ledger.batches.insert_plan(made, view.version, run)
        except LostComparison:
            continue  # somebody planned, closed a window or redrove meanwhile: gather again
        ids = source_batches(made)
        ctx.say(
            f"planned batch {made.batch_id}: redrive of {many(made.records, 'dirty row')} of {many(len(ids), 'batch')}"
        )
        return made.batch_id
    raise LostComparison(f"{ctx.name}: the ledger moved {ATTEMPTS} times while planning")


def all_of(
    ctx: Context, wanted: Sequence[int] | None, wait: Callable[[TidegateError], None], copies: bool = False
) -> Iterator[Redriven]:
    """Redrive after redrive, until each batch that has dirty rows now was tried once.

    `wait(error)` lets some time pass where somebody else works on the open batch; it raises the error when that takes
    too long. Raises what `plan` and `carry_out` raise."""
    _refuse_spec(ctx)
    dirty = ctx.ledger.redrives.dirty_batches(ctx.name)
    first = _choice(ctx, dirty, wanted, None)
    left = {*(b.batch_id for b in first.chosen), *first.left, *_unsettled(dirty, wanted)}
    while left:
        run = f"redrive/{ctx.nonce()}"
        batch_id = _planned(ctx, run, left, wait, copies)
        if batch_id is None:
            return
        found = _carried_out(ctx, run, batch_id, wait)
        left.difference_update(found.sources)
        yield found
        left.intersection_update(b.batch_id for b in ctx.ledger.redrives.dirty_batches(ctx.name))


def _planned(
    ctx: Context, run: str, wanted: set[int], wait: Callable[[TidegateError], None], copies: bool
) -> int | None:
    """Plan; behind an open batch ask for the next turn, so that no backlog holds it up."""
    ask: Ask | None = None
    try:
        while True:
            try:
                return plan(ctx, run, sorted(wanted), copies=copies)
            except (BehindBatch, LostComparison) as e:
                ask = _ask(ctx, ask)
                wait(e)
            except NotReady as e:
                _withdraw(ctx, ask)
                ask = None
                wait(e)
    finally:
        _withdraw(ctx, ask)


def _ask(ctx: Context, old: Ask | None) -> Ask | None:
    try:
        return ctx.ledger.redrives.ask(ctx.name, old)
    except LostComparison:  # this command stood still for longer than its ask lasts
        return None


def _withdraw(ctx: Context, ask: Ask | None) -> None:
    try:
        if ask is not None:
            ctx.ledger.redrives.withdraw(ctx.name, ask)
    except LedgerError as e:
        ctx.say(f"this redrive's turn is not taken back, it lapses by itself: {e}")


def _carried_out(ctx: Context, run: str, batch_id: int, wait: Callable[[TidegateError], None]) -> Redriven:
    """Carry it out; a command that has lost the batch to another waits for that one, and takes nothing back."""
    try:
        return carry_out(ctx, run)
    except (LostComparison, NotReady) as e:
        while True:
            wait(e)
            try:
                return outcome(ctx, ctx.ledger.batches.get(ctx.name, batch_id))
            except NotReady:
                continue


def causes(ctx: Context, reader: DirtyReader, batches: Iterable[int]) -> tuple[list[Cause], list[str]]:
    """Why rows of these batches are dirty, by field and reason; and what could not be read."""
    found: list[Cause] = []
    notes: list[str] = []
    for batch_id in batches:
        files = [source.uris for source in dirty_files.sources(ctx, [batch_id])]
        told, unread = reader.causes(batch_id, files)
        found += told
        notes += [unread] if unread else []
    return redrive.together(found), notes


def carry_out(ctx: Context, run: str) -> Redriven:
    """Write and land the run's redrive. Can be run again, and by two at once. Raises what a task would."""
    ingest.write(ctx, run)
    ingest.land(ctx, run)
    batch_id = ctx.ledger.batches.bound(ctx.name, run)
    if batch_id is None:
        raise StepMissing(f"{ctx.name}: {run} has planned no redrive")
    return outcome(ctx, ctx.ledger.batches.get(ctx.name, batch_id))


def outcome(ctx: Context, batch: Batch) -> Redriven:
    """Raises NotReady for a redrive that is still open."""
    found = Redriven(batch_id=batch.plan.batch_id, sources=source_batches(batch.plan), rows=batch.plan.records)
    if isinstance(batch, AbandonedBatch):
        return replace(found, refused=batch.reason)
    if not isinstance(batch, LandedBatch):
        raise NotReady(f"batch {found.batch_id} is {batch.state}: somebody else works on it")
    rows: dict[str, Any] = ctx.ledger.redrives.counts(ctx.name, found.batch_id)  # by the names of its fields
    return replace(found, **rows)


# ---------------------------------------------------------------- deciding


def _refuse_spec(ctx: Context) -> None:
    if not ctx.pipeline.kafka_columns:
        raise SpecError(
            f"{ctx.name}: its rows do not carry their Kafka offsets: a redriven row could not be told from a double",
            field="kafka_columns: false",
            advice="set kafka_columns: true; rows that land from then on can be redriven",
        )
    column = redrive.of_headers(ctx.pipeline)
    if column is not None:
        raise SpecError(
            f"{ctx.name}: dirty rows are kept without Kafka's headers, so the column {column} could not be filled",
            field=f"columns.{column}",
            advice="rows that need their headers cannot be redriven: read the raw bytes from the dirty table",
        )


def _join(ctx: Context, run: str, batch: Batch) -> int:
    batch_id = batch.plan.batch_id
    refused = ctx.ledger.batches.refusal(ctx.name, batch_id)
    if refused is not None:
        raise StepMissing(
            f"{ctx.name}: batch {batch_id} was refused, and only one batch is open at a time: {refused.first_line}",
            advice=refused.helps(ctx.name, batch_id),
        )
    if not batch.plan.is_redrive:
        raise BehindBatch(f"{ctx.name}: batch {batch_id} is {batch.state}, and only one batch is open at a time")
    ctx.say(f"batch {batch_id} is a redrive and {batch.state}: this goes on with it")
    return ctx.ledger.batches.bind(ctx.name, run, batch_id)


def _choice(ctx: Context, found: list[DirtyBatch], wanted: Sequence[int] | None, below: int | None) -> Choice:
    if wanted is not None:
        unknown = sorted(set(wanted) - {b.batch_id for b in found})
        if unknown:
            raise StepMissing(
                f"{ctx.name}: batch {unknown[0]} has no dirty rows of its own",
                advice=f"`tidegate dirty {ctx.name}` lists the batches that have; redriven rows belong to the redrive",
            )
    late = _unsettled(found, wanted)
    if late:
        ctx.say(f"left out: dirty rows of batch {late[0]} and {len(late) - 1} more are not in the dirty table yet")
    return redrive.choose([b for b in found if b.settled], wanted, below)


def _unsettled(found: list[DirtyBatch], wanted: Sequence[int] | None) -> list[int]:
    return [b.batch_id for b in found if not b.settled and (wanted is None or b.batch_id in wanted)]


def _refuse_unsettled(ctx: Context, batches: list[int]) -> None:
    if batches:
        raise NotReady(
            f"{ctx.name}: dirty rows of batch {batches[0]} and {len(batches) - 1} more are not in the dirty table yet",
            advice="the lines above say why; try again once the tables' catalogue answers",
        )


def planned(ctx: Context, view: PlanningView, choice: Choice, copies: bool = False) -> Plan:
    """The batch of the chosen rows, by today's spec, clock and windows. `copies`: as `plan`."""
    first, clock_ms = choice.chosen[0], ctx.clock.now_ms()
    return Plan(
        pipeline=ctx.name,
        batch_id=view.next_batch_id,
        revision=1,
        spec_version=ctx.spec_version,
        rules_version=rules_of_redrive(ctx.pipeline, copies),
        topic=first.topic,
        topic_id=first.topic_id,
        clock_ms=clock_ms,
        floor=floor_of(ctx.pipeline.windows, view.not_open, clock_ms, ctx.pipeline.late_policy),
        partitions=(),
        kind=REDRIVE,
        sources=choice.sources,
        zone=pinned(ctx.pipeline.windows, horizon_ms(ctx.pipeline.event_time, clock_ms)),
    )
