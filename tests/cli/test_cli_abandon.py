"""`tidegate repair --abandon`: a batch that can never be read is given up, in words an operator confirms."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.cli.test_cli_commands import Tide, the_json, tide, world
from tests.cli.test_cli_status import words
from tests.hooks import Died, Hook, die
from tests.world import TOPIC, World, record
from tidegate.core.base.errors import BatchRefused
from tidegate.workflow.batch import ingest

__all__ = ["tide", "world"]  # fixtures


def passed_by_retention(world: World) -> None:
    """Batch 2 is open with offsets 4 and 5 of partition 0; both are gone."""
    partly_passed(world, 6)


def partly_passed(world: World, before: int) -> None:
    world.produce(record("e", 3.6), record("f", 3.7))
    ingest.plan(world.context(), "r2")
    world.kafka.trim(TOPIC, 0, before)
    with pytest.raises(BatchRefused, match="data loss"):
        ingest.write(world.context(), "r2")


def test_abandon_says_what_is_given_up_and_ingest_goes_on_after_it(tide: Tide, world: World) -> None:
    passed_by_retention(world)
    result = tide("repair", "readings", "--abandon", "2", "--why", "retention", input="y\n")
    assert result.exit_code == 0, result.output
    assert "batch 2 (WRITING) will be ABANDONED, 2 offsets are given up" in words(result)
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
    result = tide("repair", "readings", "--abandon", "2", "--why", "x", "--yes", "--force")
    assert (result.exit_code, "its rows are there" in result.output) == (1, True)
    assert world.ingest("r2") == 2


def test_abandon_is_refused_while_kafka_holds_any_of_it_and_reread_loses_only_the_rest(
    tide: Tide, world: World
) -> None:
    partly_passed(world, 5)
    for shown in (tide("status", "readings"), tide("repair", "readings", "--abandon", "2", "--why", "x", "--yes")):
        assert shown.exit_code == 1
        assert "--reread 2" in words(shown)
    assert "Kafka still holds 1 of the 2 offsets of batch 2" in words(shown)
    assert "set source.on_data_loss: record, then `tidegate repair readings --reread 2 --why ...`" in words(shown)
    assert tide("repair", "readings", "--force", "--batch", "2", "--why", "x").exit_code == 2
    world.change_spec(source=replace(world.pipeline.source, on_data_loss="record"))
    assert tide("repair", "readings", "--reread", "2", "--why", "x", "--yes").exit_code == 0
    assert world.ingest("r3") == 2
    audited = the_json(tide("audit", "readings", "--json", "-q"))
    assert (audited["problems"], audited["abandoned"], audited["lost"], audited["read"]) == ([], 0, 1, 7)


def test_abandon_by_force_gives_up_what_kafka_still_holds_but_never_asks_kafka_in_vain(
    tide: Tide, world: World
) -> None:
    partly_passed(world, 5)
    world.kafka.unavailable = True
    assert tide("repair", "readings", "--abandon", "2", "--why", "x", "--yes").exit_code == 3, "nobody can tell"
    forced = tide("repair", "readings", "--abandon", "2", "--why", "x", "--yes", "--force")
    assert (forced.exit_code, "whether or not the topic still holds it" in words(forced)) == (0, True)


def test_a_batch_whose_attempt_is_complete_is_neither_given_up_nor_read_again(tide: Tide, world: World) -> None:
    """Its task died between the receipt and SEALED; Kafka has nothing of it any more."""
    world.produce(record("e", 3.6), record("f", 3.7))
    ingest.plan(world.context(), "r2")
    ctx = world.context()
    ctx.ledger.batches = Hook(ctx.ledger.batches, before={"seal": die})  # type: ignore[misc]
    with pytest.raises(Died):
        ingest.write(ctx, "r2")
    world.close()
    world.kafka.trim(TOPIC, 0, 6)
    for option in ("--abandon", "--reread"):
        result = tide("repair", "readings", option, "2", "--why", "x", "--yes")
        assert (result.exit_code, "attempt 1 of batch 2 is complete" in words(result)) == (1, True), result.output
    assert world.ingest("r2") == 2
    assert the_json(tide("audit", "readings", "--json", "-q"))["read"] == 8


@pytest.mark.parametrize("forgotten", ["seal", "land"])
def test_a_batch_that_storage_says_has_landed_is_not_given_up(tide: Tide, world: World, forgotten: str) -> None:
    world.produce(record("e", 3.6), record("f", 3.7))
    lands_and_is_forgotten(world, forgotten)
    world.kafka.trim(TOPIC, 0, 6)
    result = tide("repair", "readings", "--abandon", "2", "--why", "x", "--yes", "--force")
    said = "it has landed: its rows are there" if forgotten == "seal" else "batch 2 is SEALED: its rows are there"
    assert (result.exit_code, said in words(result)) == (1, True), result.output
    assert world.ingest("r2") == 2
    assert the_json(tide("audit", "readings", "--json", "-q"))["read"] == 8


def test_source_reset_keeps_a_batch_that_storage_says_has_landed(tide: Tide, world: World) -> None:
    world.produce(record("e", 3.6), record("f", 3.7))
    lands_and_is_forgotten(world, "seal")
    world.kafka.create(TOPIC, 2)
    world.produce(record("new", 3.8))
    result = tide("source", "reset", "readings", "--why", "recreated", "--yes")
    assert result.exit_code == 0, result.output
    assert "batch 2 (WRITING) has landed before the ledger says so: its rows are kept" in words(result)
    assert "ABANDONED" not in result.output
    assert world.ingest("r3") == 2
    assert world.ingest("r4") == 3
    audited = the_json(tide("audit", "readings", "--json", "-q"))
    assert (audited["problems"], audited["abandoned"], audited["read"]) == ([], 0, 9)


def lands_and_is_forgotten(world: World, from_step: str) -> None:
    """Batch 2 lands; then the ledger's database is as it was before this step."""
    kept: list[bytes] = []
    ingest.plan(world.context(), "r2")
    ctx = world.context()
    keep = {from_step: lambda *_, **__: kept.append(world.database.read_bytes())}
    ctx.ledger.batches = Hook(ctx.ledger.batches, before=keep)  # type: ignore[misc]
    ingest.write(ctx, "r2")
    ingest.land(ctx, "r2")
    world.close()
    world.database.write_bytes(kept[0])


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
