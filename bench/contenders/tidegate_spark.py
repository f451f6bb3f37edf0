"""Tidegate as it runs: `land.py` by spark-submit, with the settings that `make setup` prepares."""

from __future__ import annotations

import os
from pathlib import Path

from bench.contenders.tidegate_plan import plan
from tidegate.spark.launcher import SubprocessLauncher
from tidegate.core.base.plain import dumps
from tidegate.embedded.java import find_java
from tidegate.embedded.places import Places
from tidegate.embedded.spark import recommended_conf

if __name__ == "__main__":
    path = Path(os.environ["WORK_DIR"]) / "plan.json"
    path.write_text(dumps(plan()))
    launcher = SubprocessLauncher(
        print,
        binary=os.environ["SPARK_SUBMIT"],
        master=f"local[{os.environ['CORES']}]",
        conf=recommended_conf(Places.of_checkout()),
        env={"JAVA_HOME": str(find_java().home)},
    )
    launcher.run(f"file://{path}")
