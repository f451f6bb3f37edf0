"""Executors on other machines: a Python without any package, and the workers' archive that Spark brings them."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import shutil
import sys
from dataclasses import replace
from pathlib import Path

from packaging.requirements import Requirement

from dev import dist
from dev.bootstrap import CHECKOUT
from dev.stack.java import find_java
from dev.stack.places import Places
from dev.stack.spark import recommended_conf
from tests.world import World, make_pipeline, record, window
from tidegate.core.spec.pipeline import Merge
from tidegate.spark.conf import with_worker_archive
from tidegate.spark.launcher import SubprocessLauncher
from tidegate.workflow.publish import archive

MASTER = "local-cluster[1,1,1024]"
"""Spark's own standalone cluster: a worker process, and executors with folders of their own."""
COMPILED = shutil.ignore_patterns("__pycache__")
"""Other processes write there meanwhile, and it is packed by nobody."""


def installed(folder: Path) -> Path:
    """What `make dist` installs from a registry, taken from this environment: packages with what they need."""
    waiting, seen = [Requirement(one).name for one in dist.worker_requirements()], set()
    while waiting:
        name = waiting.pop().lower()
        if name in seen:
            continue
        seen.add(name)
        found = importlib.metadata.distribution(name)
        waiting += [r.name for r in map(Requirement, found.requires or ()) if not r.marker or r.marker.evaluate()]
        for top in {Path(file).parts[0] for file in found.files or () if not str(file).startswith("..")}:
            place = Path(str(found.locate_file(top)))
            if place.is_dir():
                shutil.copytree(place, folder / top, ignore=COMPILED, dirs_exist_ok=True)
            else:
                shutil.copy(place, folder / top)
    shutil.copytree(CHECKOUT / "plugins/tidegate", folder / "tidegate", ignore=COMPILED)
    shutil.copytree(CHECKOUT / "spark_jobs", folder / "spark_jobs", ignore=COMPILED)
    return folder


def test_executors_import_everything_from_the_archive(tmp_path: Path) -> None:
    packed = tmp_path / "tidegate-worker.tar.gz"
    dist.pack(installed(tmp_path / "packages"), packed, level=1)
    bare = Path(sys._base_executable)  # type: ignore[attr-defined]
    pipeline = make_pipeline(f"file://{tmp_path}/lake/readings")
    merging = replace(pipeline.archive, merge=Merge(min_files=2, local_size=1))
    world = World(tmp_path, replace(pipeline, archive=merging))
    for number in range(3):
        world.produce(record(f"a{number}", 0.1), record(f"b{number}", 0.2, "b"), record("later", 2.5))
        world.produce(record("later", 2.5), partition=1)
        world.ingest(f"r{number}")
    ctx, said = world.context(), []
    conf = {
        **recommended_conf(Places.of_checkout()),
        "spark.pyspark.python": str(bare),
        "spark.pyspark.driver.python": sys.executable,
        "spark.executorEnv.PYTHONNOUSERSITE": "1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
    }
    ctx.launcher = SubprocessLauncher(
        said.append,
        str(Path(sys.executable).with_name("spark-submit")),
        MASTER,
        with_worker_archive(conf, str(packed), MASTER),
        env={
            "JAVA_HOME": str(find_java().home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_HOME": str(Path(importlib.util.find_spec("pyspark").origin).parent),  # type: ignore[union-attr, arg-type]
        },
    )
    archive.publish(ctx, window(0))
    generation = ctx.ledger.windows.generation("readings", window(0), 1)
    world.close()
    assert any("merged 6 rows of 6 files into 2" in line for line in said), said[-20:]
    assert sorted(f.rows for f in generation.files) == [3, 3]  # type: ignore[union-attr]
