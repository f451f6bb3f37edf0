"""Copies behind the mark of a failover (F3): what a site has written itself, and what a copier brings there late."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.core.base.offsets import Interval
from tidegate.core.failover.crossing import Crossing, RefusalKind, Walk
from tidegate.core.failover.origins import Origins
from tidegate.core.failover.own_records import away_since, behind_of, copied_back, left_last
from tidegate.core.failover.states import Certificate, Failover
from tidegate.core.source.behind import Behind, Own
from tidegate.core.source.coordinates import OWN, Coordinate


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


# ---------------------------------------------------------------- what was copied back to a site that was left


def test_f6_ends_that_were_noted_since_a_site_was_left_hold() -> None:
    assert [left_last(HISTORY, site) for site in ("oslo", "bergen", "tromso")] == [HISTORY[2], HISTORY[1], None]
    assert away_since(HISTORY, "oslo") == [HISTORY[2]]
    assert away_since(HISTORY, "bergen") == [HISTORY[2], HISTORY[1]], "the newest first"
    assert away_since(HISTORY, "tromso") == []


def back(*values: bytes | None, offset: int = 95, site: str = "oslo", history: list[Failover] = HISTORY) -> bool:
    return copied_back(history, site, 0, offset, values)


def copy_of(topic: str, offset: int, partition: int = 0) -> bytes:
    return Coordinate(topic, partition, 0, offset).text()


def test_f6_a_copy_may_be_of_what_was_written_elsewhere_since() -> None:
    assert back(copy_of("bergen", 0), offset=89), "no copy behind a mark came there"
    assert [back(copy_of("bergen", at)) for at in (24, 25)] == [False, True], "bergen's own begin at 25 since then"
    assert back(copy_of("bergen", 0, partition=2)), "one that came later has no earlier ones"
    assert back(copy_of("oslo", 0))
    assert back(copy_of("bergen", 0), history=HISTORY[:1]), "oslo was never active by a failover"
    assert not back(copy_of("elsewhere", 99))
    assert not back()
    assert not back(copy_of("bergen", 99), site="tromso"), "which was never left"


def test_f6_a_header_that_is_no_coordinate_is_judged_by_its_topic() -> None:
    assert [back(value) for value in (b"bergen:odd", b"oslo", b"elsewhere:odd", b"\xff", None)] == [
        True, True, False, False, False,
    ]  # fmt: skip
    assert back(copy_of("elsewhere", 1), copy_of("bergen", 1))


def test_f6_copies_of_a_third_site_are_old_unless_it_was_active_since() -> None:
    first = failover(1, "oslo", "tromso", crossing(9))
    again = failover(2, "tromso", "oslo", crossing(90, base=70))
    left = failover(3, "oslo", "bergen", crossing(40, base=25))
    assert not back(copy_of("tromso", 99), history=[first, again, left])
    later = failover(4, "bergen", "tromso", crossing(30, base=20))
    more = [
        failover(5, "tromso", "bergen", crossing(70, base=60)),
        failover(6, "bergen", "tromso", crossing(50, base=40)),
    ]
    since = [first, again, left, later, *more]
    assert [back(copy_of("tromso", at), history=since) for at in (19, 20)] == [False, True], "by the first time since"


# ---------------------------------------------------------------- copies at a third site


def test_copies_of_other_topics_are_skipped_and_no_repeats() -> None:
    walk = Walk(0, "now", 5, 0, 9, ("before",))
    for offset, (topic, at) in enumerate([("before", 7), ("now", 4), ("before", 8), ("now", 5), ("before", 9)]):
        assert walk.see(offset, [Coordinate(topic, 0, at, at).text()])
    found = walk.end()
    assert (found.copies, found.to_read, found.repeats, found.crossed) == (2, 1, 0, 6)
    assert [(one.start, one.end) for one in found.stretches] == [(0, 3), (4, 9)]
    for topic, partition in (("another", 0), ("before", 1)):
        other = Walk(0, "now", 5, 0, 9, ("before",))
        assert not other.see(0, [Coordinate(topic, partition, 1, 1).text()])
        assert [one.kind for one in other.end().refusals] == [RefusalKind.OTHER_LOG]


def test_f3_copies_of_copies_that_nobody_reads_are_strays_and_others_need_to_be_told() -> None:
    origins = Origins(0, Behind(("first",), (Own(0, 5, None),)))
    made = Walk(0, "now", 5, 0, 9, ("first",), origins)
    for here, of in enumerate(("first", "first", OWN)):
        assert made.see(here, [Coordinate("now", 0, here + 5, here + 5, of).text()])
    assert not made.see(3, [Coordinate("now", 0, 8, 8).text()]), "neither its header nor a log says it"
    found = made.end()
    assert (found.strays, found.to_read, found.stretches) == (2, 1, (Interval(0, 2),))
    (refusal,) = found.refusals
    assert refusal.kind == RefusalKind.ORIGIN
    assert refusal.advice.startswith("let the active site's brokers answer")
    assert refusal.words.startswith("partition 0: the copy at 3 is of the record at 8 of topic id now, behind the mark")
