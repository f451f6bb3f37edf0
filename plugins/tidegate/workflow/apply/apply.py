"""Brings a keyed table up to the newest landed batch: look, decide, merge, commit, again until nothing is left.

Every step may be run again, by several tasks at once: what has been done is found by looking at the table (M4), and of
two merges of one snapshot one is made anew (M1). Nobody waits for anybody.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tidegate.core.base.errors import Alarm, BatchRefused, LostComparison, StepMissing
from tidegate.core.base.plain import to_plain
from tidegate.core.base.wording import many
from tidegate.core.batch.jobs import ApplyPlan
from tidegate.core.batch.rules_version import COPYING_RULES
from tidegate.core.files.receipt import DATA
from tidegate.core.mirror.applies import Apply, Told, refused_again, taken_back
from tidegate.core.mirror.commits import Commit, CopyIn, Cut, Merge, Purge, Tell, next_commit
from tidegate.core.mirror.copied import Complete
from tidegate.core.mirror.counts import add_up
from tidegate.core.mirror.jobs import ApplyReceipt, Bucket, EventFile
from tidegate.core.mirror.next_merge import BatchRange, next_range
from tidegate.core.mirror.servers import logs_after
from tidegate.core.target.paths import join
from tidegate.core.target.port import PrefixTarget
from tidegate.core.target.prefix import Merged, Prefix
from tidegate.workflow.apply import complete
from tidegate.workflow.apply.copies import next_of_copy, same_for_a_copy
from tidegate.workflow.apply.upkeep import buckets_now, cut_before, purge_due
from tidegate.workflow.base import preflight, servers
from tidegate.workflow.base.context import ATTEMPTS, Context, guard
from tidegate.workflow.base.jobs import applied

MOST_EVENTS = 10_000_000
"""A merge takes no further batch once it has so many: each one that is committed is progress that stays."""


@dataclass(frozen=True, kw_only=True)
class Applied:
    """What a run has done: `merges` committed, of `events` in all, and tombstones `purged`; `told`: the table now.
    `left`: further batches have landed, or rows of a copy wait, and this run had no time for them."""

    merges: int
    events: int
    told: Told
    left: bool = False
    purged: int = 0


@dataclass(frozen=True)
class Seen:
    """The table, and which batches it lacks; None if none."""

    told: Told
    range: BatchRange | None


def apply(
    ctx: Context,
    go_on: Callable[[], bool] = lambda: True,
    most_events: int = MOST_EVENTS,
    again: bool = False,
    conflicts: str = "",
) -> Applied:
    """Merge all that has landed. `go_on` is asked before each merge but the first. `again`: also what the newest try
    was refused for. `conflicts`: why a person lets the order decide between contradicting events of the first merge
    (M7), or for what happened later at a lower position (M8); empty: they are refused.

    Raises BatchRefused (a human is needed: two events contradict each other), StorageAhead (R11: the table holds what
    the ledger does not know), Alarm (a hole, rows that no event brought), CatalogueError, JobFailed, LostComparison."""
    guard(ctx)
    preflight.check(ctx)
    table = keyed(ctx)
    table.prepare()
    complete.look(ctx)
    merges = events = lost = purged = 0
    upkept = False
    while True:
        now = look(ctx, most_events)
        purge = None if upkept else partial(purge_due, ctx, table, now.told)
        copy = next_of_copy(ctx, now.told, most_events)
        tell = None if upkept else partial(complete.further, ctx, now.told)
        commit = next_commit(now.range, cut_before(ctx, table, now.told), purge, copy, tell)
        if commit is None:
            ctx.say(f"{table.name}: all that has landed is in it, up to batch {now.told.upto}")
        if commit is None or (merges and not go_on()):
            left = now.range is not None or copy is not None
            return Applied(merges=merges, events=events, told=now.told, left=left, purged=purged)
        if isinstance(commit, Merge) and not again and not conflicts:
            _refuse_again(ctx, commit.range)
        try:
            if isinstance(commit, Cut) and lost + 1 == ATTEMPTS:
                raise LostComparison(f"{table.name}: another task cuts it into another number of buckets")
            after = _committed(ctx, table, now.told, commit, "" if merges else conflicts)
        except LostComparison as e:
            lost += 1
            if lost == ATTEMPTS:
                raise
            ctx.say(f"{e.args[0]} (try {lost} of {ATTEMPTS})")
            continue
        lost = lost + 1 if isinstance(commit, Cut) else 0
        merged = isinstance(commit, Merge | CopyIn)
        upkept = not merged
        merges, events = merges + merged, events + after.events - now.told.events
        purged += after.purged - now.told.purged


def seen(ctx: Context, most_events: int = MOST_EVENTS) -> Seen:
    """The table as it says it, compared with the ledger. Changes nothing. Raises StorageAhead, Alarm, CatalogueError.

    What has landed is read after the table: a landing in between never looks like a contradiction."""
    return compared(ctx, keyed(ctx).standing(), most_events)


def compared(ctx: Context, prefix: Prefix, most_events: int = MOST_EVENTS) -> Seen:
    """What a snapshot says, compared with the ledger. Raises StorageAhead, Alarm."""
    landed = ctx.ledger.applies.landed(ctx.name, prefix.upto)
    found = next_range(keyed(ctx).name, prefix.upto, landed.rows, landed.newest, landed.open_batch, most_events)
    _refuse_other_events(ctx, prefix)
    return Seen(Told.by(prefix), found)


def look(ctx: Context, most_events: int = MOST_EVENTS, why: str = "") -> Seen:
    """Look at the table, and bring the ledger's copy up to it (M4). `why`: a person has taken it back.

    The copy is read before the table: a merge of another task in between never looks like a table that was taken
    back."""
    name = keyed(ctx).name
    for _ in range(ATTEMPTS):
        old = ctx.ledger.applies.told(ctx.name)
        found = seen(ctx, most_events)
        now = found.told
        try:
            ctx.ledger.applies.stands(ctx.name, old, now, why)
        except LostComparison:
            continue
        if old is not None and taken_back(old, now):
            ctx.say(
                f"{name} holds batches 1 to {now.upto}, it had {old.upto}: somebody has taken it back. It goes on from "
                f"there: batches {now.upto + 1} to {old.upto} are merged again"
            )
        return found
    raise LostComparison(f"{ctx.name}: other tasks have looked at the table {ATTEMPTS} times meanwhile")


def _refuse_again(ctx: Context, found: BatchRange) -> None:
    """Raises BatchRefused without a job, where the newest try has met what stands in the way."""
    why = refused_again(ctx.ledger.applies.newest(ctx.name), found.first)
    if why is not None:
        raise BatchRefused(why, advice=f"fix what it says, then: tidegate apply {ctx.name} --again")


def keyed(ctx: Context) -> PrefixTarget:
    """The pipeline's table. Raises StepMissing."""
    if ctx.keyed is None:
        raise StepMissing(f"{ctx.name} is published by windows: there is nothing to merge")
    return ctx.keyed


