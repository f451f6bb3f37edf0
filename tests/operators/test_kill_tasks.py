"""Kills and outages while Airflow is in charge: the next try heals, nothing is lost, doubled or left behind.

Each cell is a lane of its own: a task stands at a call, its victim dies (or the other end of its line does), the line
is free again, and the run ends well by itself; only what a person has marked failed, a person clears. `make test` takes
two of the most telling cells, by the run's seed, `make test-operators` all.
"""

from __future__ import annotations

import os
import random
import re
import time
from dataclasses import dataclass

import psutil
import pytest

from tests.operators import kills
from tests.operators.harness import Lane, Rig
from tests.operators.kills import (
    BROKER,
    DRIVER,
    HIVE,
    JVM,
    LAND,
    MAINTAIN,
    MARKED,
    PLAN,
    PUBLISH,
    REPLAY,
    SUPERVISOR,
    TASK,
    WRITE,
)
from tests.operators.ways import DOWNSTREAM, UI

FULL = os.environ.get("TIDEGATE_OPERATORS") == "all"
AT_ONCE = 5
OUTAGE_S = 20.0
"""Longer than a first retry's delay, so that at least one try meets it."""


@dataclass(frozen=True)
class Cell:
    victim: str
    phase: str

    @property
    def name(self) -> str:
        return f"{self.victim}_{self.phase}".lower().replace(" ", "_").replace("'", "")

    @property
    def spark(self) -> bool:
        return self.phase in (WRITE, REPLAY)


SAMPLE = [Cell(TASK, PUBLISH), Cell(JVM, WRITE), Cell(HIVE, PUBLISH), Cell(BROKER, PLAN)]
PROCESSES = [Cell(v, p) for v in (MARKED, TASK, SUPERVISOR) for p in (PLAN, WRITE, LAND, PUBLISH, REPLAY, MAINTAIN)]
JOBS = [Cell(v, p) for v in (JVM, DRIVER) for p in (WRITE, REPLAY)]
OUTAGES = [Cell(BROKER, PLAN), Cell(BROKER, WRITE), Cell(BROKER, REPLAY), Cell(HIVE, PUBLISH)]
EVERY = list(dict.fromkeys([*SAMPLE, Cell(MARKED, WRITE), *PROCESSES, *JOBS, *OUTAGES]))
CHOSEN = os.environ.get("TIDEGATE_KILLS")
"""A pattern of cells' names, for whoever looks for something."""
_DRAWN = random.Random(f"{os.environ['TIDEGATE_TEST_SEED']}:kills").sample(SAMPLE, 2)
CELLS = [c for c in EVERY if re.search(CHOSEN, c.name)] if CHOSEN else EVERY if FULL else _DRAWN


@pytest.fixture(scope="module")
def outcomes(rig: Rig) -> dict[str, BaseException | None]:
    """All cells, a few at a time."""
    topic = rig.topic("killed", 2)
    lanes = [Lane(f"k_{cell.name}", topic, retries=4, session="per_batch") for cell in CELLS]
    twin, *lanes = rig.add(Lane("k_twin", topic, retries=4), *lanes)
    twin.land(2)
    twin.publish(0)
    return kills.side_by_side(
        {c.name: lambda c=c, lane=lane: live(rig, c, lane, twin) for c, lane in zip(CELLS, lanes, strict=True)}, AT_ONCE
    )


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)
def test_the_next_try_heals(outcomes: dict[str, BaseException | None], cell: Cell) -> None:
    error = outcomes[cell.name]
    if error is not None:
        raise error


def live(rig: Rig, cell: Cell, lane: Lane, twin: Lane) -> None:
    """One life: held, hit, healed, equal to a life without."""
    if cell.phase not in (PLAN, WRITE, LAND):
        lane.land(2)
    if cell.phase in (REPLAY, MAINTAIN):
        lane.publish(0)
    held = kills.hold(rig, lane, cell.phase)
    attempt, job = held.attempt, _job(held) if cell.spark else []
    if cell.victim in (BROKER, HIVE):
        _outage(rig, held)
    else:
        kills.kill(cell.victim, held)
        _is_over(rig, cell, held, attempt)
        held.line.release()
    if cell.victim == MARKED:
        _ended(rig, held, attempt)
        rig.clear(UI, DOWNSTREAM, held.dag_id, held.run_id, held.task_id)
    rig.wait_task(held.dag_id, held.run_id, held.task_id, "success", after=attempt)
    _, alive = psutil.wait_procs(job, timeout=240)
    alive = [p for p in alive if p.is_running()]  # a number that another process or thread has now is not it
    assert not alive, "what the killed try had started has ended"
    _finish(rig, cell, lane, held)
    assert rig.digest(lane) == rig.digest(twin), (rig.content(lane), rig.content(twin))
    rig.check_settled(lane)


def _job(held: kills.Held) -> list[psutil.Process]:
    """JVM and driver; both have begun."""
    return [held.of_job(JVM), held.of_job(DRIVER)]


def _is_over(rig: Rig, cell: Cell, held: kills.Held, attempt: int) -> None:
    """Airflow knows that this try has ended."""
    states = ("failed",) if cell.victim == MARKED else ("up_for_retry", "queued", "scheduled", "running", "success")

    def look() -> bool:
        state, now = rig.task(held.dag_id, held.run_id, held.task_id)
        return state in states and (now > attempt or state in ("up_for_retry", "failed"))

    rig.eventually(f"{cell.name}: the try is over", look, lambda: rig.story(held.dag_id, held.run_id))


def _ended(rig: Rig, held: kills.Held, attempt: int) -> None:
    """The task's process notices at its next beat, ends its job and says so."""

    def look() -> bool:
        return "was ended from outside" in rig.api.log(held.dag_id, held.run_id, held.task_id, attempt)

    rig.eventually(f"{held.dag_id} says that it was ended", look, lambda: rig.story(held.dag_id, held.run_id))


def _outage(rig: Rig, held: kills.Held) -> None:
    """The server is gone for a while; a try that meets it says what, where, and what to run."""
    began, attempt = time.monotonic(), held.attempt
    held.line.cut()
    held.line.release()
    rig.wait_task(held.dag_id, held.run_id, held.task_id, "up_for_retry", "queued", "running", after=attempt - 1)
    rig.eventually(
        f"{held.dag_id}: a try has failed",
        lambda: rig.task(held.dag_id, held.run_id, held.task_id)[0] == "up_for_retry" or held.attempt > attempt,
        lambda: rig.story(held.dag_id, held.run_id),
    )
    level, words = kills.last_words(rig.api.log(held.dag_id, held.run_id, held.task_id, attempt))
    assert (level, words.startswith(f"{held.dag_id} {held.task_id}")) == ("ERROR", True), words
    assert " failed: " in words, words
    assert "the next one begins by itself at about " in words, words
    assert words.endswith(f"run: tidegate doctor {held.lane.name}"), words
    time.sleep(max(0.0, OUTAGE_S - (time.monotonic() - began)))  # the outage itself
    held.line.mend()


def _finish(rig: Rig, cell: Cell, lane: Lane, held: kills.Held) -> None:
    """Bring the lane to where its twin is: two batches landed, the first window published."""
    rig.wait_run(held.dag_id, held.run_id, "success")
    if held.dag_id == lane.ingest:
        rig.wait_run(lane.ingest, "backlog_after_batch_1", "success")
        rig.api.pause(lane.ingest, True)
        lane.publish(0)
    else:
        rig.api.pause(held.dag_id, True)
