"""Tidegate as it runs: `land.py` by spark-submit, with the settings that `make setup` prepares."""

from __future__ import annotations

import os
from pathlib import Path

from bench.contenders.tidegate_plan import plan
from dev.stack.java import find_java
from dev.stack.places import Places
from dev.stack.spark import recommended_conf
from tidegate.core.batch.jobs import dumps_plan
from tidegate.spark.launcher import SubprocessLauncher

if __name__ == "__main__":
    path = Path(os.environ["WORK_DIR"]) / "plan.json"
    path.write_text(dumps_plan(plan()))
    launcher = SubprocessLauncher(
        print,
        binary=os.environ["SPARK_SUBMIT"],
        master=f"local[{os.environ['CORES']}]",
        conf=recommended_conf(Places.of_checkout()),
        env={"JAVA_HOME": str(find_java().home)},
    )
    launcher.run(f"file://{path}")
