"""Tidegate's worker code without Spark: the same tasks, one after another in this process."""

from __future__ import annotations

import os

from bench.contenders.tidegate_plan import plan
from spark_jobs.engine.job import run_plan
from tidegate.storage.local import LocalStorage

if __name__ == "__main__":
    run_plan(plan(), LocalStorage(), tasks=int(os.environ["CORES"]))
