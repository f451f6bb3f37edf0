"""Clear, on a real scheduler: every task, in every state, by every way, before, after and within a backfill.

`make test-operators` plays all of them, `make test` five by the run's seed, of a sample that has every task and every
state by every way. Each cell ends well within minutes, with the ledger that an untouched pipeline has; the next run of
its DAG starts.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

import airflow_home  # noqa: F401  (before airflow)
import pytest

from tests.operators.cells import SEED, Cell, drawn, every, sample
from tests.operators.clearing import Play, lane_of, topics, twins
from tests.operators.harness import Rig

WHOLE = os.environ.get("TIDEGATE_OPERATORS") == "all"
CELLS = every() if WHOLE else drawn(sample(every(), SEED), os.environ["TIDEGATE_TEST_SEED"])
AT_ONCE = 24
"""Cells whose pipelines are there; each one costs all tasks time, for every parse reads them."""
MORE = 8
"""Are added together, once as many have ended and are taken away: a slow cell keeps nobody waiting."""
SIDE_BY_SIDE = 8


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest, rig: Rig) -> Iterator[Callable[[Cell], None]]:
    """Plays the cells that were selected, many at once; gives what raises the failure of a cell."""
    print(f"Clear: {len(CELLS)} cells")
    chosen = [item.callspec.params["cell"] for item in request.session.items if item.module is request.module]
    topics(rig)
    twins(rig)
    played: dict[Cell, Future[None]] = {}
    with ThreadPoolExecutor(SIDE_BY_SIDE, "cell") as pool:
        yield lambda cell: _outcome(rig, pool, chosen, played, cell)


def _outcome(
    rig: Rig, pool: ThreadPoolExecutor, chosen: list[Cell], played: dict[Cell, Future[None]], cell: Cell
) -> None:
    while cell not in played or not played[cell].done():
        left = [one for one in chosen if one not in played]
        at_work = [future for future in played.values() if not future.done()]
        room = AT_ONCE - len(at_work)
        if left and room >= min(MORE, len(left)):
            rig.remove(*(f"c_{one.name}" for one, future in played.items() if future.done()))
            group = left[:room]
            print(f"{len(group)} cells more, {SIDE_BY_SIDE} side by side")
            plays = [Play(rig, one, lane) for one, lane in zip(group, rig.add(*map(lane_of, group)), strict=True)]
            played |= {play.cell: pool.submit(_timed, play) for play in plays}
        else:
            wait(at_work, return_when=FIRST_COMPLETED)
    played[cell].result()


def _timed(play: Play) -> None:
    began = time.monotonic()
    try:
        play.go()
        print(f"{play.cell.name}: {time.monotonic() - began:.0f} s")
    except BaseException as e:
        print(f"{play.cell.name}: after {time.monotonic() - began:.0f} s {type(e).__name__}: {str(e)[:300]}")
        raise


@pytest.mark.parametrize("cell", CELLS, ids=[cell.name for cell in CELLS])
def test_a_cleared_task_ends_well_and_nothing_is_lost_or_doubled(outcomes: Callable[[Cell], None], cell: Cell) -> None:
    outcomes(cell)
