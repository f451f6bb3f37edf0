"""The formats that are compared: how each makes messages, what the oracle says, how the engine is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.value_rules import (
    engine_formats,
    engine_json,
    oracle_avro,
    oracle_csv,
    oracle_json,
    oracle_protobuf,
    oracle_raw,
    raw,
    seeds_avro,
    seeds_csv,
    seeds_json,
    seeds_protobuf,
)
from tests.value_rules.map_order import without_order
from tests.value_rules.mutations import mutate, mutate_binary
from tests.value_rules.oracle_json import PlainSpec, Refused, Row
from tidegate.core.spec.pipeline import Pipeline

Message = bytes | None
Answer = Row | Refused


@dataclass(frozen=True)
class Family:
    """`seeds`: row id -> (spec, maker of messages) pairs; `engines`: decoders by name; `answers`: what one of them says
    of each message; `compiled`: the spec as a pipeline whose table is at a location; `normal` makes equal what the page
    leaves open; `to_files`: whether messages can go through the whole engine by their values alone."""

    seeds: Callable[[], Mapping[str, Sequence[tuple[PlainSpec, Callable[[Random], Message]]]]]
    oracle: Callable[[PlainSpec, Message], Answer]
    engines: Callable[[PlainSpec], Mapping[str, Any]]
    answers: Callable[[PlainSpec, Any, list[Message]], list[Answer]]
    compiled: Callable[[PlainSpec, str], Pipeline]
    mutate: Callable[[bytes, Sequence[bytes], Random], bytes] = mutate
    normal: Callable[[PlainSpec, Answer], Answer] = lambda spec, answer: answer
    to_files: bool = True


_OTHERS = engine_formats.decoders, engine_json.answers, engine_formats.compiled
FAMILIES = {
    "json": Family(seeds_json.seeds, oracle_json.read, engine_json.decoders, engine_json.answers, engine_json.compiled),
    "csv": Family(seeds_csv.seeds, oracle_csv.read, *_OTHERS),
    "avro": Family(seeds_avro.seeds, oracle_avro.read, *_OTHERS, mutate_binary),
    "protobuf": Family(seeds_protobuf.seeds, oracle_protobuf.read, *_OTHERS, mutate_binary, without_order),
    "raw": Family(raw.seeds, oracle_raw.read, raw.decoders, raw.answers, raw.compiled, mutate_binary, to_files=False),
}
