"""A mirror of several servers is compared with each of them, and some keys of one are read again (S11)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.copies.servers import A, B, ServersWorld
from tests.copies.test_servers import copied
from tests.fakes.source_table import _Checksums, position
from tests.mirror.audits import deep
from tidegate.core.base.errors import NotReady, SourceError, SourceUnavailable
from tidegate.core.copy.port import Checksum, KeyRange, Place
from tidegate.core.copy.rounds import RoundState
from tidegate.core.mirror.parts import KeyPart, OfServer
from tidegate.workflow.clean.duties import clean
from tidegate.workflow.copy import narrow
from tidegate.workflow.copy.compare import in_words
from tidegate.workflow.copy.narrow import next_keys

ROWS = 2


def begun(folder: Path) -> ServersWorld:
    return copied(folder)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServersWorld]:
    monkeypatch.setattr(narrow, "ROWS", ROWS)
    made = begun(tmp_path)
    yield made
    made.close()


def rounds(world: ServersWorld) -> list[tuple[str, str]]:
    found = [(one.words, str(one.state)) for one in world.context().ledger.copies.rounds(world.pipeline.name)]
    world.close()
    return found


# ---------------------------------------------------------------- compare


def test_what_is_equal_is_read_of_no_server(world: ServersWorld) -> None:
    for of in world.source_tables.values():
        of.reads.clear()
    found = world.compared()
    assert {n: (r.differ, r.rows, r.read, r.exact) for n, r in found.items()} == {
        A: ({}, 8, 0, True),
        B: ({}, 5, 0, True),
    }
    assert found[A].parts > 0
    assert [of.reads for of in world.source_tables.values()] == [[], []]


def test_each_difference_is_told_of_its_server(world: ServersWorld) -> None:
    """The other server has rows of the same keys."""
    first, second = world.source_tables[A], world.source_tables[B]
    first.lose(1)
    first.sneak(30, "never seen")
    second.sneak(2, "other")
    found = world.compared()
    assert found[A].differ == {"lacking": 1, "surplus": 1}
    assert found[B].differ == {"other": 1}
    assert {s.key for s in found[A].samples} == {f"server={A}, id=1", f"server={A}, id=30"}
    words = in_words(world.pipeline.name, found[B])
    assert f"readings of server {B}: 1 of 5 keys differ" in words
    assert f"tidegate compare readings --server {B} --fix" in words


def test_where_all_is_read_rows_of_the_other_server_are_no_surplus(
    world: ServersWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> Checksum:
        raise SourceError("no such function", advice="correct the table", retry=False)

    monkeypatch.setattr(_Checksums, "of", refused)
    world.source_tables[A].lose(1)
    found = world.compared(fix="by hand")
    assert {n: (one.differ, one.read) for n, one in found.items()} == {A: ({"surplus": 1}, 7), B: ({}, 5)}
    assert "the database does not sum it" in found[B].unsummed
    assert found[A].mended
    assert world.found() == world.source


def test_a_low_is_compared_with_rows_of_its_own_server(world: ServersWorld) -> None:
    """All of the second server's positions are below those of the first one, so that its rows would all be old, or all
    be newer than what was read."""
    world.source_tables[A].lose(1)
    world.source_tables[B].lose(1)
    found = world.compared()
    assert [one.differ for one in found.values()] == [{"surplus": 1}, {"surplus": 1}]


def test_the_mirror_has_caught_up_with_the_log_of_that_server(world: ServersWorld) -> None:
    """The second one's log is far behind the first one's: its own last position has to be merged."""
    second = world.source_tables[B]
    behind = position(second.delivered)
    second.set(1, "on its way")
    world.connectors |= {B: lambda: Place(behind, second.position())}
    world.deliver = lambda *_, **__: None  # type: ignore[method-assign]
    found = world.compared()
    assert (found[A].exact, found[A].differ) == (True, {})
    assert (found[B].exact, found[B].differ) == (False, {"other": 1})


def test_changes_meanwhile_are_no_differences(world: ServersWorld) -> None:
    for name, of in world.source_tables.items():
        steps = iter([(1, f"{name} changed"), (2, None), (11, "new"), (1, "again")])
        of.during = lambda of=of, steps=steps: [of.set(*step) for step in [*steps][:1]]  # type: ignore[misc]
    found = world.compared()
    assert {n: (one.differ, one.exact) for n, one in found.items()} == {A: ({}, True), B: ({}, True)}


def test_fix_reads_the_ranges_of_that_server_again(world: ServersWorld) -> None:
    first, second = world.source_tables[A], world.source_tables[B]
    first.lose(1)
    second.lose(2)
    second.sneak(5, "by hand")
    first.reads.clear()
    assert world.compared(fix="by hand", server=B)[B].mended
    assert first.reads == []
    assert world.found() == world.source | {(A, 1): "a 1"}
    assert world.compared(fix="by hand")[A].mended
    assert world.found() == world.source
    assert all(one.differ == {} for one in world.compared().values())
    assert deep(world).problems == ()


def test_a_server_that_is_down_holds_up_nobody_and_is_named(world: ServersWorld) -> None:
    world.down = {A}
    world.source_tables[B].lose(1)
    found = world.compared(fix="by hand")
    assert f"{A} gives no answer" in found[A].unanswered
    assert f"readings of server {A}: not compared: {A} gives no answer" in in_words("readings", found[A])
    assert (found[B].differ, found[B].mended) == ({"surplus": 1}, True)
    with pytest.raises(SourceUnavailable):
        world.compared(server=A)


def test_a_comparison_that_died_with_its_server_holds_up_no_other(world: ServersWorld) -> None:
    def dies() -> None:
        raise SourceUnavailable("it is gone")

    first = world.source_tables[A]
    first.lose(1)
    first.during = dies
    found = world.compared()
    assert ("it is gone" in found[A].unanswered, found[B].differ) == (True, {})
    first.during = lambda: None
    assert world.compared()[A].differ == {"surplus": 1}


def test_some_keys_are_compared_and_fixed(world: ServersWorld) -> None:
    for of in world.source_tables.values():
        of.lose(1)
        of.sneak(4, "by hand")
    found = world.compared(keys=("3", "5"))
    assert [(one.differ, one.rows) for one in found.values()] == [({"other": 1}, 3), ({"other": 1}, 3)]
    assert world.compared("by hand", ("3", "5"), B)[B].mended
    assert world.found() == world.source | {(A, 1): "a 1", (A, 4): "a 4", (B, 1): "b 1"}


def test_no_comparison_while_a_copy_of_that_server_is_under_way(world: ServersWorld) -> None:
    world.again(B)
    found = world.compared()
    assert (found[A].unanswered, found[A].differ, found[B].not_yet) == ("", {}, True)
    assert "copy 3 (server shop-b) is under way" in found[B].unanswered
    world.mirror()
    assert all(one.differ == {} for one in world.compared().values())


def test_laps_are_of_each_server(tmp_path: Path) -> None:
    world = copied(tmp_path)
    copy = world.pipeline.copy
    assert copy is not None
    world.pipeline = replace(world.pipeline, copy=replace(copy, compare_rows=3))
    least, most = str(-(2**63) + 1), str(2**63 - 1)

    def a_run() -> list[tuple[str, str]]:
        ctx = world.context()
        keys = {name: next_keys(ctx, of, name) for name, of in world.source_tables.items()}
        world.close()
        for name, some in keys.items():
            assert world.compared("", some, name)[name].differ == {}
        return [*keys.values()]  # type: ignore[list-item]

    assert a_run() == [(least, "3"), (least, "3")]
    assert world.compared()[A].differ == {}, "of all keys: it is no part of a lap"
    assert a_run() == [("4", "6"), ("4", most)]
    assert a_run() == [("7", most), (least, "3")]
    world.clock.advance(30 * 86_400_000)
    clean(world.context())
    world.close()
    left = {
        one.words for one in world.context().ledger.copies.rounds(world.pipeline.name) if one.state == RoundState.ENDED
    }
    assert {words.partition(" (")[2].partition(",")[0] for words in left} == {f"server {A}", f"server {B}"}, left
    assert a_run() == [(least, "3"), ("4", most)]
    world.close()


# ---------------------------------------------------------------- some keys are read again


def test_some_keys_of_a_server_are_read_again(world: ServersWorld) -> None:
    for of in world.source_tables.values():
        of.lose(2)
        of.lose(4)
        of.reads.clear()
    world.again(B, keys=("3", "5"))
    assert world.mirror() == world.source | {(A, 2): "a 2", (A, 4): "a 4", (B, 2): "b 2"}
    assert [of.reads for of in world.source_tables.values()] == [[], [KeyRange((2,), (5,))]]
    assert rounds(world)[-1] == (f"copy 3 (server {B}, id 3 to 5)", "WHOLE")
    told = world.apply().told
    assert told.rows + told.tombstones + told.purged == told.inserted
    assert deep(world).problems == ()


def test_s5_the_marker_of_a_part_is_of_its_server(world: ServersWorld) -> None:
    """An event of before brings nothing back of that server; of the other one it does."""
    for of in world.source_tables.values():
        of.set(30, "to be lost")
        of.lose(30)
    world.again(B, keys=("30", "31"))
    world.read()
    world.apply()
    world.deliver()
    world.apply()
    assert world.found() == world.source | {(A, 30): "to be lost"}
    assert deep(world).problems == ()


def test_a_part_makes_no_server_whole(tmp_path: Path) -> None:
    world = copied(tmp_path)
    before = world.standing().copied
    world.again(B, keys=("1", "2"))
    world.mirror()
    after = world.standing().copied
    assert (after.whole, after.whole_of(B)) == (before.whole, before.whole_of(B))
    assert after.swept_parts[-1].part == KeyPart(("id",), (1,), (2,), OfServer("server", B))
    reading = world.context().ledger.copies
    assert {one.words for one in reading.rounds(world.pipeline.name)} >= {f"copy 2 (server {B})"}
    world.again(B)
    assert world.mirror() == world.source
    assert len(world.standing().copied.swept_parts) == 2, "the whole copy stands for that of some keys"
    world.close()


def test_some_keys_of_a_server_without_a_whole_copy_are_refused(tmp_path: Path) -> None:
    world = ServersWorld(tmp_path)
    for name in (A, B):
        world.source_tables[name].set(3, f"first event of {name}")
    world.deliver()
    world.apply()
    world.read(server=A)
    world.apply()
    with pytest.raises(NotReady, match="its first copy is not whole"):
        world.again(B, keys=("1", "2"))
    world.again(A, keys=("1", "2"))
    assert world.mirror() == world.source
    world.close()


def test_some_keys_are_read_while_a_copy_of_another_server_is_under_way(world: ServersWorld) -> None:
    world.again(A)
    with pytest.raises(NotReady, match=f"copy 3 .server {A}. is under way: it reads these keys"):
        world.again(A, keys=("1", "2"))
    world.source_tables[B].lose(1)
    world.again(B, keys=("1", "2"))
    assert world.mirror() == world.source
    assert [state for _, state in rounds(world)] == ["WHOLE"] * 4
