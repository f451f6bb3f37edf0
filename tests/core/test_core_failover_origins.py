"""A third site: what was a copy behind the mark at the second one is not read from it (F3)."""

from __future__ import annotations

import pytest

from tidegate.core.failover.crossing import Walk
from tidegate.core.failover.origins import Origins
from tidegate.core.source.behind import Behind, Own
from tidegate.core.source.coordinates import OWN, Coordinate


def told(*seen: tuple[int, str | None]) -> Origins:
    """Of a site whose producers write from 5 on; `seen`: its log, with the topic id of each record's header."""
    made = Origins(1, Behind(("first",), (Own(1, 5, None),)))
    for offset, of in seen:
        made.see(offset, [] if of is None else [Coordinate(of, 1, 0, 0).text()])
    return made


@pytest.mark.parametrize(
    ("offset", "of", "wanted"),
    [(4, "first", False), (4, None, False), (5, "first", True), (5, OWN, False), (5, "elsewhere", False),
     (5, None, None), (6, None, True), (7, None, False), (8, None, None), (9, None, False), (10, None, None)],
)  # fmt: skip
def test_what_was_a_copy_behind_the_mark(offset: int, of: str | None, wanted: bool | None) -> None:
    origins = told((6, "first"), (7, None), (9, "elsewhere"))
    assert origins.was_copy(Coordinate("id", 1, offset, offset, of)) is wanted


def test_copies_of_such_copies_are_not_read_and_no_hole() -> None:
    made = Walk(1, "id", 5, 0, 9, ("first",), told())
    for here, (offset, of) in enumerate(((5, OWN), (6, "first"), (7, OWN), (6, "first"))):
        assert made.see(here, [Coordinate("id", 1, offset, offset, of).text()])
    found = made.end()
    assert (found.to_read, found.strays, found.repeats, found.crossed) == (2, 1, 1, 8)
    assert [(one.start, one.end) for one in found.stretches] == [(1, 2), (3, 9)]
