"""How windows and their generations move: every arrow between their states, and which one a step is.

A window without a row is OPEN. What a generation's step compares: `fencing`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from tidegate.core.base.instants import iso
from tidegate.core.base.transition import NO_ROW, NOTHING, Named, Step, Transition, step
from tidegate.core.files.receipt import FileEntry, content_digest
from tidegate.core.window.cut import window_id
from tidegate.core.window.fencing import ATTEMPT, CONTENT, as_read
from tidegate.core.window.states import (
    BUILDING,
    BUILT,
    CLOSED,
    CLOSING,
    CURRENT,
    DISCARDED,
    RETIRED,
    SWAPPING,
    BuildingGeneration,
    BuiltGeneration,
    Generation,
    GenerationKind,
    GenerationState,
    PublishedGeneration,
    WindowKey,
)

T = TypeVar("T")
UNFINISHED = (BUILDING, BUILT, SWAPPING)
"""States of a generation that somebody works at, or has died at."""
IN_FORCE_ONCE, SET_ASIDE = (CURRENT, RETIRED), (RETIRED, DISCARDED)

# ---------------------------------------------------------------- windows

BEGIN_CLOSE = Transition(
    name="begin to close", start=(NO_ROW,), end=CLOSING, event="closing", doing="closing window {at}"
)
ADOPT_AS_CLOSING = Transition(
    name="adopt as closing", start=(NO_ROW,), end=CLOSING, event="adopted as closing", doing="window {at}"
)
FINISH_CLOSE = Transition(
    name="finish closing",
    start=(CLOSING,),
    end=CLOSED,
    stamps=("closed_ms",),
    event="closed",
    doing="closing window {at}",
)
ADOPT_AS_CLOSED = Transition(
    name="adopt as closed", start=(NO_ROW,), end=CLOSED, stamps=("closed_ms",), doing="window {at}"
)
CLOSE_ADOPTED = Transition(
    name="close what was adopted", start=(CLOSING,), end=CLOSED, stamps=("closed_ms",), doing="window {at}"
)
BLOCK = Transition(name="block", start=(CLOSING, CLOSED), end=None, event="blocked", doing="blocking window {at}")
UNBLOCK = Transition(
    name="unblock",
    start=(CLOSING, CLOSED),
    end=None,
    guards=("blocked",),
    event="block cleared",
    doing="clearing the block of window {id}",
)
END_ALARM = Transition(name="end the alarm", start=(CLOSED,), end=None, doing="publishing window {at}")

WINDOWS = (
    BEGIN_CLOSE, ADOPT_AS_CLOSING, FINISH_CLOSE, ADOPT_AS_CLOSED, CLOSE_ADOPTED, BLOCK, UNBLOCK, END_ALARM,
)  # fmt: skip

# ---------------------------------------------------------------- generations

FIRST = Transition(name="begin the first", start=(NO_ROW,), end=BUILDING)
BEGIN = Transition(
    name="begin", start=(NO_ROW,), end=BUILDING, event="generation begun", doing="beginning generation {number}"
)
TAKE = Transition(
    name="take",
    start=(BUILDING,),
    end=BUILDING,
    guards=ATTEMPT,
    stamps=("began_ms",),
    event="assembling",
    doing="taking generation {number}",
)
BUILD = Transition(
    name="build",
    start=(BUILDING,),
    end=BUILT,
    guards=ATTEMPT,
    stamps=("built_ms",),
    event="built",
    doing="generation {number} built",
)
TAKE_BACK = Transition(
    name="take back",
    start=(BUILT,),
    end=BUILDING,
    guards=CONTENT,
    event="taken back",
    doing="taking generation {number} back",
)
GIVE_UP = Transition(
    name="give up",
    start=(BUILDING,),
    end=DISCARDED,
    guards=ATTEMPT,
    event="discarded",
    doing="discarding generation {number}",
)
DISCARD = Transition(
    name="discard",
    start=(BUILT,),
    end=DISCARDED,
    guards=CONTENT,
    event="discarded",
    doing="discarding generation {number}",
)
BEGIN_SWAP = Transition(
    name="begin to swap",
    start=(BUILT,),
    end=SWAPPING,
    guards=CONTENT,
    event="swapping",
    doing="swapping in generation {number}",
)
PUBLISH = Transition(
    name="publish",
    start=(SWAPPING,),
    end=CURRENT,
    guards=CONTENT,
    stamps=("published_ms",),
    event="published",
    doing="publishing generation {number}",
)
RETIRE = Transition(name="retire", start=(CURRENT,), end=RETIRED, stamps=("retired_ms",))
RETIRE_FORGOTTEN = Transition(
    name="retire what was forgotten", start=IN_FORCE_ONCE, end=RETIRED, stamps=("retired_ms",)
)
OVERTAKE = Transition(name="overtake", start=UNFINISHED, end=DISCARDED)
RESTORE = {
    state: Transition(
        name=f"restore as {state}", start=(NO_ROW,), end=state, event="restored", doing="generation {number}"
    )
    for state in (BUILT, CURRENT, RETIRED, DISCARDED)
}
CLEAR_AWAY = Transition(
    name="clear away",
    start=(*UNFINISHED, DISCARDED),
    end=NO_ROW,
    guards=("epoch",),
    doing="generation {number}",
)
MOVE = Transition(name="move", start=(RETIRED,), end=None, guards=("location",), doing="moving generation {number}")
ANNOUNCE = Transition(
    name="announce",
    start=IN_FORCE_ONCE,
    end=None,
    guards=("announced_ms",),
    stamps=("announced_ms",),
    event="announced",
)
BEGIN_CLEANING = Transition(
    name="begin to clean", start=(RETIRED,), end=None, guards=("cleaning_ms",), stamps=("cleaning_ms",)
)
CLEAN = Transition(
    name="clean", start=SET_ASIDE, end=None, guards=("cleaned_ms",), stamps=("cleaned_ms",), event="cleaned"
)

GENERATIONS = (
    FIRST, BEGIN, TAKE, BUILD, TAKE_BACK, GIVE_UP, DISCARD, BEGIN_SWAP, PUBLISH, RETIRE, RETIRE_FORGOTTEN, OVERTAKE,
    *RESTORE.values(), CLEAR_AWAY, MOVE, ANNOUNCE, BEGIN_CLEANING, CLEAN,
)  # fmt: skip


def of_window(pipeline: str, key: WindowKey) -> Named:
    name = window_id(key.start_ms)
    words = {"at": iso(key.start_ms), "id": name}
    return Named(row={"pipeline": pipeline, "start_ms": key.start_ms}, subject=f"window {name}", words=words)


def of_generation(pipeline: str, window_ms: int, number: int) -> Named:
    row = {"pipeline": pipeline, "window_ms": window_ms, "number": number}
    return Named(row=row, subject=f"window {window_id(window_ms)}", words={"number": number})


# ---------------------------------------------------------------- steps of windows


def begin_close(pipeline: str, key: WindowKey, closing_batch: int, reason: str) -> Step[None]:
    """Plans from `closing_batch` on see the window closing (R5)."""
    detail = {"closing_batch": closing_batch, "reason": reason}
    return _begun(BEGIN_CLOSE, pipeline, key, closing_batch, detail)


def adopt_as_closing(pipeline: str, key: WindowKey, closing_batch: int, pending: list[int], why: str) -> Step[None]:
    detail = {"closing_batch": closing_batch, "waits_for": pending, "why": why}
    return _begun(ADOPT_AS_CLOSING, pipeline, key, closing_batch, detail)


def adopt_as_closed(pipeline: str, key: WindowKey, closing_batch: int) -> Step[None]:
    return _begun(ADOPT_AS_CLOSED, pipeline, key, closing_batch, NOTHING)


def _begun(
    transition: Transition, pipeline: str, key: WindowKey, closing_batch: int, detail: Mapping[str, object]
) -> Step[None]:
    sets = {"end_ms": key.end_ms, "closing_batch": closing_batch}
    return step(transition, of_window(pipeline, key), None, sets=sets, detail=detail)


def finish_close(pipeline: str, key: WindowKey, batches: list[int]) -> Step[None]:
    return step(FINISH_CLOSE, of_window(pipeline, key), None, detail={"batches": batches})


def close_adopted(pipeline: str, key: WindowKey) -> Step[None]:
    return step(CLOSE_ADOPTED, of_window(pipeline, key), None)


def block(pipeline: str, key: WindowKey, reason: str) -> Step[None]:
    return step(BLOCK, of_window(pipeline, key), None, sets={"blocked": reason}, detail={"reason": reason})


def unblock(pipeline: str, key: WindowKey, reason: str, why: str) -> Step[None]:
    detail = {"block": reason, "why": why}
    row = of_window(pipeline, key)
    return step(UNBLOCK, row, None, as_read={"blocked": reason}, sets={"blocked": None}, detail=detail)


def end_alarm(pipeline: str, key: WindowKey) -> Step[None]:
    """An alarm on the way to a publication is over, as a batch's is when it lands."""
    return step(END_ALARM, of_window(pipeline, key), None, sets={"blocked": None})


