"""`tidegate repair --abandon`: a batch that can never be read is given up, in words an operator confirms."""

from __future__ import annotations

import pytest

from tests.unit.test_cli_commands import Tide, the_json, tide, world
from tests.world import TOPIC, World, record
from tidegate.core.errors import BatchRefused
from tidegate.workflow import ingest

__all__ = ["tide", "world"]  # fixtures


def passed_by_retention(world: World) -> None:
    """Batch 2 is open with offsets 4 and 5 of partition 0; 4 is gone."""
    world.produce(record("e", 3.6), record("f", 3.7))
    ingest.plan(world.context(), "r2")
    world.kafka.trim(TOPIC, 0, 5)
    with pytest.raises(BatchRefused, match="data loss"):
        ingest.write(world.context(), "r2")


def test_abandon_says_what_is_given_up_and_ingest_goes_on_after_it(tide: Tide, world: World) -> None:
    passed_by_retention(world)
    result = tide("repair", "readings", "--abandon", "2", "--why", "retention", input="y\n")
    assert result.exit_code == 0, result.output
    assert "batch 2 (WRITING) will be ABANDONED, 2 offsets are given up" in result.output
    assert "readings partition 0: offsets [4, 6)" in result.output
    assert mark_exists(world, 2)
    event = the_json(tide("events", "readings", "-n", "1", "--json"))["events"][0]
    assert (event["what"], event["detail"]["reason"]) == ("abandoned", "retention")
    world.produce(record("g", 3.8))
    assert world.ingest("r3") == 3
    audited = the_json(tide("audit", "readings", "--json", "-q"))
    assert (audited["problems"], audited["abandoned"], audited["read"]) == ([], 2, 7)


def test_abandon_needs_a_reason_and_a_yes(tide: Tide, world: World) -> None:
    passed_by_retention(world)
    assert tide("repair", "readings", "--abandon", "2").exit_code == 2
    assert tide("repair", "readings", "--abandon", "2", "--batch", "2", "--why", "x").exit_code == 2
    assert tide("repair", "readings", "--abandon", "2", "--why", "x", input="n\n").exit_code == 1
    assert world.context().ledger.batches.open("readings") is not None
    assert tide("repair", "readings", "--abandon", "2", "--why", "x", "--yes").exit_code == 0


def test_abandon_is_refused_for_a_batch_that_is_not_open_or_has_its_rows(tide: Tide, world: World) -> None:
    result = tide("repair", "readings", "--abandon", "1", "--why", "x", "--yes")
    assert (result.exit_code, "batch 1 is not the open one; none is open" in result.output) == (1, True)
    world.produce(record("e", 3.6))
    ingest.plan(world.context(), "r2")
    result = tide("repair", "readings", "--abandon", "7", "--why", "x", "--yes")
    assert (result.exit_code, "that is batch 2 (PLANNED)" in result.output) == (1, True)
    ingest.write(world.context(), "r2")
    result = tide("repair", "readings", "--abandon", "2", "--why", "x", "--yes")
    assert (result.exit_code, "its rows are there" in result.output) == (1, True)
    assert world.ingest("r2") == 2


def test_source_reset_marks_what_it_abandons_as_taken(tide: Tide, world: World) -> None:
    """A ledger restored to before the reset must not give the batch's id away again (R11)."""
    world.produce(record("unread", 3.6))
    ingest.plan(world.context(), "r2")
    world.kafka.create(TOPIC, 3)
    assert not mark_exists(world, 2)
    assert tide("source", "reset", "readings", "--why", "recreated", "--yes").exit_code == 0
    assert mark_exists(world, 2)


def mark_exists(world: World, batch_id: int) -> bool:
    ctx = world.context()
    return ctx.storage.exists(ctx.layout.high_water_mark(batch_id))
