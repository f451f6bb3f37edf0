"""A table moves from one server of a mirror to another one (S11): its rows are those of two servers then."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.copies.servers import FIRST, SERVERS, A, B, ServersWorld
from tests.fakes.source_shards import FakeShards
from tests.fakes.source_table import place
from tests.mirror.audits import deep

STAYS, MOVES = "shop.r_0", "shop.r_1"
SHARDED = (
    SERVERS.replace("key: [server, id]", "key: [server, shard, id]")
    .replace(
        "columns:\n",
        'columns:\n  - {{name: shard, type: string, nullable: false, from: "$._source.table"}}\n',
    )
    .replace("table: shop.readings", "tables: 'shop\\.r_[0-9]'")
)


class ServerShards(FakeShards):
    """Tables of a server, with its log."""

    def __init__(self, name: str, *tables: str) -> None:
        super().__init__(*tables)
        self.name, self.end, self.sent = name, FIRST[name], 0
        self.delivered, self.begin = self.end, 0

    def set(self, name: str, key: int, word: str | None) -> None:
        super().set(name, key, word)
        of, value = self.log[-1]
        said = json.loads(value)
        said["source"]["name"] = self.name
        self.log[-1] = (of, json.dumps(said).encode())

    def how_far(self) -> Any:
        return place(self, self.delivered)  # type: ignore[arg-type]


class MovedWorld(ServersWorld):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder, SHARDED)
        self.source_tables: Any = {A: ServerShards(A, STAYS, MOVES), B: ServerShards(B, STAYS)}
        self.connectors = {name: of.how_far for name, of in self.source_tables.items()}

    def found(self, hidden: bool = False) -> Any:
        """What readers see, by server, table and key."""
        rows = self.opened().scan(row_filter="_op != 'd'").to_arrow().to_pylist()
        assert len({(r["server"], r["shard"], r["id"]) for r in rows}) == len(rows), "a key has two rows"
        return {(r["server"], r["shard"], r["id"]): r["word"] for r in rows}

    @property
    def source(self) -> Any:
        """What the servers have."""
        return {(name, *key): word for name, of in self.source_tables.items() for key, word in of.rows.items()}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[MovedWorld]:
    """Both servers are copied; rows of the table that moves have been changed and deleted, too."""
    made = MovedWorld(tmp_path)
    for of in made.source_tables.values():
        for name, table in of.shards.items():
            table.rows |= {key: f"{of.name} {name} {key}" for key in range(1, 6)}
        of.set(STAYS, 3, "first event")
    made.mirror()
    made.source_tables[A].set(MOVES, 1, "changed before it moved")
    made.source_tables[A].set(MOVES, 2, None)
    made.deliver()
    made.apply()
    assert made.found() == made.source
    yield made
    made.close()


def moved(world: MovedWorld, with_events: bool) -> None:
    """The table is dropped on one server, and there on the other one, with its rows."""
    first, second = world.source_tables[A], world.source_tables[B]
    rows = dict(first.shards.pop(MOVES).rows)
    second.add(MOVES)
    if with_events:
        for key, word in rows.items():
            second.set(MOVES, key, word)
    else:
        second.shards[MOVES].rows |= rows
    first.set(STAYS, 4, "of the one that is left")
    second.set(MOVES, 1, "changed there")
    world.deliver()
    world.apply()


def test_what_has_events_is_of_the_other_server_and_the_old_rows_go_with_a_copy(world: MovedWorld) -> None:
    moved(world, with_events=True)
    old = {(A, "r_1", key) for key in (1, 3, 4, 5)}
    assert world.found().keys() == world.source.keys() | old
    found = world.compared()
    assert (found[A].differ, found[B].differ) == ({"surplus": len(old)}, {})
    assert "4 rows of tables that the source does not have" in found[A].unsummed
    world.again(A)
    world.read()
    world.apply()
    assert world.found() == world.source
    assert {name: one.differ for name, one in world.compared().items()} == {A: {}, B: {}}
    assert deep(world).problems == ()


def test_what_has_no_events_is_read_by_copies_of_both(world: MovedWorld) -> None:
    moved(world, with_events=False)
    assert world.compared()[B].differ == {"lacking": 3}
    for name in (B, A):
        world.again(name)
        world.read()
        world.apply()
    assert world.found() == world.source
    assert deep(world).problems == ()


def test_a_comparison_that_fixes_does_the_same(world: MovedWorld) -> None:
    moved(world, with_events=False)
    assert all(one.mended for one in world.compared("moved").values())
    assert world.found() == world.source


def test_events_of_before_it_moved_bring_nothing_back(world: MovedWorld) -> None:
    """The connector of the old server lags, and sends them once its tables were read again."""
    world.source_tables[A].set(MOVES, 4, "the last change there")
    late = world.source_tables[A].log[-1]
    world.source_tables[A].sent += 1
    moved(world, with_events=True)
    world.again(A)
    world.read()
    world.apply()
    world.land(late)
    world.apply()
    assert world.found() == world.source


def test_it_moves_there_and_back(world: MovedWorld) -> None:
    moved(world, with_events=True)
    world.again(A)
    world.read()
    world.apply()
    first, second = world.source_tables[A], world.source_tables[B]
    rows = second.shards.pop(MOVES).rows
    first.add(MOVES)
    for key, word in rows.items():
        first.set(MOVES, key, word)
    world.deliver()
    world.apply()
    world.again(B)
    world.read()
    world.apply()
    assert world.found() == world.source
