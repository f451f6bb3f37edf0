"""Lets a job's Python processes start sooner. Called before anything large is imported; never in a task's process.

A driver and a worker that live for seconds do little but import: each of these is worth a good part of that.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
from importlib.abc import MetaPathFinder
from zipimport import zipimporter

ENGINE = "spark_jobs.engine.job"
"""Brings in what driver and workers of every pipeline need: PyArrow and the engine."""


def without_pandas() -> None:
    """PyArrow imports pandas, 300 modules, when it first converts a list, if it is installed. Nothing here needs it."""
    if not any(isinstance(finder, _Hidden) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Hidden("pandas"))


def pyarrow_without_numpy() -> None:
    """Import PyArrow as if numpy were not installed, which is a third of what a merge has to import.

    For a process that hands rows from file to file: arrays of PyArrow cannot become numpy's in it, nor the other way
    round. Changes nothing where rows are hashed by numpy, for want of the C library."""
    from spark_jobs.engine import native

    if "pyarrow" in sys.modules or native.row_hashes() is None:
        return
    hidden = _Hidden("numpy")
    sys.meta_path.insert(0, hidden)
    try:
        for name in ("pyarrow", "pyarrow.compute", "pyarrow.orc", "pyarrow.csv", "pyarrow.parquet"):
            importlib.import_module(name)
    finally:
        sys.meta_path.remove(hidden)


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


def archives_as_they_are() -> None:
    """Let archives on the path be read once. Without this PySpark's worker reads the directories of its own zips and of
    Spark's jar again before each task, as it asks for caches to be dropped: 0.07 CPU-seconds of a task. An archive does
    not change while a worker lives; one that is added later has a finder of its own."""
    for finder in sys.path_importer_cache.values():
        if isinstance(finder, zipimporter):
            finder.invalidate_caches = _nothing  # type: ignore[method-assign]


def import_ahead() -> None:
    """Import the engine beside what this thread does next: a driver waits for its JVM most of the time."""
    threading.Thread(target=importlib.import_module, args=(ENGINE,), daemon=True).start()


def _nothing() -> None:
    pass


class _Hidden(MetaPathFinder):
    """Says of a package that it is not installed."""

    def __init__(self, package: str) -> None:
        self._package = package

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        if fullname == self._package:
            raise ModuleNotFoundError(f"{fullname} is left out of Tidegate's jobs", name=fullname)


def _is_package(folder: str, name: str) -> bool:
    return os.path.isfile(os.path.join(folder, name, "__init__.py"))
