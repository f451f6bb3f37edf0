"""What lets a job's Python processes start sooner. Called before anything large is imported; never in a task's process.

A driver and a worker that live for seconds do little but import: each of these is worth a good part of that.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
from importlib.abc import MetaPathFinder

ENGINE = "spark_jobs.engine.job"
"""Brings in all that driver and workers need: PyArrow, DuckDB, confluent-kafka and the engine."""


def without_pandas() -> None:
    """PyArrow imports pandas, 300 modules, when it first converts a list, if it is installed. Nothing here needs it."""
    if not any(isinstance(finder, _NotPandas) for finder in sys.meta_path):
        sys.meta_path.insert(0, _NotPandas())


def pyspark_from_its_folder() -> None:
    """Take PySpark from the installed package, not from the zip that Spark puts in front of it on the path.

    They are the same version, and Python keeps no compiled code of what it imports from a zip: half a second of each
    start. Changes nothing where SPARK_HOME is not the package of this very environment.
    """
    home = os.path.realpath(os.environ.get("SPARK_HOME", ""))
    zips = os.path.join(home, "python", "lib") + os.sep
    rest = [path for path in sys.path if not os.path.realpath(path).startswith(zips)]
    packages = os.path.dirname(home)
    if packages in map(os.path.realpath, rest) and all(_is_package(packages, name) for name in ("pyspark", "py4j")):
        sys.path[:] = rest


def import_ahead() -> None:
    """Import the engine beside what this thread does next: a driver waits for its JVM most of the time."""
    threading.Thread(target=importlib.import_module, args=(ENGINE,), daemon=True).start()


class _NotPandas(MetaPathFinder):
    """Says of pandas that it is not installed."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is left out of Tidegate's jobs", name="pandas")


def _is_package(folder: str, name: str) -> bool:
    return os.path.isfile(os.path.join(folder, name, "__init__.py"))
