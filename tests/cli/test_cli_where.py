"""`tidegate where` as an operator types it: words, JSON and exit codes."""

from __future__ import annotations

import pytest

from tests.cli.test_cli_commands import Tide, add_yaml, the_json, tide, world
from tests.world import World

__all__ = ["tide", "world"]


def test_a_published_record(tide: Tide) -> None:
    result = tide("where", "readings", "0", "0")
    assert result.exit_code == 0, result.output
    assert "readings partition 0 offset 0: published" in result.stdout
    assert "published in generation 1 of 2013-01-05T00:00Z" in " ".join(result.stdout.split())
    assert "/lake/readings/date=2013-01-05/hour=00/site=a/b1-part-" in result.stdout
    (found,) = the_json(tide("where", "readings", "0", "0", "--json"))["fates"]
    assert (found["kind"], found["batch_id"], found["attempt"], found["generation"]) == ("published", 1, 1, 1)
    assert (found["event"], found["window"]) == ("2013-01-05T00:06Z", "2013-01-05T00:00Z")
    assert found["file"].startswith("file:///")


def test_a_dirty_record_shows_what_it_was(tide: Tide) -> None:
    (found,) = the_json(tide("where", "readings", "0", "3", "--json"))["fates"]
    assert (found["kind"], found["raw"], found["table"]) == ("dirty", "not json", "lake.readings__dirty")


def test_what_is_not_settled_is_one(tide: Tide) -> None:
    result = tide("where", "readings", "0", "4")
    assert result.exit_code == 1
    assert "no such record yet: partition 0 ends at 4" in result.stdout
    assert tide("where", "readings", "1", "1").exit_code == 1, "it waits for its window"


def test_what_cannot_be_asked_at_all(tide: Tide, world: World) -> None:
    assert tide("where", "nobody", "0", "0").exit_code == 2
    assert tide("where", "readings", "-1", "0").exit_code == 2
    add_yaml(world.folder, "bare", **{"dirty: {": "kafka_columns: false\ndirty: {"})
    result = tide("where", "bare", "0", "0")
    assert result.exit_code == 2
    assert "kafka_columns: false" in result.output
    world.database.unlink()
    assert tide("where", "readings", "0", "0").exit_code == 3


@pytest.mark.parametrize("command", [("where", "--help"), ("--help",)])
def test_the_help_says_it(tide: Tide, command: tuple[str, ...]) -> None:
    assert "became of" in tide(*command).output
