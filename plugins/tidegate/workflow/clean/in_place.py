"""Attempts on a store without renames: nothing is moved out of them, so that a prefix may hold live files for ever.

Two more witnesses are asked than elsewhere, because a ledger that lost commits may call the landed attempt overtaken:
storage's record of the batch, and the table.
"""

from __future__ import annotations

from tidegate.core.base.errors import CatalogueError, StorageAhead
from tidegate.core.batch.states import LANDED
from tidegate.core.clean import in_place, rules
from tidegate.core.clean.rules import BatchAttempt, BatchFacts, GenerationFacts, Verdict
from tidegate.core.replay import rollback
from tidegate.core.target.paths import Assembly, join
from tidegate.core.window.cut import window_from
from tidegate.core.window.states import BuildingGeneration, BuiltGeneration
from tidegate.workflow.base import records
from tidegate.workflow.clean.round import Run
from tidegate.workflow.generation import merge


def never_lands(run: Run, path: str, batch_id: int) -> Verdict:
    """Whether storage's record, which nothing replaces, says that another attempt has landed, or none ever will."""
    try:
        record = records.batch_record(run.ctx, batch_id)
    except StorageAhead as e:
        return Verdict(False, f"the batch's record cannot be read: {e}", odd=True)
    if record is None:
        return Verdict(False, "storage has no record of the batch: this attempt may still be the one that lands")
    if record.manifest is not None and path.endswith(f"-{record.manifest.nonce}"):
        return Verdict(False, "by storage's record this attempt has landed", odd=True)
    return Verdict(True, "storage's record names another attempt")


def is_landed(run: Run, path: str, attempt: BatchAttempt, facts: BatchFacts | None) -> bool:
    """Whether the attempt is the one that has landed, by the ledger."""
    if facts is None or facts.state != LANDED or attempt.epoch != facts.epoch:
        return False
    return facts.cleaned_ms is not None or run.ctx.landed(attempt.batch_id) == path


def clean_landed(run: Run, path: str, facts: BatchFacts) -> None:
    """Delete what no manifest names, and what merged files hold: each by its name, once all rows are in the tables."""
    if run.ttl.landed_ms is None or facts.cleaned_ms is not None:
        return
    ctx, batch_id = run.ctx, facts.batch_id

    def decide() -> Verdict:
        marked = ctx.storage.exists(ctx.layout.high_water_mark(batch_id))
        return rules.landed(run.batch(batch_id), marked, run.ttl, run.now_ms)

    verdict = decide()
    if not verdict.go:
        run.tell("landed", path, verdict)
        return
    listing = [f.path for f in ctx.storage.list_files(path) or []]
    manifest = ctx.ledger.batches.manifest_files(ctx.name, batch_id)
    merged = merge.merged_of_batch(ctx, batch_id, [f for f in manifest if f.path in set(listing)])
    found = in_place.left_in_place((f.path for f in manifest), listing, merged)
    gone = [run.delete("landed", join(path, p), decide) for p in found.useless]
    for p in found.foreign:
        run.tell("landed", join(path, p), Verdict(False, "it is not ours", odd=True))
    if all(gone) and not run.dry_run:
        ctx.ledger.cleaning.batch_cleaned(ctx.name, batch_id)


def files_of_others(run: Run, key: tuple[int, int]) -> set[str]:
    """URIs of the files of the window's other generations, of those that may still need them. `key`: the window's start
    (UTC ms), the generation's number."""
    ctx, window = run.ctx, window_from(key[0], run.ctx.pipeline.windows)
    known = ctx.ledger.rollbacks.generations(ctx.name, window)
    found: set[str] = set()
    for number in rollback.holders(known, key[1]):
        other = ctx.ledger.windows.generation(ctx.name, window, number)
        if not isinstance(other, BuildingGeneration):
            location = (other.location or other.directory) if isinstance(other, BuiltGeneration) else other.location
            found |= {join(location, f.path) for f in other.files}
    return found


def rebuilt(run: Run, path: str, attempt: Assembly, facts: GenerationFacts | None) -> Verdict:
    """Whether no generation has files in what a replay, a heal or a merge wrote. The table is asked last."""
    held = in_place.holds_files(attempt, facts)
    if held is not None:
        return held
    window = window_from(attempt.window_ms, run.ctx.pipeline.windows)
    try:
        pointing = run.ctx.target.standing(window)
    except CatalogueError:
        return Verdict(False, "the catalogue gives no answer")
    if any(rules.within(uri, path) for uri in files_of_others(run, (attempt.window_ms, attempt.number))):
        return Verdict(False, "a later generation has its files")
    if any(rules.within(place, path) for place in pointing):
        return Verdict(False, "the table shows files of it, the ledger does not say so", odd=True)
    return Verdict(True, "no generation has files here")
