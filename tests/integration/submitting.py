"""Jobs that spark-submit runs on this machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dev.stack.java import find_java
from dev.stack.places import Places
from dev.stack.spark import recommended_conf
from tidegate.spark.launcher import SubprocessLauncher


def by_submit(say: Callable[[str], None], **more: Any) -> SubprocessLauncher:
    return SubprocessLauncher(
        say,
        str(Path(sys.executable).with_name("spark-submit")),
        conf=recommended_conf(Places.of_checkout()),
        env={"JAVA_HOME": str(find_java().home), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable},
        **more,
    )
