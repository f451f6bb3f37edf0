"""Shards (S11): tables of one server are one mirror, whose rows are told apart by the table that they are of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.copies.worlds import CopyWorld
from tests.fakes.source_shards import FakeShards
from tests.fakes.source_table import TABLE
from tests.mirror.worlds import YAML, event
from tidegate.core.base.errors import BatchRefused, SpecError
from tidegate.core.copy.port import SourceColumn
from tidegate.workflow.copy.compare import compared_columns
from tidegate.workflow.copy.tables import SourceTables

SHARDED = (
    YAML.replace("key: [id]", "key: [shard, id]").replace(
        "columns:\n",
        'columns:\n  - {{name: shard, type: string, nullable: false, from: "$._source.table"}}\n',
    )
    + "copy: {{conn_id: shop, tables: 'shop_[0-9]\\.r_[0-9]+', chunk_rows: 3, tasks: 1}}\n"
)
A, B = "shop_0.r_0", "shop_1.r_1"


class ShardedWorld(CopyWorld):
    source_table: Any

    def __init__(
        self, folder: Path, chunks: str = "chunk_rows: 3", key: str = "name: id, type: bigint", yaml: str = SHARDED
    ) -> None:
        super().__init__(folder, yaml.replace("chunk_rows: 3", chunks).replace("name: id, type: bigint", key))
        self.source_table = FakeShards(A, B)

    def found(self) -> dict[tuple[str, int], str]:
        """What readers see."""
        table = self.opened()
        rows = [] if table is None else table.scan(row_filter="_op != 'd'").to_arrow().to_pylist()
        assert len({(r["shard"], r["id"]) for r in rows}) == len(rows), "a key has two rows"
        return {(r["shard"], r["id"]): r["word"] for r in rows}

    def mirror(self) -> dict[tuple[str, int], str]:  # type: ignore[override]
        super().mirror()
        return self.found()

    def rows(self) -> Any:
        return {}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ShardedWorld]:
    made = begun(tmp_path)
    yield made
    made.close()


def begun(folder: Path) -> ShardedWorld:
    """Both tables have rows of the same keys; a row of the first one has an event."""
    made = ShardedWorld(folder)
    made.source_table.shards[A].rows |= {key: f"a {key}" for key in range(1, 11)}
    made.source_table.shards[B].rows |= {key: f"b {key}" for key in range(1, 6)}
    made.source_table.set(A, 3, "first event")
    made.deliver()
    made.apply()
    return made


def test_rows_of_equal_keys_are_told_apart(world: ShardedWorld) -> None:
    source = world.source_table
    assert world.mirror() == source.rows
    source.set(A, 1, "changed")
    source.set(B, 2, None)
    source.set(B, 20, "new")
    assert world.mirror() == source.rows
    chunks = world.context().ledger.copies.chunks(world.pipeline.name, 1)
    assert [c.table for c in chunks] == [A] * 4 + [B] * 2
    assert (chunks[3].keys.upper, chunks[4].keys.lower, chunks[5].keys.upper) == (None, None, None)
    assert world.standing().rows == len(source.rows)


def test_many_small_tables_take_few_jobs(tmp_path: Path) -> None:
    world = ShardedWorld(tmp_path)
    for n in range(2, 30):
        world.source_table.add(f"shop_1.r_{n}").rows[1] = f"row of {n}"
    world.source_table.set(A, 3, "first event")
    world.deliver()
    world.apply()
    jobs: list[Any] = []
    world.wrap = lambda name, real: _Counted(real, jobs) if name == "launcher" else real
    assert world.read().chunks == 30
    assert len(jobs) == 4, "eight chunks each"
    world.apply()
    assert world.found() == world.source_table.rows
    world.close()


class _Counted:
    def __init__(self, real: Any, seen: list[Any]) -> None:
        self._real, self._seen = real, seen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def run(self, *given: Any, **named: Any) -> Any:
        self._seen.append(given)
        return self._real.run(*given, **named)


def test_columns_are_united_by_name(world: ShardedWorld) -> None:
    """One that a shard does not have is null in its rows, and is not compared."""
    source = world.source_table
    word = SourceColumn("word", "varchar(40)")
    source.shards[B].table = replace(source.shards[B].table, columns=tuple(c for c in TABLE.columns if c != word))
    assert world.mirror() == {k: (w if k[0] == "r_0" else None) for k, w in source.rows.items()}
    ctx = world.context()
    assert {c.of for c in compared_columns(ctx, SourceTables(ctx, source))} & {"shard", "id", "word"} == {"shard", "id"}


def test_a_table_that_comes_while_others_are_read_is_read_too(world: ShardedWorld) -> None:
    source = world.source_table
    source.shards[B].rows |= {key: f"b {key}" for key in range(1, 60)}
    world.read(go_on=lambda: False)
    source.add("shop_0.r_00").rows |= {1: "came late"}  # before those that are cut
    world.read()
    world.apply()
    assert world.found() == source.rows


def test_a_table_that_is_gone_stops_the_copy_by_name(world: ShardedWorld) -> None:
    source = world.source_table
    source.shards[B].rows |= {key: f"b {key}" for key in range(1, 60)}
    world.read(go_on=lambda: False)
    gone = source.shards.pop(B)
    with pytest.raises(Exception, match=f"there is no table {B}"):
        world.read()
    world.again("a shard was dropped")
    assert world.mirror() == source.rows
    assert gone.rows, "they are gone from the mirror with the next copy"


def test_no_table_of_that_name(world: ShardedWorld) -> None:
    copy = world.pipeline.copy
    assert copy is not None
    world.pipeline = replace(world.pipeline, copy=replace(copy, tables="shops"))
    with pytest.raises(SpecError, match="no table of the source is called as copy.tables says, shops"):
        world.read()


def test_each_table_has_the_mirrors_key(world: ShardedWorld) -> None:
    one = world.source_table.shards[B]
    one.table = replace(one.table, key=("word",))
    with pytest.raises(SpecError, match=f"the primary key of {B} is word, sink.key is id"):
        world.read()


def test_events_have_to_say_what_tells_rows_apart(world: ShardedWorld) -> None:
    shard, *others = world.pipeline.columns
    world.pipeline = replace(world.pipeline, columns=(replace(shard, path="$._source.schema"), *others))
    with pytest.raises(SpecError, match=r"do not say what column shard is taken from"):
        world.read()


def test_a_routers_field_in_the_key_is_no_column(world: ShardedWorld) -> None:
    """Debezium's ByLogicalTableRouter adds it to the message's key."""
    world.mirror()
    _, value = event(2, None, 10_000, of=("shop_0", "r_0"))
    world.land((b'{"id": 2, "__dbz__physicalTableIdentifier": "shop_0.r_0"}', value))
    world.apply()
    assert ("r_0", 2) not in world.found()
    assert ("r_1", 2) in world.found()


def test_events_that_say_no_table_are_refused(world: ShardedWorld) -> None:
    with pytest.raises(BatchRefused, match="which copy.tables does not name"):
        world.land(event(1, "of another one", 10_000))


@pytest.mark.parametrize("of", [("shop", "r_0"), ("shop_0", "r")])
def test_events_of_a_table_that_no_copy_reads_are_refused(world: ShardedWorld, of: tuple[str, str]) -> None:
    """The sweep that ends a copy would take its rows for rows that are gone."""
    with pytest.raises(BatchRefused, match="which copy.tables does not name"):
        world.land(event(1, "of another one", 10_000, of=of))


def test_a_deleted_row_goes_from_its_own_table_alone(world: ShardedWorld) -> None:
    source = world.source_table
    world.mirror()
    del source.shards[B].rows[1]  # without an event
    world.again()
    assert world.mirror() == source.rows
    assert ("r_0", 1) in world.found()
