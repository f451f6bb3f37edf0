"""One row of the page: messages are made and mutated, and the engine's answers are compared with the oracle's."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.value_rules.families import FAMILIES, Answer, Family, Message
from tests.value_rules.oracle_json import PlainSpec, Refused, Row, routed
from tests.value_rules.plain_values import exact
from tests.value_rules.whole_path import land

CHUNK = 500
MUTATED = 0.9
_DECODERS: dict[tuple[str, PlainSpec], Any] = {}


@dataclass
class Outcome:
    """What was compared for one row. `counts`: category -> messages; `whole`: messages that went all the way to files
    and back."""

    row: str
    counts: Counter[str] = field(default_factory=Counter)
    mutated: int = 0
    compared: int = 0
    whole: int = 0
    wrong: list[str] = field(default_factory=list)


def compare(format_name: str, row: str, count: int, whole: int, seed: str) -> Outcome:
    """At least `count` mutated messages by the decoders alone, and `whole` messages by the whole engine."""
    family, outcome, rng = FAMILIES[format_name], Outcome(row), Random(f"{seed}/{row}")
    seeds = family.seeds()[row]
    makers, share = itertools.cycle(seeds), -(-count // len(seeds))
    while outcome.mutated < count and not outcome.wrong:
        spec, make = next(makers)
        size = min(CHUNK, share, count - outcome.mutated)
        _by_decoders(family, format_name, spec, list(_messages(family, make, size, rng, outcome)), outcome)
    for spec, make in seeds if whole and family.to_files else ():
        if not outcome.wrong:
            messages = list(_messages(family, make, whole, rng, Outcome(row)))
            _by_whole_engine(family, spec, messages, outcome)
    return outcome


def _messages(family: Family, make: Any, size: int, rng: Random, outcome: Outcome) -> Iterator[Message]:
    """`size` mutated messages, and some that are as they were made."""
    made: list[bytes] = []
    while size:
        message = make(rng)
        if message is None or rng.random() > MUTATED:
            yield message
            continue
        made.append(message)
        yield family.mutate(message, made[-20:], rng)
        size -= 1
        outcome.mutated += 1


def _by_decoders(family: Family, name: str, spec: PlainSpec, messages: list[Message], outcome: Outcome) -> None:
    expected = [family.oracle(spec, message) for message in messages]
    if spec.unknown == "fail":
        expected = told_once(expected)
    outcome.counts.update(category(answer) for answer in expected)
    if (name, spec) not in _DECODERS:
        _DECODERS[name, spec] = family.engines(spec)
    for engine, decoder in _DECODERS[name, spec].items():
        try:
            found = family.answers(spec, decoder, messages)
        except Exception as e:
            outcome.wrong.append(_broken(family, spec, decoder, messages, f"{outcome.row} ({engine}): {e!r:.300}"))
            continue
        outcome.compared += len(found)
        for offset, (message, one, other) in enumerate(zip(messages, expected, found, strict=True)):
            if not same(family.normal(spec, one), family.normal(spec, other), spec):
                outcome.wrong.append(disagreement(outcome.row, engine, offset, spec, message, one, other))


def _broken(family: Family, spec: PlainSpec, decoder: Any, messages: list[Message], what: str) -> str:
    """A decoder must not raise for any message: which one was it?"""
    for message in messages:
        try:
            family.answers(spec, decoder, [message])
        except Exception:
            return f"{what}\n  message: {message!r:.1500}\n  spec: {spec}"
    return f"{what}\n  none of the messages alone\n  spec: {spec}"


def _by_whole_engine(family: Family, spec: PlainSpec, messages: list[Message], outcome: Outcome) -> None:
    """Rows and dirty rows are read back from the files, and matched by (partition, offset)."""
    if spec.unknown == "fail":
        return  # stops the batch: nothing to read
    places = [(i % 3, i // 3) for i in range(len(messages))]
    found = land(family.compiled, spec, dict(zip(places, messages, strict=True)))
    if sorted(found) != sorted(places):
        outcome.wrong.append(f"{outcome.row}: {len(found)} records in the files, {len(places)} in the topic: {spec}")
        return
    for place, message in zip(places, messages, strict=True):
        expected = routed(spec, family.oracle(spec, message))
        if not same(family.normal(spec, expected), family.normal(spec, found[place]), spec):
            outcome.wrong.append(disagreement(outcome.row, "files", place, spec, message, expected, found[place]))
    outcome.whole += len(messages)


def told_once(expected: list[Answer]) -> list[Answer]:
    """Of unknown fields that stop a batch, the first of each name is told."""
    known: set[str] = set()
    found: list[Answer] = []
    for answer in expected:
        if isinstance(answer, Row):
            new = {name: text for name, text in answer.unknown.items() if name not in known}
            known.update(new)
            answer = Row(answer.values, answer.event_ms, new)
        found.append(answer)
    return found


def category(answer: Answer) -> str:
    return answer.category if isinstance(answer, Refused) else "data"


def same(expected: Answer, found: Answer, spec: PlainSpec) -> bool:
    """Both dirty for the same field, or both the same row, bit by bit."""
    if isinstance(expected, Refused) or isinstance(found, Refused):
        return isinstance(expected, Refused) and isinstance(found, Refused) and expected.field == found.field
    return (
        exact(expected.values) == exact(found.values)
        and (spec.time is None or expected.event_ms == found.event_ms)
        and expected.unknown == found.unknown
    )


def disagreement(
    row: str, engine: str, place: Any, spec: PlainSpec, message: Message, expected: Answer, found: Answer
) -> str:
    shown = repr(message) if message is None or len(message) < 1500 else f"{message[:700]!r} ... {message[-700:]!r}"
    return (
        f"{row} ({engine}, {place}): {shown}\n  oracle: {expected!r:.1500}\n  engine: {found!r:.1500}\n  spec: {spec}"
    )
