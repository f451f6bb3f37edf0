"""What a pipeline must be like whose source is a table: (path in the YAML, what is wrong)."""

from __future__ import annotations

from tidegate.core.base.hivetypes import is_primitive, parse
from tidegate.core.base.instants import DAY_MS
from tidegate.core.spec.paths import parse as parse_path
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.target.port import Unit
from tidegate.kinds import target_kind

Problems = list[tuple[tuple[str | int, ...], str]]


def problems(pipeline: Pipeline) -> Problems:
    found: Problems = []
    sink = target_kind(pipeline.sink.kind)
    if sink.unit is not Unit.WINDOW or sink.follows:
        found.append((("sink", "kind"), "such a table is made of change events, and a table has none: see copy"))
    types: dict[str, str] = {}
    for i, column in enumerate(pipeline.columns):
        if column.expr is not None:
            continue
        if types.setdefault(column.path, column.type) != column.type:
            what = f"{column.path} is read as {types[column.path]} already; compute the other one (expr)"
            found.append((("columns", i, "type"), what))
        if len(parse_path(column.path)) != 1:
            found.append((("columns", i, "from"), f"{column.path} must name a column of the table: $.name"))
        if column.type == "binary":
            what = "binary: rows travel as JSON; declare it as string, which gets the Base64 of the bytes"
            found.append((("columns", i, "type"), what))
        elif not is_primitive(parse(column.type)):
            found.append((("columns", i, "type"), f"no column of a table becomes {column.type}"))
    return found + _by_column(pipeline)


def _by_column(pipeline: Pipeline) -> Problems:
    options = dict(pipeline.source.options)
    if "column" not in options:
        wrong = [key for key, silent in (("overlap", "0"), ("column_timezone", "UTC")) if options[key] != silent]
        return [(("source", key), "has a meaning with source.column only; leave it out") for key in wrong]
    if options["column_timezone"] != "UTC" and pipeline.windows.size_ms < DAY_MS:
        what = "clocks that go back repeat times, which windows below a day would share: UTC, or windows.size: 1d"
        return [(("source", "column_timezone"), what)]
    return []
