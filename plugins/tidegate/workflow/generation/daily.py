"""A day of a keyed table: what stood a day before, and the day's events, become what stands at its end.

The rows lie in the generation's own directory, beside its events, before it is BUILT: they are moved, retired and taken
back with it. A try writes to its own epoch's directory only (R3), so that no other try's rows get there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tidegate.core.base.errors import (
    Alarm,
    AttemptSpoilt,
    BatchRefused,
    FilesLost,
    NotReady,
    PathExists,
    PathMissing,
    ReplayRefused,
)
from tidegate.core.base.instants import iso
from tidegate.core.base.plain import dumps, loads, to_plain
from tidegate.core.base.wording import many
from tidegate.core.batch.jobs import ApplyPlan
from tidegate.core.batch.refusal import RefusalKind
from tidegate.core.batch.rules_version import COPYING_RULES
from tidegate.core.daily.day import Day, Ground, buckets_of, flaw, made, outdated, purged_of, swept_of
from tidegate.core.daily.purge import KEPT_OUT, Purged, Seen, grown
from tidegate.core.files.receipt import FileEntry
from tidegate.core.mirror.counts import add_up
from tidegate.core.mirror.jobs import ApplyReceipt, Daily, EventFile, Position
from tidegate.core.publish.in_force import moved_by
from tidegate.core.target.paths import DAY, ROWS, TOMBSTONES, join
from tidegate.core.window import turn
from tidegate.core.window.cut import window_from
from tidegate.core.window.states import (
    ARCHIVE,
    HEAL,
    BuildingGeneration,
    BuiltGeneration,
    PublishedGeneration,
    WindowKey,
)
from tidegate.workflow.base.context import Context
from tidegate.workflow.base.in_force import in_force
from tidegate.workflow.base.jobs import applied
from tidegate.workflow.base.renames import MovedOn, move_files
from tidegate.workflow.generation import copies, purge

TAKES_CONFLICTS = "takes conflicts"
"""What is noted of a generation."""
_SAMPLES = 3
_RESTORE = "clear the publish task of its day, which builds it anew from its events"


def refuse_before_its_turn(ctx: Context, key: WindowKey) -> None:
    """Raises NotReady for a day whose day before has not been published."""
    if ctx.target.daily is not None:
        _before(ctx, key)


def build(
    ctx: Context,
    generation: BuildingGeneration,
    directory: str,
    entries: Sequence[FileEntry],
    still_mine: Callable[[], bool],
) -> dict[str, str]:
    """Write the day's rows into `directory`, which has its events (`entries`); nothing for other tables. Returns what
    is to be noted of it: why the order decides between events that contradict each other, what a purge has kept out.

    Raises NotReady, JobFailed, AttemptSpoilt (retry); Alarm, MovedOn; BatchRefused where events contradict each other,
    of a rebuild ReplayRefused: the generation in force stays."""
    table = ctx.target.daily
    if table is None:
        return {}
    before = _before(ctx, generation.window)
    old = None if before is None else _read_in_force(ctx, generation.window, before)
    recorded = _in_force(ctx, generation)
    copy = copies.taken(ctx, old, recorded, _published_ms(ctx, generation.window))
    events = tuple(EventFile(0, join(directory, f.path), f.rows, f.bytes) for f in entries if f.rows)
    conflicts = ctx.conflicts or _taken_before(recorded)
    job = replace(
        _plan(ctx, table, generation, (*events, *copy.files), before, old),
        take_conflicts=bool(conflicts),
        swept_below=swept_of(old) if copy.round is None else copy.round.low,
        sweep=copy.round is not None,
        purged_below=purged_of(old),
        purge_to=purge.below(ctx, table, generation.window, old, recorded, copy.round is not None),
    )
    try:
        receipt = _receipt(ctx, job)
    except BatchRefused as e:
        e.advice = _helps(ctx, generation, e)
        if generation.number == 1:
            raise
        raise ReplayRefused(f"{iso(generation.window.start_ms)}: {e.args[0]}", advice=e.advice) from e
    base = None if before is None else Ground(before.window.start_ms, before.number, before.epoch)
    last = None if copy.round is not None else receipt.last_position  # LOW is a place in the log, not in the topic
    purged = Purged(job.purge_to, _seen(ctx, table, generation.window, old, recorded, last))
    day, sources = made(old, base, receipt, f"g{generation.number}.{generation.epoch}", conflicts, copy.round, purged)
    wrong = flaw(day)
    if wrong is not None:
        raise AttemptSpoilt(f"{iso(generation.window.start_ms)}: {wrong}", advice="the next try merges it again")
    _bring(ctx, job, day, sources, directory, still_mine)
    if copy.round is not None:
        ctx.say(copies.words(ctx, generation.window, copy))
    counts = add_up(b.counts for b in receipt.buckets)
    ctx.say(
        f"merged {many(counts.events, 'event')} into {'no day before' if base is None else words(base)}: "
        f"{counts.inserted:,} inserted, {counts.changed:,} changed; {many(day.rows, 'row')} and "
        f"{many(day.tombstones, 'tombstone')} stand"
    )
    if not counts.below_purge:
        return {TAKES_CONFLICTS: conflicts} if conflicts else {}
    out = f"{many(counts.below_purge, 'event')} older than the purge: {', '.join(receipt.below_purge[:_SAMPLES])}"
    ctx.say(f"{iso(generation.window.start_ms)}: {out}")
    return {KEPT_OUT: out} | ({TAKES_CONFLICTS: conflicts} if conflicts else {})


def _seen(
    ctx: Context, table: Daily, key: WindowKey, old: Day | None, recorded: Day | None, last: Position | None
) -> Seen:
    """What the day tells later ones of what it has read: of one that is built again the same as before."""
    if recorded is not None:
        return recorded.seen
    if table.tombstones_ms is None:
        return ()
    before_ms = key.end_ms - 2 * table.tombstones_ms
    return grown(() if old is None else old.seen, ctx.clock.now_ms(), last, before_ms)


def _helps(ctx: Context, generation: BuildingGeneration, refused: BatchRefused) -> str:
    """A day in force that is whole stays, whatever a replay of it meets: nobody needs another one."""
    may_be_taken = refused.kind in (RefusalKind.CONFLICT, RefusalKind.GOES_BACK)
    if not may_be_taken or generation.kind not in (ARCHIVE, HEAL):
        return refused.advice
    at = iso(generation.window.start_ms)
    return (
        f"{refused.advice}; or let the order decide: tidegate apply {ctx.name} --day {at} --take-conflicts --why '...'"
    )


def _in_force(ctx: Context, generation: BuildingGeneration) -> Day | None:
    """What the day in force is made of, whose rebuild decides as it did. None without one, and where nobody can know
    any more."""
    current = in_force(ctx, generation.window)
    try:
        return None if current is None else read(ctx, current.location)
    except Alarm:
        return None


def _published_ms(ctx: Context, key: WindowKey) -> int | None:
    """When the day was published first (UTC); None if it never was."""
    current = in_force(ctx, key)
    first = None if current is None else ctx.ledger.windows.generation(ctx.name, key, 1)
    found = first if isinstance(first, PublishedGeneration) else current
    return None if found is None else found.published_ms


def _taken_before(recorded: Day | None) -> str:
    """Why the day in force took contradicting events, if it did. What it is made of may be lost: then a person says it
    again."""
    return "" if recorded is None else recorded.conflicts


def read(ctx: Context, location: str) -> Day:
    """What the generation there is made of. Raises Alarm where nobody can know, StorageError."""
    path = join(location, DAY)
    try:
        day = loads(Day, ctx.storage.read(path))
    except PathMissing:
        raise Alarm(f"{path} is not there", advice=_RESTORE) from None
    except ValueError as e:
        raise Alarm(f"{path} cannot be read: {e}", advice=_RESTORE) from None
    wrong = flaw(day)
    if wrong is not None:
        raise Alarm(f"{path}: {wrong}", advice=_RESTORE)
    return day


def same_ground(ctx: Context, one: BuiltGeneration, current: PublishedGeneration) -> bool:
    """Whether both are built on one generation of the day before; True for tables without days, False where nobody can
    know any more what the one in force is built on."""
    if ctx.target.daily is None:
        return True
    try:
        return read(ctx, one.directory).base == read(ctx, current.location).base
    except Alarm as e:
        ctx.say(f"{iso(current.window.start_ms)}: {e.args[0]}; it is replaced")
        return False


def say_if_outdated(ctx: Context, published: PublishedGeneration) -> None:
    """Say so where a replay of this day would be built on another generation of the day before."""
    why = None if ctx.target.daily is None else why_outdated(ctx, read(ctx, published.location))
    if why is not None:
        ctx.say(f"{iso(published.window.start_ms)} is {why}; a replay brings it up to that")


def why_outdated(ctx: Context, day: Day) -> str | None:
    """Why a replay of the day might show something else, in words; None while it is built on what is in force."""
    if day.base is None:
        return None
    now = ctx.ledger.windows.get(ctx.name, key_at(ctx, day.base.window_ms)).current
    return outdated(day, {} if now is None else {day.base.window_ms: now})


def tell_of_later(ctx: Context, published: PublishedGeneration) -> None:
    """Say what a later generation of a day means for the days after it: they stay, without a cascade."""
    if ctx.target.daily is None or published.number == 1:
        return
    following = key_at(ctx, published.window.end_ms)
    if in_force(ctx, following) is not None:
        ctx.say(
            f"{iso(following.start_ms)} and later days are built on an earlier generation of this one; to bring them "
            f"up to it: tidegate replay {ctx.name} -s {iso(following.start_ms)} -e <last day> --again"
        )


def key_at(ctx: Context, start_ms: int) -> WindowKey:
    """The day that begins then (UTC)."""
    return window_from(start_ms, ctx.pipeline.windows)


def _read_in_force(ctx: Context, key: WindowKey, before: PublishedGeneration) -> Day:
    """Raises NotReady where another generation of the day before came into force meanwhile, as `_before`; Alarm."""
    try:
        return read(ctx, before.location)
    finally:
        if _before(ctx, key) != before:
            raise _moves(ctx, before.window)


def _moves(ctx: Context, earlier: WindowKey) -> NotReady:
    return NotReady(
        f"{ctx.name} {iso(earlier.start_ms)}, the day before, is being replaced",
        advice="nothing: the next try takes what is in force then; if its replay died, clear or repeat it",
    )


def _before(ctx: Context, key: WindowKey) -> PublishedGeneration | None:
    """The generation in force of the day before; None before the first day. Raises NotReady, also while another one is
    taking its directory (swap: directory)."""
    earlier = turn.before(key, ctx.pipeline.windows)
    if earlier is None:
        return None
    found = in_force(ctx, earlier)
    if found is not None and is_moving(ctx, found):
        raise _moves(ctx, earlier)
    if found is None:
        raise NotReady(
            f"{ctx.name} {iso(key.start_ms)} {turn.words(earlier)}",
            advice=f"nothing if {ctx.name}.archive is running; otherwise look at its run of {iso(earlier.start_ms)}",
        )
    return found


def is_moving(ctx: Context, current: PublishedGeneration) -> bool:
    """Whether another generation is taking its directory (swap: directory)."""
    return moved_by(current, _newest_built(ctx, current.window, current))


def ground_of(ctx: Context, day: Day) -> PublishedGeneration | None:
    """The generation that the day is built on, in force or not; None for a day that is built on none, and where the
    ledger has another one."""
    base = day.base
    if base is None:
        return None
    found = ctx.ledger.windows.generation(ctx.name, key_at(ctx, base.window_ms), base.generation)
    return found if isinstance(found, PublishedGeneration) and found.epoch == base.epoch else None


def _newest_built(ctx: Context, key: WindowKey, current: PublishedGeneration) -> BuiltGeneration | None:
    number = ctx.ledger.windows.get(ctx.name, key).newest
    newest = None if number == current.number else ctx.ledger.windows.generation(ctx.name, key, number)
    return newest if isinstance(newest, BuiltGeneration) else None


# ---------------------------------------------------------------- the job


def _plan(
    ctx: Context,
    table: Daily,
    generation: BuildingGeneration,
    events: tuple[EventFile, ...],
    before: PublishedGeneration | None,
    old: Day | None,
) -> ApplyPlan:
    key, batches = generation.window.start_ms, generation.batches
    name = ctx.layout.day_name(key, generation.number, generation.epoch, generation.nonce)
    return ApplyPlan(
        attempt=name,
        attempt_dir=ctx.layout.day_attempt(name),
        pipeline=to_plain(ctx.pipeline),
        topic=ctx.pipeline.source.topic,
        nonce=generation.nonce,
        epoch=generation.epoch,
        spec_version=ctx.spec_version,
        rules_version=COPYING_RULES,
        first=min(batches, default=0),
        last=max(batches, default=0),
        key=table.key,
        buckets=table.buckets,
        events=events,
        base=() if old is None or before is None else buckets_of(old, before.location),
        columns=table.columns,
        target_file_size=ctx.pipeline.sink.target_file_size,
        newest_ms=0 if old is None else old.newest_ms,
        whole=True,
    )


def _receipt(ctx: Context, job: ApplyPlan) -> ApplyReceipt:
    if not job.events and not job.base:
        return ApplyReceipt(job.attempt, (), ())
    return applied(ctx, job, ctx.layout.day_plan(job.attempt))


def _bring(
    ctx: Context,
    job: ApplyPlan,
    day: Day,
    sources: dict[str, str],
    directory: str,
    still_mine: Callable[[], bool],
) -> None:
    """Move the job's files beside the events; `_day.json` last. Raises MovedOn, AttemptSpoilt."""
    for folder in (ROWS, TOMBSTONES):
        ctx.storage.make_dirs(join(directory, folder))  # readers are sent to a directory, even if it is empty
    wanted = {path: (size, (join(job.attempt_dir, sources[path]),)) for path, size in day.manifest.items()}
    try:
        move_files(ctx.storage, wanted, directory, still_mine)
    except FilesLost as e:
        raise AttemptSpoilt(e.args[0], advice="the next try merges the day again") from e
    try:
        ctx.storage.write_new(join(directory, DAY), dumps(day).encode())
    except PathExists:
        raise MovedOn from None  # as of the certificate: an epoch that came twice


def words(base: Ground) -> str:
    """The ground for people."""
    return f"generation {base.generation} of {iso(base.window_ms)}"
