"""Each step names the row that it changes: by pipeline and number, and it begins in no other row's state."""

from __future__ import annotations

from dataclasses import replace

import pytest
from core_values import HOUR, T0

from tidegate.core.base.transition import NO_ROW, Step
from tidegate.core.batch import transitions as batches
from tidegate.core.batch.states import Plan, WritingBatch
from tidegate.core.files.receipt import FileEntry, content_digest
from tidegate.core.window import transitions as windows
from tidegate.core.window.lateness import Floor
from tidegate.core.window.states import (
    ARCHIVE,
    BUILT,
    CURRENT,
    HEAL,
    RETIRED,
    BuildingGeneration,
    BuiltGeneration,
    WindowKey,
)

KEY = WindowKey(T0, T0 + HOUR)
WINDOW = {"pipeline": "p", "start_ms": T0}
GENERATION = {"pipeline": "p", "window_ms": T0, "number": 2}
BATCH = {"pipeline": "p", "batch_id": 5}
STEPS = {
    "begin a close": (lambda: windows.begin_close("p", KEY, 9, "ready"), WINDOW),
    "adopt as closing": (lambda: windows.adopt_as_closing("p", KEY, 9, [], "lost"), WINDOW),
    "adopt as closed": (lambda: windows.adopt_as_closed("p", KEY, 9), WINDOW),
    "finish a close": (lambda: windows.finish_close("p", KEY, []), WINDOW),
    "close what was adopted": (lambda: windows.close_adopted("p", KEY), WINDOW),
    "block": (lambda: windows.block("p", KEY, "odd"), WINDOW),
    "unblock": (lambda: windows.unblock("p", KEY, "odd", "fine"), WINDOW),
    "end an alarm": (lambda: windows.end_alarm("p", KEY), WINDOW),
    "begin": (lambda: windows.begin(windows.BEGIN, "p", KEY, 2, ARCHIVE), GENERATION),
    "restore": (lambda: windows.restore("p", KEY, 2, CURRENT, "l", "lost"), GENERATION),
    "clear away": (lambda: windows.clear_away("p", KEY, 2, BUILT, 3), GENERATION),
    "move": (lambda: windows.move("p", KEY, 2, "a", "b"), GENERATION),
    "announce": (lambda: windows.announce("p", KEY, 2), GENERATION),
    "begin to clean": (lambda: windows.begin_cleaning("p", T0, 2), GENERATION),
    "clean": (lambda: windows.clean("p", T0, 2), GENERATION),
    "release a batch": (lambda: batches.release("p", 5, "dirty", "ann", "fine"), BATCH),
    "unblock a batch": (lambda: batches.unblock("p", 5, "odd", "fine"), BATCH),
    "move side files": (lambda: batches.side("p", 5, "moved"), BATCH),
    "clean a batch": (lambda: batches.clean("p", 5), BATCH),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_step_names_its_row(name: str) -> None:
    made, row = STEPS[name]
    assert made().row == row  # type: ignore[attr-defined]


def test_what_begins_has_no_row_yet() -> None:
    plan = Plan(
        pipeline="p", batch_id=5, revision=1, spec_version=2, rules_version=3, topic="t", topic_id="id", clock_ms=9,
        floor=Floor(7, ()), partitions=(),
    )  # fmt: skip
    begun: list[Step] = [
        batches.plan(plan, "r1"),
        windows.begin_close("p", KEY, 9, "ready"),
        windows.adopt_as_closing("p", KEY, 9, [], "lost"),
        windows.adopt_as_closed("p", KEY, 9),
        windows.begin(windows.BEGIN, "p", KEY, 2, ARCHIVE),
        windows.restore("p", KEY, 2, RETIRED, "l", "lost"),
    ]
    assert {made.states for made in begun} == {(NO_ROW,)}
    assert [made.sets["closing_batch"] for made in begun[1:4]] == [9, 9, 9]
    assert begun[3].detail == {}
    replanned = batches.replan(WritingBatch(plan, 1, "n"), replace(plan, revision=2))
    assert '"low_ms":7' in str(replanned.sets["floor"])


def test_a_generation_that_is_built() -> None:
    entry = FileEntry(
        path="f", kind="data", window_ms=T0, values=(), rows=3, bytes=10, min_event_ms=0, max_event_ms=1, checksum=4,
        partitions=(),
    )  # fmt: skip
    builds = BuildingGeneration(
        pipeline="p", window=KEY, number=2, epoch=3, nonce="n", kind=HEAL, batches=(1, 2), late=(2,)
    )
    done = windows.built(builds, "file:///d", (entry,))
    assert done == BuiltGeneration(
        pipeline="p", window=KEY, number=2, epoch=3, kind=HEAL, batches=(1, 2), directory="file:///d", files=(entry,),
        digest=content_digest((entry,)), late=(2,),
    )  # fmt: skip
    assert windows.build(builds, done, {"takes conflicts": "two"}).detail["takes conflicts"] == "two"
    first = BuildingGeneration(pipeline="p", window=KEY, number=2, epoch=0, nonce="", kind=HEAL, batches=())
    assert windows.take(first, "n").after.epoch == 1
