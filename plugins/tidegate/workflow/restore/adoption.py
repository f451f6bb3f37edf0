"""`tidegate repair --adopt`: rows that the ledger lost come back from what storage recorded (R11).

Batches first, in the order of their ids, then the generations of windows. Every step is one of the protocol's own, so
that an adoption which ends half-way is gone on with by calling it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from tidegate.core.base.errors import CatalogueError, LostComparison, StorageAhead
from tidegate.core.base.instants import iso
from tidegate.core.base.renames import Seen
from tidegate.core.base.wording import many
from tidegate.core.batch.planning import PlanningView
from tidegate.core.batch.states import AbandonedBatch, OpenBatch, Plan, PlannedBatch, SealedBatch, WritingBatch
from tidegate.core.restore.ahead import Contradiction, same_plan
from tidegate.core.restore.record import BatchRecord, GenerationRecord
from tidegate.core.source.stretches import never_read
from tidegate.core.window.states import (
    BUILT,
    CURRENT,
    DISCARDED,
    RETIRED,
    GenerationState,
    Moved,
    PublishedGeneration,
    WindowKey,
)
from tidegate.workflow.base import preflight, records
from tidegate.workflow.base.context import Context
from tidegate.workflow.base.in_force import in_force
from tidegate.workflow.base.renames import look, manifest_of, try_rename
from tidegate.workflow.batch import landing, sealing
from tidegate.workflow.publish import verification
from tidegate.workflow.restore import contradiction


@dataclass(frozen=True)
class Survey:
    """What storage knows beyond the ledger. `withdraw` is an open batch whose id storage gave to another one, or one
    that was given up though it has landed.

    `unrecorded` are landed directories (URIs) without a record: LANDED is only said after the record, so no ledger
    ever counted their rows, and their offsets are read again. `contradicting` are those of `generations` that record
    and ledger disagree on as things stand: they are set aside, or refused. `obstacles` are what only a human can
    decide; with any of them nothing is adopted."""

    withdraw: OpenBatch | AbandonedBatch | None
    batches: tuple[BatchRecord, ...]
    generations: tuple[GenerationRecord, ...]
    unrecorded: tuple[str, ...] = ()
    obstacles: tuple[str, ...] = ()
    contradicting: tuple[tuple[GenerationRecord, Contradiction], ...] = ()

    @property
    def nothing(self) -> bool:
        return not (self.withdraw or self.batches or self.generations or self.unrecorded or self.obstacles)


def survey(ctx: Context) -> Survey:
    """Looks only. Raises StorageAhead for records that cannot be read."""
    row = ctx.ledger.pipelines.row(ctx.name)
    found: list[BatchRecord] = []
    unrecorded: list[str] = []
    withdraw: OpenBatch | AbandonedBatch | None = None
    open_batch = ctx.ledger.batches.open(ctx.name)
    if open_batch is not None:
        record = records.batch_record(ctx, open_batch.plan.batch_id)
        if record is not None:
            found.append(record)
            withdraw = None if _is_of(record, open_batch) else open_batch
        elif _of_another_plan(ctx, open_batch):
            unrecorded.append(ctx.layout.landed(open_batch.plan.batch_id))
    batch_id = 1 if row is None else row.next_batch_id
    given_up = _landed_all_the_same(ctx, batch_id - 1)
    if given_up is not None:
        withdraw, record = given_up
        found.append(record)
    while (record := records.batch_record(ctx, batch_id)) is not None:
        found.append(record)
        batch_id += 1
    obstacles: tuple[str, ...] = ()
    if ctx.storage.exists(ctx.layout.high_water_mark(batch_id)):
        obstacles = (f"{ctx.layout.high_water_mark(batch_id)} is empty: batch {batch_id} cannot be rebuilt from it",)
    elif ctx.storage.exists(ctx.layout.landed(batch_id)):
        unrecorded.append(ctx.layout.landed(batch_id))
    unknown = preflight.unknown_publications(ctx, of_all_days=True)
    generations = [records.generation_record(ctx, path) for path in unknown.values()]
    generations += _overtaken(ctx, unknown)
    generations += contradiction.begun_anew(ctx, {(g.window.start_ms, g.number) for g in generations})
    # in the order in which they were published: what an adoption that dies has not come to must not look old
    generations.sort(key=lambda g: (g.recorded_ms, g.window.start_ms, g.number))
    # batches that come back first bring windows their rows
    disagree = [(g, contradiction.contradiction_of(ctx, g)) for g in generations] if not found else []
    contradicting = tuple((g, wrong) for g, wrong in disagree if wrong is not None)
    return Survey(withdraw, tuple(found), tuple(generations), tuple(unrecorded), obstacles, contradicting)


def _overtaken(ctx: Context, unknown: dict[tuple[int, int], str]) -> Iterator[GenerationRecord]:
    """Generations that the ledger believes to be on their way, though a later one was published: no other task would
    ever finish them, and nothing of their windows would be cleaned."""
    newest = dict(sorted(unknown))  # window start -> number of its last one
    for (start, number), path in records.publication_marks(ctx, None).items() if unknown else ():
        if (start, number) in unknown or number > newest.get(start, 0):
            continue
        record = records.generation_record(ctx, path)
        known = ctx.ledger.windows.generation(ctx.name, record.window, number)
        if not isinstance(known, PublishedGeneration) and getattr(known, "state", "") != DISCARDED:
            yield record


def _landed_all_the_same(ctx: Context, batch_id: int) -> tuple[AbandonedBatch, BatchRecord] | None:
    """The newest batch, if the ledger has given it up and storage has the record of its landing: a ledger that had
    lost a commit knew no better. What was planned after it would have met that record."""
    batch = ctx.ledger.batches.get(ctx.name, batch_id) if batch_id else None
    if not isinstance(batch, AbandonedBatch):
        return None
    record = records.batch_record(ctx, batch_id)
    return None if record is None or record.manifest is None else (batch, record)


def _is_of(record: BatchRecord, batch: OpenBatch) -> bool:
    """A sealed batch has its own manifest; one that is not sealed yet takes the recorded one."""
    if isinstance(batch, SealedBatch):
        return record.manifest is not None and record.manifest.nonce == batch.nonce
    return same_plan(record.plan, batch.plan)


def _of_another_plan(ctx: Context, batch: OpenBatch) -> bool:
    if isinstance(batch, SealedBatch):
        return False  # what has landed is compared with its manifest by the land task (R10)
    try:
        sealing.landed_receipt(ctx, batch)
    except StorageAhead:
        return ctx.storage.exists(ctx.layout.landed(batch.plan.batch_id))
    return False


def adopt(ctx: Context, found: Survey, why: str) -> list[str]:
    """What was done, in words. Raises StorageAhead where record and ledger contradict each other."""
    if found.obstacles:
        raise StorageAhead(f"{ctx.name}: {found.obstacles[0]}", advice="restore the ledger from a newer backup")
    done: list[str] = []

    def say(line: str) -> None:
        ctx.say(line)
        done.append(line)

    if found.withdraw is not None:
        ctx.ledger.recovery.withdraw(found.withdraw, why)
        say(f"withdrawn: batch {found.withdraw.plan.batch_id} as the ledger had it ({found.withdraw.state})")
    for path in found.unrecorded:
        quarantine = ctx.layout.quarantine(f"landed-{path.rsplit('/', 1)[1]}-{ctx.nonce()}")
        try_rename(ctx.storage, path, quarantine)
        say(f"set aside: {path} was never counted by any ledger; its offsets are read again (now at {quarantine})")
    for record in found.batches:
        _adopt_batch(ctx, record, why)
        what = "abandoned" if record.manifest is None else f"{many(record.manifest.rows, 'row')}"
        say(f"adopted: batch {record.plan.batch_id} ({what})")
    for generation in found.generations:
        _adopt_generation(ctx, generation, found.generations, why, say)
    return done


# ---------------------------------------------------------------- batches


def _adopt_batch(ctx: Context, record: BatchRecord, why: str) -> None:
    """Through the states, each by its own comparison: PLANNED, SEALED by adoption, LANDED; or ABANDONED."""
    ledger, name = ctx.ledger, ctx.name
    version = ledger.pipelines.register(record.spec, record.fingerprint)
    plan = replace(record.plan, spec_version=version)
    if record.resumed:
        ledger.cuts.restore(name, record.resumed)
    view = ledger.batches.planning_view(name)
    if plan.batch_id >= view.next_batch_id:
        view = _accept_topic(ctx, plan, view, why)
        _refuse_unless_continuous(plan, view)
        ledger.batches.insert_plan(plan, view.version, None)
    _accept_active_site(ctx, why)
    batch = ledger.batches.get(name, plan.batch_id)
    if record.manifest is None:
        if isinstance(batch, PlannedBatch | WritingBatch):
            ledger.batches.abandon(batch, record.abandoned or why)
        return
    if isinstance(batch, PlannedBatch | WritingBatch):
        batch = ledger.batches.adopt(batch, replace(record.manifest, spec_version=version))
    if isinstance(batch, SealedBatch):
        landing.land_sealed(ctx, batch)
    elif isinstance(batch, AbandonedBatch):
        raise StorageAhead(
            f"batch {plan.batch_id} was given up in the ledger while its record was being adopted",
            advice="run the same command again: it looks anew, and takes the batch as it has landed",
        )


def _accept_topic(ctx: Context, plan: Plan, view: PlanningView, why: str) -> PlanningView:
    """The ledger also forgot that an operator had accepted a recreated topic."""
    if plan.is_redrive or view.accepted_topic_id in (None, plan.topic_id):
        return view  # a redrive's rows come from files, of whatever topic they were
    ctx.ledger.pipelines.accept_topic(ctx.name, view.accepted_topic_id, plan.topic_id, f"batch {plan.batch_id}: {why}")
    return ctx.ledger.batches.planning_view(ctx.name)


def _accept_active_site(ctx: Context, why: str) -> None:
    """A batch of the site before, adopted behind the switch, leaves the topic that the switch has made the accepted one
    (F4). Asked while the batch is not done: a try that dies here comes back to it."""
    newest = ctx.ledger.failovers.newest(ctx.name)
    if newest is None:
        return
    before, active = newest.certificate.before_topic_id, newest.certificate.topic_id
    if ctx.ledger.batches.planning_view(ctx.name).accepted_topic_id == before:
        ctx.ledger.pipelines.accept_topic(ctx.name, before, active, f"site {newest.site} is active: {why}")


def _refuse_unless_continuous(plan: Plan, view: PlanningView) -> None:
    """A record continues where the ledger's newest batch ends; else offsets would be left out, or doubled."""
    losses = {(x.partition, x.start): x.end for x in plan.losses}
    for p in plan.partitions:
        due = view.planned_ends.get(p.partition)
        if due is None or p.start == due or losses.get((p.partition, due)) == p.start:
            continue
        if never_read(due, p.start, view.stretches.get(p.partition, ())):
            continue
        raise StorageAhead(
            f"the record of batch {plan.batch_id} starts at offset {p.start} of partition {p.partition}, "
            f"the ledger's batches end at {due}",
            advice="records and ledger are of different histories: restore the ledger from a newer backup",
        )


