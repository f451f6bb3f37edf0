"""Counts dirty records by field and reason: asked by `tidegate dirty` and `tidegate redrive --dry-run`.

A request, and its answer:

    {"files": [["uri", ...], ...], "examples": 3}
    {"groups": [[field, reason, varies, rows, [[partition, offset, raw], ...]], ...], "unread": "..."}

and what a redrive of some batches would change:

    {"before": [[batch, [["uri", ...], ...]], ...], "after": ["uri", ...], "examples": 3}
    {"groups": [[field, reason, varies, rows, readable, [[field, reason, rows], ...],
                 [[batch, partition, offset, raw], ...]], ...], "unread": "..."}

Each file has several places where it can be. Reasons that differ only in the value are one group,
and the first one is told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from spark_jobs.engine.sinks import finished
from spark_jobs.handlers.places import open_first, shown
from tidegate.core.dirty.redrive import shape
from tidegate.core.spec.pipeline import DIRTY_COLUMNS

_COLUMNS = ["reason", "field", "_partition", "_offset", "raw_value"]
_BATCH_ROWS = 4_096
REASON_CHARACTERS = 200


def handler() -> Callable[[Any], dict[str, Any]]:
    return answer


def answer(request: dict[str, Any]) -> dict[str, Any]:
    if "before" in request:
        return changes(request)
    groups: dict[tuple[str, str], list[Any]] = {}
    unread = ""
    for uris in request["files"]:
        try:
            _add(groups, uris, request["examples"])
        except Exception as e:  # the others can be read
            unread = unread or f"{uris[0]}: {type(e).__name__}: {e}"
    return {"groups": [[field, *group] for (field, _), group in groups.items()], "unread": unread}


def changes(request: dict[str, Any]) -> dict[str, Any]:
    """A row is the same before and after by its coordinates; which it keeps."""
    still: dict[tuple[int, int], tuple[str, str]] = {}
    words: dict[tuple[str, str], str] = {}
    for uri in request["after"]:
        for field, reason, partition, offset, _ in _rows([uri]):
            key = field, shape(reason)
            still[partition, offset] = key
            words.setdefault(key, reason)
    groups: dict[tuple[str, str], _Changed] = {}
    unread = ""
    for batch, files in request["before"]:
        for uris in files:
            try:
                for field, reason, partition, offset, raw in _rows(uris):
                    group = groups.setdefault((field, shape(reason)), _Changed(field, reason))
                    after = still.get((partition, offset))
                    group.add(reason, after, [batch, partition, offset, raw], request["examples"])
            except Exception as e:  # the others can be read
                unread = unread or f"{uris[0]}: {type(e).__name__}: {e}"
    return {"groups": [group.told(words) for group in groups.values()], "unread": unread}


class _Changed:
    def __init__(self, field: str, reason: str) -> None:
        self.field, self.reason, self.varies = field, reason, False
        self.rows = self.readable = 0
        self.still: Counter[tuple[str, str]] = Counter()
        self.examples: list[tuple[bool, list[Any]]] = []

    def add(self, reason: str, after: tuple[str, str] | None, example: list[Any], most: int) -> None:
        self.varies |= reason != self.reason
        self.rows += 1
        if after is None:
            self.readable += 1
        else:
            self.still[after] += 1
        readable = after is None
        if sum(kind == readable for kind, _ in self.examples) < most:
            self.examples.append((readable, [*example[:3], shown(example[3])]))

    def told(self, words: dict[tuple[str, str], str]) -> list[Any]:
        still = [[field, words[field, kind], rows] for (field, kind), rows in self.still.most_common()]
        shown = [example for readable, example in self.examples if readable == bool(self.readable)]
        return [self.field, self.reason, self.varies, self.rows, self.readable, still, shown]


def _rows(uris: Sequence[str]) -> Iterator[tuple[str, str, int, int, bytes | None]]:
    """(field, reason, partition, offset, raw value)"""
    uri, stream = open_first(uris)
    with stream:
        for batch in finished(uri, stream, DIRTY_COLUMNS).batches(_BATCH_ROWS, _COLUMNS):
            columns = [batch.column(batch.schema.get_field_index(name)).to_pylist() for name in _COLUMNS]
            for reason, field, partition, offset, raw in zip(*columns, strict=True):
                yield field or "", (reason or "")[:REASON_CHARACTERS], partition, offset, raw


def _add(groups: dict[tuple[str, str], list[Any]], uris: Sequence[str], most: int) -> None:
    for field, words, partition, offset, raw in _rows(uris):
        group = groups.setdefault((field, shape(words)), [words, False, 0, []])
        group[1] |= words != group[0]
        group[2] += 1
        if len(group[3]) < most:
            group[3].append([partition, offset, shown(raw)])
