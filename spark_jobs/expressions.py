"""Checks a pipeline's expressions: the child process of `tidegate spec validate` and of the DAG file.

A JSON line in, a JSON line out, until the input ends:

    {"pipeline": {...}}                       the compiled pipeline, plain
    {"problems": [["column or where", "what is wrong"], ...]}
"""

from __future__ import annotations

import json
import sys
from typing import TextIO

from spark_jobs.engine.expressions import Expressions, Refused
from tidegate.core.base.plain import from_plain
from tidegate.core.spec.pipeline import Pipeline


def main(source: TextIO = sys.stdin, sink: TextIO = sys.stdout) -> int:
    for line in source:
        print(
            json.dumps({"problems": problems(from_plain(Pipeline, json.loads(line)["pipeline"]))}),
            file=sink,
            flush=True,
        )
    return 0


def problems(pipeline: Pipeline) -> list[tuple[str, str]]:
    try:
        Expressions(pipeline)
    except Refused as e:
        return list(e.problems)
    return []


if __name__ == "__main__":
    sys.exit(main())
