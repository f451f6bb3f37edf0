"""`spark.python.daemon.module`: PySpark's own daemon, which imports the engine once, before it forks any worker.

A new worker, as for the first task and after each idle minute, then starts at once. Importing starts no thread and
opens nothing, so the fork is safe.
"""

from __future__ import annotations

import importlib

from spark_jobs import lean

if __name__ == "__main__":
    lean.without_pandas()
    lean.pyspark_from_its_folder()
    importlib.import_module(lean.ENGINE)
    from pyspark.daemon import manager

    lean.archives_as_they_are()
    manager()
