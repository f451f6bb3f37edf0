"""A stack with YARN, and a standalone cluster: one of each for all tests here that need it."""

from __future__ import annotations

import os
import shutil
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import airflow_home  # noqa: F401 - before anything of Airflow's
import pytest

from dev import dist
from dev.stack.info import StackInfo
from dev.stack.stack import Stack
from tests.cluster.life import CLIENT, ON_YARN, SMALL, Held, Life
from tests.cluster.standalone import standalone
from tests.integration.test_worker_archive import installed
from tidegate.storage import HdfsStorage

BARE = {
    "spark.pyspark.python": sys._base_executable,  # type: ignore[attr-defined]
    "spark.executorEnv.PYTHONNOUSERSITE": "1",
}
"""A Python without any package."""
ALL = os.environ.get("TIDEGATE_CLUSTER") == "all"
Make = Callable[..., Life]


@pytest.fixture(scope="session")
def cluster(stack_roots: Path) -> Iterator[StackInfo]:
    """Kafka, HDFS and YARN."""
    stack = Stack(stack_roots / "cluster", ("kafka", "yarn"), progress=lambda line: print(f"[stack] {line}"))
    yield stack.up()
    stack.down()


@pytest.fixture(scope="session")
def packed(stack_roots: Path) -> Iterator[Path]:
    """The workers' archive, as `make dist` makes it."""
    folder = stack_roots / "dist"
    folder.mkdir()
    archive = folder / "tidegate-worker.tar.gz"
    dist.pack(installed(folder / "packages"), archive, level=1)
    shutil.rmtree(folder / "packages")
    yield archive
    archive.unlink()


@pytest.fixture(scope="session")
def bare(packed: Path, cluster: StackInfo) -> dict[str, str]:
    """Executors with nothing but a Python: the settings, and the archive on HDFS."""
    uri = f"{cluster.hdfs_uri}/apps/{uuid.uuid4().hex}/{packed.name}"
    storage = HdfsStorage()
    with storage.open_new(uri) as file, packed.open("rb") as source:
        shutil.copyfileobj(source, file, 1 << 22)
    return {"archive": uri, **BARE}


@pytest.fixture(scope="session")
def master(stack_roots: Path) -> Iterator[str]:
    """Of a standalone cluster with two workers."""
    with standalone(stack_roots / "standalone") as url:
        yield url


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Make:
    """A life whose environment is this process's from now on. `held`: when one of the job's processes waits."""

    def made(
        stack: StackInfo, spark: dict, conf: dict[str, str], lake: str = "", held: Held | None = None, **run: object
    ) -> Life:
        conf = {**SMALL, **conf}
        yarn, cluster = spark["host"] == "yarn", spark.get("extra", {}).get("deploy-mode") == "cluster"
        conf |= (ON_YARN if yarn else {}) | ({} if cluster else CLIENT)
        archive = conf.pop("archive", "")
        if not archive:
            conf |= {"spark.pyspark.python": sys.executable}
        if held is not None:
            for prefix in ("spark.executorEnv", "spark.yarn.appMasterEnv"):
                conf |= {f"{prefix}.{key}": value for key, value in held.env.items()}
        life = Life(tmp_path, stack, spark, conf, lake or f"file://{tmp_path}/lake", **run)
        for name, value in life.env.items():
            monkeypatch.setenv(name, value)
        monkeypatch.delenv("PYTHONPATH", raising=False)  # YARN would hand it on to containers
        monkeypatch.setenv("AIRFLOW__TIDEGATE__SPARK_WORKER_ARCHIVE", archive)
        return life

    return made
