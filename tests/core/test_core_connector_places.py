"""S12: whether a mirror's connector may have left out changes, by two looks, and what makes it good."""

from __future__ import annotations

from dataclasses import replace

import pytest
from core_status import SPEC, found, status

from tidegate.core.copy.complete import Look, complete
from tidegate.core.copy.places import counting, lost, told_of, uncured
from tidegate.core.copy.port import NOWHERE, LogPosition, Place
from tidegate.core.copy.rounds import Reading, Round, RoundState
from tidegate.core.copy.words import how_far
from tidegate.core.mirror.applies import Told
from tidegate.core.mirror.copied import Complete, Copied, RoundIn
from tidegate.core.mirror.parts import KeyPart, OfServer
from tidegate.core.spec.copy import CopiedServer, Copy

KIND, SERVER_A = "lost_place", CopiedServer(name="a", conn_id="a")


def look(position: LogPosition = (20, 0), reader: str = "first", gap: int = 0) -> Look:
    return Look(position=position, log_end=(99, 0), at_ms=0, ends={0: 1}, reader=reader, gap=gap)


def now(position: LogPosition = (30, 0), log_begin: LogPosition = (10, 0)) -> Place:
    return Place(position, (99, 0), log_begin)


HAD, ANEW = "it has no place in the source's log, and it had one", "it had lost its place in the source's log"
PURGED, OTHER = "it had noted a place that the source's log does not go back to", "it is another one than first"


@pytest.mark.parametrize(
    ("last", "told", "place", "reader", "why"),
    [
        (look(), None, now(), "first", ""),
        (look(), None, now((20, 0), (20, 0)), "first", ""),
        (look(), None, now(log_begin=(20, 1)), "first", PURGED),
        (look(), None, now((9, 0), (10, 0)), "first", PURGED),
        (look(), None, now(log_begin=NOWHERE), "first", ""),
        (look(), None, now(NOWHERE), "first", HAD),
        (look(), None, now(NOWHERE), "second", ""),
        (look(NOWHERE), None, now(), "first", ANEW),
        (look(), None, now(), "second", OTHER),
        (look(), None, now((20, 0)), "second", ""),
        (look(reader=""), None, now(), "second", ""),
        (None, None, now(), "first", ""),
        (None, None, now((9, 0)), "first", PURGED),
        (None, None, now(NOWHERE), "first", ""),
        (None, (9, 0), now(), "first", PURGED),
        (None, (10, 0), now(), "first", ""),
        (None, (10, 0), now(NOWHERE), "first", HAD),
        (look(), (9, 0), now(), "first", ""),
    ],
)
def test_two_looks_tell_that_a_place_was_lost(
    last: Look | None, told: LogPosition | None, place: Place, reader: str, why: str
) -> None:
    said = lost(last, told, place, reader)
    assert said.startswith(why)
    assert bool(said) is bool(why)


def test_where_looks_are_forgotten_the_table_tells() -> None:
    each = Complete((0, 0), servers=(("a", (7, 1)), ("b", (3, 0))))
    assert told_of(None, "") is told_of(None, "a") is told_of(each, "c") is None
    assert (told_of(Complete((5, 0)), ""), told_of(each, "b")) == ((5, 0), (3, 0))


def test_looks_since_a_place_was_lost_count_once_a_later_copy_is_whole() -> None:
    looks = [look(), look(gap=2), look(gap=3)]
    assert [len(counting(looks, cured)) for cured in (0, 2, 3, 4)] == [1, 1, 2, 3]
    assert complete([look(NOWHERE)], {0: 1}) is None
    assert complete([look(NOWHERE), look((7, 0))], {0: 1}) == Complete((7, 0))


def whole(number: int, server: str = "", confirmed: int = 0) -> Round:
    part = KeyPart((), (), (), OfServer("shop", server)) if server else None
    return Round(
        pipeline="p", number=number, table="t", key=("id",), state=RoundState.WHOLE, part=part, confirmed=confirmed
    )


def test_a_copy_that_began_later_or_a_comparison_of_it_makes_it_good() -> None:
    assert uncured({"": 0}, []) == ()
    assert uncured({"": 2}, []) == uncured({"": 2}, [whole(2)]) == ("",)
    assert uncured({"": 2}, [whole(3)]) == uncured({"": 2}, [whole(1, confirmed=3)]) == ()
    assert uncured({"": 2}, [whole(3), whole(1)]) == (), "the newest counts"
    assert uncured({"b": 2, "a": 2, "c": 0}, [whole(5, "c")]) == ("a", "b")
    assert uncured({"a": 2, "b": 2}, [whole(5, "b")]) == ("a",)
    assert uncured({"a": 2}, [whole(5, "gone")]) == ("a",)


def test_people_are_told_until_then() -> None:
    table = Told(copied=Copied((RoundIn(1, (5, 0, 1), (6, 0, 1), ((1, 1),), True),)))
    reading = Reading(round=whole(1), gaps=("", "a"))
    said = how_far(reading, table, True)
    assert "; the connector may have left out changes; the connector of server a may have left out changes" in said
    assert "left out" not in how_far(replace(reading, gaps=()), table, True)
    copied = [replace(SPEC, copy=Copy(conn_id="c", table="s.t", servers=some)) for some in ((), (SERVER_A,))]
    only, of_a = (one for spec in copied for one in found(status(pipeline=spec, reading=reading)) if one.kind == KIND)
    assert (only.subject, of_a.subject) == ("", "server a")
    assert only.what.startswith("the connector has lost its place in the source's log: ")
    assert of_a.what.startswith("the connector of server a has lost its place")
    assert "tidegate copy p --again" in only.advice
    cured = found(status(pipeline=copied[0], reading=replace(reading, gaps=())))
    assert [one for one in cured if one.kind == KIND] == []
