"""Kinds of tables that the YAML names by `kind` and `store` together, and what such a pipeline need not say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidegate.kinds import TARGETS
from tidegate.spec.problems import Problem

_USUAL: dict[str, dict[str, dict[str, Any]]] = {
    "hive_daily": {
        "event_time": {"from": "$._source.ts_ms", "future": "accept"},
        "windows": {"size": "1d"},
        "late": {"policy": "reroute"},
        "dirty": {"max_count": 0},
    }
}
"""What stands there unless the YAML says otherwise."""
_PARTITION_BY = ["date"]


def by_store(document: dict[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
    """The document with the kind that `sink.kind` and `sink.store` mean together, and what is usual for it.

    That kind's own name is a problem: it is not a value of `sink.kind`."""
    sink = document.get("sink")
    if not isinstance(sink, Mapping):
        return document, []
    kind, store = sink.get("kind"), sink.get("store")
    for pair, known in TARGETS.stores.items():
        if kind == known or (kind, store) == pair:
            wrong = [Problem(("sink", "kind"), f"must be written as kind: {pair[0]}, store: {pair[1]}")]
            usual = {name: _filled(document.get(name, {}), keys) for name, keys in _USUAL[known].items()}
            made = {"partition_by": _PARTITION_BY, **document, **usual}
            return {**made, "sink": {**sink, "kind": known, "store": pair[1]}}, wrong if kind == known else []
    return document, []


def _filled(given: object, usual: dict[str, Any]) -> object:
    """What is no section is refused as it was written."""
    return {**usual, **given} if isinstance(given, Mapping) else given