# ---------------------------------------------------------------- generations


def _adopt_generation(
    ctx: Context,
    record: GenerationRecord,
    others: tuple[GenerationRecord, ...],
    why: str,
    say: Callable[[str], None],
) -> None:
    newest = _newest(ctx, record.window, [o for o in others if o.window == record.window])
    recorded, record = record, replace(record, location=_place(ctx, record) or record.location)
    state, gone = _state_of(ctx, record, newest)
    name = f"generation {record.number} of {iso(record.window.start_ms)}"
    wrong = contradiction.contradiction_of(ctx, record)
    if wrong is None or not contradiction.is_closed(ctx, record):
        moved = _made_way(ctx, record) if state == CURRENT else None
        try:
            pending = ctx.ledger.recovery.restore(record, state, why, gone, moved)
        except LostComparison:
            wrong = contradiction.contradiction_of(ctx, record)
            if wrong is None:
                raise
            pending = []
        if pending:
            say(f"closing: {contradiction.waits(ctx, record, pending)}")
            return
    if wrong is not None:
        say(contradiction.set_aside(ctx, recorded, wrong, why))
        return
    say(f"adopted: {name} as {state}, {many(sum(f.rows for f in record.files), 'row')}")
    if state == CURRENT:
        _verify(ctx, record, say)


