"""Records of a topic, looked at by a child process: what runs here must not import the worker's libraries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tidegate.adapters.child import Child
from tidegate.core.base.errors import SourceError
from tidegate.core.base.plain import to_plain
from tidegate.core.spec.pipeline import Pipeline

_ADVICE = "install tidegate[worker] (confluent-kafka, duckdb, pyarrow) beside this command"


@dataclass(frozen=True)
class Sampled:
    """`fields`: those that no column takes, with the number of records that had them and examples as JSON texts.
    `types`: Hive types that the messages' schema has for fields at the top."""

    read: int
    fields: dict[str, tuple[int, list[str]]]
    types: dict[str, str] = field(default_factory=dict)


def sample(
    pipeline: Pipeline, settings: Mapping[str, str], topic_id: str, ranges: Sequence[tuple[int, int, int]]
) -> Sampled:
    """`settings` are librdkafka's, secrets included: they go through a pipe. Raises SourceError, StorageError."""
    request = {"pipeline": to_plain(pipeline), "topic_id": topic_id, "ranges": [list(r) for r in ranges]}

    def failed(words: str) -> SourceError:
        return SourceError(f"sampling {pipeline.source.topic}: {words}")

    with Child("sample", _ADVICE, work="reading records", failed=failed, secrets=settings) as child:
        answer = child.one(request)
    fields = {name: (int(told["seen"]), list(told["examples"])) for name, told in answer["fields"].items()}
    return Sampled(int(answer["read"]), fields, dict(answer.get("types", {})))
