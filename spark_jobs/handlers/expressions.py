"""Checks a pipeline's expressions: asked by `tidegate spec validate` and the DAG file.

A request, and its answer:

    {"pipeline": {...}}                       the compiled pipeline, plain
    {"problems": [["column or where", "what is wrong"], ...]}
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from spark_jobs.engine.expressions import Expressions, Refused
from tidegate.core.base.plain import from_plain
from tidegate.core.spec.pipeline import Pipeline


def handler() -> Callable[[Any], dict[str, Any]]:
    return lambda request: {"problems": problems(from_plain(Pipeline, request["pipeline"]))}


def problems(pipeline: Pipeline) -> list[tuple[str, str]]:
    try:
        Expressions(pipeline)
    except Refused as e:
        return list(e.problems)
    return []
