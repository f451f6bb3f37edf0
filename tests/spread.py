"""How `make test` spreads files over its workers: one at a time of those that run an Airflow, one of those that share
real services, one of those that deliver, and the others beside them, so that the cores have work while a stack waits.

Each worker that runs such files starts the broker, the databases, both Hives and the NameNode for itself. So the first
that takes one keeps its kind, folder by folder (a folder's Airflow ends with the folder), and the others end when
nothing else is left: to help they would have to start everything again.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from xdist.scheduler.loadscope import LoadScopeScheduling

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

AIRFLOW, SERVICES, DELIVERIES = "airflow", "services", "deliveries"
_LANES = {
    "e2e": AIRFLOW, "operators": AIRFLOW, "cluster": AIRFLOW,
    "integration": SERVICES, "contract": SERVICES, "upgrade/test_ledger_upgrade": SERVICES,
    "offline/test_real": SERVICES, "offline/test_surroundings": SERVICES, "offline/test_planted": SERVICES,
    "deliver": DELIVERIES, "deliver/test_cluster_life": SERVICES, "deliver/test_parts": SERVICES,
    "deliver/test_planted": SERVICES, "deliver/test_process": SERVICES, "deliver/test_relational": SERVICES,
    "failover/test_kafka_standby": SERVICES,
}  # fmt: skip
"""By folder, or by file. Deliveries to ClickHouse have servers that nobody else needs; others share databases."""
CRASH, BOARD, UPGRADE = "tests/crash", "tests/board", "tests/upgrade"
_POOLED = {
    "crash": CRASH, "board": BOARD, "copies/test_board": BOARD, "mirror/test_board": BOARD,
    "integration/test_board_browser": BOARD,
    "upgrade/test_side_by_side": UPGRADE, "upgrade/test_takeover": UPGRADE, "upgrade/test_refusals": UPGRADE,
}  # fmt: skip
"""Files, or folders of files, that go to one worker: they share a pool of processes, Airflow's web application, or the
code of an older release."""
LONG = (
    "crash", "copies/test_faults", "board", "model/test_model", "mutants/test_planted_bugs", "look/test_where_chaos",
    "mirror/test_faults", "dev/test_architecture", "fuzz/test_lives", "value_rules/test_differential",
    "copies/test_days_faults",
    "mirror/test_days_faults", "window/test_cut_over", "copies/test_lives", "upgrade", "offline/test_faults",
)  # fmt: skip
"""Files of no lane that take 20 s and more: they begin first, so that no worker is left with one while others end."""
ALONE = (
    "integration/test_kill_each_state", "integration/test_stack_lifecycle", "integration/test_stack_airflow",
    "integration/test_worker_archive", "integration/test_kafka_log_cut",
    "integration/test_merge_spark", "integration/test_redrive_spark", "integration/test_mirror_spark",
    "integration/test_stack_processes", "contract/test_truth_http", "contract/test_reader",
)  # fmt: skip
"""Files of a lane's folder that share none of its parts; the longest first."""


def lane(path: str) -> str | None:
    """Which kind of real parts a test file starts, by its folder below `tests/`; None for those that start none."""
    name = _name(path)
    return None if name in ALONE else _LANES.get(name, _LANES.get(name.rpartition("/")[0]))


def pool(path: str) -> str:
    """What a test file goes with; itself for most."""
    name = _name(path)
    return _POOLED.get(name, _POOLED.get(name.rpartition("/")[0], path))


def _name(path: str) -> str:
    return path.removeprefix("tests/").removesuffix(".py")


def chosen(waiting: list[str], owners: dict[str, object], node: object) -> str | None:
    """The file that `node` takes next: of its own lane, of no lane, of a lane that no one has; None: it can end."""
    own = [path for path in waiting if (kind := lane(path)) is not None and owners.get(kind, node) is node]
    own.sort(key=lambda path: PurePosixPath(path).parent)
    taken = {kind for kind, owner in owners.items() if owner is node}
    one_lane = [path for path in own if not taken or lane(path) in taken]
    free = [path for path in waiting if lane(path) is None]
    free.sort(key=lambda path: _name(path) not in LONG + ALONE)
    return next(iter(one_lane or free or own), None)


class Spread(LoadScopeScheduling):
    """xdist's scheduling by file, with lanes."""

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self._owners: dict[str, object] = {}

    def _split_scope(self, nodeid: str) -> str:
        return pool(nodeid.split("::", 1)[0])

    def _assign_work_unit(self, node: WorkerController) -> None:
        path = chosen(list(self.workqueue), self._owners, node)
        if path is None:
            node.shutdown()
            return
        if (kind := lane(path)) is not None:
            self._owners.setdefault(kind, node)
        self.workqueue.move_to_end(path, last=False)
        super()._assign_work_unit(node)

    def remove_node(self, node: WorkerController) -> str | None:
        self._owners = {kind: owner for kind, owner in self._owners.items() if owner is not node}
        return super().remove_node(node)
