"""A comparison of shards (S11) reads what differs of each table, and nothing of the others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.copies.test_compare import compared, delivered
from tests.copies.test_shards import A, B, ShardedWorld
from tests.fakes.source_shards import FakeShards
from tests.fakes.source_table import place
from tests.fakes.source_texts import FakeTexts
from tidegate.core.copy.port import KeyRange
from tidegate.workflow.copy import narrow

ROWS = 3


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ShardedWorld]:
    monkeypatch.setattr(narrow, "ROWS", ROWS)
    made = begun(tmp_path)
    yield made
    made.close()


def begun(folder: Path, kind: str = "bigint") -> ShardedWorld:
    """Both tables have rows of the same keys, and the same words."""
    made = ShardedWorld(folder, "chunk_rows: 10", f"name: id, type: {kind}")
    made.source_table = FakeShards(A, B, kind=FakeTexts) if kind == "string" else FakeShards(A, B)
    keys = [f"Key {n}" for n in range(1, 41)] if kind == "string" else range(1, 41)
    for name, one in made.source_table.shards.items():
        one.rows |= {key: "same" for key in keys}
        one.batch_rows = 50
        made.source_table.set(name, keys[0], "an event")
    made.connector = lambda: place(made.source_table, made.delivered)
    delivered(made)
    assert made.mirror() == made.source_table.rows
    for one in made.source_table.shards.values():
        one.reads.clear()
    return made


def test_what_is_equal_is_not_read(world: ShardedWorld) -> None:
    found = compared(world)
    assert (found.differ, found.rows, found.read, found.parts, found.unsummed) == ({}, 80, 0, 10, "")


def test_a_range_of_one_shard_is_read(world: ShardedWorld) -> None:
    """Its neighbour has the same keys, and what one has is no row of the other."""
    source = world.source_table
    source.shards[A].lose(12)
    source.shards[A].sneak(13, "other")
    source.shards[B].sneak(90, "never seen")
    found = compared(world)
    assert found.differ == {"lacking": 1, "surplus": 1, "other": 1}
    assert {s.key for s in found.samples} == {"shard=r_0, id=12", "shard=r_0, id=13", "shard=r_1, id=90"}
    assert source.shards[A].reads == [KeyRange((10,), (14,))]
    assert source.shards[B].reads == [KeyRange((40,), None)]


def test_a_row_that_is_in_the_wrong_shard_is_found(world: ShardedWorld) -> None:
    """Number and sum of all rows are the same."""
    source = world.source_table
    source.shards[A].lose(20)
    source.shards[B].sneak(120, "same")
    source.shards[A].sneak(120, "same")
    source.shards[B].lose(20)
    assert compared(world).differ == {"lacking": 2, "surplus": 2}


def test_fix_leaves_the_shards_that_are_equal(world: ShardedWorld) -> None:
    """Of one all rows differ, so that all of it is read: merged alone, its sweep would take those of the other."""
    source = world.source_table
    for key in range(1, 45):
        source.shards[A].sneak(key, "other")
    found = compared(world, fix="by hand")
    assert (found.differ, found.read, found.mended) == ({"lacking": 4, "other": 40}, 44, True)
    assert world.found() == source.rows
    assert compared(world).differ == {}


def test_rows_of_a_table_that_is_gone_are_found(world: ShardedWorld) -> None:
    del world.source_table.shards[B]
    found = compared(world)
    assert found.differ == {"surplus": 40}
    assert (found.read, found.unsummed) == (40, "the mirror has 40 rows of tables that the source does not have")


def test_a_table_that_comes_while_it_compares_is_no_surplus(world: ShardedWorld) -> None:
    source = world.source_table
    source.shards[A].sneak(5, "other")

    def comes() -> None:
        if "shop_1.r_7" not in source.shards:
            source.add("shop_1.r_7")
            source.set("shop_1.r_7", 1, "of a new table")

    source.shards[B].during = comes
    found = compared(world)
    assert (found.differ, found.exact) == ({"other": 1}, True)


def test_shards_whose_keys_are_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(narrow, "ROWS", ROWS)
    world = begun(tmp_path, "string")
    source = world.source_table
    assert compared(world).read == 0
    source.shards[B].sneak("KEY 7", "same")
    found = compared(world, fix="by hand")
    assert {s.key for s in found.samples} == {"shard=r_1, id=KEY 7", "shard=r_1, id=Key 7"}
    assert found.read < 20
    assert found.mended
    assert world.found() == source.rows
    world.close()
