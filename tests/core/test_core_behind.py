"""Copies behind the mark of a failover (F3): what a site has written itself, and what a copier brings there late."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.core.failover.behind import behind_of
from tidegate.core.failover.crossing import Crossing
from tidegate.core.failover.states import Certificate, Failover
from tidegate.core.source.behind import Behind, Own
from tidegate.core.source.coordinates import Coordinate


def failover(number: int, before: str, topic: str, *crossings: Crossing) -> Failover:
    certificate = Certificate(topic="t", before_topic_id=before, topic_id=topic, stopped="", crossings=crossings)
    return Failover(number=number, site=topic, before=before, certificate=certificate, why="", at_ms=0)


def crossing(mark: int, base: int = 0, partition: int = 0) -> Crossing:
    return Crossing(partition=partition, landed=0, crossed=None, base=base, mark=mark)


HISTORY = [
    failover(1, "oslo", "bergen", crossing(10)),
    failover(2, "bergen", "oslo", crossing(90, base=70)),
    failover(3, "oslo", "bergen", crossing(40, base=25), crossing(5, partition=1)),
]


def test_a_site_has_written_itself_what_lies_from_a_mark_to_where_the_next_copies_may_begin() -> None:
    assert behind_of(HISTORY[:1], "oslo") is None
    assert behind_of([], "bergen") is None
    assert behind_of(HISTORY[:1], "bergen") == Behind(("oslo",), (Own(0, 10, None),))
    assert behind_of(HISTORY, "bergen") == Behind(
        ("oslo",), (Own(0, 10, 25), Own(1, 0, 0), Own(0, 40, None), Own(1, 5, None))
    )
    assert behind_of(HISTORY, "oslo") == Behind(("bergen",), (Own(0, 90, None),))


@pytest.mark.parametrize(
    ("offset", "of", "wanted"),
    [(9, "oslo", False), (10, "oslo", True), (24, "oslo", True), (25, "oslo", False), (39, "oslo", False),
     (40, "oslo", True), (10**9, "oslo", True), (10, "tromso", False), (10, "bergen", False)],
)  # fmt: skip
def test_only_copies_of_a_known_site_within_are_behind(offset: int, of: str, wanted: bool) -> None:
    found: Any = behind_of(HISTORY, "bergen")
    assert found.has(0, offset, [Coordinate(of, 0, 1, 2).text()]) is wanted
    assert found.has(2, offset, [Coordinate(of, 2, 1, 2).text()]) is (of == "oslo"), "a partition that came later"
    assert not found.has(0, offset, [b"no coordinate"])
    assert not found.has(0, offset, [])


def test_a_site_that_wrote_nothing_has_nothing_of_its_own() -> None:
    assert not Own(0, 0, 0).has(0, 0)
