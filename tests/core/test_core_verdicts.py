"""What a cleaner says of each thing it keeps or deletes: whether people must be told, and why in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
from core_values import T0

from tidegate.core.clean.rules import (
    Assembly,
    BatchAttempt,
    BatchFacts,
    GenerationFacts,
    Moment,
    Verdict,
    assembly,
    batch_attempt,
    discarded,
    landed,
    landed_files,
    newest_ms,
    overtaken_ms,
    quarantined,
    rebuild_attempt,
    retired,
    retired_place,
    side_staging,
    within,
)
from tidegate.core.spec.pipeline import Cleaning

NOW = 1_000_000
TTL = Cleaning(1000, 2000, 3000, 4000)
FOR_EVER = Cleaning(None, None, None, None)
BATCH = BatchFacts(batch_id=7, state="LANDED", epoch=3, side_moved=True, landed_ms=0, cleaned_ms=None, newest=False)
WRITING = replace(BATCH, state="WRITING")
RETIRED = GenerationFacts(
    window_ms=T0,
    number=1,
    state="RETIRED",
    epoch=2,
    kind="archive",
    location="file:///t/hour=00",
    built_ms=0,
    retired_ms=0,
    cleaned_ms=None,
    current=2,
    newer_retired=0,
)
REPLAY = replace(RETIRED, state="DISCARDED", kind="replay", number=2)
GO, KEEP, ODD = (True, False), (False, False), (False, True)
Case = tuple[Callable[[], Verdict], tuple[bool, bool], str]


def of_attempt(facts: BatchFacts | None, since: int | None = 0, epoch: int = 2, ttl: Cleaning = TTL) -> Verdict:
    return batch_attempt(BatchAttempt(7, epoch), facts, since, ttl, NOW)


def of_rebuild(facts: GenerationFacts | None, since: int | None = 0, epoch: int = 1, ttl: Cleaning = TTL) -> Verdict:
    return rebuild_attempt(Assembly(T0, 1, epoch), facts, since, ttl, NOW)


def of_landed(marked: bool = True, ttl: Cleaning = TTL, **change: object) -> Verdict:
    return landed(replace(BATCH, **change), marked, ttl, NOW)


def of_assembly(facts: GenerationFacts | None, *listing: str, epoch: int = 1, merged: tuple[str, ...] = ()) -> Verdict:
    return assembly(Assembly(T0, 1, epoch), facts, ["named"], listing, 0, TTL, NOW, merged)


def of_quarantine(found: object, batch: BatchFacts | None, generation: GenerationFacts | None) -> Verdict:
    return quarantined(found, batch, generation, 0, TTL, NOW)  # type: ignore[arg-type]


HERE, THERE = "file:///t/hour=00", "file:///t/g/w.2.1"
WINDOW = Assembly(T0, 1, 1)
CASES: list[Case] = [
    (partial(of_attempt, None), ODD, "the ledger has no such batch"),
    (partial(of_attempt, WRITING, epoch=3), KEEP, "the batch is WRITING at epoch 3"),
    (partial(of_attempt, WRITING), GO, "batch 7 is overtaken by epoch 3"),
    (partial(of_attempt, BATCH), GO, "batch 7 is LANDED"),
    (partial(of_attempt, replace(BATCH, state="ABANDONED"), epoch=9), GO, "batch 7 is ABANDONED"),
    (partial(of_attempt, BATCH, None), KEEP, "does not say since when it is LANDED"),
    (partial(of_attempt, WRITING, NOW - 999), KEEP, "overtaken by epoch 3 for less than the spec's time"),
    (partial(of_attempt, BATCH, NOW - 1000), GO, "batch 7 is LANDED"),
    (partial(of_attempt, BATCH, ttl=FOR_EVER), KEEP, "the spec keeps it for ever"),
    (partial(of_rebuild, None), ODD, "the ledger has no such generation"),
    (partial(of_rebuild, RETIRED, epoch=3), ODD, "epoch of the generation is only 2"),
    (partial(of_rebuild, replace(RETIRED, state="BUILDING"), epoch=2), KEEP, "the generation is BUILDING at epoch 2"),
    (partial(of_rebuild, replace(RETIRED, state="BUILDING")), GO, "generation 1 is overtaken by epoch 2"),
    (partial(of_rebuild, RETIRED, epoch=2), GO, "generation 1 is RETIRED"),
    (partial(of_rebuild, RETIRED, NOW - 999), KEEP, "RETIRED for less"),
    (partial(of_rebuild, RETIRED, NOW - 1000), GO, "generation 1 is RETIRED"),
    (partial(landed, None, True, TTL, NOW), ODD, "the ledger has no such batch"),
    (partial(of_landed, state="ABANDONED"), ODD, "the batch is ABANDONED in the ledger"),
    (partial(of_landed, state="SEALED"), KEEP, "SEALED"),
    (partial(of_landed, newest=True), KEEP, "it is the newest batch"),
    (partial(of_landed, side_moved=False), KEEP, "not in their tables yet"),
    (partial(of_landed, unpublished=(1, 2)), KEEP, "2 of its windows"),
    (partial(of_landed, False), ODD, "its high-water mark is gone"),
    (partial(of_landed, landed_ms=NOW - 1999), KEEP, "landed for less"),
    (partial(of_landed, landed_ms=NOW - 2000), GO, "each of its rows"),
    (partial(landed_files, ["data/x"], ["data/x"]), ODD, "data/x of its manifest"),
    (partial(landed_files, ["data/x"], ["data/x"], ["data/x"]), GO, "no file of its manifest is left"),
    (partial(landed_files, ["data/x"], ["data/y", "notes/z"]), ODD, "notes/z is not ours"),
    (partial(landed_files, [], ["late/x", "dirty/x", "data/z/y", "_receipt.json"]), GO, "no file"),
    (partial(side_staging, None, [], []), ODD, "the ledger has no such batch"),
    (partial(side_staging, WRITING, [], []), KEEP, "not in their tables yet"),
    (partial(side_staging, BATCH, ["x"], ["y", "x"]), ODD, "files of its manifest"),
    (partial(side_staging, BATCH, ["x"], ["y"]), GO, "files of batch 7 are in their tables"),
    (partial(of_assembly, None), ODD, "the ledger has no such generation"),
    (partial(of_assembly, RETIRED, epoch=3), ODD, "epoch of the generation is only 2"),
    (partial(of_assembly, replace(RETIRED, state="BUILDING")), KEEP, "the generation is BUILDING"),
    (partial(of_assembly, replace(RETIRED, state="SWAPPING"), epoch=2), KEEP, "the generation is SWAPPING here"),
    (partial(of_assembly, replace(RETIRED, state="BUILT"), epoch=2), KEEP, "the generation is BUILT here"),
    (partial(of_assembly, replace(REPLAY, number=1), "named"), GO, "generation 1 was discarded"),
    (partial(of_assembly, RETIRED, "_SUCCESS", "named"), ODD, "named of the generation's manifest lies here"),
    (partial(of_assembly, RETIRED, "_SUCCESS", "a/m2-x"), ODD, "a/m2-x is not ours"),
    (
        partial(of_assembly, RETIRED, "_SUCCESS", "_certificate.json", "a/m1-x", "a/b/g1.x"),
        GO,
        "generation 1 is RETIRED",
    ),
    (partial(of_assembly, RETIRED, "old", merged=("old",)), GO, "generation 1 is RETIRED"),
    (partial(of_assembly, replace(RETIRED, built_ms=NOW - 999)), KEEP, "built for less"),
    (partial(of_assembly, replace(RETIRED, built_ms=NOW - 1000)), GO, "generation 1 is RETIRED"),
    (partial(of_assembly, replace(RETIRED, blocked=True)), KEEP, "blocked by an alarm"),
    (partial(discarded, replace(REPLAY, state="BUILT"), 0, TTL, NOW), KEEP, "the generation is BUILT"),
    (partial(discarded, replace(REPLAY, kind="archive"), 0, TTL, NOW), ODD, "its only copy"),
    (partial(discarded, REPLAY, NOW - 2999, TTL, NOW), KEEP, "discarded for less"),
    (partial(discarded, REPLAY, NOW - 3000, TTL, NOW), GO, "generation 2 was discarded"),
    (partial(discarded, replace(REPLAY, working=True), 0, TTL, NOW), KEEP, "a generation of the window is at work"),
    (partial(discarded, replace(REPLAY, doubts=("x",)), 0, TTL, NOW), KEEP, "a catalogue change of the window"),
    (partial(retired, replace(RETIRED, state="BUILT"), 1, TTL, NOW), KEEP, "the generation is BUILT"),
    (partial(retired, replace(RETIRED, current=None), 1, TTL, NOW), ODD, "no later generation is in force"),
    (partial(retired, replace(RETIRED, current=1), 1, TTL, NOW), ODD, "no later generation is in force"),
    (partial(retired, replace(RETIRED, newer_retired=1), 3, TTL, NOW), KEEP, "the spec keeps 3 generations"),
    (partial(retired, replace(RETIRED, newer_retired=2), 3, TTL, NOW), GO, "generation 2 is in force"),
    (partial(retired, replace(RETIRED, retired_ms=NOW - 2999), 1, TTL, NOW), KEEP, "retired for less"),
    (partial(retired, replace(RETIRED, retired_ms=NOW - 3000), 1, TTL, NOW), GO, "generation 2 is in force"),
    (partial(retired_place, HERE, {}, f"{HERE}/x", {}, []), ODD, f"the generation in force lies at {HERE}/x"),
    (partial(retired_place, HERE, {"b": 2}, THERE, {"a": 1, "b": 2}, []), ODD, "b of the generation in force"),
    (partial(retired_place, HERE, {}, THERE, {}, [THERE, f"{HERE}/x"]), ODD, f"has a partition at {HERE}/x"),
    (partial(retired_place, HERE, {"a": 1}, THERE, {"b": 1}, [THERE]), GO, "nothing in force lies here"),
    (partial(of_quarantine, WINDOW, BATCH, None), ODD, "the ledger has no such generation"),
    (partial(of_quarantine, 7, None, RETIRED), ODD, "the ledger has no such batch"),
    (partial(of_quarantine, 7, replace(BATCH, newest=True), None), KEEP, "what it belongs to is not settled"),
    (partial(of_quarantine, 7, BATCH, None), GO, "what it belonged to is settled"),
    (partial(of_quarantine, WINDOW, None, REPLAY), GO, "what it belonged to is settled"),
    (partial(of_quarantine, WINDOW, None, replace(RETIRED, state="CURRENT")), GO, "what it belonged to is settled"),
    (partial(quarantined, 7, BATCH, None, NOW - 3999, TTL, NOW), KEEP, "settled for less"),
    (partial(quarantined, 7, BATCH, None, NOW - 4000, TTL, NOW), GO, "what it belonged to is settled"),
]


@pytest.mark.parametrize(("ask", "verdict", "why"), CASES, ids=range(len(CASES)))
def test_verdicts(ask: Callable[[], Verdict], verdict: tuple[bool, bool], why: str) -> None:
    found = ask()
    assert (found.go, found.odd) == verdict
    assert why in found.why


def test_directories_within_directories() -> None:
    assert within("a/b/c", "a/b/")
    assert within("a/b/", "a/b")
    assert not within("a", "a/b")


def test_ages() -> None:
    moments = [Moment(5, "x"), Moment(8, "x", {"epoch": 1}), Moment(7, "y", {"epoch": 2}), Moment(6, "y", {"epoch": 2})]
    assert [overtaken_ms(moments, e) for e in (0, 1, 2)] == [6, 6, None]
    assert newest_ms([Moment(at, "x", {"generation": 2}) for at in (3, 5, 4)], 2) == 5
