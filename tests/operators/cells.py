"""The cells: every task of every DAG that the factory builds x its state when it is cleared x the way x a backfill."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, replace

from dev.stack.places import Places
from tests.operators.ways import SCOPES, WAYS
from tidegate.airflow.factory import build_dags
from tidegate.airflow.timetable import WindowTimetable
from tidegate.settings import load

STATES = SUCCEEDED, FAILED, RUNNING = ("succeeded", "failed", "running")
"""Of the task when it is cleared; a deferred one is running."""
ORIGINS = OWN, AFTER, WITHIN = ("own", "after", "within")
"""`own`: no backfill has touched the run; `after`: one has; `within`: one is working on it."""

SEED = 9
"""Of the sample; one that gives few cells."""
FEW = 5
"""Cells of the sample that one run of `make test` plays."""


@dataclass(frozen=True)
class Cell:
    """One case. `scope`: how much is cleared."""

    kind: str
    task: str
    state: str
    way: str
    origin: str
    scope: str

    @property
    def name(self) -> str:
        """For ids of tests and names of pipelines."""
        return "_".join(astuple(self))


def tasks() -> dict[tuple[str, str], bool]:
    """(kind of DAG, task) of one pipeline's DAGs; whether `airflow dags backfill` can touch the DAG."""
    found: dict[tuple[str, str], bool] = {}
    folder = Places.of_checkout().checkout / "tests/fixtures/pipelines"
    for dag in build_dags(replace(load(), pipelines_folder=folder)).values():
        kind, window = dag.dag_id.rpartition(".")[2], isinstance(dag.timetable, WindowTimetable)
        # `catch_up` has nothing to do in a lane of few windows: tests/airflow/test_dags_catchup.py clears it
        mine = [task_id for task_id in dag.task_ids if task_id != "catch_up"]
        found |= {(kind, task_id): window for task_id in mine}  # of both pipelines there: they are alike
    return found


def every() -> list[Cell]:
    """All of them. How much is cleared turns with them, so that each task and state meets each of it."""
    cells = []
    for n, ((kind, task), window) in enumerate(tasks().items()):
        for i, state in enumerate(STATES):
            for j, way in enumerate(WAYS):
                for k, origin in enumerate(_origins(state, window)):
                    cells.append(Cell(kind, task, state, way, origin, SCOPES[(n + i + j + k) % len(SCOPES)]))
    return cells


def _origins(state: str, window: bool) -> tuple[str, ...]:
    if not window:
        return (OWN,)
    return ORIGINS if state == RUNNING else (OWN, AFTER)


def sample(cells: Sequence[Cell], seed: int = SEED) -> list[Cell]:
    """As few cells as a greedy search finds with every task, every amount, and every pair of a state with a way and
    with an origin."""
    rng, left = random.Random(seed), set(itertools.chain.from_iterable(map(traits, cells)))
    order, chosen = list(cells), []
    while left:
        rng.shuffle(order)
        best = max(order, key=lambda cell: len(left & set(traits(cell))))
        chosen.append(best)
        left -= set(traits(best))
    return sorted(chosen, key=cells.index)


def drawn(cells: Sequence[Cell], seed: str) -> list[Cell]:
    """Those that the run with this seed plays."""
    return sorted(random.Random(f"{seed}:clear").sample(cells, FEW), key=cells.index)


def traits(cell: Cell) -> Iterator[tuple[str, ...]]:
    """What of a cell the sample covers."""
    yield from (("task", cell.kind, cell.task), ("scope", cell.scope))
    yield from (("way", cell.state, cell.way), ("origin", cell.state, cell.origin))
