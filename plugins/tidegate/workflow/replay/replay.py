"""Replay published windows: generation g+1 beside g, the old one readable until the swap. A range shares its reads."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice

from tidegate.core.base.errors import (
    CatalogueError,
    JobFailed,
    LedgerError,
    LostComparison,
    ReplayRefused,
    SourceUnavailable,
    StorageError,
    TidegateError,
)
from tidegate.core.base.instants import iso
from tidegate.core.base.wording import many
from tidegate.core.replay.origin import AUTO, MOST_ROWS, MOST_WINDOWS, groups
from tidegate.core.window.states import REPLAY, BuildingGeneration, PublishedGeneration, WindowKey
from tidegate.workflow.base import preflight
from tidegate.workflow.base.context import ATTEMPTS, Context, Published, guard
from tidegate.workflow.base.in_force import in_force
from tidegate.workflow.base.outcome import FAILED, LEFT, Outcome, first_line, not_done
from tidegate.workflow.base.renames import MovedOn
from tidegate.workflow.base.turn import Turn
from tidegate.workflow.generation import makers, rebuild
from tidegate.workflow.generation.rebuild import Rebuilt
from tidegate.workflow.publish import archive
from tidegate.workflow.replay.begin import begun, never_published

REPLAYED, UNCHANGED, SKIPPED = "replayed", "unchanged", "skipped"
"""What became of a window of a range, beside what `outcome` has. Skipped: a replay by today's spec has rebuilt it
before."""


def replay(ctx: Context, window: WindowKey, wanted: str = AUTO) -> Published:
    """Rebuild the window with today's columns and publish it, unless its content is the same.

    Rows come from Kafka while it has them, else from the files in force where nothing has to be decoded (`wanted`: auto
    | kafka | files). What an earlier replay left BUILT is given up, SWAPPING is finished first. Raises NotReady if the
    window was never published, ReplayRefused if a rebuild would change what belongs to it."""
    guard(ctx)
    preflight.check_publications(ctx)
    return _alone(ctx, window, wanted)


def replay_range(
    ctx: Context,
    windows: Iterable[WindowKey],
    wanted: str = AUTO,
    *,
    again: bool = False,
    told: Callable[[Outcome], None] = lambda outcome: None,
    most_windows: int = MOST_WINDOWS,
    most_rows: int = MOST_ROWS,
) -> list[Outcome]:
    """Rebuild many windows, in groups that share one reading of each Kafka range; what became of each, in order.

    `told` hears of each window as soon as it is known. Windows that a replay by today's spec has rebuilt already are
    skipped, unless `again`: so a range that was interrupted is gone on with by asking for it again, and two ranges that
    overlap share the work: what another one is at comes last. One window that is refused or lost stops no other; what
    every window needs (ledger, Kafka, Hive, storage, Spark) stops the rest. Raises LedgerError, SpecError,
    StorageAhead."""
    guard(ctx)
    preflight.check_publications(ctx)
    return _Range(ctx, wanted, told, most_windows, most_rows).run(list(windows), again)


class _Range:
    def __init__(
        self, ctx: Context, wanted: str, told: Callable[[Outcome], None], most_windows: int, most_rows: int
    ) -> None:
        self._ctx, self._wanted, self._told = ctx, wanted, told
        self._most_windows, self._most_rows = most_windows, most_rows
        self._found: dict[WindowKey, Outcome] = {}
        self._down: TidegateError | None = None
        self._began = time.monotonic()

    def run(self, windows: Sequence[WindowKey], again: bool) -> list[Outcome]:
        ctx = self._ctx
        published = ctx.ledger.windows.published_starts(ctx.name)
        done = {} if again else ctx.ledger.replays.rebuilt_by(ctx.name, ctx.spec_version)
        todo: list[WindowKey] = []
        for key in windows:
            if key.start_ms in done:
                self._tell(_done_before(ctx, key, done[key.start_ms]))
            elif key.start_ms not in published:
                self._tell(not_done(key, never_published(ctx, key)))
            else:
                todo.append(key)
        left = todo
        while left and self._down is None:
            ready = left if again else self._not_done_meanwhile(left)
            counted = ((key, self._rows(key)) for key in self._others_last(ready))
            for group in islice(groups(counted, self._most_windows, self._most_rows), 1):
                self._group(group)
            left = [key for key in ready if key not in self._found]
        for key in todo:
            if key not in self._found:
                why = f"not begun: {first_line(self._down)}"
                self._tell(Outcome(key, LEFT, why=why, advice="ask for it again", silent=True))
        return [self._found[key] for key in windows]

    def _not_done_meanwhile(self, windows: Sequence[WindowKey]) -> list[WindowKey]:
        """Windows but those that another replay has finished since."""
        done = self._ctx.ledger.replays.rebuilt_by(self._ctx.name, self._ctx.spec_version)
        for key in windows:
            if key.start_ms in done:
                self._tell(_done_before(self._ctx, key, done[key.start_ms]))
        return [key for key in windows if key.start_ms not in done]

    def _others_last(self, windows: Sequence[WindowKey]) -> list[WindowKey]:
        """The windows, those of another replay last: they are probably done by then. One that has died holds nothing
        up."""
        ctx, now_ms = self._ctx, self._ctx.ledger.now_ms()
        busy = {u.window_ms: u for u in ctx.ledger.replays.unfinished(ctx.name) if u.at_work(now_ms)}
        mine = [key for key in windows if key.start_ms not in busy]
        others = [key for key in windows if key.start_ms in busy]
        if others and not mine:
            began = iso(max(busy[key.start_ms].began_ms or 0 for key in others))
            ctx.say(
                f"another replay began {len(others):,} of the windows from {iso(others[0].start_ms)} on, "
                f"the last of them at {began}: they are taken over; if it is still at work, nothing is published twice"
            )
        return mine or others

    def _rows(self, key: WindowKey) -> int:
        current = in_force(self._ctx, key)
        return 0 if current is None else sum(f.rows for f in current.files)

    def _group(self, keys: list[WindowKey]) -> None:
        taken: dict[WindowKey, BuildingGeneration] = {}
        self._began = time.monotonic()

        def begin(key: WindowKey) -> None:
            taken[key] = begun(self._ctx, key, REPLAY)

        for key in keys:
            self._guarded(key, partial(begin, key))
        if not taken or self._down is not None:
            return
        if len(taken) > 1:
            self._ctx.say(f"{many(len(taken), 'window')} from {iso(min(taken).start_ms)} on share one reading")
        works = [rebuild.work_of(self._ctx, g) for g in taken.values()]
        try:
            found = rebuild.read_again(self._ctx, works, self._wanted)
        except SourceUnavailable as e:
            self._down = e
            for key in taken:
                self._tell(not_done(key, e))
            return
        for key, generation in taken.items():
            self._guarded(key, partial(_finished, self._ctx, generation, found[key.start_ms]))

    def _guarded(self, key: WindowKey, step: Callable[[], Published | None]) -> None:
        """Run one step; an error is the outcome of its window alone, a comparison that is lost is tried again alone."""
        try:
            try:
                published = step()
                outcome = None if published is None else _outcome(published)
            except (MovedOn, LostComparison):
                outcome = self._overtaken(key)
        except LostComparison as e:
            outcome = Outcome(key, FAILED, why=first_line(e), advice=e.advice)
        except LedgerError:
            raise
        except TidegateError as e:
            outcome = not_done(key, e)
            if e.retry and isinstance(e, SourceUnavailable | CatalogueError | StorageError | JobFailed):
                self._down = e
        if outcome is not None:
            self._tell(outcome)

    def _overtaken(self, key: WindowKey) -> Outcome:
        """The outcome where another was faster: it may have finished what was asked for, or is about to."""
        Turn(self._ctx, key, self._began).give_way()
        done = self._ctx.ledger.replays.rebuilt_by(self._ctx.name, self._ctx.spec_version)
        if key.start_ms in done:
            return _done_before(self._ctx, key, done[key.start_ms])
        return _outcome(_alone(self._ctx, key, self._wanted))

    def _tell(self, outcome: Outcome) -> None:
        self._found[outcome.window] = outcome
        self._told(outcome)


def _done_before(ctx: Context, key: WindowKey, number: int) -> Outcome:
    """The outcome of a window that was done before. Its task may have died before anybody was told: then it is new."""
    generation = ctx.ledger.windows.generation(ctx.name, key, number)
    published = archive.standing(ctx, generation, "skipped") if isinstance(generation, PublishedGeneration) else None
    return Outcome(key, SKIPPED, published, f"generation {number} is what a replay by this spec gives")


def _outcome(published: Published) -> Outcome:
    same = not published.new or published.note == "unchanged"  # what no one was told of yet is new all the same
    return Outcome(published.window, UNCHANGED if same else REPLAYED, published)


# ---------------------------------------------------------------- one window


def _alone(ctx: Context, key: WindowKey, wanted: str) -> Published:
    turn, number = Turn(ctx, key), 0
    for _ in range(ATTEMPTS):
        try:
            generation = begun(ctx, key, REPLAY)
            number = generation.number
            found = rebuild.read_again(ctx, [rebuild.work_of(ctx, generation)], wanted)
            return _finished(ctx, generation, found[key.start_ms])
        except (MovedOn, LostComparison):
            turn.give_way()
        done = _done_by_another(ctx, key, number)
        if done is not None:
            return done
    raise LostComparison(f"{ctx.name} {iso(key.start_ms)}: another task keeps working on this window")


def _done_by_another(ctx: Context, key: WindowKey, number: int) -> Published | None:
    """What stands where another task has carried our generation `number` to its end by today's spec."""
    current = ctx.ledger.replays.rebuilt_by(ctx.name, ctx.spec_version).get(key.start_ms)
    if not number or current is None or current < number:
        return None
    generation = ctx.ledger.windows.generation(ctx.name, key, current)
    return archive.standing(ctx, generation, "rebuilt") if isinstance(generation, PublishedGeneration) else None


def _finished(ctx: Context, generation: BuildingGeneration, found: Rebuilt | TidegateError) -> Published:
    if isinstance(found, TidegateError):
        makers.discard_if_refused(ctx, generation, found)
        raise found
    try:
        built = rebuild.collected(ctx, generation, found)
    except ReplayRefused as e:
        makers.discard_if_refused(ctx, generation, e)
        raise
    return archive.finish(ctx, built)
