"""Which processes there are to kill: a task, what its spark-submit started, and the servers."""

from __future__ import annotations

import os
from pathlib import Path

import psutil

from dev.stack.errors import StackError
from dev.stack.processes import Identity
from tests.soak.servers import KAFKA, POSTGRES, Servers

TASK, JVM, DRIVER, WORKER = "task", "driver JVM", "Python driver", "Python worker"
BROKER, POSTMASTER, BACKEND = "broker", "postgres", "postgres backend"
KINDS = (TASK, JVM, DRIVER, WORKER, BROKER, POSTMASTER, BACKEND)
OF_TASKS = (TASK, JVM, DRIVER, WORKER)


def below(task: Identity) -> dict[str, list[Identity]]:
    """The task itself and its descendants, by kind."""
    found: dict[str, list[Identity]] = {TASK: [task]} if task.alive else {}
    try:
        processes = psutil.Process(task.pid).children(recursive=True)
    except psutil.Error:
        return found
    for process in processes:
        try:
            kind = kind_of(process.cmdline())
            if kind is not None:
                found.setdefault(kind, []).append(Identity.of(process.pid))
        except (psutil.Error, StackError):
            continue
    return found


def kind_of(argv: list[str]) -> str | None:
    """What a command line below a task is; None for what is in between."""
    if not argv:
        return None
    program = os.path.basename(argv[0])
    if program == "java" and "org.apache.spark.deploy.SparkSubmit" in argv:
        return JVM
    if program.startswith("python") and any(Path(a).name == "land.py" for a in argv[1:3]):
        return DRIVER
    return WORKER if "pyspark.daemon" in argv else None


def of_servers(servers: Servers, backends: bool = True) -> dict[str, list[Identity]]:
    found: dict[str, list[Identity]] = {}
    for kind, part in ((BROKER, KAFKA), (POSTMASTER, POSTGRES)):
        main = servers.main_process(part)
        if main is not None:
            found[kind] = [main]
    serving = servers.backends() if backends else []
    return found | ({BACKEND: serving} if serving else {})