def _made_way(ctx: Context, record: GenerationRecord) -> Moved | None:
    """The generation that the ledger still believes where this one is now (swap: directory)."""
    older = in_force(ctx, record.window)
    if older is None or older.location != record.location:
        return None
    return Moved(older.number, ctx.layout.generation(record.window.start_ms, older.number, older.epoch))


def _newest(ctx: Context, window: WindowKey, records_: list[GenerationRecord]) -> int:
    """Number of the generation that is in force, or comes next; who was given up on the way there does not count."""
    known = ctx.ledger.windows.get(ctx.name, window)
    standing = [place for place in (_place(ctx, o) for o in records_) if place is not None]
    if known.current is not None:
        current = ctx.ledger.windows.generation(ctx.name, window, known.current)
        if isinstance(current, PublishedGeneration) and _is_at(ctx, current, current.location):
            standing.append(current.location)
    left = (o.number for o in records_ if not _given_up(ctx, o, standing))
    return max(known.newest, *left, 0)


def _given_up(ctx: Context, record: GenerationRecord, standing: list[str]) -> bool:
    """Whether it has left no trace but its record, and another one stands where it would be seen."""
    beside = ctx.layout.generation(record.window.start_ms, record.number, record.epoch)
    if record.number == 1 or not standing or any(ctx.storage.exists(p) for p in (record.directory, beside)):
        return False
    return record.location == beside or (record.location in standing and not _is_at(ctx, record, record.location))