def _refuse_other_events(ctx: Context, prefix: Prefix) -> None:
    """The chain of merges has taken each row of data of its batches once."""
    rows = ctx.ledger.applies.rows(ctx.name, prefix.upto)
    if rows != prefix.events:
        raise Alarm(
            f"{ctx.pipeline.sink.table}: its merges have taken {many(prefix.events, 'event')}, but batches 1 to "
            f"{prefix.upto} have landed {rows:,}",
            advice="the ledger or the table was changed by hand or restored: find out which; docs/mirrors.md",
        )


def _committed(ctx: Context, table: PrefixTarget, told: Told, commit: Commit, conflicts: str) -> Prefix:
    """A commit on what stands now. `conflicts`: why those of a merge are taken. Raises LostComparison where the table
    has moved on meanwhile: it is made anew."""
    started = time.monotonic()
    prefix, base = table.base()
    if prefix.upto != told.upto:
        raise LostComparison(f"{table.name} has moved on to batch {prefix.upto}")
    if isinstance(commit, Cut) and (has := buckets_now(ctx, table, prefix)) != commit.before:
        raise LostComparison(f"{table.name} was cut by another task: it has {has} buckets now")
    if isinstance(commit, CopyIn) and not same_for_a_copy(Told.by(prefix), told):
        raise LostComparison(f"{table.name}: another task has merged what was read, or has purged")
    if isinstance(commit, Tell):
        return _tell(ctx, table, prefix, told, commit.complete)
    found = commit.range if isinstance(commit, Merge) else BatchRange.upkeep(told.upto)
    taken = conflicts if found.merges else ""
    # R9: the try is named by what this returns
    base_of = None if found.merges else prefix.snapshot
    step = commit.step if isinstance(commit, CopyIn) else None
    copied = None if step is None else step.round
    mine = ctx.ledger.applies.begin(ctx.name, found.first, found.last, ctx.nonce(), taken, base_of, copied)
    job = replace(_plan(ctx, table, mine, prefix, base), take_conflicts=bool(taken), **_upkeep(ctx, table, commit))
    ctx.say(f"{_words(mine, commit)}: {many(sum(f.rows for f in job.events), 'event')}, as {mine.name}")
    receipt = _receipt(ctx, mine, job)
    if job.settled and not any(b.changed for b in receipt.buckets):
        ctx.ledger.applies.applied(mine, prefix.snapshot)  # the table is what upkeep would make of it
        ctx.say(f"{_words(mine, commit)}: nothing to do")
        return prefix
    known = receipt.servers if mine.merges or isinstance(commit, Purge) else ()  # what was read is no event
    logs = logs_after(prefix.copied.servers, servers.names(ctx), known)
    kept_out = prefix.below_purge + add_up(b.counts for b in receipt.buckets).below_purge
    then = replace(prefix, below_purge=kept_out, copied=replace(prefix.copied, servers=logs))
    merged = Merged(
        mine.first,
        mine.last,
        mine.name,
        job.attempt_dir,
        receipt,
        job.buckets,
        bool(job.cut_before),
        step,
        complete.told(ctx, then, mine.last, step),
        bool(taken),
        logs,
    )
    try:
        after = table.apply(prefix, merged, lambda: ctx.ledger.applies.holds(mine))
    except LostComparison:
        if not mine.merges:  # of a merge the next look at the table says so
            ctx.ledger.applies.overtaken(mine)
        raise
    ctx.ledger.applies.applied(mine, after.snapshot)
    _say_done(ctx, mine, commit, receipt, after, time.monotonic() - started)
    return after


