"""What `tidegate doctor` looks at of a table: that it can be read, and that its columns are those of the YAML."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tidegate.core.base.connection import Connection
from tidegate.core.base.errors import TidegateError
from tidegate.core.copy.port import SourceTable
from tidegate.core.doctor.findings import WARNING, Finding, ok
from tidegate.core.doctor.rules import refused
from tidegate.core.files.failure import JobError
from tidegate.core.spec.paths import parse
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.window.cut import window_from
from tidegate.databases.conversions import planned
from tidegate.databases.kinds import kind_of
from tidegate.sources.database.control import TableOfDatabase, opened

_CHECK = "database"


def examined(
    pipeline: Pipeline, connection: Connection, seconds: float, ask: Callable[[Callable[[], Any]], Any]
) -> list[Finding]:
    name, topic = pipeline.name, pipeline.source.topic
    try:
        source = opened(connection, pipeline.source, "tidegate-doctor", seconds / 2)
        table = ask(lambda: source.described(topic))
        found = list(_columns(pipeline, source, table, kind_of(connection)))
    except TidegateError as e:
        return [refused(_CHECK, name, str(e.args[0]), "no window can be read", e.advice)]
    return found or [ok(_CHECK, f"{source.server}, table {topic}: {_way(pipeline, table)}", name)]


def _columns(pipeline: Pipeline, source: TableOfDatabase, table: SourceTable, kind: str) -> Iterator[Finding]:
    for column in pipeline.decoded_columns:
        try:
            planned(kind, table, [(parse(column.path)[0], column.type)], "base64")
        except JobError as e:
            means = "every reading is refused, and its window waits"
            yield refused(_CHECK, pipeline.name, e.failure.what, means, e.failure.advice)
    by = dict(pipeline.source.options).get("column")
    if by is None:
        return
    source.times(table, by, window_from(pipeline.windows.start_ms, pipeline.windows))
    if any(c.name == by and c.nullable for c in table.columns):
        what = f"column {by} of {pipeline.source.topic} may be null"
        mend = "make it NOT NULL with a default, or leave source.column out"
        yield refused(_CHECK, pipeline.name, what, "rows without a time are in no window", mend, WARNING)


def _way(pipeline: Pipeline, table: SourceTable) -> str:
    options = dict(pipeline.source.options)
    if "column" in options:
        return f"each window by {options['column']}"
    if "chunk_rows" not in options or not table.key:
        return "each window is read by one query" + ("" if table.key else ", for it has no key to cut it by")
    return f"each window is read in chunks by {', '.join(table.key)}"
