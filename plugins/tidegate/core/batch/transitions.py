"""How batches move: every arrow between their states, and which one a step is. What a step compares: `fencing`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from tidegate.core.base.plain import dumps
from tidegate.core.base.transition import NO_ROW, NOTHING, Named, Step, Transition, step
from tidegate.core.batch.fencing import AS_READ, as_read, attempt_of
from tidegate.core.batch.refusal import Refusal, RefusalKind
from tidegate.core.batch.states import (
    ABANDONED,
    LANDED,
    OPEN_STATES,
    PLANNED,
    SEALED,
    WRITING,
    AbandonedBatch,
    LandedBatch,
    OpenBatch,
    Plan,
    PlannedBatch,
    SealedBatch,
    WritingBatch,
)
from tidegate.core.files.receipt import DIRTY, LATE, Receipt

T = TypeVar("T")
NOT_REFUSED = dict.fromkeys(("refused", "refused_kind", "refused_advice", "refused_partition", "refused_offset"))

PLAN = Transition(
    name="plan", start=(NO_ROW,), end=PLANNED, stamps=("planned_ms",), event="planned", doing="plan of batch {id}"
)
TAKE = Transition(
    name="take",
    start=(PLANNED, WRITING),
    end=WRITING,
    guards=AS_READ,
    stamps=("began_ms",),
    event="writing",
    doing="taking batch {id}",
)
REPLAN = Transition(
    name="replan",
    start=(WRITING,),
    end=None,
    guards=AS_READ,
    stamps=("began_ms",),
    event="replanned",
    doing="replanning batch {id}",
)
REFUSE = Transition(
    name="refuse", start=(WRITING,), end=None, guards=AS_READ, event="refused", doing="refusing batch {id}"
)
RELEASE = Transition(
    name="release",
    start=(WRITING,),
    end=None,
    guards=("refused", "refused_kind"),
    event="released",
    doing="releasing batch {id}",
)
SEAL = Transition(
    name="seal",
    start=(WRITING,),
    end=SEALED,
    guards=AS_READ,
    stamps=("sealed_ms",),
    event="sealed",
    doing="sealing batch {id}",
)
ADOPT = Transition(
    name="adopt",
    start=(PLANNED, WRITING),
    end=SEALED,
    guards=AS_READ,
    stamps=("sealed_ms",),
    event="adopted",
    doing="sealing batch {id}",
)
LAND = Transition(
    name="land",
    start=(SEALED,),
    end=LANDED,
    guards=AS_READ,
    stamps=("landed_ms",),
    event="landed",
    doing="landing batch {id}",
)
ABANDON = Transition(
    name="abandon",
    start=OPEN_STATES,
    end=ABANDONED,
    guards=AS_READ,
    event="abandoned",
    doing="abandoning batch {id}",
)
WITHDRAW = Transition(
    name="withdraw",
    start=(*OPEN_STATES, ABANDONED),  # storage may know that what was given up has landed
    end=NO_ROW,
    guards=AS_READ,
    event="withdrawn",
    doing="withdrawing batch {id}",
)
BLOCK = Transition(
    name="block", start=OPEN_STATES, end=None, guards=AS_READ, event="blocked", doing="blocking batch {id}"
)
UNBLOCK = Transition(
    name="unblock",
    start=OPEN_STATES,
    end=None,
    guards=("blocked",),
    event="block cleared",
    doing="clearing the block of batch {id}",
)
MOVE_SIDE = Transition(
    name="move side files",
    start=(LANDED,),
    end=None,
    guards=("side_moved",),
    event="late and dirty files moved",
)
REGISTER_SIDE = Transition(
    name="register side files",
    start=(LANDED,),
    end=None,
    guards=("side_registered",),
    event="late and dirty files registered",
)
SHOW_AGAIN = Transition(name="owe side files again", start=(LANDED,), end=None)
CLEAN = Transition(name="clean", start=(LANDED,), end=None, guards=("cleaned_ms",), stamps=("cleaned_ms",))

TRANSITIONS = (
    PLAN, TAKE, REPLAN, REFUSE, RELEASE, SEAL, ADOPT, LAND, ABANDON, WITHDRAW, BLOCK, UNBLOCK, MOVE_SIDE,
    REGISTER_SIDE, SHOW_AGAIN, CLEAN,
)  # fmt: skip


def named(pipeline: str, batch_id: int) -> Named:
    return Named(row={"pipeline": pipeline, "batch_id": batch_id}, subject=f"batch {batch_id}", words={"id": batch_id})


def _step(
    transition: Transition,
    batch: OpenBatch | AbandonedBatch,
    after: T,
    sets: Mapping[str, object] = NOTHING,
    detail: Mapping[str, object] = NOTHING,
) -> Step[T]:
    row = named(batch.plan.pipeline, batch.plan.batch_id)
    return step(transition, row, after, state=batch.state, as_read=as_read(batch), sets=sets, detail=detail)


def _unread(
    transition: Transition,
    pipeline: str,
    batch_id: int,
    as_read: Mapping[str, object],
    sets: Mapping[str, object],
    detail: Mapping[str, object] = NOTHING,
) -> Step[None]:
    """Of a row that was not read as a whole: what a person saw of it is compared."""
    return step(transition, named(pipeline, batch_id), None, as_read=as_read, sets=sets, detail=detail)


# ---------------------------------------------------------------- from state to state


def plan(new: Plan, run: str | None) -> Step[PlannedBatch]:
    detail = {"records": new.records, "ranges": new.ranges, "losses": new.losses, "run": run}
    row = named(new.pipeline, new.batch_id)
    return step(PLAN, row, PlannedBatch(new), sets={"epoch": 0, "nonce": ""}, detail=detail)


def take(batch: OpenBatch, nonce: str) -> Step[WritingBatch]:
    """The next epoch, under its own nonce: who held the batch before can no longer change it (R9)."""
    epoch = (batch.epoch if isinstance(batch, WritingBatch) else 0) + 1
    attempt = {"epoch": epoch, "nonce": nonce}
    return _step(TAKE, batch, WritingBatch(batch.plan, epoch, nonce), attempt, attempt)


def replan(batch: WritingBatch, new: Plan) -> Step[WritingBatch]:
    """A refused batch takes a new spec: the same ranges, the next revision, an epoch that no attempt has."""
    old = batch.plan
    if new.ranges != old.ranges or new.revision != old.revision + 1:
        raise ValueError("a new revision keeps the ranges")
    sets = {
        "revision": new.revision,
        "spec_version": new.spec_version,
        "rules_version": new.rules_version,
        "floor": dumps(new.floor),
        "epoch": batch.epoch + 1,
        **NOT_REFUSED,
        "released": None,
    }
    detail = {"revision": new.revision, "spec": [old.spec_version, new.spec_version]}
    return _step(REPLAN, batch, WritingBatch(new, batch.epoch + 1, batch.nonce), sets, detail)


def seal(batch: WritingBatch, manifest: Receipt) -> Step[SealedBatch]:
    return _sealed(SEAL, batch, manifest)


def adopt(batch: OpenBatch, manifest: Receipt) -> Step[SealedBatch]:
    """Storage knew more than the ledger (R11): the epoch is that of the landed receipt."""
    return _sealed(ADOPT, batch, manifest)


def _sealed(transition: Transition, batch: OpenBatch, manifest: Receipt) -> Step[SealedBatch]:
    detail: dict[str, object] = {"epoch": manifest.epoch, "files": len(manifest.files), "rows": manifest.rows}
    if manifest.overflow:
        detail["overflow_rows"] = sum(o.rows for o in manifest.overflow)
    if manifest.slow:
        detail["slow"] = {one.reason: one.messages for one in manifest.slow}
    sets = {"epoch": manifest.epoch, "nonce": manifest.nonce, **NOT_REFUSED, "blocked": None}
    return _step(transition, batch, SealedBatch(batch.plan, manifest.epoch, manifest.nonce, manifest), sets, detail)


def land(batch: SealedBatch) -> Step[LandedBatch]:
    """`side_moved` and `side_registered` are duties from here on, of late and dirty files where there are any."""
    done = not any(f.kind in (LATE, DIRTY) for f in batch.manifest.files)
    sets = {"side_moved": done, "side_registered": done, "blocked": None}
    after = LandedBatch(batch.plan, batch.epoch, batch.nonce, done)
    return _step(LAND, batch, after, sets, {"rows": batch.manifest.rows})


def abandon(batch: OpenBatch, reason: str) -> Step[AbandonedBatch]:
    detail = {"reason": reason, "kind": batch.plan.kind}
    return _step(ABANDON, batch, AbandonedBatch(batch.plan, reason, *attempt_of(batch)), {"blocked": reason}, detail)


def withdraw(batch: OpenBatch | AbandonedBatch, why: str) -> Step[None]:
    return _step(WITHDRAW, batch, None, detail={"why": why, "ranges": batch.plan.ranges})


# ---------------------------------------------------------------- in a state


def refuse(batch: WritingBatch, refusal: Refusal) -> Step[None]:
    sets = {
        "refused": refusal.said,
        "refused_kind": refusal.kind,
        "refused_advice": refusal.advice,
        "refused_partition": refusal.partition,
        "refused_offset": refusal.offset,
    }
    return _step(REFUSE, batch, None, sets, {"reason": refusal.said, "kind": refusal.kind})


def release(pipeline: str, batch_id: int, refused: str, by: str, why: str) -> Step[None]:
    """What that person saw, and nothing but too many dirty records."""
    as_read = {"refused": refused, "refused_kind": RefusalKind.DIRTY_LIMIT}
    sets = {**NOT_REFUSED, "released": f"{by}: {why}"}
    return _unread(RELEASE, pipeline, batch_id, as_read, sets, {"refused": refused, "why": why})


def block(batch: OpenBatch, reason: str) -> Step[None]:
    return _step(BLOCK, batch, None, {"blocked": reason}, {"reason": reason})


def unblock(pipeline: str, batch_id: int, reason: str, why: str) -> Step[None]:
    detail = {"block": reason, "why": why}
    return _unread(UNBLOCK, pipeline, batch_id, {"blocked": reason}, {"blocked": None}, detail)


def side(pipeline: str, batch_id: int, flag: str) -> Step[None]:
    """`flag`: moved | registered."""
    transition = {"moved": MOVE_SIDE, "registered": REGISTER_SIDE}[flag]
    (column,) = transition.guards
    return _unread(transition, pipeline, batch_id, {column: False}, {column: True})


def clean(pipeline: str, batch_id: int) -> Step[None]:
    return _unread(CLEAN, pipeline, batch_id, {"cleaned_ms": None}, NOTHING)
