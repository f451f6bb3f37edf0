"""`tidegate repair --adopt`: what the ledger lost is listed, and written back once an operator says why."""

from __future__ import annotations

import shutil

import pytest

from tests.cli.test_cli_commands import Tide, the_json, tide, world
from tests.world import World, record
from tidegate.core.base.errors import Alarm, StorageAhead
from tidegate.workflow.batch import ingest

__all__ = ["tide", "world"]  # fixtures


def lose_a_batch(world: World) -> None:
    backup = world.database.read_bytes()
    world.produce(record("e", 3.6), record("f", 3.7))
    world.ingest("r2")
    world.database.write_bytes(backup)


def test_nothing_to_adopt_is_said(tide: Tide, world: World) -> None:
    result = tide("repair", "readings", "--adopt")
    assert (result.exit_code, result.output) == (0, "readings: storage knows nothing that the ledger does not\n")


def test_ingest_names_the_command_that_lists_what_was_lost(tide: Tide, world: World) -> None:
    lose_a_batch(world)
    with pytest.raises(StorageAhead, match="tidegate repair <pipeline> --adopt"):
        world.ingest("r3")
    result = tide("repair", "readings", "--adopt")
    assert result.exit_code == 1
    assert "batch 2: 2 offsets, 2 rows\n  readings partition 0: offsets [4, 6)\n" in result.output
    assert "say --why" in result.output
    assert world.context().ledger.pipelines.row("readings").next_batch_id == 2


def test_what_was_lost_is_written_back_once(tide: Tide, world: World) -> None:
    lose_a_batch(world)
    assert tide("repair", "readings", "--adopt", "--why", "failover", input="n\n").exit_code == 1
    result = tide("repair", "readings", "--adopt", "--why", "failover", input="y\n")
    assert result.exit_code == 0, result.output
    assert "adopted: batch 2 (2 rows)" in result.output
    assert tide("repair", "readings", "--adopt", "--why", "again").exit_code == 0
    audited = the_json(tide("audit", "readings", "--json", "-q"))
    assert (audited["problems"], audited["read"]) == ([], 8)
    world.produce(record("g", 3.8))
    assert world.ingest("r3") == 3


def test_a_sealed_batch_whose_files_are_lost_is_read_anew(tide: Tide, world: World) -> None:
    world.produce(record("e", 3.6), record("f", 3.7))
    ingest.plan(world.context(), "r2")
    ingest.write(world.context(), "r2")
    for attempt in (world.folder / "lake/readings/_tidegate/tmp").glob("2.*"):
        shutil.rmtree(attempt)
    with pytest.raises(Alarm):
        ingest.land(world.context(), "r2")
    assert tide("repair", "readings", "--reread", "1", "--why", "x", "--yes").exit_code == 1
    result = tide("repair", "readings", "--reread", "2", "--why", "tmp was deleted", input="y\n")
    assert (result.exit_code, "that is batch 2 (SEALED)" in result.output) == (0, True)
    assert world.ingest("r3") == 2
    audited = the_json(tide("audit", "readings", "--json", "-q"))
    assert (audited["problems"], audited["read"]) == ([], 8)


def test_a_batch_that_has_landed_is_not_read_anew(tide: Tide, world: World) -> None:
    world.produce(record("e", 3.6))
    ingest.plan(world.context(), "r2")
    ingest.write(world.context(), "r2")
    sealed = world.database.read_bytes()
    ingest.land(world.context(), "r2")
    world.close()
    world.database.write_bytes(sealed)
    result = tide("repair", "readings", "--reread", "2", "--why", "x", "--yes")
    assert (result.exit_code, "has landed" in result.output) == (1, True)


def test_adopt_stands_alone(tide: Tide, world: World) -> None:
    assert tide("repair", "readings", "--adopt", "--batch", "2", "--why", "x").exit_code == 2
