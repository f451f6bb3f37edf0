"""Which earlier generation of a window may come back, and what the one that brings it back must show."""

from __future__ import annotations

from dataclasses import replace

import pytest
from core_values import HOUR, PIPELINE, T0

from tidegate.core.base.errors import ReplayRefused
from tidegate.core.files.receipt import FileEntry
from tidegate.core.replay.rollback import Known, Origin, PartitionChange, changes, choose, lost
from tidegate.core.window.states import BUILDING, BUILT, CURRENT, DISCARDED, RETIRED, SWAPPING

SPEC = replace(
    PIPELINE,
    archive=replace(PIPELINE.archive, keep_generations=2),
    clean=replace(PIPELINE.clean, generations_ms=36 * HOUR),
)


def retired(number: int, at_ms: int | None = None, **changes: object) -> Known:
    return replace(Known(number, RETIRED, T0 + number if at_ms is None else at_ms, None, (1, 2)), **changes)


def current(number: int, *batches: int, late: tuple[int, ...] = ()) -> Known:
    return Known(number, CURRENT, None, None, batches or (1, 2), late)


def chosen(*generations: Known, to: int | None = None) -> int:
    return choose(generations, to, SPEC).number


def refused(*generations: Known, to: int | None = None) -> ReplayRefused:
    with pytest.raises(ReplayRefused) as found:
        choose(generations, to, SPEC)
    assert not found.value.retry
    assert found.value.advice
    assert "None" not in str(found.value)
    return found.value


# ---------------------------------------------------------------- which one


def test_without_a_number_it_is_the_one_that_was_in_force_before() -> None:
    assert chosen(retired(1), current(2)) == 1
    assert chosen(retired(1), retired(2), current(3)) == 2
    assert chosen(retired(1, T0 + 9), retired(2, T0 + 5), current(3)) == 1, "by when they went, not by number"
    assert chosen(retired(1, T0), retired(2, T0), current(3)) == 2, "of two at one instant the later one"
    assert chosen(replace(retired(1), retired_ms=None), retired(2, 0), current(3)) == 2
    assert chosen(retired(1, 1), replace(retired(2), retired_ms=None), current(3)) == 1, "it went before we were told"
    assert chosen(retired(1), Known(2, DISCARDED, None, None, (1, 2)), current(3)) == 1
    assert chosen(retired(1), current(2), Known(3, BUILDING, None, None, (1, 2))) == 1


def test_any_that_was_in_force_may_be_named_and_the_present_one_too() -> None:
    assert chosen(retired(1), retired(2), current(3), to=1) == 1
    assert chosen(retired(1), retired(2), current(3), to=3) == 3
    assert chosen(current(1), to=1) == 1


def test_there_may_be_nothing_to_go_back_to() -> None:
    alone = refused(current(4))
    assert "generation 4 is the only one that was ever in force" in str(alone)
    beside = refused(current(1), Known(2, DISCARDED, None, None, (1, 2)))
    assert "generation 1 is the only one" in str(beside)


def test_a_generation_that_there_is_not() -> None:
    several = refused(retired(1), retired(2), current(3), to=7)
    assert "generation 7 does not exist" in str(several)
    assert several.advice == "generations that were in force once: 1, 2"
    assert refused(current(1), to=0).advice == "generations that were in force once: none"


@pytest.mark.parametrize("state", [BUILDING, BUILT, SWAPPING, DISCARDED])
def test_a_generation_that_was_never_in_force(state: str) -> None:
    found = refused(retired(1), current(2), Known(3, state, None, None, (1, 2)), to=3)
    assert f"generation 3 is {state}: it was never in force" in str(found)
    assert found.advice == "generations that were in force once: 1"


# ---------------------------------------------------------------- what it still holds


