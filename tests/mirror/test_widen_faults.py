"""A column grows while processes die, answers are lost and ledgers are restored."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.faults import Call
from tests.mirror.test_evolve import Life, disturbed, undisturbed, versions
from tests.mirror.test_widen import BIG, INT, LONG, NARROW, edited, kind_of, quantities, world
from tests.mirror.worlds import MirrorWorld, told
from tidegate.core.base.errors import StorageAhead
from tidegate.workflow.batch import ingest
from tidegate.workflow.restore import adoption

__all__ = ["world"]  # a fixture

GROWING = Life(
    NARROW,
    (told(INT, 20, id=3, word="c", qty=3), told(LONG, 21, id=1, word="a", qty=BIG)),
    [("qty", "bigint", 3)],
    [{"id": 1, "word": "a", "qty": BIG}, {"id": 2, "word": "b", "qty": 2}, {"id": 3, "word": "c", "qty": 3}],
    (told(INT, 10, id=1, word="a", qty=1), told(INT, 11, id=2, word="b", qty=2)),
)


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> list[Call]:
    return undisturbed(GROWING, tmp_path_factory.mktemp("widen"), "iceberg.commit")


def test_a_death_at_any_step_heals(calls: list[Call], tmp_path: Path) -> None:
    assert disturbed(GROWING, calls, tmp_path) == []


def test_a_restored_ledger_takes_the_type_from_storage(world: MirrorWorld) -> None:
    world.close()
    early = world.database.read_bytes()
    world.land(told(LONG, 20, id=1, word="a", qty=BIG))
    world.apply()
    world.close()
    world.database.write_bytes(early)
    world.registered.clear()
    edited(world, "evolve", "ignore")
    with pytest.raises(StorageAhead):
        world.land(told(LONG, 30, id=3, word="c", qty=9))
    adoption.adopt(world.context(), adoption.survey(world.context()), "the ledger was restored")
    changes = world.context().ledger.schema_changes.changes("readings")
    assert [(c.column, c.type, c.offset) for c in changes] == [("qty", "bigint", None)]
    world.ingest("run 9")
    world.apply()
    assert quantities(world) == [(1, BIG), (2, 2), (3, 9)]


def test_a_ledger_that_forgot_a_type_finds_the_table_wider(world: MirrorWorld) -> None:
    """What had not landed is met again; until then merges leave the table's type as it is."""
    world.send(told(LONG, 20, id=1, word="a", qty=BIG))
    ingest.plan(world.context(), "run 2")
    world.close()
    early = world.database.read_bytes()
    ingest.write(world.context(), "run 2")
    world.close()
    world.database.write_bytes(early)
    world.registered.clear()
    assert kind_of(world) == "long"
    assert [c.type for c in world.context().pipeline.columns if c.name == "qty"] == ["int"]
    world.apply()
    world.ingest("run 2")
    world.apply()
    assert quantities(world) == [(1, BIG), (2, 2)]
    assert [c.type for spec in versions(world) for c in spec.columns if c.name == "qty"] == ["int", "bigint"]
