"""A copy that does not begin, or does not go on, is a concern: readers of a first one see nothing until it is whole."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from core_status import NOW, SLA, SPEC, SURVEY, found, only, pause, status

from tidegate.core.base.instants import HOUR_MS
from tidegate.core.copy.rounds import Reading, Round, RoundState
from tidegate.core.look.status import PipelineStatus
from tidegate.core.mirror.applies import Merging
from tidegate.core.mirror.applies import Told as Table
from tidegate.core.mirror.copied import Copied, RoundIn
from tidegate.core.mirror.jobs import START, ServerLog
from tidegate.core.mirror.parts import KeyPart, OfServer
from tidegate.core.spec.copy import CopiedServer, Copy

COPY = Copy(conn_id="shop", table="shop.orders", schedule="*/10 * * * *")
MERGED = Merging(told=Table(begins=START), first_ms=NOW - SLA - 1)


def copying(copy: Copy = COPY, **more: Any) -> PipelineStatus:
    return status(pipeline=replace(SPEC, copy=copy), **more)


def reading(state: RoundState = RoundState.OPEN, begun_ms: int = NOW - SLA - 1, **more: Any) -> Reading:
    one = Round(pipeline="p", number=3, table="shop.orders", key=("id",), state=state, begun_ms=begun_ms)
    return Reading(round=one, **more)


def test_a_copy_that_does_not_begin() -> None:
    one = only(copying(merging=MERGED))
    assert (one.kind, one.what) == ("late_copy", "the first copy of the source's table has not begun for 2.0 h")
    assert "tidegate copy p" in one.advice
    assert not found(copying(merging=replace(MERGED, first_ms=NOW - SLA)))
    assert not found(copying(merging=replace(MERGED, told=Table()))), "nothing is read before an event is merged (S4)"
    assert not found(copying(merging=replace(MERGED, told=None)))
    assert not found(copying())
    assert not found(status(merging=MERGED)), "a mirror without a copy"


def test_a_copy_that_does_not_go_on() -> None:
    assert only(copying(reading=reading())).what == "copy 3 has not gone on for 2.0 h"
    assert not found(copying(reading=reading(since_ms=NOW - SLA)))
    assert only(copying(reading=reading(begun_ms=0, since_ms=NOW - SLA - 1))).kind == "late_copy"
    assert not found(copying(reading=reading(begun_ms=NOW - SLA)))


def test_each_copy_that_does_not_go_on() -> None:
    """Of several servers: also one behind which another one's is whole."""
    later = replace(reading(RoundState.WHOLE), others=(reading(), reading(begun_ms=NOW)))
    assert only(copying(reading=later)).what == "copy 3 has not gone on for 2.0 h"


@pytest.mark.parametrize("state", [one for one in RoundState if one != RoundState.OPEN])
def test_what_is_no_copy_under_way(state: RoundState) -> None:
    assert not found(copying(reading=reading(state)))


def test_a_connector_that_nobody_speaks_for() -> None:
    """A rotated password of the source's database stops no merge: without a word nobody would renew it."""
    named = replace(COPY, connect_conn_id="connect", connector="orders")
    silent = reading(RoundState.WHOLE, asked=(("", NOW - SLA - 1),))
    one = only(copying(named, reading=silent))
    assert (one.kind, one.subject) == ("silent_connector", "")
    assert one.what == "nobody has said for 2.0 h how far the connector is"
    assert "`tidegate doctor p` names" in one.advice
    assert not found(copying(named, reading=replace(silent, asked=(("", NOW - SLA),))))
    assert not found(copying(named, reading=replace(silent, asked=()))), "it has never said"
    assert not found(copying(reading=silent)), "the YAML does not name it any more"
    assert not found(copying(named, reading=silent, survey=replace(SURVEY, pause=pause("apply"))))


def test_each_server_whose_connector_nobody_speaks_for() -> None:
    servers = tuple(CopiedServer(name=name, conn_id=name, slot="s") for name in ("a", "b"))
    each = replace(COPY, conn_id="", servers=servers)
    silent = reading(RoundState.WHOLE, asked=(("a", NOW), ("b", NOW - SLA - 1), ("gone", 0)))
    one = only(copying(each, reading=silent))
    assert (one.what, one.subject) == ("nobody has said for 2.0 h how far the connector of server b is", "server b")