def _tell(ctx: Context, table: PrefixTarget, prefix: Prefix, told: Told, found: Complete) -> Prefix:
    """Commit what was found of the snapshot that was `told`, and of no other (M1); its rows stay. It is no try in the
    ledger: no file is of it, a second one does no harm, and purges go by when the last upkeep was."""
    if Told.by(prefix) != told:
        raise LostComparison(f"{table.name} has moved on: what it may tell is to be found anew")
    name, range = f"tell-{ctx.nonce()}", BatchRange.upkeep(prefix.upto)
    merged = Merged(
        range.first,
        range.last,
        name,
        ctx.layout.apply(name),
        ApplyReceipt(name, (), ()),
        complete=found,
        servers=logs_after(prefix.copied.servers, servers.names(ctx), ()),
    )
    after = table.apply(prefix, merged, lambda: True)
    ctx.say(f"{table.name}: nothing in it is older than {found.spelled}; nothing else was to be done")
    return after


def _upkeep(ctx: Context, table: PrefixTarget, commit: Commit) -> dict[str, Any]:
    """What the plan of upkeep has beside its range: nothing of a merge."""
    match commit:
        case Cut(before):
            ctx.say(f"{table.name}: its {before} buckets become {table.buckets}")
            return {"buckets": table.buckets, "cut_before": before}
        case Purge(settled, held):
            return {"settled": tuple(event_files(ctx, settled)), "held": held}
        case CopyIn(step, files) if step.sweep:
            return {"sweep": True, "swept_below": step.low, "part": step.part}
        case CopyIn(step, files):
            return {"events": files}
    return {}


