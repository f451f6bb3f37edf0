"""What batches leave behind: attempts, plan files, landed directories, side staging, quarantine."""

from __future__ import annotations

from functools import partial

from tidegate.core.batch.states import OVER_STATES
from tidegate.core.clean import rules as rules
from tidegate.core.clean.dry_runs import EVENT, Rehearsal, may_go, parse_rehearsal
from tidegate.core.clean.rules import BatchAttempt, BatchFacts, GenerationFacts, Verdict
from tidegate.core.target.paths import Assembly, join
from tidegate.core.window.cut import window_id
from tidegate.workflow.clean import in_place
from tidegate.workflow.clean.round import Run
from tidegate.workflow.generation import merge

_PAGE = 500


def clean_batches(run: Run) -> None:
    _attempts(run, "attempts", run.ctx.layout.attempts(), "")
    _attempts(run, "plans", run.ctx.layout.plans(), ".json")
    _landed(run)
    _side(run)
    _quarantine(run)


# ---------------------------------------------------------------- attempts and plan files


def _attempts(run: Run, kind: str, folder: str, suffix: str) -> None:
    found: dict[BatchAttempt | Assembly, list[str]] = {}
    for name in run.names(folder):
        bare = name.removesuffix(suffix) if name.endswith(suffix) else ""
        attempt, rehearsal = rules.parse_attempt(bare), parse_rehearsal(bare)
        if rehearsal is not None:
            _rehearsal(run, kind, join(folder, name), rehearsal)
        elif attempt is None:
            run.foreign(kind, join(folder, name))
        else:
            found.setdefault(attempt, []).append(join(folder, name))
    of_batches = sorted(a for a in found if isinstance(a, BatchAttempt))
    facts = run.batches(a.batch_id for a in of_batches)
    for attempt in of_batches:
        for path in found[attempt]:
            _batch_attempt(run, kind, path, attempt, facts.get(attempt.batch_id))
    of_windows = sorted(a for a in found if isinstance(a, Assembly))
    about = run.generations((a.window_ms, a.number) for a in of_windows)
    for rebuild in of_windows:
        for path in found[rebuild]:
            _rebuild_attempt(run, kind, path, rebuild, about.get((rebuild.window_ms, rebuild.number)))


def _batch_attempt(run: Run, kind: str, path: str, attempt: BatchAttempt, facts: BatchFacts | None) -> None:
    done = facts is None or facts.state in OVER_STATES or attempt.epoch < facts.epoch
    since = run.since_ms(attempt, facts) if done else None

    def decide(now: BatchFacts | None) -> Verdict:
        return rules.batch_attempt(attempt, now, since, run.ttl, run.now_ms)

    def decide_last() -> Verdict:
        verdict = decide(run.batch(attempt.batch_id))
        return in_place.never_lands(run, path, attempt.batch_id) if verdict.go and stays else verdict

    stays = kind == "attempts" and run.ctx.layout.in_place
    if stays and facts is not None and in_place.is_landed(run, path, attempt, facts):
        in_place.clean_landed(run, path, facts)
    elif _worth_it(run, kind, path, decide(facts)):
        run.delete(kind, path, decide_last)


def _rebuild_attempt(run: Run, kind: str, path: str, attempt: Assembly, facts: GenerationFacts | None) -> None:
    since = run.since_ms(attempt, facts)

    def decide(now: GenerationFacts | None) -> Verdict:
        return rules.rebuild_attempt(attempt, now, since, run.ttl, run.now_ms)

    def decide_last() -> Verdict:
        now = run.generation((attempt.window_ms, attempt.number))
        verdict = decide(now)
        return in_place.rebuilt(run, path, attempt, now) if verdict.go and stays else verdict

    stays = kind == "attempts" and run.ctx.layout.in_place
    if _worth_it(run, kind, path, decide(facts)):
        run.delete(kind, path, decide_last)


def _rehearsal(run: Run, kind: str, path: str, found: Rehearsal) -> None:
    def decide() -> Verdict:
        return may_go(run.history(found.subject, EVENT), run.ttl, run.now_ms)

    if _worth_it(run, kind, path, decide()):
        run.delete(kind, path, decide)


def _worth_it(run: Run, kind: str, path: str, verdict: Verdict) -> bool:
    """A first look at facts that were read in one go: most names need no second one."""
    if not verdict.go:
        run.tell(kind, path, verdict)
    return verdict.go


