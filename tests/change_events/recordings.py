"""What `record.py` has recorded, and pipelines that read it."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.world import make_pipeline
from tidegate.core.source.records import Chunk
from tidegate.core.spec.change_events import EVENT_COLUMNS
from tidegate.core.spec.pipeline import AvroFormat, Column, DebeziumFormat, EventTime, Format, Pipeline

MESSAGES = Path(__file__).parent / "messages"
TIME = "$._source.ts_ms"
Message = tuple[bytes | None, bytes | None]


def recorded(name: str) -> list[Message]:
    """(key, value) of `mariadb-plain` and the like, in the order of the topic."""
    lines = (MESSAGES / f"{name}.jsonl").read_text().splitlines()
    return [(_bytes(found["key"]), _bytes(found["value"])) for found in map(json.loads, lines)]


def pairs(name: str) -> tuple[list[Message], list[Message]]:
    """The same events in Avro and in JSON, of `mariadb-avro` and the like, each in the order of its topic."""
    found = [json.loads(line) for line in (MESSAGES / f"{name}.jsonl").read_text().splitlines()]
    avro = [(_decoded(each["key"]), _decoded(each["value"])) for each in found]
    return avro, [(_bytes(each["json"]["key"]), _bytes(each["json"]["value"])) for each in found]


def schemas() -> dict[int, str]:
    """The schemas of all messages in Avro, by their ids."""
    found = json.loads((MESSAGES / "avro.schemas.json").read_text())
    return {int(number): text for number, text in found.items()}


BY_ID = AvroFormat("confluent", schemas=schemas())
"""Where a pipeline finds them."""


def _decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


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


def reading(
    *columns: str,
    envelope: str = "full",
    location: str = "file:///lake/orders",
    avro: AvroFormat | None = None,
    **changes: Any,
) -> Pipeline:
    """A pipeline of change events with these columns, and those that each has. `avro`: where their schemas are."""
    added = (Column(name=name, type=kind, path=path, nullable=False) for name, kind, path in EVENT_COLUMNS)
    made = make_pipeline(location)
    made = replace(
        made,
        columns=(*map(column, columns), *added),
        event_time=EventTime(TIME),
        partition_by=("date", "hour"),
        format=Format("debezium", avro=avro, debezium=DebeziumFormat(envelope, "json" if avro is None else "avro")),
    )
    return replace(made, **changes)