def _say_done(ctx: Context, mine: Apply, commit: Commit, receipt: ApplyReceipt, after: Prefix, seconds: float) -> None:
    what, counts = _words(mine, commit), add_up(b.counts for b in receipt.buckets)
    stand = f"{many(after.rows, 'row')} and {many(after.tombstones, 'tombstone')} stand ({seconds:.1f} s)"
    match commit:
        case Cut():
            done = f"{many(len(receipt.buckets), 'bucket')} written"
        case Purge():
            gone = many(sum(b.purged for b in receipt.buckets), "tombstone")
            done = f"{gone} purged below {after.purge_words}"
        case CopyIn(step) if step.sweep:
            gone = many(sum(b.swept for b in receipt.buckets), "row")
            what = f"{what} ({step.part.words})" if step.part else what
            done = f"it is whole; {gone} gone that the source has lost without an event"
        case _:
            older = counts.superseded + counts.stale + counts.same
            done = f"{counts.inserted:,} inserted, {counts.changed:,} changed, {older:,} older or repeated"
    ctx.say(f"{what}: {done}; {stand}")
    if counts.below_purge:
        ctx.say(f"{what}: {many(counts.below_purge, 'event')} older than the purge: {receipt.below_purge}")


def _receipt(ctx: Context, mine: Apply, job: ApplyPlan) -> ApplyReceipt:
    if not job.visits_all and not any(f.rows for f in job.events):
        return ApplyReceipt(job.attempt, (), ())  # such a merge only moves `upto`: there is nothing to run
    try:
        return applied(ctx, job, ctx.layout.apply_plan(mine.name))
    except BatchRefused as e:
        ctx.ledger.applies.refuse(mine, str(e))
        raise


def _plan(ctx: Context, table: PrefixTarget, mine: Apply, prefix: Prefix, base: tuple[Bucket, ...]) -> ApplyPlan:
    return ApplyPlan(
        attempt=mine.name,
        attempt_dir=ctx.layout.apply(mine.name),
        pipeline=to_plain(ctx.pipeline),
        topic=ctx.pipeline.source.topic,
        nonce=mine.nonce,
        epoch=mine.epoch,
        spec_version=ctx.spec_version,
        rules_version=COPYING_RULES,
        first=mine.first,
        last=mine.last,
        key=table.key,
        buckets=buckets_now(ctx, table, prefix),
        purged_below=prefix.purged_below,
        newest_ms=prefix.newest_ms,
        swept_below=prefix.copied.swept_below,
        swept_parts=prefix.copied.swept_parts,
        servers=servers.known(ctx, prefix),
        events=tuple(f for n in range(mine.first, mine.last + 1) for f in event_files(ctx, n)),
        base=base,
        columns=table.columns(),
        fields=table.fields(),
        target_file_size=ctx.pipeline.sink.target_file_size,
    )


def event_files(ctx: Context, batch_id: int) -> list[EventFile]:
    """The data files of a landed batch; none of one that was given up."""
    files = ctx.ledger.batches.manifest_files(ctx.name, batch_id, DATA)
    if not files:
        return []
    home = ctx.landed(batch_id)
    return [EventFile(batch_id, join(home, f.path), f.rows, f.bytes) for f in files]


def _words(mine: Apply, commit: Commit) -> str:
    if isinstance(commit, CopyIn):
        chunks = commit.step.chunks
        of = f"copy {commit.step.round}"
        return f"chunks {chunks[0]} to {chunks[-1]} of {of}" if chunks else f"the end of {of}"
    if not mine.merges:
        return f"upkeep at batch {mine.last}"
    return f"batch {mine.first}" if mine.first == mine.last else f"batches {mine.first} to {mine.last}"
