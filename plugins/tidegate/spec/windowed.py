"""Pipelines whose source has no log and is read window by window: what the YAML need not say, and may not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidegate.kinds import source_kind
from tidegate.spec.problems import Problem
from tidegate.spec.source import SOURCE
from tidegate.spec.values import KAFKA_TIMESTAMP

FIXED: dict[str, Any] = {
    "event_time": {"from": KAFKA_TIMESTAMP, "future": "accept"},
    "format": {"type": "json"},
    "late": {"policy": "side"},
}
"""A row belongs to the window that it was read for, and comes as a record of the types that its columns have there."""
_OF_WINDOWS = ("max_age", "idle", "idle_max_lag", "topic_silence", "on_silence")
_OF_SOURCE = ("start", "on_data_loss", "loss_warning")
"""`windows.start` is the first window that is read: one that is never read could never be published."""


def is_windowed(document: Mapping[str, Any]) -> bool:
    """Whether the document's kind of source is read window by window."""
    kind = SOURCE.kind_of(document.get("source"))
    return kind is not None and source_kind(kind).traits.windowed


def read_by_windows(document: dict[str, Any], own: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
    """The document with the fixed values, and a problem for each key in the pipeline's `own` file that decides nothing;
    what `defaults.yaml` says of them is for other pipelines. Others' documents stay as they are."""
    if not is_windowed(document):
        return document, []
    names: list[tuple[str, ...]] = [(name,) for name in FIXED if name in own]
    for section, keys in (("windows", _OF_WINDOWS), ("source", _OF_SOURCE)):
        given = getattr(own.get(section), "value", own.get(section))
        names += [(section, key) for key in keys if isinstance(given, Mapping) and key in given]
    why = f"has no meaning with source.kind: {document['source'].get('kind')}; leave it out"
    made = {**document, **FIXED}
    if isinstance(windows := document.get("windows"), Mapping):
        made["windows"] = {k: v for k, v in windows.items() if k not in _OF_WINDOWS} | {"idle": "wait"}
    return made, [Problem(name, why) for name in names]
