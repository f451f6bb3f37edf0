"""`tidegate rollback` as an operator types it: words, JSON and exit codes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.cli.test_cli_commands import Tide, the_json, tide, world
from tests.world import World
from tidegate.cli import surroundings
from tidegate.core.spec.pipeline import Column
from tidegate.spec import load_file

__all__ = ["tide", "world"]
HOUR_0 = "2013-01-05T00:00Z"


@pytest.fixture
def working(tide: Tide, world: World, monkeypatch: pytest.MonkeyPatch) -> Tide:
    """The command's context is the world's. Hour 0 was rebuilt: its values are empty now."""

    @contextmanager
    def in_the_world(_pipeline: object, say: Callable[[str], None]) -> Iterator[Any]:
        ctx = world.context()
        ctx.say = say
        yield ctx
        world.close()

    monkeypatch.setattr(surroundings, "working", in_the_world)
    world.pipeline = load_file(world.folder / "pipelines/readings.yaml")
    columns = tuple(
        Column(name="value", type="int", path="$.nowhere") if c.name == "value" else c for c in world.pipeline.columns
    )
    world.change_spec(columns=columns)
    assert world.replay(0).generation == 2
    return tide


def test_a_dry_run_changes_nothing(working: Tide, world: World) -> None:
    before = world.files()
    result = working("rollback", "readings", HOUR_0, "--dry-run")
    assert result.exit_code == 0, result.output
    now, then, *partitions = result.stdout.splitlines()
    assert now.startswith("now   generation 2 (replay): 2 rows, digest ")
    assert then.startswith("then  generation 1 (archive): 2 rows, digest ")
    assert partitions == ["  site=a: 1 row now, 1 then", "  site=b: 1 row now, 1 then"]
    told = the_json(working("rollback", "readings", HOUR_0, "--dry-run", "--json"))
    assert (told["now"]["generation"], told["then"]["generation"], told["unchanged"]) == (2, 1, False)
    assert world.files() == before


def test_it_rolls_back(working: Tide, world: World) -> None:
    result = working("rollback", "readings", "date=2013-01-05/hour=00", "--why", "values were lost")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("generation 3 is in force: 2 rows at file:///")
    explained = working("explain", "readings", HOUR_0)
    assert explained.exit_code == 0, explained.stderr
    assert "rows of generation 1, brought back because: values were lost" in " ".join(explained.stdout.split())
    audited = the_json(working("audit", "readings", "--json", "-q"))
    assert (audited["problems"], audited["balanced"]) == ([], True)
    same = the_json(working("rollback", "readings", HOUR_0, "--to", "1", "--why", "again", "--json"))
    assert (same["new"], same["generation"]) == (True, 3)  # nobody was told of it yet: no operator ran
    assert working("rollback", "readings", HOUR_0, "--to", "1", "--dry-run").stdout.endswith("publish nothing\n")


def test_refusals_and_usage(working: Tide) -> None:
    missing = working("rollback", "readings", HOUR_0)
    assert (missing.exit_code, "--why is missing" in missing.stderr) == (2, True)
    unknown = working("rollback", "readings", HOUR_0, "--to", "9", "--why", "x")
    assert (unknown.exit_code, "generation 9 does not exist" in unknown.stderr) == (1, True)
    assert "generations that were in force once: 1" in unknown.stderr
    assert working("rollback", "readings", HOUR_0, "--to", "0", "--why", "x").exit_code == 2
