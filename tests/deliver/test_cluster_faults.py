"""Every changing call at another cluster fails in every way, or is overtaken by another whole task: in the end each
hour stands there byte by byte, readers never met an older generation after a newer one, and the ledger says so.

`make test` takes one kind of table, and one of each method and way, by the run's seed; `TIDEGATE_FAULTS=all` all.
"""

from __future__ import annotations

import copy
import os
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tests.crash.cases import ALL, OVERTAKINGS, unhealed
from tests.crash.faults import KINDS, Call, Faults
from tests.crash.scenario import SOON_MS, until_done
from tests.deliver.cluster_lab import ClusterLab
from tests.deliver.iceberg_lab import IcebergLab
from tests.deliver.test_faults import sends
from tests.world import HOUR, T0
from tidegate.core.base.errors import LostComparison, TidegateError
from tidegate.core.spec.pipeline import Column
from tidegate.spec import fingerprint
from tidegate.workflow.base.context import REQUEST_TTL_MS

TRIES = 12
DAY_MS = 86_400_000
Task = Callable[[ClusterLab], object]
Opened = Callable[..., ClusterLab]


def replays(lab: ClusterLab) -> None:
    lab.world.change_spec(columns=(*lab.pipeline.columns, Column(name="x", type="string", path="$.id")))
    lab.world.replay(0)


def loses_a_file(lab: ClusterLab) -> None:
    """There, by somebody's hand."""
    lab.lose_a_file(1)


def verifies(lab: ClusterLab) -> None:
    found = lab.verify(0, 1)
    if not {*found} <= {"unchanged", "delivered"}:
        raise LostComparison(f"not all of it: {found}")


@dataclass(frozen=True)
class Step:
    """`happens`: in a world without faults. `task`: run until it comes to its end."""

    happens: Task
    task: Task


STEPS = (
    Step(lambda lab: lab.hours(2), sends),
    Step(replays, sends),
    Step(loses_a_file, verifies),
    Step(lambda lab: lab.world.clock.advance(DAY_MS + 1), sends),
)


@dataclass
class Life:
    """A folder for each step as it is before its task, and the rest of the world then. `opened(folder, wrap,
    wrap_far)`: a world."""

    folder: Path
    opened: Opened
    calls: list[list[Call]] = field(default_factory=list)
    worlds: list[Any] = field(default_factory=list)

    def lab(self, step: int, faults: Faults) -> ClusterLab:
        here = self.folder / "world"
        shutil.rmtree(here, ignore_errors=True)
        shutil.copytree(self.folder / f"before-{step}", here)
        kept = (here / "ledger.db").read_bytes()
        lab = _opened(here, faults, self.opened)
        (here / "ledger.db").write_bytes(kept)
        lab.far, lab.storage, lab.world.clock, lab.world.pipeline = copy.deepcopy(self.worlds[step])
        lab.world.registered.add(fingerprint(lab.world.pipeline))
        return lab


def _opened(folder: Path, faults: Faults, opened: Opened) -> ClusterLab:
    folder.mkdir(exist_ok=True)
    return opened(
        folder,
        wrap=lambda name, port: faults.wrap(name, port) if name == "deliveries" else port,
        wrap_far=faults.wrap,
    )


KINDS_OF_TABLES: dict[str, Opened] = {
    "hive": ClusterLab,
    "hive at once": partial(ClusterLab, metastore_conn_id="metastore"),
    "iceberg": IcebergLab,
    "iceberg in an object store": partial(IcebergLab, objects=True),
}
_ONE = random.Random(os.environ["TIDEGATE_TEST_SEED"]).choice(list(KINDS_OF_TABLES))
CHOSEN = list(KINDS_OF_TABLES) if ALL else [_ONE]
CHANGES = {
    "hive": {"ensure_table", "evolve_table", "add_partitions", "set_location"},
    "hive at once": {"ensure_table", "evolve_table", "add_partitions"},
    "iceberg": {"create", "commit"},
    "iceberg in an object store": {"create", "commit"},
}


