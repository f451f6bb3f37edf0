"""Tables and directories of pipelines: two must never write the same."""

from __future__ import annotations

from itertools import accumulate

from tidegate.core.spec.pipeline import Pipeline
from tidegate.spec.problems import Problem

SIDE_TABLES = ("", "__late", "__dirty")


class Territory:
    def __init__(self) -> None:
        self._tables: dict[str, str] = {}
        self._directories: dict[str, str] = {}
        self._parents: dict[str, str] = {}  # of the directories that are taken

    def claim(self, pipeline: Pipeline) -> Problem | None:
        """Claim all that `pipeline` writes; if another one has any of it, claim nothing and return the problem."""
        sink = pipeline.sink
        tables = [sink.table + suffix for suffix in SIDE_TABLES]
        for table in tables:
            if table in self._tables:
                return Problem(("sink", "table"), f"the table {table} belongs to pipeline {self._tables[table]}")
        for key, directory in (("location", sink.location), ("workdir", sink.workdir)):
            owner = self._owner(directory)
            if owner:
                message = f"{directory} and a directory of pipeline {owner} lie in one another"
                return Problem(("sink", key), message)
        self._tables |= dict.fromkeys(tables, pipeline.name)
        for directory in (sink.location, sink.workdir):
            self._directories[directory] = pipeline.name
            self._parents |= dict.fromkeys(_lineage(directory), pipeline.name)
        return None

    def _owner(self, directory: str) -> str | None:
        above = (self._directories[d] for d in _lineage(directory) if d in self._directories)
        return next(above, self._parents.get(directory))


def _lineage(directory: str) -> list[str]:
    """The directory and all above it."""
    return list(accumulate(directory.split("/"), lambda parent, name: f"{parent}/{name}"))
