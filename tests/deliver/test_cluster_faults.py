"""Every changing call at another cluster fails in every way, or is overtaken by another whole task: in the end each
hour stands there byte by byte, readers never met an older generation after a newer one, and the ledger says so.

`make test` takes one kind of table, and one of each method and half of its ways, by the run's seed;
`TIDEGATE_FAULTS=all` all.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.crash.cases import ALL, OVERTAKINGS
from tests.crash.faults import KINDS, Faults
from tests.crash.scenario import SOON_MS
from tests.crash.short_life import Play, ShortLife, Step
from tests.deliver.cluster_lab import ClusterLab
from tests.deliver.iceberg_lab import IcebergLab
from tests.deliver.test_faults import sends
from tests.world import HOUR, T0, World
from tidegate.core.base.errors import LostComparison
from tidegate.core.spec.pipeline import Column
from tidegate.workflow.base.context import REQUEST_TTL_MS

DAY_MS = 86_400_000
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


KINDS_OF_TABLES: dict[str, Opened] = {
    "hive": ClusterLab,
    "hive at once": partial(ClusterLab, metastore_conn_id="metastore"),
    "hive in an object store": partial(ClusterLab, objects=True),
    "iceberg": IcebergLab,
    "iceberg in an object store": partial(IcebergLab, objects=True),
}
_ONE = random.Random(os.environ["TIDEGATE_TEST_SEED"]).choice(list(KINDS_OF_TABLES))
CHOSEN = list(KINDS_OF_TABLES) if ALL else [_ONE]
CHANGES = {
    "hive": {"ensure_table", "evolve_table", "add_partitions", "set_location"},
    "hive at once": {"ensure_table", "evolve_table", "add_partitions"},
    "hive in an object store": {"ensure_table", "evolve_table", "add_partitions", "set_location"},
    "iceberg": {"create", "commit"},
    "iceberg in an object store": {"create", "commit"},
}


@dataclass
class Copies(Play[ClusterLab]):
    """`made(folder, wrap, wrap_far)`: a world."""

    made: Opened
    steps = (
        Step(lambda lab: lab.hours(2), (sends,)),
        Step(replays, (sends,)),
        Step(loses_a_file, (verifies,)),
        Step(lambda lab: lab.world.clock.advance(DAY_MS + 1), (sends,)),
    )
    tries = 12

    def opened(self, folder: Path, faults: Faults, kept: Any) -> ClusterLab:
        near = lambda name, port: faults.wrap(name, port) if name == "deliveries" else port  # noqa: E731
        lab = self.made(folder, wrap=near, wrap_far=faults.wrap)
        if kept is not None:
            lab.far, lab.storage, lab.world.clock, lab.world.pipeline = kept
        return lab

    def keeps(self, lab: ClusterLab) -> Any:
        return lab.far, lab.storage, lab.world.clock, lab.pipeline

    def of(self, lab: ClusterLab) -> World:
        return lab.world

    def waits(self, lab: ClusterLab, faults: Faults) -> None:
        """Several tries fit into a request's life, or none."""
        lab.world.clock.advance(SOON_MS if faults.in_flight else REQUEST_TTL_MS + 1)

    def calm(self, lab: ClusterLab) -> None:
        lab.world.wrap = lab.wrap_far = lambda name, port: port

    def rival(self, lab: ClusterLab, step: int) -> None:
        """Another process, in the middle of the first one's try."""
        far, lab.wrap_far = lab.wrap_far, lambda name, port: port
        try:
            super().rival(lab, step)
        finally:
            lab.wrap_far = far

    def ends(self, lab: ClusterLab, step: int) -> None:
        lab.world.clock.advance(REQUEST_TTL_MS + 1)
        assert "refused" not in lab.verify(0, 1), "a person would be needed"
        sends(lab)

    def sound(self, lab: ClusterLab, step: int) -> None:
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


@pytest.fixture(scope="module", params=CHOSEN)
def life(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> ShortLife[ClusterLab]:
    return ShortLife(Copies(KINDS_OF_TABLES[request.param]), tmp_path_factory.mktemp("cluster"))


def test_the_life_meets_every_change_of_the_other_cluster(
    life: ShortLife[ClusterLab], request: pytest.FixtureRequest
) -> None:
    kind = request.node.callspec.params["life"]
    met = {method.partition(".")[2] for method in life.methods}
    files = {"delete", "write_new", *(() if "object" in kind else ("make_dirs", "rename_no_replace", "open_new"))}
    assert met >= CHANGES[kind] | files
    assert ("switch_partitions" in met) == (kind == "hive at once")


@pytest.mark.parametrize("kind", [*KINDS, *OVERTAKINGS])
def test_any_fault_heals(life: ShortLife[ClusterLab], kind: str) -> None:
    assert life.unhealed(kind) == []