def _place(ctx: Context, record: GenerationRecord) -> str | None:
    """The place of the generation: where it was to go, or where it made way to (swap: directory)."""
    beside = ctx.layout.generation(record.window.start_ms, record.number, record.epoch)
    return next((p for p in (record.location, beside) if _is_at(ctx, record, p)), None)


def _is_at(ctx: Context, generation: GenerationRecord | PublishedGeneration, place: str) -> bool:
    return look(ctx.storage, place, manifest_of(generation.files)) is Seen.MATCHES


def _state_of(ctx: Context, record: GenerationRecord, newest: int) -> tuple[GenerationState, bool]:
    """(state to restore, whether its files are gone); `newest`: number of what is in force, or comes next.

    A BUILT one is published by the window's next archive task; a CURRENT one without its files is rebuilt by it."""
    in_place = _is_at(ctx, record, record.location)
    if record.number > newest:
        return DISCARDED, True
    if record.number < newest:
        return RETIRED, not in_place
    if not in_place and _is_at(ctx, record, record.directory):
        return BUILT, False
    return CURRENT, False


def _verify(ctx: Context, record: GenerationRecord, say: Callable[[str], None]) -> None:
    generation = ctx.ledger.windows.generation(ctx.name, record.window, record.number)
    assert isinstance(generation, PublishedGeneration)
    try:
        found = verification.verify(ctx, generation)
    except CatalogueError as e:
        say(f"the catalogue was not compared: {str(e).splitlines()[0]}; clear the window's publish task later")
        return
    for line in found.mended:
        say(f"repaired: {line}")
    if found.lost_files:
        say(f"lost: {found.lost_files[0]} and {len(found.lost_files) - 1} more; clear the window's publish task")
