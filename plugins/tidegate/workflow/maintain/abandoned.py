"""Replays that died while they were built and that no task goes on with: given up, so that late rows can join their
windows again. Readers have met none of them; the generation in force stays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidegate.core.base.errors import LostComparison, TidegateError
from tidegate.core.base.instants import iso
from tidegate.core.clean.rules import newest_ms
from tidegate.core.look.overdue import finishing
from tidegate.core.replay.abandoned import BEGUN, AtWork, Unfinished, is_given_up
from tidegate.core.tell.subjects import of_window
from tidegate.core.window.cut import window_from
from tidegate.core.window.states import BuildingGeneration, WindowKey
from tidegate.workflow.base import preflight
from tidegate.workflow.base.context import Context

MOST = 50
"""Windows that one run of the maintenance DAG gives up; the next run goes on."""


@dataclass(frozen=True)
class _Left:
    generation: BuildingGeneration
    since_ms: int

    @property
    def key(self) -> WindowKey:
        return self.generation.window


def give_up(ctx: Context, at_work: AtWork | None) -> list[str]:
    """Replays whose last try began a day ago or earlier, and that no run may come to; what was done, in words.

    `at_work`: None where it is unknown what runs there are; then nothing is given up. The comparison is of the epoch
    that was there before ages and runs were looked at: a task that takes it meanwhile keeps it. A driver that lives all
    the same has lost its epoch, as to any other try: it publishes nothing of this generation, and its files are
    cleaned."""
    if at_work is None:
        return []
    done: list[str] = []
    try:
        left = list(_left(ctx))
        busy = at_work([one.key for one in left]) if left else ()
        free = [one for one in left if one.key.start_ms not in busy]
        if free:
            preflight.check_publications(ctx)
    except TidegateError as e:
        return [f"{ctx.name}: replays that died were not looked at: {e}"]
    for one in free[:MOST]:
        number, kind, at = one.generation.number, one.generation.kind, iso(one.key.start_ms)
        try:
            if preflight.recorded_as_built(ctx, one.generation) is not None:
                continue  # the ledger has forgotten more than this: the next ask for the replay adopts it
            current = ctx.ledger.windows.get(ctx.name, one.key).current
            why = f"no task has begun to build it again since {iso(one.since_ms)}"
            ctx.ledger.windows.discard(one.generation, f"{why}, and no run is at it")
        except LostComparison:
            continue  # somebody goes on with it
        except TidegateError as e:
            done.append(f"{at}: generation {number} could not be given up: {e}")
            if e.retry:
                break
            continue
        done.append(
            f"{at}: generation {number} ({kind}) is given up: {why}; generation {current} stays in force; "
            f"to replay it: {finishing(ctx.name, one.key.start_ms, kind)}"
        )
    return done


def _left(ctx: Context) -> Iterator[_Left]:
    """Abandoned ones by window; none with an alarm."""
    now_ms = ctx.ledger.now_ms()
    quiet = [one for one in ctx.ledger.replays.unfinished(ctx.name) if not one.at_work(now_ms)]
    alarmed = {block.subject for block in ctx.ledger.pipelines.blocks(ctx.name)} if quiet else set()
    for one in quiet:
        found = _as_left(ctx, one, now_ms)
        if found is not None and of_window(one.window_ms) not in alarmed:
            yield found


def _as_left(ctx: Context, one: Unfinished, now_ms: int) -> _Left | None:
    """The epoch first, then its age: a try that begins in between is seen, a later one changes the epoch."""
    key = window_from(one.window_ms, ctx.pipeline.windows)
    generation = ctx.ledger.windows.generation(ctx.name, key, one.number)
    history = ctx.ledger.cleaning.history(ctx.name, of_window(one.window_ms), BEGUN)
    since_ms = newest_ms(history, one.number)
    if since_ms is None or not isinstance(generation, BuildingGeneration) or not is_given_up(one, since_ms, now_ms):
        return None
    return _Left(generation, since_ms)
