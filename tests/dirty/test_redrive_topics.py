"""Redrives of rows whose topic was recreated since."""

from __future__ import annotations

from pathlib import Path

from tests.audit.audits import balanced
from tests.dirty.redrives import first_batch, mend, redriven
from tests.world import TOPIC, World, record
from tidegate.workflow.restore import adoption, reset


def test_an_adopted_redrive_of_a_topic_that_is_no_more_does_not_bring_it_back(tmp_path: Path) -> None:
    """Else ingest stops, and people are told that the topic was recreated once more."""
    world = World(tmp_path)
    first_batch(world)
    world.kafka.create(TOPIC, 2)
    world.produce(record("new", 0.3))
    ctx = world.context()
    found = reset.survey(ctx)
    assert isinstance(found, reset.Recreated)
    reset.accept(ctx, found, "on purpose")
    world.ingest("r2")
    mend(world)
    world.close()
    before = world.database.read_bytes()
    assert redriven(world) is not None
    world.close()
    world.database.write_bytes(before)
    ctx = world.context()
    adoption.adopt(ctx, adoption.survey(ctx), "the ledger was restored")
    world.close()
    world.produce(record("newer", 0.4))
    assert world.ingest("r4") == 4
    ids = [world.context().ledger.batches.get("readings", i).plan.topic_id for i in (1, 2, 3, 4)]
    assert ids == ["id-1", "id-2", "id-1", "id-2"]
    balanced(world)
    world.close()
