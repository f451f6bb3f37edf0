"""Settings of every job's spark-submit; those of a pipeline, a connection or spark-defaults.conf win.

With a local master the driver is all there is, and it lives for seconds: most of a micro-batch is its start. So it
gets what shortens that. On a cluster nothing of this is set but the log's level.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

DEFAULTS = {"spark.log.level": "WARN"}
"""Without it eighty lines of Spark's own bury the job's in the task's log."""
LOCAL = {
    # a web server for a process that lives for seconds; set it to true to look at a long one
    "spark.ui.enabled": "false",
    # its bars are noise in a task's log
    "spark.ui.showConsoleProgress": "false",
    # nothing outside connects to it; and the name of this machine need not resolve
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # imports the engine once for all workers
    "spark.python.daemon.module": "spark_jobs.daemon",
}
YARN = {
    # the second would share a directory with the first, which may live on: the task's next try has one of its own
    "spark.yarn.maxAppAttempts": "1",
    # else, in cluster mode, spark-submit ends well before the job has begun
    "spark.yarn.submit.waitAppCompletion": "true",
}
EXECUTORS_PYTHON, DRIVERS_PYTHON = "spark.pyspark.python", "spark.pyspark.driver.python"
EXTRA_JAVA, DEFAULT_JAVA = "spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions"
SHORT_LIVED = "-XX:+NeverActAsServerClassMachine"
"""Options of a JVM that lives for seconds: the serial collector, and C1 only, as C2 spends seconds on code that runs
for one.

Unlike -XX:+UseSerialGC it allows another collector in spark-defaults.conf: Java refuses to be told two."""
WORKERS = "tidegate_worker"
"""The folder, in an executor's own, that the workers' archive is unpacked to."""
MAX_FAILURES, TRIES = "spark.task.maxFailures", 4
"""Tries of a task; Spark's own default, except with a local master, where it tries once and the setting says
nothing: there the master's URL does."""
_LOCAL_MASTER = re.compile(r"local(\[.*\])?")
_LOCAL_ONCE, _LOCAL_TRIES = re.compile(r"local(?:\[\s*(\d+|\*)\s*\])?"), re.compile(r"local\[.*,\s*(\d+)\s*\]")


def is_local(master: str) -> bool:
    """Whether driver and executor are one process on this machine."""
    return _LOCAL_MASTER.fullmatch(master) is not None


def with_tries(master: str, most: str | None) -> str:
    """The local master with as many tries of a task as others; `most`: the setting MAX_FAILURES. Others stay."""
    once = _LOCAL_ONCE.fullmatch(master)
    return f"local[{once[1] or 1},{most or TRIES}]" if once else master


def tries(master: str, most: str | None) -> int:
    """Tries of a task; `most` as above."""
    if is_local(master):
        found = _LOCAL_TRIES.fullmatch(master)
        return int(found[1]) if found else 1
    return int(most or TRIES)


def is_yarn(master: str) -> bool:
    """Whether YARN places driver and executors."""
    return master.startswith("yarn")


def driver_conf(
    conf: Mapping[str, str],
    java_options: str | None = None,
    master: str = "",
    archive: Path | None = None,
    driver_here: bool = True,
) -> dict[str, str]:
    """A pipeline's own Spark settings on top of Tidegate's. `driver_here`: the driver runs on this machine.

    `java_options` for the driver's JVM come before the pipeline's own. None: ours, if `master` is local, with the
    class archive if there is one. As a setting: `--driver-java-options` keeps Java from dumping such an archive.
    """
    local = is_local(master)
    ours = DEFAULTS | (LOCAL if local else {}) | (YARN if is_yarn(master) else {})
    if driver_here and not local and EXECUTORS_PYTHON in conf:
        # it would be the driver's too, and the executors' bare Python has nothing that a driver imports
        ours[DRIVERS_PYTHON] = sys.executable
    if java_options is None and local:
        ours[DEFAULT_JAVA] = short_lived(archive)
    elif java_options:
        ours[EXTRA_JAVA] = " ".join(filter(None, (java_options, conf.get(EXTRA_JAVA))))
        conf = {key: value for key, value in conf.items() if key != EXTRA_JAVA}
    return ours | dict(conf)


def with_worker_archive(conf: Mapping[str, str], archive: str, master: str) -> dict[str, str]:
    """Settings by which executors on other machines import their code from the workers' archive.

    A local master needs none. YARN unpacks an archive once a machine and keeps it for later applications;
    elsewhere each executor unpacks its own. What the settings say of archives and Python's path stays; ours goes first.
    """
    if not archive or is_local(master):
        return dict(conf)
    archives = "spark.yarn.dist.archives" if is_yarn(master) else "spark.archives"
    ours = {archives: f"{archive}#{WORKERS}"}
    ours |= dict.fromkeys(("spark.executorEnv.PYTHONPATH", "spark.yarn.appMasterEnv.PYTHONPATH"), WORKERS)
    separators = {archives: ","}
    joined = {key: separators.get(key, ":").join(filter(None, (value, conf.get(key)))) for key, value in ours.items()}
    return dict(conf) | joined


def short_lived(archive: Path | None) -> str:
    """Java's options; another Java or Spark than the archive's starts without it."""
    shared = f" -XX:SharedArchiveFile={archive}" if archive is not None and archive.exists() else ""
    return SHORT_LIVED + shared
