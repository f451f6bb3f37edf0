"""Which values keep a partition of their own, and what is said of those that do not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from core_values import HOUR, PIPELINE, T0

from tidegate.core.base.partition_values import metastore_name_length
from tidegate.core.files.overflow import (
    MAX_COUNTED,
    OVERFLOW_VALUE,
    OWN_BYTES,
    Known,
    Overflow,
    has_a_name,
    overflow_values,
    staying,
    told,
)

WORKDIR = "file:///lake/readings/_tidegate"
A, B, C, D = ((("x", v),) for v in "abcd")


def test_what_the_window_has_stays_then_those_with_the_most_rows() -> None:
    assert staying({A: 1, B: 5, C: 5, D: 9}, {A}, 3) == {A, B, D}
    assert staying({A: 1, B: 2, C: 3}, set(), 2) == {B, C}
    assert staying({A: 1}, set(), 1) == {A}
    assert staying({A: 9, B: 1}, {A}, 1) == {A}
    assert staying({}, {A}, 5) == {A}


def test_of_as_many_rows_the_first_by_name_stay_whatever_the_order() -> None:
    for rows in ({C: 2, B: 2, A: 2, D: 1}, {D: 1, A: 2, B: 2, C: 2}):
        assert staying(rows, set(), 2) == {A, B}


def test_a_limit_that_was_lowered_takes_nothing_away() -> None:
    """A window that has more already keeps them, and gets no more."""
    known = {C, D, (("x", "e"),)}
    assert staying({A: 1, B: 2}, known, 1) == known
    assert staying({A: 1, B: 2}, known, 3) == known
    assert staying({A: 1, B: 2}, known, 4) == known | {B}


def test_known_values_survive_their_compact_form() -> None:
    found = {T0 + HOUR: [A, (("x", None),)], T0: [B, A, B]}
    known = Known.of(found)
    assert known == Known((A, B, (("x", None),)), ((T0, (0, 1)), (T0 + HOUR, (0, 2))))
    assert known.by_window() == {w: set(v) for w, v in found.items()}
    assert Known.of({}) == Known()
    assert Known.of({T0: []}).by_window() == {T0: set()}


def test_the_overflow_partition_has_text_where_the_column_is_text_and_null_elsewhere() -> None:
    assert overflow_values(PIPELINE) == (("carrier", OVERFLOW_VALUE), ("leg", None))
    assert overflow_values(replace(PIPELINE, partition_by=("date", "hour"))) == ()


def test_what_is_said() -> None:
    found = Overflow(T0, 12_345, MAX_COUNTED - 1, ("carrier=UA, leg=3", "carrier=DL, leg=1"))
    assert told(found, ("carrier", "leg"), 2_000) == (
        "12,345 rows with 999 values of carrier, leg went to the overflow partition (at most 2,000 in a window, and "
        "none that no directory can be named after or that make a partition's name longer than the 767 characters of "
        "Hive's metastore, or a file's key longer than the 1,024 bytes of an object store's), such as "
        "carrier=UA, leg=3, carrier=DL, leg=1"
    )
    assert "with 1,000 or more values of carrier went" in told(replace(found, values=MAX_COUNTED), ("carrier",), 1)


@pytest.mark.parametrize(
    ("value", "characters"),
    [
        ("a", 1),
        (None, 26),
        ("", 26),
        ("a b|c<d>`", 9),  # blanks and these are escaped in directories only
        ("a/b", 5),
        ("%:=?*'\"#\\{[]^\x7f\x01\x1f", 48),
        ("\u00fc\u6f22", 2),  # more bytes, no more characters
        ("\U0001f30a", 2),  # as Java counts
    ],
)
def test_the_metastore_counts_characters_of_the_escaped_name(value: str | None, characters: int) -> None:
    assert metastore_name_length((("x", value),)) == 2 + characters
    assert metastore_name_length((("date", "2013-01-05"), ("x", value))) == 15 + 1 + 2 + characters


def test_a_partition_whose_whole_name_the_metastore_cannot_store_has_none() -> None:
    time = (("date", "2013-01-05"), ("hour", "04"))
    assert metastore_name_length(time) == 23
    columns = tuple((name, "v" * 240) for name in "abc")
    assert metastore_name_length((*time, *columns)) == 23 + 3 * 243
    for last, fits in ((11, True), (12, False)):  # `/dd=` and the value
        values = (*columns, ("dd", "v" * last))
        assert metastore_name_length((*time, *values)) == 756 + last
        assert has_a_name(time, values, WORKDIR) is fits
        assert has_a_name((("date", "2013-01-05"), ("hour", "04-fold")), values, WORKDIR) is False
    assert not has_a_name(time, (("a", "v" * 254),), WORKDIR), "no directory"
    assert has_a_name(time, (("a", "\u6f22" * 84),), WORKDIR)
    assert has_a_name(time, tuple((name, "\u6f22" * 84) for name in "abcdefgh"), WORKDIR), "bytes do not matter"
    assert not has_a_name(time, tuple((name, "'" * 80) for name in "abcd"), WORKDIR), "each is three characters"


def test_a_partition_whose_files_keys_an_object_store_cannot_take_has_none() -> None:
    """Beside the prefix in the bucket, and what is left for the attempt and the file: bytes, as they are escaped."""
    time, workdir = (("date", "2013-01-05"), ("hour", "04")), "s3://bucket/" + "p" * 200 + "/" + "q" * 99
    room = 1024 - 300 - OWN_BYTES - 23  # as in the test above
    for value, size in (("v" * 200, 200), (" " * 66, 198), ("\u6f22" * 66, 198)):
        for last, fits in ((room - 2 * (3 + size) - 3, True), (room - 2 * (3 + size) - 2, False)):
            values = (("a", value), ("b", value), ("c", "w" * last))
            assert has_a_name(time, values, workdir) is fits
            assert has_a_name(time, values, WORKDIR), "a filesystem has no keys"
