"""Who makes a generation, by its kind: how it is built, when it is not needed after all, how lost rows come back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidegate.core.base.errors import ReplayRefused, TidegateError
from tidegate.core.window.states import (
    ARCHIVE,
    HEAL,
    REOPEN,
    REPLAY,
    REREAD,
    ROLLBACK,
    BuildingGeneration,
    BuiltGeneration,
    GenerationKind,
    PublishedGeneration,
)
from tidegate.workflow.base.context import Context
from tidegate.workflow.generation import extension, rebuild, reread, restoration, salvage

Build = Callable[[Context, BuildingGeneration], BuiltGeneration]


@dataclass(frozen=True)
class Maker:
    """`build`: BUILDING(epoch) -> BUILT. `unchanged`: the generation in force, where what was built has its content and
    is given up. `again`: begins the generation that brings the rows back of one in force that has lost files; its
    number."""

    build: Build
    unchanged: Callable[[Context, BuiltGeneration], PublishedGeneration | None] = lambda ctx, generation: None
    again: Callable[[Context, PublishedGeneration], int] = lambda ctx, lost: _heal(ctx, lost)


def maker(kind: GenerationKind) -> Maker:
    return _MAKERS[kind]


def discard_if_refused(ctx: Context, taken: BuildingGeneration, error: TidegateError) -> None:
    """Discard what is refused: the generation in force stays the newest, so that Clear goes on verifying it."""
    if isinstance(error, ReplayRefused):
        ctx.ledger.windows.discard(taken, str(error))


def _or_discard(build: Build) -> Build:
    def built(ctx: Context, taken: BuildingGeneration) -> BuiltGeneration:
        try:
            return build(ctx, taken)
        except ReplayRefused as e:
            discard_if_refused(ctx, taken, e)
            raise

    return built


def _heal(ctx: Context, lost: PublishedGeneration) -> int:
    return ctx.ledger.windows.begin_generation(ctx.name, lost.window, lost.number, HEAL)


def _restore_or_heal(ctx: Context, lost: PublishedGeneration) -> int:
    number = restoration.again(ctx, lost)
    return _heal(ctx, lost) if number is None else number


_MAKERS = {
    ARCHIVE: Maker(salvage.first),
    HEAL: Maker(_or_discard(rebuild.rebuild)),
    REPLAY: Maker(_or_discard(rebuild.rebuild), rebuild.unchanged),
    REOPEN: Maker(_or_discard(extension.build)),
    ROLLBACK: Maker(_or_discard(restoration.build), again=_restore_or_heal),
    REREAD: Maker(_or_discard(reread.build), rebuild.unchanged),
}