def test_cleaned_files_are_refused_by_the_keys_that_let_them_go() -> None:
    gone = retired(1, cleaned_ms=T0)
    for to in (None, 1):
        found = refused(gone, current(2), to=to)
        assert "generation 1 were cleaned at 2013-01-05T00:00Z" in str(found)
        assert "archive.keep_generations is 2, clean.generations 1.5 days" in str(found)
    assert chosen(gone, retired(2), current(3)) == 2
    assert chosen(gone, current(2), to=2) == 2


def test_files_that_were_cleaned_before_the_spec_kept_them_for_ever_are_gone_all_the_same() -> None:
    kept = replace(SPEC, clean=replace(SPEC.clean, generations_ms=None))
    with pytest.raises(ReplayRefused, match="clean.generations null"):
        choose([retired(1, cleaned_ms=T0), current(2)], None, kept)


@pytest.mark.parametrize(
    ("earlier", "later", "late", "words"),
    [
        ((1,), (1, 2), (), "took up late rows of batch 2"),
        ((1,), (1, 2, 11, 3), (), "took up late rows of batch 2, 3, 11"),
        ((), (1,), (), "took up late rows of batch 1"),
        ((1, 2), (1,), (), "does not hold rows of batch 2"),
        ((1, 2), (1,), (), "generation 1 did: after"),
        ((1,), (1, 2), (), "generation 1 did not have them: after"),
        ((1, 2), (1, 2), (2,), "took up late rows of batch 2"),  # one batch brought rows in time, and late ones
        ((1, 3), (1, 2), (), "took up late rows of batch 2"),
    ],
)
def test_rows_that_would_be_nobodys_or_two_generations_are_refused(
    earlier: tuple[int, ...], later: tuple[int, ...], late: tuple[int, ...], words: str
) -> None:
    generations = retired(1, batches=earlier), current(2, *later, late=late)
    for to in (None, 1):
        found = refused(*generations, to=to)
        assert words in str(found)
        assert "generation 2" in str(found)
        assert "replay the window" in found.advice
    assert chosen(*generations, to=2) == 2


def test_late_rows_that_only_the_earlier_one_took_up_are_refused() -> None:
    found = refused(retired(1, late=(2,)), current(2))
    assert "generation 2 does not hold rows of batch 2" in str(found)


def test_late_rows_that_both_hold_are_well() -> None:
    assert chosen(retired(1, late=(2,)), current(2, 2, 1, late=(2,))) == 1
    assert chosen(retired(1, batches=()), replace(current(2), batches=())) == 1


# ---------------------------------------------------------------- its files


def file(path: str, rows: int = 1, site: str | None = "a", size: int = 9) -> FileEntry:
    return FileEntry(
        path=path,
        kind="data",
        window_ms=T0,
        values=(("site", site),),
        rows=rows,
        bytes=size,
        min_event_ms=None,
        max_event_ms=None,
        checksum=0,
        partitions=(),
    )


def test_files_that_are_not_there_as_the_manifest_says() -> None:
    files = [file("x", size=9), file("y", size=8), file("z", size=0)]
    assert lost(files, {"x": 9, "y": 8, "z": 0, "other": 1}) == []
    assert lost(files, {"x": 9, "y": 9, "z": 0}) == ["y"]
    assert lost(files, {"y": 8}) == ["x", "z"]
    assert lost([], {"x": 9}) == []


def test_rows_of_each_partition_now_and_then() -> None:
    now = (file("x", 2), file("y", 3), file("z", 1, "b"), file("n", 4, None))
    then = (file("x", 5, "c"), file("y", 1, "b"))
    assert changes(now, then) == [
        PartitionChange((("site", "a"),), 5, 0),
        PartitionChange((("site", "b"),), 1, 1),
        PartitionChange((("site", "c"),), 0, 5),
        PartitionChange((("site", None),), 4, 0),
    ]
    assert changes((), ()) == []
    assert changes((), then[:1]) == [PartitionChange((("site", "c"),), 0, 5)]


def test_whose_rows_they_are() -> None:
    assert Origin(3).words() == "rows of generation 3, brought back"
    assert Origin(3, "lost sites").words() == "rows of generation 3, brought back because: lost sites"
