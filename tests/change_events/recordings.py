"""What `record.py` has recorded, and pipelines that read it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.world import make_pipeline
from tidegate.core.source.records import Chunk
from tidegate.core.spec.change_events import EVENT_COLUMNS
from tidegate.core.spec.pipeline import Column, DebeziumFormat, EventTime, Format, Pipeline

MESSAGES = Path(__file__).parent / "messages"
TIME = "$._source.ts_ms"
Message = tuple[bytes | None, bytes | None]


def recorded(name: str) -> list[Message]:
    """(key, value) of `mariadb-plain` and the like, in the order of the topic."""
    lines = (MESSAGES / f"{name}.jsonl").read_text().splitlines()
    return [(_bytes(found["key"]), _bytes(found["value"])) for found in map(json.loads, lines)]


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def chunk(messages: list[Message]) -> Chunk:
    """Messages at offsets 0, 1, ..."""
    count = len(messages)
    return Chunk(list(range(count)), [0] * count, [key for key, _ in messages], [value for _, value in messages])


def column(text: str) -> Column:
    """`name type [from path] [as text]`."""
    words = text.split()
    path = words[words.index("from") + 1] if "from" in words else f"$.{words[0]}"
    return Column(name=words[0], type=words[1], path=path, convert="text" if text.endswith("as text") else None)


def reading(*columns: str, envelope: str = "full", location: str = "file:///lake/orders", **changes: Any) -> Pipeline:
    """A pipeline of change events with these columns, and those that each has."""
    added = (Column(name=name, type=kind, path=path, nullable=False) for name, kind, path in EVENT_COLUMNS)
    made = make_pipeline(location)
    made = replace(
        made,
        columns=(*map(column, columns), *added),
        event_time=EventTime(TIME),
        partition_by=("date", "hour"),
        format=Format("debezium", debezium=DebeziumFormat(envelope)),
    )
    return replace(made, **changes)
