"""The first look at a topic's messages, by a child process: what runs here must not import the worker's libraries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidegate.adapters.child import Child
from tidegate.core.base.errors import SourceError
from tidegate.core.base.plain import to_plain
from tidegate.core.spec.draft_fields import Message
from tidegate.core.spec.pipeline import Pipeline

_ADVICE = "install tidegate[worker] (confluent-kafka, duckdb, pyarrow) beside this command"


@dataclass(frozen=True)
class Sample:
    """`kind`: the format that the messages seem to have; `values`: the first ones, as text; `cut`: why it is smaller
    than asked for; `gaps`: offsets without a record."""

    read: int
    gaps: int
    cut: str
    kind: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class Dirt:
    """Records that the drafted pipeline would put aside, with the first one's place."""

    field: str
    reason: str
    count: int
    partition: int
    offset: int


@dataclass(frozen=True)
class Outcome:
    """What the drafted pipeline makes of the sample."""

    rows: int
    late: int
    dirty: tuple[Dirt, ...]


class FirstLook:
    """One sample, decoded as often as asked. Each method raises SourceError, StorageError.

    `settings` are librdkafka's, secrets included: they go through a pipe."""

    def __init__(self, topic: str, settings: Mapping[str, str]) -> None:
        def failed(words: str) -> SourceError:
            return SourceError(f"reading {topic}: {words}")

        self._child = Child("draft", _ADVICE, work="reading records", failed=failed, secrets=settings)

    def __enter__(self) -> FirstLook:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.close()

    def read(self, pipeline: Pipeline, topic_id: str, ranges: Sequence[tuple[int, int, int]]) -> Sample:
        request = {"pipeline": to_plain(pipeline), "topic_id": topic_id, "ranges": [list(r) for r in ranges]}
        answer = self._child.one(request)
        return Sample(answer["read"], answer["gaps"], answer["cut"], answer["kind"], tuple(answer["values"]))

    def messages(self, pipeline: Pipeline) -> tuple[list[Message], list[str]]:
        """The messages by a pipeline that captures every field, and why some cannot be decoded."""
        answer = self._child.one({"fields": to_plain(pipeline)})
        return [Message(*told) for told in answer["messages"]], answer["bad"]

    def check(self, pipeline: Pipeline, clock_ms: int) -> Outcome:
        """What a batch of the sample, planned at that clock, would make of the messages."""
        answer = self._child.one({"check": to_plain(pipeline), "clock_ms": clock_ms})
        return Outcome(answer["rows"], answer["late"], tuple(Dirt(*told) for told in answer["dirty"]))