# ---------------------------------------------------------------- steps of generations


def begin(
    transition: Transition, pipeline: str, key: WindowKey, number: int, kind: GenerationKind, **more: object
) -> Step[None]:
    """`transition`: FIRST, which the window's own event tells, or BEGIN; `more`: for the event log."""
    sets = {"epoch": 0, "nonce": "", "kind": kind}
    detail = {"generation": number, "kind": kind, **more}
    return step(transition, of_generation(pipeline, key.start_ms, number), None, sets=sets, detail=detail)


def take(generation: BuildingGeneration, nonce: str, above: int = 0) -> Step[BuildingGeneration]:
    """The next epoch, or the one after `above` if storage has seen higher ones (R11)."""
    epoch = max(generation.epoch, above) + 1
    after = replace(generation, epoch=epoch, nonce=nonce)
    return _step(TAKE, generation, after, {"epoch": epoch, "nonce": nonce}, {"epoch": epoch})


def built(generation: BuildingGeneration, directory: str, files: tuple[FileEntry, ...]) -> BuiltGeneration:
    """What it is once `build` is done."""
    return BuiltGeneration(
        pipeline=generation.pipeline,
        window=generation.window,
        number=generation.number,
        epoch=generation.epoch,
        kind=generation.kind,
        batches=generation.batches,
        directory=directory,
        files=files,
        digest=content_digest(files),
        late=generation.late,
    )


