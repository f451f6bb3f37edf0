"""Pipelines whose table is not published by windows: the sections about windows have fixed values there."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from tidegate.core.target.port import Unit
from tidegate.spec.problems import Problem
from tidegate.spec.sink import SINK
from tidegate.spec.values import KAFKA_TIMESTAMP

FIXED: dict[str, Any] = {
    "event_time": {"from": KAFKA_TIMESTAMP, "future": "accept"},
    "windows": {"size": "1d", "timezone": "UTC", "start": "1971-01-01T00:00:00Z", "watermark_delay": "0s"},
    "partition_by": ["date"],
    "late": {"policy": "reroute"},
    "archive": {},
    "completeness": None,
    "dirty": {"max_count": 0, "max_ratio": None},
}
"""What the YAML of such a pipeline says nothing of. Each record goes to a day by Kafka's timestamp, whichever it is: a
record that were late, or dirty and allowed, would be missing in the table."""
_FROM_DEFAULTS = ("pool", "retries", "merge")
"""Of `archive` in `defaults.yaml`: how tasks run, which has a meaning without windows too."""
_WHY = {
    "dirty": "no record may be left out",
    "archive": "there is nothing to archive",
}


def completed(document: dict[str, Any], own: Container[str]) -> tuple[dict[str, Any], list[Problem]]:
    """The document with the fixed values, and a problem for each of their sections in the pipeline's `own` file; what
    `defaults.yaml` says of them is for other pipelines. Others' documents stay as they are."""
    kind = SINK.kind_of(document.get("sink"))
    if kind is None or SINK.kinds.get(kind).unit is Unit.WINDOW:
        return document, []
    found = [Problem((name,), _message(kind, name)) for name in FIXED if name in own]
    return {**document, **FIXED, "archive": _archive(document.get("archive"))}, found


def _message(kind: str, name: str) -> str:
    why = _WHY.get(name, "it has no windows")
    return f"has no meaning with sink.kind: {kind}, {why}; leave it out"


def _archive(given: object) -> dict[str, Any]:
    return {k: given[k] for k in _FROM_DEFAULTS if k in given} if isinstance(given, Mapping) else {}
