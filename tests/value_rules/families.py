"""The formats that are compared: how each makes messages, what the oracle says, how the engine is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.value_rules import engine_json, oracle_json, seeds_json
from tests.value_rules.mutations import mutate
from tests.value_rules.oracle_json import PlainSpec, Refused, Row
from tidegate.core.pipeline import Pipeline

Message = bytes | None
Answer = Row | Refused


@dataclass(frozen=True)
class Family:
    """`seeds`: row id -> (spec, maker of messages) pairs; `engines`: decoders by name, each giving an answer for each
    message; `compiled`: the spec as a pipeline whose table is at a location."""

    seeds: Callable[[], Mapping[str, Sequence[tuple[PlainSpec, Callable[[Random], Message]]]]]
    oracle: Callable[[PlainSpec, Message], Answer]
    engines: Callable[[PlainSpec], Mapping[str, Any]]
    answers: Callable[[PlainSpec, Any, list[Message]], list[Answer]]
    compiled: Callable[[PlainSpec, str], Pipeline]
    mutate: Callable[[bytes, Sequence[bytes], Random], bytes] = mutate


FAMILIES = {
    "json": Family(seeds_json.seeds, oracle_json.read, engine_json.decoders, engine_json.answers, engine_json.compiled),
}