def test_a_rate_gives_each_chunk_its_time() -> None:
    slow = replace(COPY, chunk_rows=3_600_000, rate=1_000, tasks=2)  # two hours a chunk
    waits = reading(begun_ms=NOW - 4 * HOUR_MS)
    assert not found(copying(slow, reading=waits))
    assert only(copying(slow, reading=reading(begun_ms=NOW - 4 * HOUR_MS - 1))).kind == "late_copy"


def test_who_wants_it_so_is_told_nothing() -> None:
    assert not found(copying(replace(COPY, schedule=None), reading=reading()))
    held = replace(SURVEY, pause=pause("copy"))
    assert not found(copying(reading=reading(), survey=held))
    assert not found(copying(reading=reading(), survey=replace(SURVEY, pause=pause("copy", until_ms=NOW + 1))))
    assert only(copying(reading=reading(), survey=replace(SURVEY, pause=pause("ingest")))).kind == "late_copy"


# ---------------------------------------------------------------- several servers

SERVERS = replace(
    COPY, conn_id="", servers=tuple(CopiedServer(name=name, conn_id=name) for name in ("shop-a", "shop-b"))
)
OF_A = KeyPart((), (), (), OfServer("server", "shop-a"))
WHOLE_A = RoundIn(1, START, START, swept=True, part=OF_A)


def merged(*logs: ServerLog, spec_ms: int = 0) -> Merging:
    copied = Copied((WHOLE_A,), servers=(ServerLog("shop-a", START, START), *logs))
    return replace(MERGED, told=Table(begins=START, copied=copied), spec_ms=spec_ms)


def test_a_server_whose_first_copy_does_not_begin() -> None:
    """Another one's is whole: nobody would say a word, and readers would wait."""
    whole = replace(reading(RoundState.WHOLE), round=replace(reading(RoundState.WHOLE).round, part=OF_A))
    late = merged(ServerLog("shop-b", START, START))
    one = only(copying(SERVERS, merging=late, reading=whole))
    assert (one.kind, one.subject) == ("late_copy", "server shop-b")
    assert one.what == "the first copy of server shop-b has not begun for 2.0 h"
    assert "tidegate copy p" in one.advice
    assert not found(copying(SERVERS, merging=merged(ServerLog("shop-a", START, START)), reading=whole))
    came = merged(ServerLog("shop-b", START, START), spec_ms=NOW - SLA)
    assert not found(copying(SERVERS, merging=came, reading=whole)), "its line has come lately"


def test_a_server_of_which_no_event_comes() -> None:
    one = only(copying(SERVERS, merging=merged(ServerLog("shop-b")), reading=reading(RoundState.WHOLE)))
    assert one.what == "the first copy of server shop-b has waited for an event of its table for 2.0 h"
    assert "does its connector run" in one.advice


def test_a_server_whose_copy_does_not_go_on() -> None:
    of_b = replace(OF_A, server=OfServer("server", "shop-b"))
    waits = replace(reading(), round=replace(reading().round, part=of_b))
    one = only(copying(SERVERS, merging=merged(ServerLog("shop-b", START, START)), reading=waits))
    assert (one.what, one.subject) == ("copy 3 (server shop-b) has not gone on for 2.0 h", "server shop-b")
    gone = replace(SERVERS, servers=SERVERS.servers[:1])
    assert not found(copying(gone, merging=merged(ServerLog("shop-b", START, gone=True)), reading=waits))


def test_the_connector_of_a_server_that_is_gone_is_no_concern() -> None:
    lost = replace(reading(RoundState.WHOLE), gaps=("shop-b",))
    assert only(copying(SERVERS, merging=merged(), reading=lost)).subject == "server shop-b"
    gone = replace(SERVERS, servers=SERVERS.servers[:1])
    assert not found(copying(gone, merging=merged(), reading=lost))
