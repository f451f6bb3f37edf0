"""The contract of tables, on Hive's endpoints, on the fake catalogue and on a kind of table that is not Hive."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from tests.fakes.target import FakeTargets
from tests.target_suite import KEY, Lab, TargetSuite, make_lab
from tidegate.targets.hive.catalogue import PyHiveCatalogue
from tidegate.targets.hive.kind import Hive

CHANGES = ("add_partitions", "set_location", "switch_partitions", "drop_partitions")


class TestHive(TargetSuite):
    """Spark's Thrift server, HiveServer2, and the fake catalogue that other tests go by."""

    @pytest.fixture(params=["fake", "fake, at once", "hive_spark", "hive4"])
    def lab(self, request: pytest.FixtureRequest, tmp_path: Path) -> Lab:
        if request.param == "fake":
            return make_lab(tmp_path, None, CHANGES, False)
        if request.param == "fake, at once":
            return make_lab(tmp_path, None, CHANGES, True, metastore_conn_id="metastore_default")
        info = request.getfixturevalue(request.param)
        catalogue = PyHiveCatalogue(info.hive_host, info.hive_port, request_timeout_s=300)
        table = f"target_{uuid.uuid4().hex[:8]}.readings"
        return make_lab(tmp_path, lambda world: Hive(catalogue), CHANGES, False, table=table)

    def lose(self, lab: Lab) -> None:
        target = lab.world.context().target
        target.catalogue.drop_partitions(target.name, list(target.shown()))  # type: ignore[attr-defined]


class TestFake(TargetSuite):
    """So that the suite asks for nothing that only Hive has."""

    @pytest.fixture
    def lab(self, tmp_path: Path) -> Lab:
        tables = FakeTargets()
        return make_lab(tmp_path, lambda world: tables, ("commit",), True)

    def lose(self, lab: Lab) -> None:
        del lab.world.context().target.catalogue.windows[KEY.start_ms]  # type: ignore[attr-defined]
