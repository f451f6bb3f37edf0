"""JSON messages one at a time: the rules that decide what a message means. Slow and sure; see `json_decoder`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, NoReturn

from tidegate.core.hivetypes import parse
from tidegate.core.pipeline import EXTRA_COLUMN, Pipeline

from spark_jobs.engine import paths
from spark_jobs.engine.event_time import event_ms
from spark_jobs.engine.formats import Bad
from spark_jobs.engine.strict import JsonFloat, JsonInt, Unfit, convert, describe

MAX_DEPTH = 200
"""Levels of nesting that a message may have."""


class NotJson(ValueError):
    """The message as a whole is unusable."""


@dataclass(frozen=True)
class Row:
    """A message that is a row: converted values by column, `_extra` included when the pipeline captures."""

    values: dict[str, Any]
    event_ms: int | None
    unknown: dict[str, str]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(k for k, _ in pairs if k in seen or seen.add(k))  # type: ignore[func-returns-value]
        raise NotJson(f"duplicate key {twice[:80]!r}")
    return found


def _constant(text: str) -> NoReturn:
    raise NotJson(f"{text} is not JSON")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=JsonInt, parse_float=JsonFloat, parse_constant=_constant, strict=True
)


def parse_message(value: bytes | None) -> dict[str, Any]:
    """The message's object; numbers stay text. Raises NotJson with the reason."""
    if value is None:
        raise NotJson("null value (tombstone)")
    try:
        text = value.decode()
    except UnicodeDecodeError as e:
        raise NotJson(f"invalid UTF-8 at byte {e.start}") from None
    if not text.strip(" \t\r\n"):
        raise NotJson("empty message")
    try:
        found = _DECODER.decode(text)
        if "\\u" in text:
            json.dumps(found, ensure_ascii=False).encode()  # an escaped half of a surrogate pair is no character
    except json.JSONDecodeError as e:
        raise NotJson(f"not JSON: {e.msg} at character {e.pos}") from None
    except UnicodeEncodeError:
        raise NotJson("an escape that is no character (half of a surrogate pair)") from None
    except RecursionError:
        raise NotJson(f"nested deeper than {MAX_DEPTH} levels") from None
    if not isinstance(found, dict):
        raise NotJson(f"expected an object, got {describe(found)}")
    if text.count("[") + text.count("{") > MAX_DEPTH and _depth(found) > MAX_DEPTH:
        raise NotJson(f"nested deeper than {MAX_DEPTH} levels")
    return found


def _depth(value: Any) -> int:
    deepest, waiting = 0, [(value, 1)]
    while waiting:
        item, level = waiting.pop()
        if isinstance(item, dict | list):
            deepest = max(deepest, level)
            waiting += [(child, level + 1) for child in (item.values() if isinstance(item, dict) else item)]
    return deepest


def dump(value: Any) -> str:
    """A parsed value as compact JSON text, numbers as they were written."""
    if isinstance(value, JsonInt | JsonFloat):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(k, ensure_ascii=False)}:{dump(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(dump, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


class RowRules:
    """A pipeline's columns, event time and unknown fields, applied to one message."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._columns = [(c.name, paths.parse(c.path), parse(c.type), c.nullable) for c in pipeline.columns]
        time = pipeline.event_time
        self._time_path = None if time.path is None else paths.parse(time.path)
        self._time_field, self._time_format = time.path or "", time.format
        self.unknown_fields = pipeline.format.unknown_fields
        self.known = {path[0] for _, path, _, _ in self._columns} | ({self._time_path[0]} if self._time_path else set())

    def read(self, value: bytes | None) -> Row | Bad:
        try:
            message = parse_message(value)
        except NotJson as e:
            return Bad(str(e))
        values: dict[str, Any] = {}
        for name, path, kind, nullable in self._columns:
            try:
                values[name] = convert(_at(message, path), kind)
            except Unfit as e:
                return Bad(e.reason, name + e.field)
            if values[name] is None and not nullable:
                return Bad("missing or null, but the column is not nullable", name)
        moment = None
        if self._time_path is not None:
            try:
                moment = event_ms(_at(message, self._time_path), self._time_format)
            except Unfit as e:
                return Bad(e.reason, self._time_field)
        unknown = {}
        if self.unknown_fields != "ignore":
            unknown = {key: dump(item) for key, item in message.items() if key not in self.known}
        if self.unknown_fields == "capture":
            values[EXTRA_COLUMN[0]] = list(unknown.items())
        return Row(values, moment, unknown)


def _at(message: dict[str, Any], path: tuple[str, ...]) -> Any:
    """The value at a path; None where a parent is missing or null. Raises Unfit if a parent is no object."""
    found: Any = message
    for i, key in enumerate(path):
        if found is None:
            return None
        if not isinstance(found, dict):
            raise Unfit(f"expected an object at $.{'.'.join(path[:i])}, got {describe(found)}")
        found = found.get(key)
    return found
