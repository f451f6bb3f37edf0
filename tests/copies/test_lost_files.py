"""Files of a chunk are gone before a table has it: a restored ledger knows a copy that a later one stood for, and the
table is gone, too; or somebody has deleted them. The chunk is read again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.copies.test_forgotten import chunks_in_files, cleaned, in_ledger, in_table, whole
from tests.copies.test_parts import begun, read_again
from tests.copies.worlds import CopyWorld
from tests.mirror.audits import deep, dropped
from tidegate.core.base.errors import NotReady
from tidegate.core.copy.rounds import ChunkFile, damaged
from tidegate.core.target.paths import Layout


@pytest.fixture
def world(tmp_path: Path) -> Iterator[CopyWorld]:
    """Copied once: keys 1 to 12, in four chunks."""
    made = begun(tmp_path)
    made.source_table.set(5, "second event")
    made.deliver()
    made.apply()
    made.close()
    yield made
    made.close()


def restored(world: CopyWorld, kept: bytes) -> None:
    """The ledger goes back, and the table is dropped."""
    world.close()
    world.database.write_bytes(kept)
    dropped(world)


def events(world: CopyWorld, what: str) -> list[str]:
    ctx = world.context()
    found = ctx.ledger.reads.events(world.pipeline.name, 1_000)
    world.close()
    return [str(event.detail) for event in found if event.what == what]


def heals(world: CopyWorld) -> None:
    """Events are merged, what is lost is read again, and the copy is whole."""
    with pytest.raises(NotReady, match="no event of the table has been merged yet"):
        world.read()
    world.apply()
    assert world.standing().upto > 0, "events do not wait for it"
    assert world.read().chunks > 0
    world.apply()
    assert world.rows() == world.source_table.rows
    assert deep(world).problems == ()
    assert (world.read().chunks, world.apply().merges) == (0, 0)


def test_a_ledger_of_before_a_later_copy_and_no_table(world: CopyWorld) -> None:
    kept = world.database.read_bytes()
    world.source_table.lose(8)
    whole(world)
    cleaned(world)
    restored(world, kept)
    heals(world)
    assert (in_ledger(world), in_table(world)) == ([1], [1])
    again = events(world, "chunk to be read again")
    assert len(again) == 4
    assert all("is gone" in one for one in again)


def test_the_same_of_some_keys(world: CopyWorld) -> None:
    """The copy of all keys is there, and is not read again."""
    read_again(world, 7, 9)
    world.close()
    kept = world.database.read_bytes()
    world.source_table.lose(8)
    read_again(world, 6, 9)
    cleaned(world)
    restored(world, kept)
    world.apply()
    assert 8 in world.rows()
    assert world.read().chunks == 1
    world.apply()
    assert world.rows() == world.source_table.rows
    assert in_table(world) == [1, 2]
    assert deep(world).problems == ()


def test_a_new_copy_instead(world: CopyWorld) -> None:
    """A person may ask for one at once: the later copy is the one that counts."""
    kept = world.database.read_bytes()
    whole(world)
    cleaned(world)
    restored(world, kept)
    world.apply()
    assert world.again().number == 2
    world.read()
    world.apply()
    assert world.rows() == world.source_table.rows
    assert deep(world).problems == ()


def test_one_chunk_alone_is_read_again(world: CopyWorld) -> None:
    dropped(world)
    before = chunks_in_files(world)
    (gone,) = Path(Layout.of(world.pipeline).copies().removeprefix("file://")).glob("2.*/*.parquet")
    gone.unlink()
    world.apply()
    assert world.read().chunks == 1
    world.apply()
    assert world.rows() == world.source_table.rows
    assert chunks_in_files(world) == before


def test_what_is_wrong_with_files() -> None:
    files = [ChunkFile("a", 1, 10), ChunkFile("b", 1, 20)]
    assert damaged(files, {"a": 10, "b": 20, "c": 3}) is None
    assert damaged(files, {"a": 10, "b": 19}) == "b is not as long as it was"
    assert damaged(files, {"b": 20}) == "a is gone"
    assert damaged([], {}) is None
