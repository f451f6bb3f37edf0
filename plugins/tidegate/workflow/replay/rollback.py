"""Roll a window back to an earlier generation: look, begin, and carry the new one to its end."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.core.base.errors import LostComparison, NotReady, ReplayRefused
from tidegate.core.base.instants import iso
from tidegate.core.base.wording import many
from tidegate.core.look.overdue import backfill
from tidegate.core.replay import rollback as rules
from tidegate.core.replay.rollback import ROLLBACK, PartitionChange
from tidegate.core.window.states import BUILDING, BuildingGeneration, BuiltGeneration, PublishedGeneration, WindowKey
from tidegate.workflow.base import give_up, preflight
from tidegate.workflow.base.context import ATTEMPTS, Context, Published, guard
from tidegate.workflow.base.renames import MovedOn
from tidegate.workflow.base.turn import Turn
from tidegate.workflow.generation import restoration
from tidegate.workflow.publish import archive
from tidegate.workflow.window.unfinished import in_the_way


@dataclass(frozen=True)
class Preview:
    """What a rollback would do: the generation in force, the one to go back to, rows by partition."""

    window: WindowKey
    now: PublishedGeneration
    then: PublishedGeneration
    partitions: tuple[PartitionChange, ...]

    @property
    def unchanged(self) -> bool:
        return self.now.digest == self.then.digest


def preview(ctx: Context, window: WindowKey, to: int | None = None) -> Preview:
    """Looks only. Raises NotReady for a window that was never published, or that somebody else works on;
    ReplayRefused."""
    state = ctx.ledger.windows.get(ctx.name, window)
    if state.current is None:
        raise NotReady(
            f"{ctx.name} {iso(window.start_ms)} was never published: there is nothing to go back to",
            advice=f"publish it first: {backfill(ctx.name, window, window)}",
        )
    if state.newest != state.current:
        begun = _under_way(ctx, window, state.newest, to)[1]
        to = begun if to is None else to
    to = _untold(ctx, window, state.current) if to is None else to
    try:
        number = rules.choose(ctx.ledger.rollbacks.generations(ctx.name, window), to, ctx.pipeline).number
    except ReplayRefused as e:
        raise ReplayRefused(f"{ctx.name} {iso(window.start_ms)}: {e.args[0]}", advice=e.advice) from None
    now = ctx.ledger.windows.generation(ctx.name, window, state.current)
    then = ctx.ledger.windows.generation(ctx.name, window, number)
    if not isinstance(now, PublishedGeneration) or not isinstance(then, PublishedGeneration):
        raise MovedOn
    if then.digest != now.digest:
        restoration.refuse_if_lost(ctx, then)
    return Preview(window, now, then, tuple(rules.changes(now.files, then.files)))


def _untold(ctx: Context, key: WindowKey, current: int) -> int | None:
    """The generation in force, if it is a rollback that no one was told of: who asks again asks for the same one,
    not to be back where it all began. None: the one before is meant."""
    now = ctx.ledger.windows.generation(ctx.name, key, current)
    if now.kind != ROLLBACK or not isinstance(now, PublishedGeneration) or now.announced:
        return None
    ctx.say(f"generation {current} is a rollback that no one was told of yet: it stays; --to names another one")
    return current


def rollback(ctx: Context, window: WindowKey, to: int | None = None, why: str = "") -> Published:
    """Publish the rows of generation `to` (by default the one that was in force before) as the next generation.

    What an earlier try of the same rollback began is gone on with. Its `new` is False if the content is that of the
    generation in force. Raises NotReady, ReplayRefused, what a publication raises."""
    guard(ctx)
    preflight.check_publications(ctx)
    turn = Turn(ctx, window)
    for _ in range(ATTEMPTS):
        try:
            if to is None:
                to = _before(ctx, window)
            return _once(ctx, window, to, why)
        except (MovedOn, LostComparison):
            turn.give_way()
    raise LostComparison(f"{ctx.name} {iso(window.start_ms)}: another task keeps working on this window")


def _before(ctx: Context, key: WindowKey) -> int | None:
    """What "the one before" means, asked once: when another task has finished this rollback it means the other one."""
    window = ctx.ledger.windows.get(ctx.name, key)
    if window.newest and window.newest != window.current:
        told = ctx.ledger.rollbacks.of(ctx.name, key, window.newest)
        return None if told is None else told.number
    return preview(ctx, key).then.number


def _once(ctx: Context, key: WindowKey, to: int | None, why: str) -> Published:
    window = ctx.ledger.windows.get(ctx.name, key)
    if window.newest and window.newest != window.current:
        return _gone_on_with(ctx, key, window.newest, to)
    found = preview(ctx, key, to)
    if found.unchanged:
        return archive.standing(ctx, found.now, "unchanged")
    ctx.target.prepare()  # before the job, not after it
    number = ctx.ledger.rollbacks.begin(ctx.name, key, found.now.number, found.then.number, why)
    rows = sum(f.rows for f in found.then.files)
    ctx.say(
        f"rolling {iso(key.start_ms)} back: {many(rows, 'row')} of generation "
        f"{found.then.number} as generation {number}"
    )
    return archive.finish(ctx, ctx.ledger.windows.generation(ctx.name, key, number))


def _gone_on_with(ctx: Context, key: WindowKey, number: int, to: int | None) -> Published:
    newest, begun = _under_way(ctx, key, number, to)
    if to in (None, begun):
        return archive.finish(ctx, newest)
    kept = give_up.give_up(ctx, newest, f"a rollback to generation {to} was asked for")
    if kept is not None:
        archive.finish(ctx, kept)
    raise MovedOn


def _under_way(
    ctx: Context, key: WindowKey, number: int, to: int | None = None
) -> tuple[BuildingGeneration | BuiltGeneration, int]:
    """The unfinished rollback, and where it goes back to. Raises NotReady where a rollback to `to` (None: that one)
    has to wait for what is under way; MovedOn if nothing is any more."""
    newest = ctx.ledger.windows.generation(ctx.name, key, number)
    if isinstance(newest, PublishedGeneration):
        raise MovedOn
    told = ctx.ledger.rollbacks.of(ctx.name, key, number)
    # another one may be wanted as long as no reader has met this one
    if newest.kind == ROLLBACK and told is not None and (to in (None, told.number) or newest.state == BUILDING):
        return newest, told.number
    raise in_the_way(newest, "roll the window back")
