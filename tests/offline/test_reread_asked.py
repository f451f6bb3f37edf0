"""A second reading as people ask for it, and what they are told afterwards."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.look.row_readers import InProcessRows
from tests.offline.test_reread import day_zero, words
from tests.offline.worlds import TableWorld, window
from tests.world import World, record
from tests.world import window as hour
from tidegate.cli import surroundings
from tidegate.cli.explain import _print
from tidegate.cli.replay import replay as command
from tidegate.core.base.errors import AskedWrong, ReplayRefused
from tidegate.core.batch.readings import LANE
from tidegate.core.replay import request
from tidegate.workflow.look import where
from tidegate.workflow.look.explanation import explain
from tidegate.workflow.replay import reread

__all__ = ["day_zero"]  # how tests begin


@pytest.fixture
def tide(day_zero: TableWorld, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """The command line, in the world's context."""

    @contextmanager
    def in_the_world(_pipeline: object, say: Callable[[str], None]) -> Iterator[Any]:
        yield day_zero.context()
        day_zero.close()

    monkeypatch.setattr(surroundings, "working", in_the_world)
    monkeypatch.setattr(surroundings, "pipeline_named", lambda name: day_zero.pipeline)
    return lambda *words: CliRunner().invoke(command, ["readings", *words])


def test_the_command_reads_one_window_again(tide: Callable[..., Result], day_zero: TableWorld) -> None:
    found = tide("2024-11-01", "--from", "source")
    assert (found.exit_code, found.stdout.startswith("generation 2 is in force: 6 rows at file:")) == (0, True)
    assert words(day_zero) == {"second"}
    same = tide("2024-11-01", "--from", "source", "--json")
    assert (same.exit_code, json.loads(same.stdout)["note"]) == (0, "unchanged")


def test_the_command_refuses_what_it_does_not_have(tide: Callable[..., Result], day_zero: TableWorld) -> None:
    for given in (("-s", "2024-11-01"), ("2024-11-01", "--dry-run")):
        refused = tide(*given, "--from", "source")
        assert (refused.exit_code, "--from source reads one WINDOW again" in refused.output) == (2, True)
    assert words(day_zero) == {"first"}


def test_a_log_is_read_by_its_own_word(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.produce(record("a", 0.1), record("b", 3.9))
    world.produce(record("c", 4.5), partition=1)
    world.ingest("r1")
    world.archive(0)
    with pytest.raises(ReplayRefused, match="has a log: its records can be read again as they were") as refused:
        reread.read_again(world.context(), hour(0))
    assert "--from kafka" in refused.value.advice
    world.close()


@pytest.mark.parametrize(
    ("conf", "says"),
    [
        ({"window": "2024-11-01"}, "a second reading needs a reason"),
        ({"from": "2024-11-01", "until": "2024-11-03", "why": "x"}, "a second reading is of one window"),
    ],
)
def test_a_runs_conf_names_one_window_and_a_reason(day_zero: TableWorld, conf: dict[str, str], says: str) -> None:
    with pytest.raises(AskedWrong, match=says):
        request.asked({"do": "reread", **conf}, day_zero.pipeline.windows, None)
    good = request.asked({"do": "reread", "window": "2024-11-01", "why": "x"}, day_zero.pipeline.windows, None)
    assert request.asked(good.conf(), day_zero.pipeline.windows, None) == good


# ---------------------------------------------------------------- what people ask


def fate(world: TableWorld, offset: int) -> Any:
    ctx = world.context()
    try:
        (found,) = where.where(ctx, ctx.ledger.reads, InProcessRows(), LANE, offset).fates  # type: ignore[attr-defined]
        return found
    finally:
        world.close()


def test_an_offset_is_told_by_the_reading_in_force(day_zero: TableWorld) -> None:
    first = {offset for (offset,) in day_zero.rows(0, "_offset")}
    assert fate(day_zero, min(first)).generation == 1
    day_zero.reread(0)
    second = {offset for (offset,) in day_zero.rows(0, "_offset")}
    assert second - first, "rows are numbered anew"
    for offset in second:
        found = fate(day_zero, offset)
        assert (found.kind, found.generation) == ("published", 2)
        assert "a row of generation 2, the second reading of window 2024-11-01T00:00Z" in found.words
    gone = fate(day_zero, min(first - second))
    assert gone.words == (
        "no row of generation 2, the second reading of window 2024-11-01T00:00Z, has this number; what batch 1 read "
        "before is in earlier generations"
    )
    assert gone.settled
    day_zero.back(0, 1)
    assert "second reading" not in fate(day_zero, min(first)).words


def test_what_a_window_rests_on_says_that_it_is_of_the_first_reading(
    day_zero: TableWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    def told() -> str:
        ctx = day_zero.context()
        try:
            found = explain(ctx, ctx.ledger.reads, window(0))  # type: ignore[attr-defined]
        finally:
            day_zero.close()
        capsys.readouterr()
        _print(found)
        return " ".join(capsys.readouterr().out.split())

    assert "first reading" not in told()
    day_zero.reread(0)
    assert "what follows is of it; the rows in force are of generation 2's reading" in told()
    day_zero.back(0, 1)
    assert "what follows is of it" not in told()
