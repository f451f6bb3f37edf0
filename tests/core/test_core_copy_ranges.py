"""Which key ranges are read of a part, which to be compared, and how far comparisons have come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tidegate.core.copy.checksums import (
    differing,
    fewer,
    group_bits,
    joined,
    not_ended,
    of_groups,
    reached,
    read_all,
    spelled_keys,
)
from tidegate.core.copy.port import Checksum, KeyGroups, KeyRange
from tidegate.core.copy.rounds import Chunk, Round, RoundState
from tidegate.core.copy.steps import cut
from tidegate.core.mirror.parts import KeyPart

RANGES = [KeyRange(None, (9,)), KeyRange((9,), (19,)), KeyRange((19,), (29,)), KeyRange((29,), None)]


def test_a_part_ends_at_its_last_key() -> None:
    """Also where the table goes on behind it, or ends before."""
    part = KeyPart(("id",), (3,), (7,))
    assert cut((2,), [(4,), (6,)], 2, part) == ([KeyRange((2,), (4,)), KeyRange((4,), (6,))], False)
    assert cut((6,), [(7,), (9,)], 2, part) == ([KeyRange((6,), (7,))], True)
    assert cut((6,), [(8,)], 1, part) == ([KeyRange((6,), (7,))], True)
    assert cut((2,), [], 2, part) == ([KeyRange((2,), (7,))], True)


def test_a_range_differs_by_its_rows_or_their_sum() -> None:
    one = [Checksum(1, 7)] * 4
    other = [Checksum(1, 7), Checksum(2, 7), Checksum(1, 8), Checksum(1, 7)]
    assert differing(RANGES, one, other) == RANGES[1:3]
    with pytest.raises(ValueError, match="zip"):
        differing(RANGES, one, other[1:])
    assert joined(RANGES[1:3]) == [KeyRange((9,), (29,))]
    assert joined([RANGES[0], *RANGES[2:]]) == [RANGES[0], KeyRange((19,), None)]


def test_many_ranges_become_fewer_that_hold_them() -> None:
    ranges = [KeyRange((n,), (n + 1,)) for n in range(0, 40, 2)]
    assert fewer(ranges, 20) == ranges
    found = fewer(ranges, 3)
    assert [(one.lower, one.upper) for one in found] == [((0,), (13,)), ((14,), (27,)), ((28,), (39,))]
    assert fewer([], 8) == []


def chunks_of(ranges: Sequence[KeyRange], table: str = "shop.t") -> list[Chunk]:
    return [Chunk(pipeline="p", number=n, round=2, table=table, keys=k) for n, k in enumerate(ranges, 1)]


def test_chunks_that_leave_keys_out_are_known() -> None:
    assert read_all(chunks_of(RANGES), None, ())
    assert read_all([*chunks_of(RANGES), *chunks_of(RANGES, "shop.u")], None, ())
    assert not read_all([*chunks_of(RANGES), *chunks_of(RANGES[1:], "shop.u")], None, ())
    for missing in range(4):
        assert not read_all(chunks_of([one for n, one in enumerate(RANGES) if n != missing]), None, ())
    assert not read_all([], None, ())
    part = KeyPart(("id",), (10,), (29,))
    assert read_all(chunks_of(RANGES[1:3]), part, ())
    assert not read_all(chunks_of(RANGES[1:2]), part, ())
    assert read_all(chunks_of(RANGES), None, ["shop.t"])
    assert not read_all(chunks_of(RANGES), None, ["shop.t", "shop.u"]), "a table that nothing was read of"
    assert not read_all(chunks_of(of_groups(RANGES, GROUPS)), None, ())


GROUPS = KeyGroups(2, (1, 3), ("string",))


def test_groups_are_read_of_every_range_and_most_of_them_as_all() -> None:
    assert of_groups(RANGES, GROUPS) == [KeyRange(one.lower, one.upper, GROUPS) for one in RANGES]
    assert of_groups(RANGES, KeyGroups(2, (), ("string",))) == []
    assert of_groups(RANGES, KeyGroups(2, (0, 1, 3), ("string",))) == RANGES
    assert of_groups(RANGES, KeyGroups(0, (0,), ("string",))) == RANGES


@pytest.mark.parametrize(("rows", "bits"), [(0, 0), (999, 0), (1_000, 1), (9_999, 4), (10**6, 10), (10**9, 12)])
def test_groups_have_about_as_many_rows_as_ranges(rows: int, bits: int) -> None:
    assert group_bits(rows, 1_000) == bits


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (KeyRange((9,), (19,)), ("10", "19")),
        (KeyRange((7, 9), (7, 19)), ("7,10", "7,19")),
        (KeyRange(None, (3,)), (str(-(2**63) + 1), "3")),
        (KeyRange((3,), None), ("4", str(2**63 - 1))),
    ],
)
def test_ranges_are_spelled_as_people_write_keys(keys: KeyRange, words: tuple[str, str]) -> None:
    assert spelled_keys(keys, len(keys.lower or keys.upper or ())) == words


def of(first: tuple[int, int], last: tuple[int, int], why: str = "compared: 0 of 9 keys differ") -> Round:
    part = KeyPart(("shop", "id"), first, last)
    return Round(pipeline="p", number=2, table="t", key=part.columns, state=RoundState.ENDED, why=why, part=part)


def test_how_far_a_lap_is() -> None:
    least, most = (-(2**63) + 1,) * 2, (2**63 - 1,) * 2
    assert reached([], 2) is None
    assert reached([of((1, 1), (1, 9))], 2) is None, "somebody's own range"
    lap = [of(least, (7, 5)), of((7, 6), (8, 1))]
    assert reached(lap, 2) == (8, 1)
    assert reached([*lap, of((8, 3), (9, 9))], 2) == (8, 1), "a gap is between"
    assert reached([*lap, of((8, 2), (9, 9), "its comparison died long ago")], 2) == (8, 1)
    assert reached([*lap, of((8, 2), most)], 2) is None, "the last one"
    assert reached([*lap, of((8, 2), most), of(least, (3, 3))], 2) == (3, 3)


def test_a_comparison_that_died_is_gone_on_with_where_the_lap_goes_on() -> None:
    least, most = (-(2**63) + 1,) * 2, (2**63 - 1,) * 2
    died = [replace(of(*keys), state=RoundState.COMPARED) for keys in ((least, (8, 1)), ((8, 2), most))]
    assert not_ended(died, None, 2) == died[0].part
    assert not_ended(died, (8, 1), 2) == died[1].part
    assert not_ended(died, (8, 2), 2) is None, "of other keys"
    assert not_ended([replace(one, state=RoundState.WHOLE) for one in died], None, 2) is None, "that one has ended"
    assert not_ended([replace(died[0], part=None)], None, 2) is None
    assert not_ended(died, None, 1) is None, "the key had other columns"