# ---------------------------------------------------------------- landed batches


def _landed(run: Run) -> None:
    """Their files have moved on; what is left is the receipt and empty directories."""
    if run.ttl.landed_ms is None or run.ctx.layout.in_place:
        return
    ctx, zone = run.ctx, run.ctx.layout.landing_zone()
    there: dict[int, str] = {}
    for name in run.names(zone):
        if name.isascii() and name.isdigit() and str(int(name)) == name:
            there[int(name)] = join(zone, name)
        else:
            run.foreign("landed", join(zone, name))
    facts = run.batches(there)
    for batch_id, path in sorted(there.items()):
        if not _worth_it(run, "landed", path, rules.landed(facts.get(batch_id), True, run.ttl, run.now_ms)):
            continue
        gone = run.delete("landed", path, partial(_landed_verdict, run, batch_id, path))
        if gone and not run.dry_run:
            ctx.ledger.cleaning.batch_cleaned(ctx.name, batch_id)
    if not run.dry_run:
        _note_gone(run, there)


def _landed_verdict(run: Run, batch_id: int, path: str) -> Verdict:
    """The files first, the ledger last: what it says right before the deletion decides."""
    ctx = run.ctx
    listing = [f.path for f in ctx.storage.list_files(path) or []]
    manifest = ctx.ledger.batches.manifest_files(ctx.name, batch_id)
    marked = ctx.storage.exists(ctx.layout.high_water_mark(batch_id))
    merged = merge.merged_of_batch(ctx, batch_id, [f for f in manifest if f.path in set(listing)])
    files = rules.landed_files((f.path for f in manifest), listing, merged)
    return files if not files.go else rules.landed(run.batch(batch_id), marked, run.ttl, run.now_ms)


def _note_gone(run: Run, there: dict[int, str]) -> None:
    """A cleaner that died between a deletion and its note has left this."""
    assert run.ttl.landed_ms is not None
    ledger, name = run.ctx.ledger.cleaning, run.ctx.name
    for batch_id in ledger.uncleaned_batches(name, 0, run.now_ms - run.ttl.landed_ms, _PAGE):
        if batch_id not in there and not run.ctx.storage.exists(run.ctx.layout.landed(batch_id)):
            ledger.batch_cleaned(name, batch_id)


# ---------------------------------------------------------------- side staging, quarantine


def _side(run: Run) -> None:
    ctx, folder = run.ctx, run.ctx.layout.side_stagings()
    found = {name: rules.parse_side(name) for name in run.names(folder)}
    for name, parsed in sorted(found.items(), key=lambda item: (item[1] or (0, ""), item[0])):
        path = join(folder, name)
        if parsed is None:
            run.foreign("side", path)
            continue
        batch_id, kind = parsed

        def decide(batch_id: int = batch_id, kind: str = kind, path: str = path) -> Verdict:
            listing = [f.path for f in ctx.storage.list_files(path) or []]
            entries = ctx.ledger.batches.manifest_files(ctx.name, batch_id, kind)
            manifest = [f.path.removeprefix(f"{kind}/") for f in entries]
            return rules.side_staging(run.batch(batch_id), manifest, listing)

        run.delete("side", path, decide)


def _quarantine(run: Run) -> None:
    folder = run.ctx.layout.quarantines()
    for name in run.names(folder):
        path, found = join(folder, name), rules.parse_quarantine(name)
        if found is None:
            run.foreign("quarantine", path)
            continue
        if isinstance(found, Assembly):
            subject = f"window {window_id(found.window_ms)}"
        else:
            subject = f"batch {_batch_of(found)}"
        since = run.newest_event_ms(subject)
        run.delete("quarantine", path, partial(_quarantined, run, found, since))


def _quarantined(run: Run, found: BatchAttempt | Assembly | int, since_ms: int | None) -> Verdict:
    if isinstance(found, Assembly):
        generation = run.generation((found.window_ms, found.number))
        return rules.quarantined(found, None, generation, since_ms, run.ttl, run.now_ms)
    return rules.quarantined(found, run.batch(_batch_of(found)), None, since_ms, run.ttl, run.now_ms)


def _batch_of(found: BatchAttempt | int) -> int:
    return found.batch_id if isinstance(found, BatchAttempt) else found
