"""How tries to merge move: every arrow between their states."""

from __future__ import annotations

from tidegate.core.base.transition import NO_ROW, Named, Step, Transition, step
from tidegate.core.mirror.applies import APPLIED, OPEN, OVERTAKEN, REFUSED, Apply

BEGIN = Transition(name="begin", start=(NO_ROW,), end=OPEN, stamps=("began_ms",), event="apply begun", doing="{name}")
OVERTAKE = Transition(name="overtake", start=(OPEN,), end=OVERTAKEN, stamps=("done_ms",))
APPLY = Transition(
    name="apply",
    start=(OPEN, OVERTAKEN),
    end=APPLIED,
    guards=("nonce",),
    stamps=("done_ms",),
    event="applied",
    doing="applying {name}",
)
REFUSE = Transition(
    name="refuse",
    start=(OPEN,),
    end=REFUSED,
    guards=("nonce",),
    stamps=("done_ms",),
    event="apply refused",
    doing="refusing {name}",
)
TRANSITIONS = (BEGIN, OVERTAKE, APPLY, REFUSE)


def named(apply: Apply) -> Named:
    """Its row, by pipeline and epoch."""
    row = {"pipeline": apply.pipeline, "epoch": apply.epoch}
    return Named(row=row, subject=apply.subject, words={"name": apply.name})


def begin(apply: Apply, conflicts: str = "", base: str | None = None, copied: int | None = None) -> Step[Apply]:
    """The next try. Others stay as they are: no try waits for another one (M1). `conflicts`: why they are taken.
    `base`: the snapshot that upkeep was begun on. `copied`: the round of a copy that it brings rows of, or ends."""
    detail = {"epoch": apply.epoch} | ({"takes conflicts": conflicts} if conflicts else {})
    sets = {"first_batch": apply.first, "last_batch": apply.last, "nonce": apply.nonce, "snapshot": base}
    sets |= {"copied": copied}
    return step(BEGIN, named(apply), apply, sets=sets, detail=detail)


def applied(apply: Apply, snapshot: str | None) -> Step[None]:
    """The table says so, also if another try has overtaken it meanwhile."""
    detail = {"epoch": apply.epoch, "snapshot": snapshot}
    return step(APPLY, named(apply), None, as_read={"nonce": apply.nonce}, sets={"snapshot": snapshot}, detail=detail)


def overtaken(apply: Apply) -> Step[None]:
    """Its task has seen that it can commit no more."""
    return step(OVERTAKE, named(apply), None)


def refuse(apply: Apply, why: str) -> Step[None]:
    """Its job has refused the events."""
    detail = {"epoch": apply.epoch, "why": why}
    return step(REFUSE, named(apply), None, as_read={"nonce": apply.nonce}, sets={"why": why}, detail=detail)
