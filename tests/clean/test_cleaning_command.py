"""`tidegate clean` as an operator runs it."""

from __future__ import annotations

from tests.cli.test_cli_commands import Tide, the_json, tide, world
from tests.world import World, record

__all__ = ["tide", "world"]  # fixtures


def test_a_dry_run_says_what_would_go_and_changes_nothing(tide: Tide, world: World) -> None:
    before = world.files()
    result = tide("clean", "readings", "--dry-run")
    assert result.exit_code == 0, result.output
    assert f"would delete {world.location}/_tidegate/plans/1.1-" in result.output
    assert "readings: would delete 1 plan files" in result.output
    assert world.files() == before


def test_it_deletes_by_the_systems_clock_and_says_how_many(tide: Tide, world: World) -> None:
    world.replay(0)  # unchanged: discarded
    found = the_json(tide("clean", "readings", "--json"))
    kinds = [item["kind"] for item in found["deleted"]]
    assert (sorted(set(kinds)), found["kept"], found["left"]) == (["attempts", "plans", "publish"], [], False)
    assert "nothing to clean" in tide("clean", "readings").output
    event = the_json(tide("events", "readings", "-n", "1", "--json"))["events"][0]
    assert (event["what"], event["detail"]["deleted"]) == ("cleaned", {"attempts": 1, "plans": 2, "publish": 1})


def test_explain_says_which_generations_are_deleted(tide: Tide, world: World) -> None:
    world.replay(0)
    tide("clean", "readings")
    assert "DISCARDED, deleted" in tide("explain", "readings", "2013-01-05T00").output
    found = the_json(tide("explain", "readings", "2013-01-05T00", "--json"))["view"]["generations"]
    assert [(g["state"], g["cleaned"] is not None) for g in found] == [("CURRENT", False), ("DISCARDED", True)]


def test_what_is_not_ours_is_kept_and_the_exit_code_says_so(tide: Tide, world: World) -> None:
    (world.folder / "lake/readings/_tidegate/tmp/backup").mkdir()
    result = tide("clean", "readings")
    assert result.exit_code == 1
    assert f"KEPT {world.location}/_tidegate/tmp/backup: not a name that Tidegate gives" in result.output
    assert (world.folder / "lake/readings/_tidegate/tmp/backup").is_dir()


def test_the_limit_leaves_the_rest_for_the_next_run(tide: Tide, world: World) -> None:
    world.produce(record("e", 3.6))
    world.ingest("r2")
    first = tide("clean", "readings", "--limit", "1")
    assert "the limit is reached, there is more" in first.output
    assert the_json(tide("clean", "readings", "--json"))["left"] is False


def test_no_such_pipeline_is_wrong_usage(tide: Tide, world: World) -> None:
    assert tide("clean", "reading").exit_code == 2
