"""Forks task processes that have their imports behind them: a second of Python's start-up saved for each.

One process, without threads, told on standard input what to start; it answers with pids, and with exit codes as its
children end. Everything below it carries the mark by which `processes.sweep` finds it.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import sys

from tests.soak import task

WORKER_LIBRARIES = ("spark_jobs.engine.job", "tidegate.sources.kafka.worker", "tidegate.ledger.sql", "psycopg2")


def main() -> int:
    for name in WORKER_LIBRARIES:
        importlib.import_module(name)
    pending = b""
    while True:
        readable, _, _ = select.select([0], [], [], 0.01)
        if readable:
            chunk = os.read(0, 65536)
            if not chunk:
                return 0
            *lines, pending = (pending + chunk).split(b"\n")
            for line in lines:
                _start(json.loads(line))
        _collect()


def _start(order: dict) -> None:
    pid = os.fork()
    if pid:
        _tell({"number": order["number"], "pid": pid})
        return
    code = task.BROKEN
    try:
        os.setsid()
        out = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((nothing, 0), (out, 1), (out, 2)):
            os.dup2(source, target)
        code = task.main(order["arguments"])
        sys.stdout.flush()
    except SystemExit as e:
        code = e.code if isinstance(e.code, int) else task.BROKEN
    finally:
        os._exit(code)


def _collect() -> None:
    try:
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            _tell({"pid": pid, "code": os.waitstatus_to_exitcode(status)})
    except ChildProcessError:
        return


def _tell(what: dict) -> None:
    os.write(1, json.dumps(what).encode() + b"\n")


if __name__ == "__main__":
    sys.exit(main())
