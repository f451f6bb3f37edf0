"""What one server of a mirror is at holds up no other: copies, comparisons and purges of each go by its own rounds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.copies import test_servers, test_servers_purge
from tests.copies.servers import A, B, ServersWorld
from tests.copies.test_servers import copied
from tests.copies.test_servers_compared import rounds
from tests.copies.test_servers_purge import DAY, purged
from tests.copies.worlds import copy_words
from tests.mirror.audits import deep
from tidegate.adapters.connections import ConnectionMissing
from tidegate.core.base.errors import LostComparison, StorageAhead
from tidegate.core.copy.rounds import RESUMED_MS, RoundState
from tidegate.workflow.copy import copy as reading
from tidegate.workflow.copy.copy import to_compare


def begun(folder: Path) -> ServersWorld:
    """No server has a copy yet, and the first one dies in the middle of its own."""
    made = test_servers.begun(folder)
    dies(made, A)
    return made


def dies(world: ServersWorld, name: str) -> None:
    """After its next chunk the server gives no answer any more."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "CHUNKS_FOR_A_TASK", 1)
        world.read(go_on=lambda: False, server=name)
    world.down = {name}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ServersWorld]:
    made = begun(tmp_path)
    yield made
    made.close()


def test_a_server_that_dies_in_its_copy_holds_up_no_other(world: ServersWorld) -> None:
    """Its own copy goes on where it was."""
    found = world.read()
    assert f"server {A}: not read: {A} gives no answer" in found[A].words
    assert found[B].read.rows == 5
    world.apply()
    assert rounds(world) == [(f"copy 1 (server {A})", "OPEN"), (f"copy 2 (server {B})", "WHOLE")]
    of_b = {key: word for key, word in world.source.items() if key[0] == B}
    assert {key: word for key, word in world.found(hidden=True).items() if key[0] == B} == of_b
    world.down = set()
    world.source_tables[A].reads.clear()
    assert list(world.read()) == [A]
    assert len(world.source_tables[A].reads) == 2, "a chunk was read again"
    world.apply()
    assert world.found() == world.source
    assert [state for _, state in rounds(world)] == ["WHOLE", "WHOLE"]
    assert deep(world).problems == ()


def test_a_connection_that_is_missing_holds_up_no_other_server(world: ServersWorld) -> None:
    def opened(name: str) -> object:
        if name == A:
            raise ConnectionMissing("no connection shop_a")
        return world.__class__.opened_database(world, name)

    world.opened_database = opened  # type: ignore[assignment, method-assign]
    assert world.read()[B].read.rows == 5
    world.apply()
    found = world.compared()
    assert ("no connection shop_a" in found[A].unanswered, found[B].differ) == (True, {})


def test_s6_rows_that_were_read_are_merged_though_a_later_copy_of_another_server_is_in(world: ServersWorld) -> None:
    """The first copy's rows wait for their merge, and the second one's come before them."""
    world.read(server=B)
    ctx = world.context()
    first, second = ctx.ledger.copies.rounds(world.pipeline.name)
    assert first.server < second.server
    world.apply()
    assert {name for name, _ in world.found(hidden=True)} == {A, B}
    world.down = set()
    world.read()
    world.apply()
    assert world.found() == world.source


def test_a_copy_that_is_begun_again_leaves_the_other_servers_alone(world: ServersWorld) -> None:
    world.down = set()
    world.again(B, "the first server is down")
    assert world.mirror() == world.source
    assert [state for _, state in rounds(world)] == ["WHOLE", "WHOLE"]


def test_one_round_of_a_server_is_under_way_at_a_time(world: ServersWorld) -> None:
    copies = world.context().ledger.copies
    (first,) = copies.rounds(world.pipeline.name)
    for only in (False, True):
        with pytest.raises(LostComparison, match="copy 1 .server shop-a. is under way"):
            copies.begin(world.pipeline.name, 2, "shop.readings", ("id",), only=only, part=first.part)
    world.again(A, "anew")
    assert [state for _, state in rounds(world)] == ["GIVEN_UP", "OPEN"]


def test_a_server_is_compared_and_repaired_while_a_copy_of_another_one_is_under_way(tmp_path: Path) -> None:
    world = copied(tmp_path)
    world.again(A)
    dies(world, A)
    world.source_tables[B].lose(1)
    found = world.compared(fix="by hand")
    assert f"{A} gives no answer" in found[A].unanswered
    assert (found[B].differ, found[B].mended) == ({"surplus": 1}, True)
    assert world.found() == world.source
    assert rounds(world)[2] == (f"copy 3 (server {A})", "OPEN")
    world.down = set()
    assert world.mirror() == world.source
    assert deep(world).problems == ()
    world.close()


