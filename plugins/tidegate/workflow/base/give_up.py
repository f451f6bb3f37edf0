"""Give up a generation that is not needed any more; one that readers may have met is finished instead (R13).

A record is written before the first step that readers can notice: a late partition that is dropped, a directory that
moves, a location that is switched. So a generation with a record may be in the middle of its swap, whatever the ledger
says: a database that failed over may have forgotten SWAPPING.
"""

from __future__ import annotations

from tidegate.core.clean.rules import within
from tidegate.core.restore.record import GenerationRecord
from tidegate.core.target.paths import is_uri
from tidegate.core.window.states import BUILT, BuildingGeneration, BuiltGeneration
from tidegate.workflow.base import preflight
from tidegate.workflow.base.context import Context
from tidegate.workflow.base.renames import MovedOn


def give_up(ctx: Context, generation: BuildingGeneration | BuiltGeneration, why: str) -> BuiltGeneration | None:
    """DISCARDED; or the generation as it was recorded, for the caller to finish. Raises LostComparison.

    One that is BUILT is taken back first: from then on its task cannot begin to swap it in, so that no record that
    matters comes after the look. If the try dies in between, the next one looks again. The second look is for a
    failover between the first and the last comparison."""
    if isinstance(generation, BuiltGeneration):
        generation = ctx.ledger.windows.take_back(generation, ctx.nonce())
    record = _met(ctx, generation)
    if record is None:
        ctx.ledger.windows.discard(generation, why)
        record = _met(ctx, generation)
    return None if record is None else remembered(ctx, record)


def _met(ctx: Context, generation: BuildingGeneration) -> GenerationRecord | None:
    """The record, if readers may have met what it is of, or nothing else holds its rows.

    Late rows that the generation in force does not hold may have left the late table, for this one or for one before it
    that was forgotten too; a swap in the table's own directory has moved another generation away, perhaps. Beside it, a
    generation is met where the catalogue points to it."""
    record = preflight.recorded_as_built(ctx, generation)
    if record is None:
        return None
    beside = ctx.layout.generation(record.window.start_ms, record.number, record.epoch)
    late = set(record.late) - set(preflight.held_late(ctx, record.window))
    if late or record.location != beside:
        return record
    mine = {f.path.rsplit("/", 1)[0] for f in record.files if is_uri(f.path)}
    return record if any(within(p, beside) or p in mine for p in ctx.target.standing(record.window)) else None


def remembered(ctx: Context, record: GenerationRecord) -> BuiltGeneration:
    """R11: the ledger forgot BUILT, storage did not; where the files are now is for the publication to see."""
    ctx.ledger.recovery.restore(record, BUILT, "storage has a record of it")
    ctx.say(f"generation {record.number} was built before the ledger says so: its record is adopted")
    generation = ctx.ledger.windows.generation(ctx.name, record.window, record.number)
    if not isinstance(generation, BuiltGeneration):
        raise MovedOn
    return generation
