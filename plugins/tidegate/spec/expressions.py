"""Expressions of a pipeline, judged by a caller with DuckDB: this package has none, and reads YAML only."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tidegate.core.spec.pipeline import Pipeline
from tidegate.spec.problems import Problem

WHERE = "where"
Judge = Callable[[Pipeline], Iterable[tuple[str, str]]]
"""(column, or `where`; what is wrong with its expression) for each wrong one of a pipeline."""


def expression_problems(pipeline: Pipeline, judge: Judge) -> list[Problem]:
    """Problems of its expressions; without any the judge is not called."""
    if not pipeline.has_expressions:
        return []
    numbers = {c.name: i for i, c in enumerate(pipeline.columns)}
    return [
        Problem((WHERE,) if name == WHERE else ("columns", numbers[name], "expr"), message)
        for name, message in judge(pipeline)
    ]
