"""How a window's delivery moves: every arrow between its states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tidegate.core.base.errors import LostComparison
from tidegate.core.base.transition import NO_ROW, NOTHING, Named, Step, Transition, step
from tidegate.core.deliver import units
from tidegate.core.deliver.port import Content
from tidegate.core.deliver.states import PENDING, REFUSED, SENDING, SKIPPED, STANDING, Delivered, DeliveryState, Due

TRY = ("generation", "epoch", "nonce")
"""What names a try: no two have the same."""
BEGIN = Transition(name="begin", start=(NO_ROW,), end=SENDING, stamps=("since_ms",), doing="sending {name}")
TAKE = Transition(
    name="take",
    start=(PENDING, SENDING, STANDING, REFUSED, SKIPPED),
    end=SENDING,
    guards=TRY,
    stamps=("since_ms",),
    doing="sending {name}",
)
STAND = Transition(
    name="stand",
    start=(SENDING,),
    end=STANDING,
    guards=TRY,
    stamps=("since_ms", "stood_ms"),
    event="delivered",
    doing="{name} stands",
)
FAIL = Transition(name="fail", start=(SENDING,), end=None, guards=TRY, doing="the last words of {name}")
LACK = Transition(
    name="lack", start=(SENDING,), end=None, guards=TRY, stamps=("stood_ms",), doing="what was read back of {name}"
)
REFUSE = Transition(
    name="refuse",
    start=(SENDING,),
    end=REFUSED,
    guards=TRY,
    stamps=("since_ms",),
    event="delivery refused",
    doing="refusing {name}",
)
AGAIN = Transition(
    name="again",
    start=(SENDING, STANDING, REFUSED, SKIPPED),
    end=PENDING,
    guards=TRY,
    stamps=("since_ms",),
    event="to be delivered again",
    doing="sending {name} again",
)
SKIP = Transition(
    name="skip",
    start=(PENDING, SENDING, STANDING, REFUSED, SKIPPED),
    end=SKIPPED,
    guards=TRY,
    stamps=("since_ms",),
    event="delivery skipped",
    doing="skipping {name}",
)
SKIP_FIRST = Transition(
    name="skip the first",
    start=(NO_ROW,),
    end=SKIPPED,
    stamps=("since_ms",),
    event="delivery skipped",
    doing="skipping {name}",
)
TRANSITIONS = (BEGIN, TAKE, STAND, FAIL, LACK, REFUSE, AGAIN, SKIP, SKIP_FIRST)


def subject(name: str, window_ms: int) -> str:
    """By which the event log knows it."""
    return f"delivery {name} {units.in_words(units.side_of(name), window_ms)}"


def of_row(pipeline: str, name: str, window_ms: int) -> Named:
    """Its row."""
    row = {"pipeline": pipeline, "name": name, "window_ms": window_ms}
    unit = units.in_words(units.side_of(name), window_ms)
    return Named(row=row, subject=subject(name, window_ms), words={"name": f"{unit} to {name}"})


def take(pipeline: str, name: str, due: Due, digest: str, nonce: str, above: int) -> Step[Delivered]:
    """A try of the generation in force. Its epoch is above every earlier one of the window."""
    was = due.row
    epoch = max(above, 0 if was is None else was.epoch) + 1
    tried = _of(pipeline, name, due, digest, SENDING, epoch, nonce)
    sets = {"generation": due.generation, "digest": digest, "epoch": epoch, "nonce": nonce, "why": ""}
    return _step(BEGIN if was is None else TAKE, was, tried, sets)


def stand(row: Delivered, content: Content) -> Step[Delivered]:
    """Its content was read back there."""
    after = replace(row, state=STANDING, why="", stood=row.generation, content=content)
    sets = {"why": "", "stood": row.generation, "rows": content.rows, "checksum": str(content.checksum)}
    detail = {"generation": row.generation, "epoch": row.epoch, "rows": content.rows}
    return _step(STAND, row, after, sets, detail)


def fail(row: Delivered, why: str) -> Step[Delivered]:
    """The try ended with these words."""
    return _step(FAIL, row, replace(row, why=why), {"why": why})


def lack(row: Delivered, why: str, content: Content) -> Step[Delivered]:
    """Its content was read back there, and it does not count as delivered yet."""
    after = replace(row, why=why, stood=row.generation, content=content)
    sets = {"why": why, "stood": row.generation, "rows": content.rows, "checksum": str(content.checksum)}
    return _step(LACK, row, after, sets)


def refuse(row: Delivered, why: str) -> Step[Delivered]:
    """The try ended with these words, and no other one may change that."""
    detail = {"generation": row.generation, "epoch": row.epoch, "why": why}
    return _step(REFUSE, row, replace(row, state=REFUSED, why=why), {"why": why}, detail)


def again(row: Delivered, why: str) -> Step[Delivered]:
    """It is to be sent once more."""
    detail = {"generation": row.generation, "why": why}
    return _step(AGAIN, row, replace(row, state=PENDING, why=why), {"why": why}, detail)


def skip(pipeline: str, name: str, due: Due, digest: str, why: str) -> Step[Delivered]:
    """This generation is not to be sent. Raises LostComparison where it stands there already."""
    was = due.row
    epoch, nonce = (0, "") if was is None else (was.epoch, was.nonce)
    left_out = _of(pipeline, name, due, digest, SKIPPED, epoch, nonce, why)
    sets = {"generation": due.generation, "digest": digest, "why": why}
    if was is None:
        sets |= {"epoch": 0, "nonce": ""}
    elif was.state in (STANDING, SKIPPED) and was.generation == due.generation:
        raise LostComparison(f"generation {due.generation} of {due.unit} is {was.state} at {name}")
    return _step(SKIP_FIRST if was is None else SKIP, was, left_out, sets, {"generation": due.generation, "why": why})


def _of(
    pipeline: str, name: str, due: Due, digest: str, state: DeliveryState, epoch: int, nonce: str, why: str = ""
) -> Delivered:
    was = due.row
    return Delivered(
        pipeline=pipeline,
        name=name,
        window_ms=due.window_ms,
        generation=due.generation,
        digest=digest,
        state=state,
        epoch=epoch,
        nonce=nonce,
        since_ms=0,
        why=why,
        stood=None if was is None else was.stood,
        content=None if was is None else was.content,
        stood_ms=None if was is None else was.stood_ms,
    )


def _step(
    transition: Transition,
    was: Delivered | None,
    after: Delivered,
    sets: Mapping[str, object],
    detail: Mapping[str, object] = NOTHING,
) -> Step[Delivered]:
    named = of_row(after.pipeline, after.name, after.window_ms)
    as_read = NOTHING if was is None else {column: getattr(was, column) for column in TRY}
    state = None if was is None else was.state
    return step(transition, named, after, state=state, as_read=as_read, sets=sets, detail=detail)
