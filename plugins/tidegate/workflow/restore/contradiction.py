"""Records of generations that the ledger contradicts: set aside, and their files brought to where the next try looks.

A database that failed over forgot a generation, and by what it was left with it has begun that generation anew, or has
landed rows of its window. Nothing is lost: the ledger has every batch that the record names, and a window is built from
what its batches landed. The record goes to `quarantine/`, where no look at records meets it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tidegate.core.base.errors import StorageAhead
from tidegate.core.base.instants import iso
from tidegate.core.base.renames import Seen
from tidegate.core.base.wording import many
from tidegate.core.restore.ahead import Contradiction, contradiction
from tidegate.core.restore.record import GenerationRecord
from tidegate.core.window.kinds import of_kind
from tidegate.core.window.states import CLOSED, DISCARDED, BuildingGeneration
from tidegate.workflow.base import preflight, records
from tidegate.workflow.base.context import ATTEMPTS, Context
from tidegate.workflow.base.renames import look, manifest_of, try_rename


def begun_anew(ctx: Context, known: Collection[tuple[int, int]]) -> Iterator[GenerationRecord]:
    """Records of generations that the ledger has begun anew, where the two differ; without `known`.

    And of reopenings that were given up although they had begun to take rows out of the late table (R13)."""
    marks = records.publication_marks(ctx, None)
    for key in ctx.ledger.recovery.unfinished_generations(ctx.name, marks):
        if key in known:
            continue
        record = records.generation_record(ctx, marks[key])
        mine = ctx.ledger.windows.generation(ctx.name, record.window, record.number)
        if isinstance(mine, BuildingGeneration):
            differs = contradiction_of(ctx, record) is not None
        elif mine.state == DISCARDED:
            current = ctx.ledger.windows.get(ctx.name, record.window).current
            differs = of_kind(record.kind).takes_up and record.number > (current or 0)
        else:
            differs = mine.digest != record.digest
        if differs:
            yield record


def contradiction_of(ctx: Context, record: GenerationRecord) -> Contradiction | None:
    """The contradiction as the ledger is now."""
    data = ctx.ledger.recovery.contributors(ctx.name, record.window)
    return contradiction(record, data, preflight.held_late(ctx, record.window))


def is_closed(ctx: Context, record: GenerationRecord) -> bool:
    """Whether no batch can bring the window rows any more."""
    return ctx.ledger.windows.get(ctx.name, record.window).state == CLOSED


def waits(ctx: Context, record: GenerationRecord, pending: Collection[int]) -> str:
    """What is to come before the record can be compared with the ledger, in words (R14)."""
    at, batches = iso(record.window.start_ms), ", ".join(str(i) for i in pending)
    return (
        f"{at} waits for batch {batches}, planned before it closes: let {ctx.name}.ingest land it, then clear "
        "the window's publish task; it adopts the record, or says that this command is needed once more"
    )


def set_aside(ctx: Context, record: GenerationRecord, wrong: Contradiction, why: str) -> str:
    """What was done, in words. Files, ledger, record, in this order: the next call goes on where one died.

    Raises StorageAhead where the ledger lacks a batch of the record: then rows might belong to no generation."""
    at = f"generation {record.number} of {iso(record.window.start_ms)}"
    if not wrong.set_aside:
        raise StorageAhead(
            f"{ctx.name} {iso(record.window.start_ms)}: {wrong.why}",
            advice="record and ledger are of different histories: restore the ledger from a newer backup",
        )
    moved = _bring_back(ctx, record)
    ctx.ledger.recovery.set_aside(record, f"{wrong.why}; {why}")
    path = ctx.layout.publication_mark(record.recorded_ms, record.window.start_ms, record.number, record.epoch)
    target = ctx.layout.quarantine(f"record-{path.rsplit('/', 1)[1]}")
    if ctx.storage.exists(target) and not records.is_copy(ctx, path, target):
        target = f"{target}-{ctx.nonce()}"
    records.set_aside(ctx, path, target)
    files = f"its {many(len(record.files), 'file')} went to {moved}; " if moved else ""
    return f"set aside: {at}: {wrong.why}; {files}its record is at {target} now; clear the window's publish task"


def _bring_back(ctx: Context, record: GenerationRecord) -> str | None:
    """A first generation holds the only copy of landed files: they go to a directory of a higher epoch, into which the
    next try takes them from (R3). Of later ones the files are copies: they stay.

    From where the generation was built, else from the table. Its task may still send its rename: in this order that one
    finds nothing to move, or what it moved is found."""
    if ctx.layout.in_place:
        return None  # no file has moved
    if record.number > 1 or ctx.ledger.windows.get(ctx.name, record.window).current is not None:
        return None
    manifest = manifest_of(record.files)
    for _ in range(ATTEMPTS):
        source = next((p for p in _places(record) if look(ctx.storage, p, manifest) is Seen.MATCHES), None)
        if source is None:
            return None
        above = preflight.highest_epoch(ctx, record.window, record.number) + 1
        target = ctx.layout.assembly(record.window.start_ms, record.number, above)
        try_rename(ctx.storage, source, target)
        if look(ctx.storage, target, manifest) is Seen.MATCHES:
            return target
    return None


def _places(record: GenerationRecord) -> tuple[str, str]:
    return record.directory, record.location
