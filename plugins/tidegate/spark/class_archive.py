"""Spark's classes in the form in which Java maps them into memory (AppCDS): a third of a small job's start.

Made by one run of Spark itself, so it fits whatever spark-submit, Java and settings this machine has. A Java or a Spark
that it does not fit goes without it.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from tidegate.spark.conf import DEFAULT_JAVA, SHORT_LIVED, driver_conf
from tidegate.spark.launcher import LAST_WORDS, job_failed, local_environment, submit_command

_TIMEOUT_S = 600.0
TRAINING = """from pyspark import SparkConf, SparkContext
context = SparkContext(conf=SparkConf())
context.parallelize(range(2), 2).map(lambda number: number).collect()
context.stop()
"""
"""The driver, two Python workers, a job without a shuffle: as the real ones."""


def make_class_archive(binary: str, archive: Path, say: Callable[[str], None]) -> None:
    """Make it anew, in one rename. Raises JobFailed (no retry) when Spark or this Java cannot."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".spark-", dir=archive.parent) as folder:
        training, fresh = Path(folder) / "training.py", Path(folder) / "spark.jsa"
        training.write_text(TRAINING)
        conf = driver_conf({DEFAULT_JAVA: f"{SHORT_LIVED} -XX:ArchiveClassesAtExit={fresh}"}, master="local[2]")
        command = [*submit_command(binary, "local[2]", conf), str(training)]
        say(f"running Spark once to see which classes it loads: {command[0]}")
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                errors="replace", env=os.environ | local_environment(), timeout=_TIMEOUT_S,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as e:
            raise job_failed("spark-submit could not be run", [str(e)], retry=False) from e
        words = done.stdout.splitlines()[-LAST_WORDS:]
        if "ArchiveClassesAtExit" in done.stdout and not fresh.exists():
            raise job_failed(
                "this Java has no -XX:ArchiveClassesAtExit: Java 13 or later is needed", words, retry=False
            )
        if done.returncode or not fresh.exists():
            raise job_failed(f"Spark's training run ended with exit code {done.returncode}", words, retry=False)
        fresh.chmod(0o444)
        os.replace(fresh, archive)
