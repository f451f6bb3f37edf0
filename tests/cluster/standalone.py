"""A standalone cluster of Spark on this machine: a master and workers from the pip package alone."""

from __future__ import annotations

import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from json import load
from pathlib import Path

from dev.stack.java import find_java
from dev.stack.ports import LOOPBACK, choose_ports
from dev.stack.spark import spark_home

_START_S = 60.0
_DEPLOY = "org.apache.spark.deploy"


@contextmanager
def standalone(folder: Path, workers: int = 2) -> Iterator[str]:
    """The master's URL; one core and 1 GB for each worker. What executors inherit knows no virtual environment."""
    names = ["master", "ui", *(f"w{n}" for n in range(workers)), *(f"u{n}" for n in range(workers))]
    ports = {name: str(port) for name, port in choose_ports(names, {}).items()}
    url = f"spark://{LOOPBACK}:{ports['master']}"
    host = ["--host", LOOPBACK]
    started = []
    try:
        master = ["--port", ports["master"], "--webui-port", ports["ui"]]
        started.append(_start(folder, "master", [f"{_DEPLOY}.master.Master", *host, *master]))
        for n in range(workers):
            words = ["--port", ports[f"w{n}"], "--webui-port", ports[f"u{n}"], "--cores", "1", "--memory", "1g",
                     "--work-dir", str(folder / f"work{n}"), url]  # fmt: skip
            started.append(_start(folder, f"worker{n}", [f"{_DEPLOY}.worker.Worker", *host, *words]))
        deadline = time.monotonic() + _START_S
        while _alive(ports["ui"]) < workers:
            assert time.monotonic() < deadline, (folder / "master.log").read_text()[-2000:]
            time.sleep(0.2)
        yield url
    finally:
        for process in started:
            os.killpg(process.pid, signal.SIGKILL)  # with the executors below it
            process.wait()


def _start(folder: Path, name: str, words: list[str]) -> subprocess.Popen[bytes]:
    env = {
        "PATH": "/usr/bin:/bin", "HOME": str(folder), "LC_ALL": "C.UTF-8", "JAVA_HOME": str(find_java().home),
        "SPARK_HOME": str(spark_home()), "SPARK_LOCAL_IP": LOOPBACK, "SPARK_LOCAL_DIRS": str(folder / "local"),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / f"{name}.log", "wb") as log:
        return subprocess.Popen(
            [str(spark_home() / "bin" / "spark-class"), *words], env=env, cwd=folder, stdin=subprocess.DEVNULL,
            stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip


def _alive(port: str) -> int:
    try:
        with urllib.request.urlopen(f"http://{LOOPBACK}:{port}/json/", timeout=5) as page:
            return load(page)["aliveworkers"]
    except (OSError, ValueError, LookupError):
        return 0
