"""Keys of a mirror: how people write them, what became of their events, and parts of them that are read again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidegate.core.mirror.jobs import START
from tidegate.core.mirror.key_history import (
    CONFLICT,
    DELETE,
    KEPT_OUT,
    OLDER,
    PURGED,
    REPEAT,
    ROW,
    SWEPT,
    TOMBSTONE,
    UNSURE,
    WAITING,
    Event,
    Happened,
    Purge,
    history,
    kept_out_by_days,
    newest,
)
from tidegate.core.mirror.key_values import KeyValue, NoKey, key_values
from tidegate.core.mirror.parts import KeyPart, SweptPart, holds, key_part, swept_below

# ---------------------------------------------------------------- a key as people write it

TYPES = {
    "id": "bigint", "small": "tinyint", "name": "string", "ok": "boolean", "raw": "binary", "day": "date",
    "at": "timestamp", "price": "decimal(5,2)",
    "wide": "decimal(38,0)",
}  # fmt: skip


def value(column: str, text: str) -> object:
    (found,) = key_values([column], TYPES, [f"{column}={text}"])
    assert (found.column, found.type, found.text) == (column, TYPES[column], text)
    return found.value


@pytest.mark.parametrize(
    ("column", "text", "wanted"),
    [
        ("id", " +42 ", 42),
        ("id", str(2**63 - 1), 2**63 - 1),
        ("id", str(-(2**63)), -(2**63)),
        ("small", "127", 127),
        ("small", "-128", -128),
        ("name", " a=b ", " a=b "),
        ("ok", " True", True),
        ("ok", "FALSE ", False),
        ("raw", "0A ff", "0aff"),
        ("day", " 2013-01-05", "2013-01-05"),
        ("at", " 2013-01-05T04:00:00.000001Z", 1_357_358_400_000_001),
        ("at", "2013-01-05T04:00:00", 1_357_358_400_000_000),
        ("at", "2013-01-05T06:00:00+02:00", 1_357_358_400_000_000),
        ("price", " 1.5", "1.50"),
        ("price", "-999.99", "-999.99"),
        ("price", "1e2", "100.00"),
        ("wide", "1" * 38, "1" * 38),
    ],
)
def test_a_value_has_the_type_of_its_column(column: str, text: str, wanted: object) -> None:
    found = value(column, text)
    assert (found, type(found)) == (wanted, type(wanted))


@pytest.mark.parametrize(
    ("column", "text", "words"),
    [
        ("id", str(2**63), "it must be a bigint$"),
        ("id", str(-(2**63) - 1), "it must be a bigint$"),
        ("small", "128", "it must be a tinyint$"),
        ("small", "-129", "it must be a tinyint$"),
        ("id", "1_0", "it must be a bigint$"),
        ("ok", "1", "it must be a boolean: true or false$"),
        ("raw", "0", "it must be a binary, in hexadecimal digits$"),
        ("day", "5.1.13", "it must be a date, as 2013-01-05$"),
        ("at", "now", "it must be a timestamp, as 2013-01-05T04:00:00Z$"),
        ("price", "1.005", "decimal"),
        ("price", "1000", "decimal"),
        ("price", "NaN", "decimal"),
        ("price", "dear", "decimal"),
        ("id", "x" * 101, "^id=" + "x" * 100 + r"\.\.\.: "),
        ("id", "x" * 100, "^id=" + "x" * 100 + ": "),
    ],
)
def test_what_the_type_cannot_have_names_no_key(column: str, text: str, words: str) -> None:
    with pytest.raises(NoKey, match=words):
        value(column, text)


def test_every_column_of_the_key_is_given_once_in_any_order() -> None:
    found = key_values(["id", "name"], TYPES, ["name=x", " ID =7"])
    assert found == (KeyValue("id", "bigint", 7, "7"), KeyValue("name", "string", "x", "x"))
    for given, words in (
        (["id"], "'id' is no column=value"),
        (["=7"], "'=7' is no column=value"),
        (["price=1"], "price is not in the key, which is id, name"),
        (["id=1", "id=1"], "id is given twice"),
        (["id=1"], "the key is id, name: name is missing"),
        ([], "id, name is missing"),
    ):
        with pytest.raises(NoKey, match=words):
            key_values(["id", "name"], TYPES, given)


# ---------------------------------------------------------------- the history of a key


def event(commit: int, batch: int = 1, operation: str = "u", digest: int = 7, **more: int) -> Event:
    at = {"partition": 0, "offset": commit, "row": 0, "n": 0} | more
    deleted = operation == DELETE
    return Event(
        batch_id=batch, commit=commit, operation=operation, digest=0 if deleted else digest, file=f"f{batch}", **at
    )


def states(merged: list[Event], waiting: list[Event] = [], purge: Purge = Purge()) -> dict[int, str]:  # noqa: B006
    found = history(merged, waiting, len(merged) + len(waiting), 100, purge)
    return {h.offset: h.state for h in found.events}


def test_the_newest_event_made_the_row() -> None:
    """M2: by position, whatever the order in which they landed."""
    found = history([event(5, 1), event(9, 1), event(3, 2)], [], 3, 100)
    assert [(h.commit, h.state) for h in found.events] == [(9, ROW), (5, OLDER), (3, OLDER)]
    assert found.seen == Happened(
        state=ROW, operation="u", partition=0, offset=9, batch_id=1, commit=9, row=0, n=0, file="f1",
        words="made the row that is seen",
    )  # fmt: skip
    assert (found.newest_merged, found.count) == (True, 3)
    assert states([event(9, operation=DELETE), event(5)]) == {9: TOMBSTONE, 5: OLDER}


def test_of_equal_events_the_first_to_land_counts() -> None:
    one, again = event(9, 1), event(9, 2, offset=12)
    assert states([again, one]) == {9: ROW, 12: REPEAT}
    assert newest([again, one, event(3)], 2) == [one, again]
    assert [e.partition for e in newest([event(9, partition=1), event(9)], 9)] == [0, 1]
    assert [e.offset for e in newest([event(9, offset=2), event(9, offset=1)], 9)] == [1, 2]


def test_no_event_has_no_row() -> None:
    found = history([], [], 0, 100)
    assert (found.events, found.seen, found.newest_merged) == ((), None, False)


def test_only_the_newest_are_listed_and_all_are_counted() -> None:
    found = history([event(5), event(9)], [event(7, 2)], 40, 2)
    assert ([h.commit for h in found.events], found.count) == ([9, 7], 40)
    only = history([event(5)], [event(9, 2)], 2, 1)
    assert [h.state for h in only.events] == [WAITING]
    assert only.seen is not None
    assert (only.seen.commit, only.seen.state) == (5, ROW), "it is told, listed or not"


def test_what_waits_says_what_it_will_change() -> None:
    waiting = [event(9, 2), event(9, 2, offset=10), event(8, 2)]
    found = history([event(5)], waiting, 4, 100, unit="day")
    assert [h.state for h in found.events] == [WAITING, WAITING, WAITING, ROW]
    assert [h.words for h in found.events[:3]] == [
        "waits for its day: the next row",
        "waits for its day, which changes nothing: a repeat",
        "waits for its day, which changes nothing: a newer event is there",
    ]
    assert not found.newest_merged
    gone = history([event(5)], [event(9, 2, DELETE)], 2, 100)
    assert gone.events[0].words == "waits for its merge, which deletes the row"
    late = history([event(5)], [event(3, 2)], 2, 100)
    assert (late.newest_merged, late.events[1].words.split(": ")[-1]) == (True, "a newer event is there")


def test_m7_two_contents_at_one_position_are_a_conflict() -> None:
    merged = [event(5)]
    assert states(merged, [event(5, 2, digest=8, offset=50)]) == {5: ROW, 50: CONFLICT}
    pair = [event(6, 2, offset=60), event(6, 2, digest=8, offset=61), event(7, 2)]
    assert states(merged, pair) == {5: ROW, 60: CONFLICT, 61: CONFLICT, 7: WAITING}
    assert states(merged, [event(5, 2, DELETE, offset=50)]) == {5: OLDER, 50: WAITING} | {5: ROW}
    assert states([], [event(6, 2)]) == {6: WAITING}
    two = [event(n, 2, digest=d, offset=10 * n + d) for n in (6, 8) for d in (7, 8)]
    assert set(states(merged, two).values()) == {ROW, CONFLICT}, "each pair of them"
    found = history(merged, [event(3, 2, offset=60), event(3, 2, digest=8, offset=61)], 3, 100)
    assert not found.newest_merged, "a refused merge stops all that comes after"
    refused = history(merged, [event(5, 2, digest=8)], 2, 100, unit="day")
    assert "its day is refused" in refused.events[0].words + refused.events[1].words


def test_m5_a_tombstone_of_before_the_purge_is_gone() -> None:
    purge = Purge(below=(10, 0, 0), upto=3)
    assert states([event(9, 3, DELETE)], purge=purge) == {9: PURGED}
    assert states([event(9, 3)], purge=purge) == {9: ROW}
    assert states([event(10, 3, DELETE)], purge=purge) == {10: TOMBSTONE}
    after = states([event(8, 3), event(9, 4, DELETE)], purge=purge)
    assert after == {9: TOMBSTONE, 8: OLDER}, "the key had a row when it came"


def test_m5_what_is_older_than_the_purge_and_came_after_it_makes_no_row() -> None:
    purge = Purge(below=(10, 0, 0), upto=3)
    deleted = event(9, 3, DELETE)
    assert states([deleted, event(8, 4)], purge=purge) == {9: PURGED, 8: KEPT_OUT}
    assert states([event(8, 4)], purge=purge) == {8: KEPT_OUT}
    assert history([event(8, 4)], [], 1, 100, purge).seen is None
    inserted = [event(8, 4), event(11, 5), event(7, 5, offset=77), event(6, 6)]
    assert states(inserted, purge=purge) == {8: KEPT_OUT, 11: ROW, 77: OLDER, 6: OLDER}
    assert states([event(10, 4)], purge=purge) == {10: ROW}
    assert states([event(10, 3, DELETE), event(9, 4)], purge=purge) == {10: TOMBSTONE, 9: OLDER}


def test_s5_a_whole_copy_has_swept_what_it_did_not_find() -> None:
    assert states([event(9), event(5)], purge=Purge(swept=(10, 0, 0))) == {9: SWEPT, 5: OLDER}
    assert states([event(10)], purge=Purge(swept=(10, 0, 0))) == {10: ROW}


@pytest.mark.parametrize(
    ("merged", "found"),
    [
        ([event(5, 2)], UNSURE),
        ([event(5, 3)], UNSURE),
        ([event(5, 4)], KEPT_OUT),
        ([event(5, 2), event(4, 1)], ROW),
        ([event(5, 2), event(4, 1, DELETE)], UNSURE),
        ([event(5, 2), event(4, 1, DELETE), event(3, 1)], UNSURE),
        ([event(5, 2), event(4, 2)], UNSURE),
        ([event(5, 2), event(4, 3), event(3, 0)], UNSURE),
        ([event(6, 2)], ROW),
        ([event(5, 0)], ROW),
        ([event(5, 1), event(4, 2)], UNSURE),
        ([event(5, 2, DELETE)], PURGED),
    ],
)
def test_m5_a_purge_of_which_nobody_knows_may_have_kept_out_what_seems_to_stand(
    merged: list[Event], found: str
) -> None:
    """It was before the newest one, whose marker is the greatest; rows of copies (batch 0) are never kept out."""
    purge = Purge((6, 0, 0), 3, others=True)
    assert states(merged, purge=purge)[merged[0].offset] == found
    if found is UNSURE:
        assert states(merged, purge=replace(purge, others=False))[merged[0].offset] == ROW


# ---------------------------------------------------------------- parts of the keys


def test_a_part_names_its_first_and_its_last_key() -> None:
    part = key_part(["a", "b"], "1, 5", "2,-3")
    assert part == KeyPart(("a", "b"), (1, 5), (2, -3))
    assert (part.lower, part.words) == ((1, 4), "a, b 1, 5 to 2, -3")
    assert key_part(["a"], "7", "7") == KeyPart(("a",), (7,), (7,))
    for first, last, words in (
        ("x", "7", "'x' is no key: whole numbers are needed for a"),
        ("7", "7,8", "'7,8' is no key: a value is needed for each of a"),
        ("7", str(2**63), "no column holds such a number"),
        (str(-(2**63)), "7", "no column holds such a number"),
        ("8", "7", "'7' is below '8'"),
    ):
        with pytest.raises(ValueError, match=words):
            key_part(["a"], first, last)
    assert key_part(["a"], str(-(2**63) + 1), str(2**63 - 1)).last == (2**63 - 1,)


def test_a_part_holds_all_between_both_ends_column_by_column() -> None:
    part = KeyPart(("a", "b"), (1, 5), (2, 3))
    inside = [(1, 5), (1, 9), (2, -9), (2, 3)]
    outside = [(0, 9), (1, 4), (2, 4), (3, 0)]
    assert all(holds(part, {"a": a, "b": b}) for a, b in inside)
    assert not any(holds(part, {"a": a, "b": b}) for a, b in outside)


def test_s5_the_last_reading_of_a_key_says_below_what_nothing_is_said_of_it() -> None:
    low = SweptPart(KeyPart(("a",), (1,), (5,)), (30, 0, 2))
    high = SweptPart(KeyPart(("a",), (4,), (9,)), (40, 1, 3))
    found = {a: swept_below({"a": a}, (10, 0, 1), [low, high]) for a in (0, 1, 4, 9)}
    assert found == {0: (10, 0, 1), 1: (30, 0, 2), 4: (40, 1, 3), 9: (40, 1, 3)}
    assert swept_below({"a": 1}, START, []) == START
    assert replace(low, below=START).part is low.part


def test_keys_of_another_form_than_a_part_are_refused() -> None:
    part = KeyPart(("shop", "id"), (1, 2), (1, 9))
    for wrong in (replace(part, first=(1,)), replace(part, last=(1, 9, 9))):
        with pytest.raises(ValueError, match="zip"):
            holds(wrong, {"shop": 1, "id": 5})
    with pytest.raises(ValueError, match="zip"):
        swept_below({"shop": 1, "id": 5}, (7, 0), [SweptPart(part, (9, 0, 1))])  # type: ignore[arg-type]


# ---------------------------------------------------------------- what purges of days have kept out


def kept_out(days: dict[int, list[Event]], **below: int) -> list[int]:
    """Positions of what was kept out. `below`: markers of the days before `d1`, `d2`, ..."""
    found = kept_out_by_days(days, lambda day: (below.get(f"d{day}", 0), 0, 0))
    return sorted(e.commit for e in found)


def test_m5_a_day_keeps_out_what_is_below_its_purge_while_the_key_has_no_row() -> None:
    assert kept_out({1: [event(5), event(6)]}, d1=7) == [5, 6]
    assert kept_out({1: [event(5), event(7)]}, d1=7) == [], "one of them is above it"
    assert kept_out({1: [event(5)]}) == [], "nothing was purged"


def test_m5_a_row_that_stands_keeps_out_nothing_and_nobody_asks_for_the_purge() -> None:
    assert kept_out({1: [event(5)], 2: [event(6)]}, d2=9) == []

    def asked(day: int) -> tuple[int, int, int]:
        assert day == 1
        return START

    assert kept_out_by_days({1: [event(5)], 2: [event(4)]}, asked) == set()


def test_m5_a_tombstone_that_is_left_outdates_events_one_that_was_purged_lets_them_be_kept_out() -> None:
    deleted = event(5, operation=DELETE)
    assert kept_out({1: [deleted], 3: [event(4)]}, d3=6) == [4], "the tombstone is gone"
    assert kept_out({1: [deleted], 3: [event(4)]}, d3=5) == [], "it is there, and newer"
    assert kept_out({1: [deleted], 3: [event(9)], 4: [event(6)]}, d3=6, d4=8) == [], "a row stands by then"


def test_m5_of_a_table_by_days_its_days_say_what_was_kept_out() -> None:
    older, newer = event(5), event(9, 2)
    found = history([older, newer], [], 2, 100, kept_out={newer})
    assert [(h.commit, h.state) for h in found.events] == [(9, KEPT_OUT), (5, ROW)]


def test_m5_what_was_kept_out_makes_no_row_for_later_days() -> None:
    assert kept_out({3: [event(8)], 1: [event(4)], 2: [event(5)]}, d1=6, d2=6, d3=6) == [4, 5], "in the order of days"
    older = {1: [event(9, operation=DELETE)], 2: [event(4)], 3: [event(5)]}
    assert kept_out(older, d2=3, d3=10) == [5], "an older event leaves the tombstone what it is"
