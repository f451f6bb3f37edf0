"""Partitions of a window here and in a further system: which differ, by how much, and what people are told."""

from __future__ import annotations

import pytest

from tidegate.core.base.partition_values import PartitionValues
from tidegate.core.deliver.parts import Differing, added, differing, in_words, paired
from tidegate.core.deliver.port import NOTHING, Content, Part
from tidegate.core.files.receipt import CHECKSUM_MODULUS


def site(name: str | None) -> PartitionValues:
    return (("site", name),)


def content(rows: int, checksum: int = 5) -> Content:
    return Content(rows=rows, checksum=checksum)


def part(name: str, here: Content, there: Content) -> Part:
    return Part(values=site(name), here=here, there=there)


def test_rows_of_a_partition_are_added_up_and_their_sum_wraps() -> None:
    found: dict[PartitionValues, Content] = {}
    added(found, site("a"), content(2, CHECKSUM_MODULUS - 1))
    added(found, site("a"), content(3, 4))
    added(found, site("b"), content(1, 9))
    assert found == {site("a"): content(5, 3), site("b"): content(1, 9)}


def test_a_side_without_a_partition_has_no_rows_of_it() -> None:
    one, other = content(1), content(2)
    assert paired({site("a"): one, site("b"): one}, {site("b"): other, site("c"): other}) == (
        part("a", one, NOTHING), part("b", one, other), part("c", NOTHING, other),
    )  # fmt: skip


def test_those_that_differ_come_by_name() -> None:
    parts = (
        part("c", content(1200), content(1, 5)), part("same", content(2), content(2)),
        part("a/b", content(1, 5), content(1, 6)), part("b", NOTHING, content(1500)),
    )  # fmt: skip
    assert differing(parts) == (
        Differing("site=a%2Fb", 1, 1), Differing("site=b", 0, 1500), Differing("site=c", 1200, 1),
    )  # fmt: skip
    assert [str(one) for one in differing(parts)] == [
        "site=a%2Fb: 1 row, other values there",
        "site=b: 0 rows here, 1,500 there",
        "site=c: 1,200 rows here, 1 there",
    ]


ALIKE, OTHER, MORE = (part("a", content(1500), there) for there in (content(1500), content(1500, 6), content(1501)))


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ((), "otherwise"),
        ((ALIKE,), "otherwise"),
        ((ALIKE, OTHER), "values there are not those that were delivered"),
        ((ALIKE, MORE), "3,001 rows there, 3,000 were delivered"),
        ((part("a", content(1), content(2)), part("b", content(2), content(1))),
         "values there are not those that were delivered"),
        ((part("a", content(2), content(1)),), "1 row there, 2 were delivered"),
    ],
)  # fmt: skip
def test_a_whole_window_in_words(parts: tuple[Part, ...], words: str) -> None:
    assert in_words(parts, "otherwise") == words