def test_a_copy_begins_while_another_server_is_compared(tmp_path: Path) -> None:
    """Nobody may be left to end the comparison."""
    world = ServersWorld(tmp_path)
    both, copy = world.pipeline, world.pipeline.copy
    assert copy is not None
    world.pipeline = replace(both, copy=replace(copy, servers=copy.servers[:1]))
    world.source_tables[A].set(1, "an event")
    assert world.mirror() == world.source
    to_compare(world.context(), world.source_tables[A], server=A)
    world.close()
    world.pipeline = both
    world.source_tables[B].set(1, "an event")
    assert world.mirror() == world.source
    assert rounds(world)[1:] == [(f"copy 2 (server {A})", "COMPARED"), (f"copy 3 (server {B})", "WHOLE")]
    world.close()


def test_a_round_of_a_server_that_has_no_line_any_more_holds_up_nothing(tmp_path: Path) -> None:
    world = test_servers_purge.begun(tmp_path)
    world.again(B)
    copy = world.pipeline.copy
    assert copy is not None
    world.pipeline = replace(world.pipeline, copy=replace(copy, servers=copy.servers[:1]))
    world.source_tables[A].set(5, "lately")
    world.deliver(A)
    world.apply()
    assert world.standing().purged == 2
    assert list(world.compared()) == [A]
    world.close()


def test_r11_a_server_whose_copy_the_ledger_has_lost_is_named(world: ServersWorld) -> None:
    """A later copy of another server says nothing of it."""
    ctx = world.context()
    (first,) = ctx.ledger.copies.rounds(world.pipeline.name)
    (chunk, *_) = ctx.ledger.copies.chunks(world.pipeline.name, first.number)
    world.close()
    world.read(server=B)
    world.apply()
    ctx = world.context()
    ctx.ledger.copies.again(chunk, "as if it was restored")
    world.close()
    with pytest.raises(StorageAhead, match=f"chunk 1 of copy 1 of server {A}") as refused:
        world.apply()
    assert "tidegate copy readings --again --server ..." in refused.value.advice
    world.down = set()
    world.again(A, "the ledger was restored")
    assert world.mirror() == world.source


# ---------------------------------------------------------------- tombstones


def test_s7_a_server_that_dies_in_its_copy_holds_up_no_purge_of_another_one(tmp_path: Path) -> None:
    """Days later, too; what was deleted of its own stays until the copy is over."""
    world = test_servers_purge.begun(tmp_path)
    world.again(B)
    dies(world, B)
    world.apply()
    assert purged(world) == 2
    world.source_tables[A].set(4, None)
    world.source_tables[A].set(5, "after it")
    world.deliver()
    world.clock.advance(5 * DAY)
    assert purged(world) == 1
    assert world.standing().tombstones == 2
    assert deep(world).problems == ()
    world.down = set()
    assert world.mirror() == world.source
    world.close()


def test_s7_a_comparison_holds_up_the_purge_of_its_own_server(tmp_path: Path) -> None:
    world = test_servers_purge.begun(tmp_path)
    to_compare(world.context(), world.source_tables[B], server=B)
    world.close()
    assert purged(world) == 2
    world.clock.advance(RESUMED_MS)
    assert purged(world) == 2
    world.close()


# ---------------------------------------------------------------- what people see


def test_each_copy_that_is_under_way_is_told_of(world: ServersWorld) -> None:
    """The older one, too."""
    world.read(server=B)
    words = copy_words(world)
    assert f"copy 1 (server {A}): 1 of 2 chunks so far read (3 rows), 0 merged" in words
    assert f"copy 2 (server {B}): 2 of 2 chunks read (5 rows), 0 merged" in words
    assert words.count("readers see an empty table until a copy of each server is whole") == 2
    name = world.pipeline.name
    said = world.context().ledger.reads.readings([name])[name]
    assert [(one.round.number, one.chunks) for one in said.under_way] == [(1, 2), (2, 2)]
    world.apply()
    said = world.context().ledger.reads.readings([name])[name]
    assert (said.round.number, said.round.state) == (2, RoundState.WHOLE)
    assert [(one.round.number, one.round.state) for one in said.under_way] == [(1, RoundState.OPEN)]
    assert f"copy 1 (server {A}): 1 of 2 chunks so far read (3 rows), 1 merged" in copy_words(world)
