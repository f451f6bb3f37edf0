"""`child.py <handler>`: answers the control plane, which itself must not import the worker's libraries.

A JSON line in, JSON lines out, until the input ends:

    {"ask": request, "secrets": {...}}    secrets, if there are any: what a job's secrets file holds, from now on
    {"answer": ...}                       as many as the handler gives to the request
    {"error": "..."}                      instead, and the process ends

`handlers` says what is asked and answered. Only `deliver` changes anything, so the caller may end it at any time.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator, Sequence
from typing import TextIO

HANDLERS = ("deliver", "dirty", "draft", "expressions", "footers", "mirror", "rows", "sample")
"""Modules of `spark_jobs.handlers`. Each has `handler()`, a function that returns the answer to a request, or an
iterator of answers; it lives as long as the process, and may remember what was asked before."""


def main(arguments: Sequence[str], source: TextIO = sys.stdin, sink: TextIO = sys.stdout) -> int:
    if len(arguments) != 1 or arguments[0] not in HANDLERS:
        print(f"usage: child.py {'|'.join(HANDLERS)}", file=sys.stderr)
        return 2
    answer = importlib.import_module(f"spark_jobs.handlers.{arguments[0]}").handler()
    for line in source:
        asked = json.loads(line)
        try:
            if "secrets" in asked:
                from spark_jobs.engine import secrets

                secrets.use(asked["secrets"])
            told = answer(asked["ask"])
            for one in told if isinstance(told, Iterator) else (told,):
                print(json.dumps({"answer": one}), file=sink, flush=True)
        except Exception as e:
            from spark_jobs.engine.failures import from_exception, last_line

            print(json.dumps({"error": last_line(from_exception(e))}), file=sink, flush=True)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