def build(generation: BuildingGeneration, built: BuiltGeneration, noted: Mapping[str, str]) -> Step[BuiltGeneration]:
    """The kind too: a first one whose landed files were lost has become a heal. `noted`: in the event log, beside."""
    sets = {
        "kind": generation.kind,
        "directory": built.directory,
        "digest": built.digest,
        "rows": sum(f.rows for f in built.files),
    }
    detail = {"kind": generation.kind, "files": len(built.files), "digest": built.digest}
    detail |= noted
    return _step(BUILD, generation, built, sets, detail)


def take_back(generation: BuiltGeneration, nonce: str) -> Step[BuildingGeneration]:
    after = BuildingGeneration(
        pipeline=generation.pipeline,
        window=generation.window,
        number=generation.number,
        epoch=generation.epoch,
        nonce=nonce,
        kind=generation.kind,
        batches=generation.batches,
        late=generation.late,
    )
    return _step(TAKE_BACK, generation, after, {"nonce": nonce})


def discard(generation: BuildingGeneration | BuiltGeneration, why: str) -> Step[None]:
    """Given up while it is assembled, refused or unchanged once it is built; one that is swapped in goes on."""
    transition = GIVE_UP if isinstance(generation, BuildingGeneration) else DISCARD
    return _step(transition, generation, None, detail={"why": why})


def begin_swap(generation: BuiltGeneration, location: str | None) -> Step[BuiltGeneration]:
    after = replace(generation, state=SWAPPING, location=location)
    return _step(BEGIN_SWAP, generation, after, {"location": location})


def publish(
    generation: BuiltGeneration, location: str, now_ms: int, certificate: str, **more: object
) -> Step[PublishedGeneration]:
    after = PublishedGeneration(
        pipeline=generation.pipeline,
        window=generation.window,
        number=generation.number,
        kind=generation.kind,
        batches=generation.batches,
        location=location,
        files=generation.files,
        digest=generation.digest,
        published_ms=now_ms,
        epoch=generation.epoch,
        late=generation.late,
    )
    detail = {"location": location, "certificate": certificate, **more}
    return _step(PUBLISH, generation, after, {"location": location}, detail)


def restore(pipeline: str, key: WindowKey, number: int, state: GenerationState, location: str, why: str) -> Step[None]:
    detail = {"generation": number, "state": state, "location": location, "why": why}
    row = of_generation(pipeline, key.start_ms, number)
    return step(RESTORE[state], row, None, sets={"nonce": "", "location": location}, detail=detail)


def clear_away(pipeline: str, key: WindowKey, number: int, state: GenerationState, epoch: int) -> Step[None]:
    return step(CLEAR_AWAY, of_generation(pipeline, key.start_ms, number), None, state=state, as_read={"epoch": epoch})


def move(pipeline: str, key: WindowKey, number: int, location: str, place: str) -> Step[None]:
    """A retired one has made way to another in its directory (swap: directory)."""
    row = of_generation(pipeline, key.start_ms, number)
    return step(MOVE, row, None, as_read={"location": location}, sets={"location": place})


def announce(pipeline: str, key: WindowKey, number: int) -> Step[None]:
    row, detail = of_generation(pipeline, key.start_ms, number), {"generation": number}
    return step(ANNOUNCE, row, None, as_read={"announced_ms": None}, detail=detail)


def begin_cleaning(pipeline: str, window_ms: int, number: int) -> Step[None]:
    """From now on no rollback begins with its files."""
    return step(BEGIN_CLEANING, of_generation(pipeline, window_ms, number), None, as_read={"cleaning_ms": None})


def clean(pipeline: str, window_ms: int, number: int) -> Step[None]:
    row, detail = of_generation(pipeline, window_ms, number), {"generation": number}
    return step(CLEAN, row, None, as_read={"cleaned_ms": None}, detail=detail)


def _step(
    transition: Transition,
    generation: Generation,
    after: T,
    sets: Mapping[str, object] = NOTHING,
    detail: Mapping[str, object] = NOTHING,
) -> Step[T]:
    row = of_generation(generation.pipeline, generation.window.start_ms, generation.number)
    detail = {"generation": generation.number, **detail}
    return step(transition, row, after, state=generation.state, as_read=as_read(generation), sets=sets, detail=detail)
