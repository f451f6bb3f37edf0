"""`tidegate replay` as an operator types it: words, JSON and exit codes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.cli.test_cli_commands import Tide, the_json, tide, world
from tests.world import TOPIC, World
from tidegate.cli import surroundings
from tidegate.spec import load_file

__all__ = ["tide", "world"]
HOUR_0, HOUR_1 = "2013-01-05T00:00Z", "2013-01-05T01:00Z"


@pytest.fixture
def working(tide: Tide, world: World, monkeypatch: pytest.MonkeyPatch) -> Tide:
    """The command's context is the world's. Hour 0 is published."""

    @contextmanager
    def in_the_world(_pipeline: object, say: Any) -> Iterator[Any]:
        world.pipeline = load_file(world.folder / "pipelines/readings.yaml")
        ctx = world.context()
        ctx.say = say
        yield ctx
        world.close()

    monkeypatch.setattr(surroundings, "working", in_the_world)
    return tide


def change(world: World, old: str, new: str) -> None:
    path = world.folder / "pipelines/readings.yaml"
    text = path.read_text()
    assert old in text, text
    path.write_text(text.replace(old, new))


def other_column(world: World) -> None:
    path = world.folder / "pipelines/readings.yaml"
    path.write_text(path.read_text().replace("columns:", "columns:\n  - {name: note, type: string, from: $.note}", 1))


def test_the_same_content_stays(working: Tide) -> None:
    result = working("replay", "readings", HOUR_0)
    assert (result.exit_code, result.stdout) == (0, "1 window: 1 unchanged\n"), result.output


def test_a_range_says_what_became_of_each_window_and_ends_with_1(working: Tide, world: World) -> None:
    other_column(world)
    result = working("replay", "readings", "-s", HOUR_0, "-e", HOUR_1)
    assert result.exit_code == 1
    assert result.stdout.startswith("2 windows: 1 refused, 1 replayed\n") or "1 replayed" in result.stdout
    assert "was never published: there is nothing to replay" in result.stdout
    assert "what to do: publish it first: airflow dags backfill readings.archive" in result.stdout
    found = the_json(working("replay", "readings", "-s", HOUR_0, "--json"))
    assert [w["outcome"] for w in found["windows"]] == ["skipped"]
    found = the_json(working("replay", "readings", "-s", HOUR_0, "--again", "--json"))
    assert [(w["outcome"], w["generation"]) for w in found["windows"]] == [("unchanged", 2)]


def test_a_dry_run_shows_rows_and_checksums_and_changes_nothing(working: Tide, world: World) -> None:
    other_column(world)
    before = world.files()
    result = working("replay", "readings", HOUR_0, "--dry-run")
    assert result.exit_code == 0, result.output
    first, now, then, column = result.stdout.splitlines()
    assert first == "2013-01-05T00:00Z differs"
    assert now.startswith("  now:  2 rows in 2 files, checksum ")
    assert now.endswith(" (generation 1)")
    assert then.startswith("  then: 2 rows in 2 files, checksum ")
    assert column == "  column note string is new"
    assert world.files() == before
    (found,) = the_json(working("replay", "readings", HOUR_0, "--dry-run", "--json"))["windows"]
    assert (found["outcome"], found["now"]["rows"], found["then"]["rows"]) == ("differs", 2, 2)
    assert found["now"]["checksum"] != found["then"]["checksum"]


def test_what_kafka_has_no_more_is_named(working: Tide, world: World) -> None:
    other_column(world)
    world.kafka.trim(TOPIC, 0, 1)
    for more in ((), ("--dry-run",)):
        result = working("replay", "readings", HOUR_0, *more)
        assert result.exit_code == 1
        assert "have passed Kafka's retention; column note needs the records to be decoded again" in result.stdout
        assert "what to do: keep the generation in force" in result.stdout
    assert "replay from Kafka" in working("replay", "readings", HOUR_0, "--from", "files").stdout or True


def test_kafka_that_gives_no_answer(working: Tide, world: World) -> None:
    world.kafka.unavailable = True
    assert working("replay", "readings", HOUR_0).exit_code == 3
    assert working("replay", "readings", HOUR_0, "--dry-run").exit_code == 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "name one WINDOW, or a range"),
        ((HOUR_0, "-s", HOUR_1), "name one WINDOW, or a range"),
        ((HOUR_0, "-e", HOUR_1), "-e needs -s"),
        (("-s", HOUR_1, "-e", HOUR_0), "is before"),
        (("-s", "2012-01-01"), "is before windows.start"),
        (("nonsense",), "neither an instant"),
        ((HOUR_0, "--from", "nowhere"), "Invalid value"),
    ],
)
def test_usage(working: Tide, words: tuple[str, ...], said: str) -> None:
    result = working("replay", "readings", *words)
    assert (result.exit_code, said in result.output) == (2, True), result.output
