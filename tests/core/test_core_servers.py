"""Several servers of a mirror (S11): what each of their logs has said, and which is read next."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidegate.core.copy.complete import of_all, worth_telling
from tidegate.core.copy.port import KeyRange
from tidegate.core.copy.rounds import Chunk, ChunkState, Reading, Round, RoundState
from tidegate.core.copy.steps import to_merge, too_old, unread_servers
from tidegate.core.copy.words import how_far
from tidegate.core.mirror.applies import Told
from tidegate.core.mirror.copied import Complete, Copied, RoundIn
from tidegate.core.mirror.jobs import START, ServerLog
from tidegate.core.mirror.parts import KeyPart, OfServer, covers, holds
from tidegate.core.mirror.servers import further, logs_after, purge_words
from tidegate.core.spec.copy import CopiedServer, Copy

OPEN, COMPARED, WHOLE, GIVEN_UP, ENDED = RoundState
NAMES = ("a", "b")


def part(server: str, *keys: int) -> KeyPart:
    """All keys of a server, or those from one to another."""
    of = OfServer("shop", server)
    return KeyPart(("id",), keys[:1], keys[1:], of) if keys else KeyPart((), (), (), of)


def inside(number: int, of: KeyPart | None = None, top: int = 50, swept: bool = True) -> RoundIn:
    return RoundIn(number, (40, 0, number), (top, 0, number), ((1, 2),), swept, of)


def table(*rounds: RoundIn, **more: object) -> Copied:
    return replace(Copied(rounds, servers=tuple(map(ServerLog, NAMES))), **more)  # type: ignore[arg-type]


# ---------------------------------------------------------------- what their logs have said


def test_a_merge_says_more_of_some_servers() -> None:
    a = ServerLog("a", (1, 0, 0), (5, 0, 0), 50, (2, 0, 0))
    assert logs_after((a, ServerLog("gone")), NAMES, ()) == (a, ServerLog("b")), "those of the spec, in its order"
    first = ServerLog("b", None, (9, 1, 0), 70)
    began = ServerLog("b", (9, 1, 0), (9, 1, 0), 70)
    assert logs_after((a,), NAMES, (first,)) == (a, began)
    assert logs_after((began, a), NAMES, (ServerLog("a", last=(6, 0, 0), newest_ms=60),)) == (
        replace(a, last=(6, 0, 0), newest_ms=60),
        began,
    )


@pytest.mark.parametrize(
    ("more", "wanted"),
    [
        ({"last": (4, 0, 0), "newest_ms": 40, "purged_below": (1, 0, 0)}, {}),
        ({"last": (7, 0, 0)}, {"last": (7, 0, 0)}),
        ({"newest_ms": 80}, {"newest_ms": 80}),
        ({"purged_below": (3, 0, 0)}, {"purged_below": (3, 0, 0)}),
        ({"below_purge": 2}, {"below_purge": 3}),
    ],
)
def test_nothing_that_a_server_has_said_is_taken_back(more: dict, wanted: dict) -> None:
    a = ServerLog("a", (1, 0, 0), (5, 0, 0), 50, (2, 0, 0), 1)
    assert further(a, ServerLog("a", **more)) == replace(a, **wanted)


def test_m5_the_marker_of_a_purge_names_each_server() -> None:
    logs = (ServerLog("a", purged_below=(7, 1, 0)), ServerLog("b"))
    told = Told(purged_below=(9, 0, 0))
    assert purge_words((9, 0, 0), ()) == told.purge_words == "9,0,0"
    assert replace(told, copied=Copied(servers=logs)).purge_words == "a=7,1,0 b=0,0,0"


def test_what_a_table_says_of_one_of_them() -> None:
    a = ServerLog("a", (1, 0, 0), (5, 0, 0), 50, (2, 0, 0))
    told = Told(upto=7, begins=(3, 0, 0), last_position=(8, 0, 0), purged_below=(4, 0, 0), copied=Copied(servers=(a,)))
    assert told.of_server("") is told
    assert told.of_server("a") == replace(told, begins=(1, 0, 0), last_position=(5, 0, 0), purged_below=(2, 0, 0))
    assert told.of_server("b") == replace(told, begins=None, last_position=None, purged_below=START)


def test_m5_events_that_nobody_says_the_server_of_were_kept_out_of_each() -> None:
    logs = tuple(ServerLog(name, below_purge=kept_out) for name, kept_out in (("a", 2), ("b", 1)))
    told = Told(below_purge=5, copied=Copied(servers=logs))
    assert [told.of_server(name).below_purge for name in ("", "a", "b", "c")] == [5, 4, 3, 2]
    assert [replace(told, below_purge=3).of_server(name).below_purge for name in ("a", "c")] == [2, 0]


# ---------------------------------------------------------------- which is read next


def round_(number: int, of: KeyPart, state: RoundState = WHOLE) -> Round:
    return Round(pipeline="p", number=number, table="shop.t", key=("id",), state=state, part=of)


@pytest.mark.parametrize(
    ("rounds", "wanted"),
    [
        ([], "ab"),
        ([round_(1, part("a"))], "b"),
        ([round_(1, part("b"))], "a"),
        ([round_(1, part("b"), OPEN)], "ab"),
        ([round_(1, part("a")), round_(2, part("b")), round_(3, part("a", 7, 9), OPEN)], "a"),
        ([round_(1, part("gone"), OPEN)], "ab"),
        ([round_(1, part("a", 7, 9))], "ab"),
        *(([round_(1, part("a"), state)], "ab") for state in (COMPARED, GIVEN_UP, ENDED)),
        ([round_(1, part("a")), round_(2, part("b"))], ""),
    ],
)
def test_servers_are_read_that_are_not_whole_or_whose_round_is_open(rounds: list[Round], wanted: str) -> None:
    """S6: each has rounds of its own, and waits for no other."""
    assert unread_servers(NAMES, rounds) == list(wanted)


def test_each_server_is_whole_by_itself_and_the_table_once_all_are() -> None:
    a, b, again = inside(1, part("a")), inside(2, part("b")), inside(4, part("a"))
    some, half = inside(3, part("b", 7, 9)), inside(5, part("b"), swept=False)
    one = table(a, half)
    assert (one.whole_of("a"), one.whole_of("b"), one.whole) == (a, None, None)
    both = table(a, b, some, again, half)
    assert (both.whole_of("a"), both.whole_of("b"), both.whole) == (again, b, again), "the newest; keys are not all"
    assert Copied((inside(1),)).whole_of("") == inside(1)


def test_s5_a_copy_begins_above_the_earlier_ones_of_its_server() -> None:
    both = table(inside(1, part("a"), top=70), inside(2, part("b"), top=60), inside(4, part("b"), top=90))
    assert both.floor(3, "a") == (70, 0, 1)
    assert both.floor(3, "b") == (60, 0, 2)
    assert both.floor(4, "b") == (60, 0, 2)
    assert both.floor(3, "c") == START


def test_s5_a_chunk_is_read_again_where_its_server_was_read_later() -> None:
    both = table(inside(1, part("a"), top=70), inside(2, part("b"), top=60))
    assert too_old((65, 0, 3), both, START, START, "b") is None
    assert too_old((65, 0, 3), both, START, START, "a") == "its LOW is below that of an earlier copy at 70,0,1"


def test_keys_of_one_server_are_no_other_ones() -> None:
    some = part("a", 7, 9)
    keys = [("a", 7), ("a", 6), ("b", 7)]
    assert [holds(some, {"shop": shop, "id": n}) for shop, n in keys] == [True, False, False]
    assert [holds(part("a"), {"shop": shop, "id": n}) for shop, n in keys] == [True, True, False]
    wider = [None, part("a"), some, part("b"), part("b", 7, 9)]
    assert [covers(one, some) for one in wider] == [True, True, True, False, False]
    assert (covers(some, part("a")), covers(part("a"), None)) == (False, False)
    a, b = inside(1, part("a")), inside(2, part("b", 1, 5))
    again = inside(3, part("a"), swept=False)
    assert table(a, b, again).with_sweep(3).rounds == (b, replace(again, swept=True)), "rows of b are left"


def test_s9_of_several_the_oldest_time_is_told_and_never_exactly() -> None:
    a, b = Complete((7, 1), 70, exact=True), Complete((3, 0), 30, exact=True)
    both = of_all({"a": a, "b": b})
    assert both == Complete((0, 0), 30, servers=(("a", (7, 1)), ("b", (3, 0))))
    assert (both.spelled, a.spelled) == ("a=7,1 b=3,0", "7,1")
    assert of_all({"a": a, "b": replace(b, at_ms=None)}) == replace(both, at_ms=None)
    assert of_all({"a": a, "b": None}) == Complete((0, 0), None, servers=(("a", (7, 1)),)), "b is left out"
    assert of_all({"b": None}) is of_all({}) is None


def test_s9_only_of_those_that_are_whole_is_told() -> None:
    found = Complete((0, 0), 7, servers=(("a", (5, 0)), ("b", (6, 0))))
    one = table(inside(1, part("a")))
    assert one.may_tell(found) == Complete((0, 0), servers=(("a", (5, 0)),)), "no time is known of all"
    assert table(inside(1, part("a")), inside(2, part("b"))).may_tell(found) == found
    nothing = (replace(one, hidden=True), replace(one, by_hand=True), table(), table(inside(1, part("a"), swept=False)))
    assert [copied.may_tell(found) for copied in nothing] == [None] * 4
    assert Copied().may_tell(Complete((5, 0), 7)) is None
    assert worth_telling(None, one.may_tell(found))
    assert not worth_telling(found, one.may_tell(found))


def test_s6_a_copy_that_is_not_read_stops_later_ones_of_its_server_alone() -> None:
    def read(number: int, of: int) -> Chunk:
        more = {"state": ChunkState.READ, "low": (60, 0), "high": (60, 0), "rows": 1}
        return Chunk(pipeline="p", number=number, round=of, table="t", keys=KeyRange(), **more)  # type: ignore[arg-type]

    def copy(number: int, server: str, ended: bool) -> Round:
        return Round(pipeline="p", number=number, table="t", key=("id",), state=OPEN, ended=ended, part=part(server))

    rounds = [copy(1, "a", False), copy(2, "a", True), copy(3, "b", True)]
    found = to_merge(rounds, {2: [read(1, 2)], 3: [read(2, 3)]}, table(), 10)
    assert found is not None
    assert found.step.round == 3
    assert to_merge(rounds[:2], {2: [read(1, 2)]}, table(), 10) is None


def test_how_far_several_are_in_words() -> None:
    reading = Reading(round=round_(2, part("b"), OPEN), chunks=3, read=1, rows=5)
    told = Told(copied=table(inside(1, part("a")), hidden=True))
    assert how_far(reading, told, True) == (
        "server a: whole since copy 1; server b: no copy is whole yet; copy 2 (server b): 1 of 3 chunks so far read "
        "(5 rows), 0 merged; readers see an empty table until a copy of each server is whole"
    )
    both = Complete((0, 0), 0, servers=(("a", (7, 1)), ("b", (3, 0))))
    whole = Told(copied=table(inside(1, part("a")), inside(2, part("b")), complete=both))
    assert how_far(replace(reading, round=round_(2, part("b"))), whole, True) == (
        "server a: whole since copy 1; server b: whole since copy 2; nothing in it is older than a=7,1 b=3,0, what the "
        "source had at 1970-01-01T00:00Z"
    )
    lacks = how_far(None, whole, True, ["shade"])
    assert "tidegate compare --server tells, and copy --again --server reads them" in lacks


def test_the_server_of_a_name_is_one_of_those_that_are_read() -> None:
    a, b = CopiedServer(name="a", conn_id="one", connector="c"), CopiedServer(name="b", conn_id="two", slot="s")
    several = Copy(conn_id="", table="", servers=(a, b))
    assert (several.server("b"), several.each, several.is_told) == (b, (a, b), True)
    assert not replace(several, servers=(a, replace(b, slot=None))).is_told
    alone = Copy(conn_id="x", table="shop.t", connect_conn_id="y", connector="c", slot="s")
    assert alone.server("") == CopiedServer(name="", conn_id="x", connect_conn_id="y", connector="c", slot="s")


def test_the_shards_of_a_pattern_are_named_in_order_by_their_whole_names() -> None:
    there = ["shop.t_2", "shop.t_1", "shop.t_10_old", "other.t_1"]
    copy = Copy(conn_id="c", table="", tables=r"shop\.t_\d+")
    assert copy.names(lambda: there) == ("shop.t_1", "shop.t_2")
    assert Copy(conn_id="c", table="shop.t").names(list) == ("shop.t",)
