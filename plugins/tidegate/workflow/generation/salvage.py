"""The first generation of a window whose landed files are lost before it is published: read again, as a heal is."""

from __future__ import annotations

from dataclasses import replace

from tidegate.core.base.errors import Alarm, FilesLost, ReplayRefused
from tidegate.core.base.instants import iso
from tidegate.core.window.states import HEAL, BuildingGeneration, BuiltGeneration
from tidegate.workflow.base.context import Context
from tidegate.workflow.generation import assembly, rebuild


def first(ctx: Context, generation: BuildingGeneration) -> BuiltGeneration:
    """BUILDING(epoch) -> BUILT from the landed files; where some of them are lost, from the records in Kafka.

    Raises MovedOn, Alarm (the window is blocked) where neither has the rows, and what a next try may heal."""
    try:
        return assembly.assemble(ctx, generation)
    except FilesLost as e:
        return _again(ctx, generation, e)


def _again(ctx: Context, generation: BuildingGeneration, lost: FilesLost) -> BuiltGeneration:
    """Build again by an epoch of its own: what is left of the landed files may be in the directory of this one (R3).

    The generation is a heal only once it is BUILT: a try that dies, or is refused, leaves one that landed files make
    as soon as they are restored."""
    key, number = generation.window, generation.number
    ctx.say(f"{lost.args[0]}: rebuilding {iso(key.start_ms)} from {ctx.kind.title}")
    ctx.target.prepare()  # before an hour of Spark, not after it
    taken = ctx.ledger.windows.take(ctx.name, key, number, ctx.nonce(), generation.epoch)
    try:
        return rebuild.rebuild(ctx, replace(taken, kind=HEAL))
    except ReplayRefused as e:
        alarm = Alarm(f"{lost.args[0]}; it is not rebuilt either: {e.args[0]}", advice=lost.advice)
        ctx.ledger.windows.block(ctx.name, key, str(alarm))
        raise alarm from e
