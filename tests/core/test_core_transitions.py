"""The state machines as tables: which steps begin in a state, and what each compares."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidegate.core.base.errors import LostComparison
from tidegate.core.base.transition import NO_ROW, Named, Transition, step
from tidegate.core.batch import transitions as batches
from tidegate.core.batch.refusal import Refusal, RefusalKind
from tidegate.core.batch.states import (
    ABANDONED,
    LANDED,
    OPEN_STATES,
    OVER_STATES,
    PLANNED,
    SEALED,
    WRITING,
    AbandonedBatch,
    LandedBatch,
    PartitionPlan,
    Plan,
    PlannedBatch,
    SealedBatch,
    WritingBatch,
)
from tidegate.core.files.overflow import Overflow
from tidegate.core.files.receipt import DIRTY, LATE, FileEntry, Receipt, content_digest
from tidegate.core.files.slow_path import Slow
from tidegate.core.window import transitions as windows
from tidegate.core.window.lateness import Floor
from tidegate.core.window.states import (
    ARCHIVE,
    BUILDING,
    BUILT,
    CLOSED,
    CLOSING,
    CURRENT,
    DISCARDED,
    HEAL,
    RETIRED,
    SWAPPING,
    BuildingGeneration,
    BuiltGeneration,
    PublishedGeneration,
    WindowKey,
)

KEY = WindowKey(0, 3_600_000)


def arrows(transitions: tuple[Transition, ...]) -> set[tuple[str, str]]:
    return {(a, t.end) for t in transitions for a in t.start if t.end is not None}


def test_what_is_over_stays_over() -> None:
    """But for a batch that was given up by a ledger which did not know that it had landed."""
    over = {(a, z) for a, z in arrows(batches.TRANSITIONS) if a in OVER_STATES}
    assert over == {(ABANDONED, NO_ROW)}
    assert {a for a, _ in arrows(windows.WINDOWS)} == {NO_ROW, CLOSING}, "nothing leaves CLOSED"
    ends = arrows(windows.GENERATIONS)
    assert {z for a, z in ends if a == CURRENT} == {z for a, z in ends if a == RETIRED} == {RETIRED}
    assert {z for a, z in ends if a == DISCARDED} == {NO_ROW}


def test_each_state_is_reached() -> None:
    assert {z for _, z in arrows(batches.TRANSITIONS)} == {*OPEN_STATES, LANDED, ABANDONED, NO_ROW}
    assert {z for _, z in arrows(windows.WINDOWS)} == {CLOSING, CLOSED}
    assert {z for _, z in arrows(windows.GENERATIONS)} == {
        BUILDING, BUILT, SWAPPING, CURRENT, RETIRED, DISCARDED, NO_ROW,
    }  # fmt: skip


def test_only_a_seal_leads_to_landed_and_only_a_swap_to_current() -> None:
    assert {a for a, z in arrows(batches.TRANSITIONS) if z == LANDED} == {SEALED}
    assert {a for a, z in arrows(windows.GENERATIONS) if z == CURRENT} == {SWAPPING, NO_ROW}
    assert {a for a, z in arrows(windows.GENERATIONS) if z == SWAPPING} == {BUILT}


def test_names_are_unique_and_every_change_of_an_open_batch_compares_its_attempt() -> None:
    for machine in (batches.TRANSITIONS, windows.WINDOWS, windows.GENERATIONS):
        assert len({t.name for t in machine}) == len(machine)
    for t in batches.TRANSITIONS:
        if set(t.start) <= {*OPEN_STATES, ABANDONED} and t not in (batches.RELEASE, batches.UNBLOCK):
            assert t.guards == ("epoch", "nonce", "revision"), t.name
    for t in windows.GENERATIONS:
        if t.start == (BUILDING,):
            assert t.guards == ("epoch", "nonce"), t.name
        if t.start in ((BUILT,), (SWAPPING,)):
            assert t.guards == ("epoch", "digest"), t.name


def test_rows_that_begin_or_go() -> None:
    assert [t.name for t in batches.TRANSITIONS if t.inserts] == ["plan"]
    assert [t.name for t in batches.TRANSITIONS if t.deletes] == ["withdraw"]
    assert [t.name for t in windows.GENERATIONS if t.deletes] == ["clear away"]
    assert not any(t.deletes for t in windows.WINDOWS)


# ---------------------------------------------------------------- a step

GO = Transition(name="go", start=("A", "B"), end="C", guards=("epoch",), event="gone", doing="taking {id} away")
ROW = Named(row={"id": 7}, subject="thing 7", words={"id": 7})


def test_a_step_compares_the_state_that_was_read_and_every_guard() -> None:
    made = step(GO, ROW, "after", state="B", as_read={"epoch": 3, "other": 4}, sets={"x": 1}, detail={"y": 2})
    assert (made.transition, made.subject, made.what, made.after) == (GO, "thing 7", "taking 7 away", "after")
    assert (made.row, made.states, made.as_read) == ({"id": 7}, ("B",), {"epoch": 3})
    assert (made.sets, made.detail) == ({"x": 1}, {"y": 2})
    assert step(GO, ROW, None, as_read={"epoch": 3}).states == ("A", "B"), "it was not read"


def test_a_step_from_another_state_is_refused() -> None:
    with pytest.raises(LostComparison, match="^taking 7 away: thing 7 was C when it was read$"):
        step(GO, ROW, None, state="C", as_read={"epoch": 3})


def test_a_guard_without_a_value_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="^go of thing 7 does not compare epoch$"):
        step(GO, ROW, None, state="A")


# ---------------------------------------------------------------- batches

PLAN = Plan(
    pipeline="p",
    batch_id=5,
    revision=1,
    spec_version=2,
    rules_version=3,
    topic="t",
    topic_id="id",
    clock_ms=9,
    floor=Floor(0, ()),
    partitions=(),
)
WRITES = WritingBatch(PLAN, 3, "n")
ATTEMPT = {"epoch": 3, "nonce": "n", "revision": 1}


def receipt(*kinds: str, **more: object) -> Receipt:
    one = FileEntry(
        path="", kind="", window_ms=0, values=(), rows=2, bytes=10, min_event_ms=0, max_event_ms=1, checksum=4,
        partitions=(),
    )  # fmt: skip
    files = tuple(replace(one, path=f"{k}/x", kind=k) for k in kinds)
    return replace(
        Receipt(
            attempt="a",
            batch_id=5,
            epoch=4,
            nonce="m",
            topic="t",
            topic_id="id",
            spec_version=2,
            rules_version=3,
            ranges=(),
            files=files,
        ),
        **more,
    )  # type: ignore[arg-type]


def test_a_plan_begins_at_epoch_0() -> None:
    made = batches.plan(PLAN, "r1")
    assert (made.transition, made.after, made.sets) == (batches.PLAN, PlannedBatch(PLAN), {"epoch": 0, "nonce": ""})
    assert (made.row, made.subject, made.what) == ({"pipeline": "p", "batch_id": 5}, "batch 5", "plan of batch 5")
    assert made.detail == {"records": 0, "ranges": (), "losses": (), "run": "r1"}


def test_each_taking_raises_the_epoch_under_its_own_nonce() -> None:
    first = batches.take(PlannedBatch(PLAN), "n")
    assert (first.after, first.states) == (WritingBatch(PLAN, 1, "n"), (PLANNED,))
    assert first.as_read == {"epoch": 0, "nonce": "", "revision": 1}
    assert first.sets == first.detail == {"epoch": 1, "nonce": "n"}
    again = batches.take(WRITES, "o")
    assert (again.after, again.states, again.as_read) == (WritingBatch(PLAN, 4, "o"), (WRITING,), ATTEMPT)
    assert again.sets == {"epoch": 4, "nonce": "o"}
    with pytest.raises(LostComparison, match="^taking batch 5: batch 5 was SEALED"):
        batches.take(SealedBatch(PLAN, 3, "n", receipt()), "o")


def test_a_replan_keeps_the_ranges_and_lifts_the_refusal() -> None:
    new = replace(PLAN, revision=2, spec_version=8, rules_version=4)
    made = batches.replan(WRITES, new)
    assert (made.transition, made.after) == (batches.REPLAN, WritingBatch(new, 4, "n"))
    assert made.sets == {
        "revision": 2, "spec_version": 8, "rules_version": 4, "floor": made.sets["floor"], "epoch": 4, "released": None,
        **batches.NOT_REFUSED,
    }  # fmt: skip
    assert made.detail == {"revision": 2, "spec": [2, 8]}
    for other in (
        replace(new, revision=3),
        replace(
            new,
            partitions=(
                PartitionPlan(partition=0, start=0, end=1, log_start=0, last_stable_offset=1, high_watermark=1),
            ),
        ),
    ):
        with pytest.raises(ValueError, match="keeps the ranges"):
            batches.replan(WRITES, other)


def test_sealed_by_its_own_attempt_adopted_from_any() -> None:
    sealed = batches.seal(WRITES, receipt("data"))
    assert (sealed.transition, sealed.after) == (batches.SEAL, SealedBatch(PLAN, 4, "m", receipt("data")))
    assert sealed.sets == {"epoch": 4, "nonce": "m", "blocked": None, **batches.NOT_REFUSED}
    assert sealed.detail == {"epoch": 4, "files": 1, "rows": 2}
    assert batches.adopt(PlannedBatch(PLAN), receipt()).transition is batches.ADOPT
    with pytest.raises(LostComparison):
        batches.seal(PlannedBatch(PLAN), receipt())  # type: ignore[arg-type]
    odd = receipt("data", overflow=(Overflow(0, 4, 1), Overflow(1, 3, 1)), slow=(Slow("deep", 6),))
    assert batches.seal(WRITES, odd).detail == sealed.detail | {"overflow_rows": 7, "slow": {"deep": 6}}


def test_side_files_are_a_duty_where_there_are_any() -> None:
    for kinds, done in ((("data",), True), ((LATE,), False), (("data", DIRTY), False)):
        made = batches.land(SealedBatch(PLAN, 4, "m", receipt(*kinds)))
        assert made.after == LandedBatch(PLAN, 4, "m", done)
        assert made.sets == {"side_moved": done, "side_registered": done, "blocked": None}
        assert (made.states, made.detail) == ((SEALED,), {"rows": 2 * len(kinds)})


def test_given_up_withdrawn_refused_blocked() -> None:
    gone = batches.abandon(WRITES, "why")
    assert (gone.after, gone.sets) == (AbandonedBatch(PLAN, "why", 3, "n"), {"blocked": "why"})
    assert gone.detail == {"reason": "why", "kind": "ingest"}
    back = batches.withdraw(WRITES, "why")
    assert (back.transition, back.detail) == (batches.WITHDRAW, {"why": "why", "ranges": ()})
    left = batches.withdraw(AbandonedBatch(PLAN, "why", 3, "n"), "landed")
    assert (left.transition, left.states, left.as_read) == (batches.WITHDRAW, (ABANDONED,), ATTEMPT)
    assert (back.as_read, batches.abandon(WRITES, "x").as_read) == (ATTEMPT, ATTEMPT)
    no = batches.refuse(WRITES, Refusal(kind=RefusalKind.JOB, said="odd", advice="look", partition=1, offset=7))
    assert (no.transition, no.detail) == (batches.REFUSE, {"reason": "odd", "kind": "job"})
    assert no.sets == {
        "refused": "odd", "refused_kind": "job", "refused_advice": "look", "refused_partition": 1, "refused_offset": 7,
    }  # fmt: skip
    assert no.sets.keys() == batches.NOT_REFUSED.keys()
    assert set(batches.NOT_REFUSED.values()) == {None}
    held = batches.block(WRITES, "odd")
    assert (held.transition, held.sets, held.detail) == (batches.BLOCK, {"blocked": "odd"}, {"reason": "odd"})


def test_what_a_person_saw_is_compared() -> None:
    let = batches.release("p", 5, "dirty", "ann", "fine")
    assert let.as_read == {"refused": "dirty", "refused_kind": "dirty_limit"}
    assert (let.sets, let.states) == ({**batches.NOT_REFUSED, "released": "ann: fine"}, (WRITING,))
    assert let.detail == {"refused": "dirty", "why": "fine"}
    clear = batches.unblock("p", 5, "odd", "fine")
    assert (clear.as_read, clear.sets, clear.states) == ({"blocked": "odd"}, {"blocked": None}, OPEN_STATES)
    assert clear.detail == {"block": "odd", "why": "fine"}


def test_marks_of_a_landed_batch() -> None:
    moved, registered = batches.side("p", 5, "moved"), batches.side("p", 5, "registered")
    assert (moved.as_read, moved.sets) == ({"side_moved": False}, {"side_moved": True})
    assert (registered.as_read, registered.sets) == ({"side_registered": False}, {"side_registered": True})
    cleaned = batches.clean("p", 5)
    assert (cleaned.as_read, cleaned.sets, cleaned.states) == ({"cleaned_ms": None}, {}, (LANDED,))


# ---------------------------------------------------------------- windows

W = {"pipeline": "p", "start_ms": 0}


def test_windows_close_and_are_blocked() -> None:
    begun = windows.begin_close("p", KEY, 9, "ready")
    assert (begun.row, begun.subject) == (W, "window 19700101T000000Z")
    assert begun.what == "closing window 1970-01-01T00:00Z"
    assert begun.sets == {"end_ms": 3_600_000, "closing_batch": 9}
    assert begun.detail == {"closing_batch": 9, "reason": "ready"}
    adopted = windows.adopt_as_closing("p", KEY, 9, [7, 8], "lost")
    assert adopted.detail == {"closing_batch": 9, "waits_for": [7, 8], "why": "lost"}
    assert windows.adopt_as_closed("p", KEY, 9).sets == begun.sets
    assert windows.finish_close("p", KEY, [1, 2]).detail == {"batches": [1, 2]}
    assert windows.close_adopted("p", KEY).states == (CLOSING,)
    held = windows.block("p", KEY, "odd")
    assert (held.sets, held.detail, held.states) == ({"blocked": "odd"}, {"reason": "odd"}, (CLOSING, CLOSED))
    clear = windows.unblock("p", KEY, "odd", "fine")
    assert (clear.as_read, clear.sets, clear.detail) == (
        {"blocked": "odd"}, {"blocked": None}, {"block": "odd", "why": "fine"},
    )  # fmt: skip
    assert clear.what == "clearing the block of window 19700101T000000Z"
    assert windows.end_alarm("p", KEY).sets == {"blocked": None}


# ---------------------------------------------------------------- generations

ENTRY = FileEntry(
    path="f",
    kind="data",
    window_ms=0,
    values=(),
    rows=3,
    bytes=10,
    min_event_ms=0,
    max_event_ms=1,
    checksum=4,
    partitions=(),
)
BUILDS = BuildingGeneration(
    pipeline="p", window=KEY, number=2, epoch=3, nonce="n", kind=HEAL, batches=(1, 2), late=(2,)
)
DONE = windows.built(BUILDS, "file:///d", (ENTRY,))


def test_a_generation_is_assembled_by_one_epoch() -> None:
    begun = windows.begin(windows.BEGIN, "p", KEY, 2, ARCHIVE, batches=[1])
    assert begun.sets == {"epoch": 0, "nonce": "", "kind": ARCHIVE}
    assert begun.detail == {"generation": 2, "kind": ARCHIVE, "batches": [1]}
    assert begun.row == {"pipeline": "p", "window_ms": 0, "number": 2}
    taken = windows.take(BUILDS, "o")
    assert (taken.after, taken.as_read) == (replace(BUILDS, epoch=4, nonce="o"), {"epoch": 3, "nonce": "n"})
    assert (taken.sets, taken.detail) == ({"epoch": 4, "nonce": "o"}, {"generation": 2, "epoch": 4})
    assert windows.take(BUILDS, "o", above=8).after.epoch == 9


def test_what_is_built_is_compared_by_its_content() -> None:
    digest = content_digest((ENTRY,))
    assert (
        BuiltGeneration(
            pipeline="p",
            window=KEY,
            number=2,
            epoch=3,
            kind=HEAL,
            batches=(1, 2),
            directory="file:///d",
            files=(ENTRY,),
            digest=digest,
            late=(2,),
        )
        == DONE
    )
    made = windows.build(BUILDS, DONE, {})
    assert made.after is DONE
    assert made.sets == {"kind": HEAL, "directory": "file:///d", "digest": DONE.digest, "rows": 3}
    assert made.detail == {"generation": 2, "kind": HEAL, "files": 1, "digest": DONE.digest}
    back = windows.take_back(DONE, "o")
    assert back.after == replace(BUILDS, nonce="o")
    assert (back.as_read, back.sets) == ({"epoch": 3, "digest": DONE.digest}, {"nonce": "o"})


def test_given_up_or_discarded_but_not_while_it_is_swapped_in() -> None:
    given_up, discarded = windows.discard(BUILDS, "why"), windows.discard(DONE, "why")
    assert (given_up.transition, discarded.transition) == (windows.GIVE_UP, windows.DISCARD)
    assert given_up.detail == discarded.detail == {"generation": 2, "why": "why"}
    with pytest.raises(LostComparison):
        windows.discard(replace(DONE, state=SWAPPING), "why")


def test_swapped_in_and_published() -> None:
    swaps = windows.begin_swap(DONE, "file:///h")
    assert (swaps.after.state, swaps.after.location, swaps.sets) == (SWAPPING, "file:///h", {"location": "file:///h"})
    made = windows.publish(swaps.after, "file:///h", 77, "c", moved=1)
    assert made.after == PublishedGeneration(
        pipeline="p",
        window=KEY,
        number=2,
        kind=HEAL,
        batches=(1, 2),
        location="file:///h",
        files=(ENTRY,),
        digest=DONE.digest,
        published_ms=77,
        epoch=3,
        late=(2,),
    )
    assert made.sets == {"location": "file:///h"}
    assert made.detail == {"generation": 2, "location": "file:///h", "certificate": "c", "moved": 1}
    assert windows.as_read(made.after) == {"digest": DONE.digest}
    with pytest.raises(LostComparison):
        windows.publish(DONE, "file:///h", 77, "c")


def test_restored_moved_announced_cleaned() -> None:
    back = windows.restore("p", KEY, 2, RETIRED, "file:///h", "lost")
    assert (back.transition.end, back.sets) == (RETIRED, {"nonce": "", "location": "file:///h"})
    assert back.detail == {"generation": 2, "state": RETIRED, "location": "file:///h", "why": "lost"}
    gone = windows.clear_away("p", KEY, 2, BUILT, 3)
    assert (gone.as_read, gone.states, gone.what) == ({"epoch": 3}, (BUILT,), "generation 2")
    moved = windows.move("p", KEY, 2, "file:///h", "file:///g")
    assert (moved.as_read, moved.sets) == ({"location": "file:///h"}, {"location": "file:///g"})
    told, cleaned = windows.announce("p", KEY, 2), windows.clean("p", 0, 2)
    assert (told.as_read, cleaned.as_read) == ({"announced_ms": None}, {"cleaned_ms": None})
    assert told.detail == cleaned.detail == {"generation": 2}
    assert told.row == cleaned.row
