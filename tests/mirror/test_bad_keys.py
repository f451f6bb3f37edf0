"""Missing keys, and keys that are not those of the source's rows: refused before anything is merged."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mirror.worlds import YAML, MirrorWorld, event
from tidegate.core.base.errors import BatchRefused
from tidegate.workflow.batch import ingest


@pytest.fixture
def world(tmp_path: Path) -> Iterator[MirrorWorld]:
    made = MirrorWorld(tmp_path)
    yield made
    made.close()


def refused(world: MirrorWorld, key: dict[str, object] | None, key_by_schema: bool = False) -> str:
    """The sample that tells why the batch does not land; the mirror stays as it is."""
    world.land(event(1, "a", 10))
    world.apply()
    told = {"schema": {"type": "struct"}, "payload": key} if key_by_schema else key
    world.send((None if key is None else json.dumps(told).encode(), event(1, "b", 20)[1]))
    ingest.plan(world.context(), "run")
    with pytest.raises(BatchRefused, match=r"1 of 1 records? (is|are) dirty, over dirty\.max_count") as error:
        ingest.write(world.context(), "run")
    assert world.apply().merges == 0
    assert world.rows() == {1: "a"}
    return str(error.value)


def test_no_key(world: MirrorWorld) -> None:
    assert "no key: the source's table has no primary key" in refused(world, None)


@pytest.mark.parametrize("by_schema", [False, True])
def test_a_key_that_is_not_unique(world: MirrorWorld, by_schema: bool) -> None:
    """The source's rows are told apart by two columns, the mirror's by one."""
    said = refused(world, {"id": 1, "line": 2}, by_schema)
    assert "the message's key has the columns id, line, the mirror's key is id" in said


def test_two_source_tables_in_one_topic(world: MirrorWorld) -> None:
    """Debezium's router tells them apart by a column of the key."""
    said = refused(world, {"id": 1, "__dbz__physicalTableIdentifier": "shop.orders_1"})
    assert "the mirror's key is id: rows of the source would be taken for one another" in said


def test_a_key_of_other_columns(world: MirrorWorld) -> None:
    assert "the message's key has the columns word, the mirror's key is id" in refused(world, {"word": "a"})


def test_names_in_the_source_count(tmp_path: Path) -> None:
    """The mirror's column may have a name of its own."""
    yaml = YAML.replace("{{name: id, type", "{{name: order_id, from: $.id, type").replace(
        "key: [id]", "key: [order_id]"
    )
    world = MirrorWorld(tmp_path, yaml)
    world.land(event(7, "a", 10))
    assert world.apply().events == 1
    world.close()