@pytest.fixture(scope="module", params=CHOSEN)
def life(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Any:
    """The fault-free life."""
    folder = tmp_path_factory.mktemp("cluster")
    with mock.patch.object(os, "fsync"):
        faults, made = Faults(), Life(folder, KINDS_OF_TABLES[request.param])
        lab = _opened(folder / "world", faults, made.opened)
        for number, step in enumerate(STEPS):
            step.happens(lab)
            lab.world.close()
            shutil.copytree(lab.world.folder, folder / f"before-{number}")
            made.worlds.append(copy.deepcopy((lab.far, lab.storage, lab.world.clock, lab.pipeline)))
            start = len(faults.calls)
            step.task(lab)
            made.calls.append(faults.calls[start:])
            _sound(lab, number)
        yield made


def test_the_life_meets_every_change_of_the_other_cluster(life: Life, request: pytest.FixtureRequest) -> None:
    kind = request.node.callspec.params["life"]
    met = {call.method.partition(".")[2] for calls in life.calls for call in calls}
    files = {"delete", "write_new", *(() if "object" in kind else ("make_dirs", "rename_no_replace", "open_new"))}
    assert met >= CHANGES[kind] | files
    assert ("switch_partitions" in met) == (kind == "hive at once")


@pytest.mark.parametrize("kind", [*KINDS, *OVERTAKINGS])
def test_any_fault_heals(life: Life, kind: str) -> None:
    assert unhealed(life.calls, kind, partial(_lived, life)) == []


def _lived(life: Life, step: int, at: int, kind: str) -> str | None:
    faults = Faults.one(at, kind)
    lab = life.lab(step, faults)
    faults.rival = lambda _: _rival(lab, STEPS[step])
    try:
        until_done(
            partial(STEPS[step].task, lab),
            faults,
            TRIES,
            # several tries fit into a request's life, or none
            lambda: lab.world.clock.advance(SOON_MS if faults.in_flight else REQUEST_TTL_MS + 1),
        )
        if len(faults.fired) != 1:
            return "the fault did not fire"
        faults.arrive()
        _calm(lab)
        lab.world.clock.advance(REQUEST_TTL_MS + 1)
        if lab.verify(0, 1).count("refused"):
            return "a person would be needed"
        sends(lab)
        _sound(lab, step)
    except Exception as e:
        return f"{type(e).__name__}: {e}; said: {lab.world.said[-6:]}"
    finally:
        faults.arrive()
        lab.world.close()
    return None


def _calm(lab: ClusterLab) -> None:
    lab.world.wrap = lab.wrap_far = lambda name, port: port


def _rival(lab: ClusterLab, step: Step) -> None:
    """Another process, in the middle of the first one's try."""
    kept, wraps = list(lab.world._ledgers), (lab.world.wrap, lab.wrap_far)
    lab.world._ledgers.clear()  # the first one's stays open
    _calm(lab)
    try:
        step.task(lab)
    except TidegateError as e:
        if not e.retry and not isinstance(e, LostComparison):
            raise AssertionError(f"the other one would need a human: {e}") from e
    finally:
        lab.world.wrap, lab.wrap_far = wraps
        lab.world._ledgers[:0] = kept


def _sound(lab: ClusterLab, step: int) -> None:
    """Readers there, files there and the ledger agree; nothing is left lying about."""
    with lab.context() as ctx:
        rows = ctx.ledger.deliveries.in_force("readings", "shop", 0, 2**60)
    assert [(r.row.state, r.row.generation, r.row.stood) for r in rows if r.row] == [
        ("STANDING", r.generation, r.generation) for r in rows
    ]
    for one in rows:
        hour = (one.window_ms - T0) // HOUR
        assert lab.copied(hour) == lab.own(hour)
        assert lab.ids(hour) == [f"{hour}-0", f"{hour}-1"]
    for what, orders in lab.orders().items():
        generations = [generation for generation, _ in orders]
        assert generations == sorted(generations), f"{what}: readers met {orders}"
    assert lab.names("copies") == []
    if step == 3:
        assert lab.names("replaced") == []
        assert [len(lab.names(f"generations/{name}")) for name in lab.names("generations")] == [1, 1]
