"""JSON messages one at a time: the rules that decide what a message means. Slow and sure; see `json_decoder`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from spark_jobs.engine.event_time import event_ms
from spark_jobs.engine.formats import Bad
from spark_jobs.engine.formats.known import Known, Path, elements, inside, known_fields, members, unknown_texts
from spark_jobs.engine.formats.undecodable import Malformed
from spark_jobs.engine.strict import Base64, JsonFloat, JsonInt, Unfit, convert, describe, refuse_duplicates
from spark_jobs.engine.text_rules import convert_text
from tidegate.core.base.hivetypes import Array, HiveType, Map, Primitive, Struct, parse
from tidegate.core.batch.rules_version import RULES_VERSION
from tidegate.core.spec import paths
from tidegate.core.spec.pipeline import EXTRA_COLUMN, Pipeline

MAX_DEPTH = 500
"""Arrays and objects inside each other, the message itself the first; the C library has the same number."""


class NotJson(Malformed):
    """The message is no JSON object."""


@dataclass(frozen=True)
class Row:
    """A message that is a row: converted values by column, `_extra` included when the pipeline captures."""

    values: dict[str, Any]
    event_ms: int | None
    unknown: dict[str, str]


class Object(dict[str, Any]):
    """A JSON object; `twice` is a key that it has more than once, `pairs` what was written."""

    twice: str | None = None
    pairs: list[tuple[str, Any]] | None = None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = Object(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        found.twice = next(k for k, _ in pairs if k in seen or seen.add(k))  # type: ignore[func-returns-value]
        found.pairs = pairs
    return found


class NonFinite:
    """NaN or Infinity: no JSON, but commonly written. Accepted where no column looks, refused by every type."""

    def __init__(self, text: str) -> None:
        self.text = text


def _decoder(constant: Callable[[str], NonFinite]) -> json.JSONDecoder:
    return json.JSONDecoder(
        object_pairs_hook=_object, parse_int=JsonInt, parse_float=JsonFloat, parse_constant=constant, strict=True
    )


_DECODER = _decoder(NonFinite)
# a string that does not end goes to the end of the text: so that no text is looked at twice
_STRING = r'"(?:[^"\\]|\\.)*+(?:"|\Z)'
_OTHER_NON_FINITE = re.compile(rf"({_STRING})|[-+]?\b(?:nan|inf(?:inity)?)\b", re.IGNORECASE | re.DOTALL)
_BRACKET = re.compile(rf"{_STRING}|([\[{{])|[\]}}]", re.DOTALL)
_WHOLE_ESCAPE = re.compile(r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]|u(?![dD][89a-fA-F])|[^u])", re.DOTALL)


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
    if _deeper_than(text, MAX_DEPTH):
        raise NotJson("nested too deeply")
    found = parse_value(text)
    if not isinstance(found, dict):
        raise NotJson(f"expected an object, got {describe(found)}")
    if "\\u" in text and "\\" in _WHOLE_ESCAPE.sub("", text):
        raise NotJson("an escape that is no character (half of a surrogate pair)")
    return found


def _deeper_than(text: str, levels: int) -> bool:
    if text.count("[") + text.count("{") <= levels:
        return False
    level = 0
    for match in _BRACKET.finditer(text):
        if match[1]:
            level += 1
            if level > levels:
                return True
        elif match[0] in "]}":
            level -= 1
    return False


def parse_value(text: str) -> Any:
    """Any JSON value. Raises NotJson; RecursionError if it is nested too deeply."""
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as e:
        # other spellings of NaN and Infinity are as good as Python's own
        spelled = iter([m[0] for m in _OTHER_NON_FINITE.finditer(text) if not m[1]])
        respelled = _OTHER_NON_FINITE.sub(lambda m: m.group(1) or "NaN", text)
        if respelled != text:
            try:
                # in `NaNaN` the decoder finds one more than there are, before it refuses the rest
                return _decoder(lambda _: NonFinite(next(spelled, ""))).decode(respelled)
            except json.JSONDecodeError:
                pass
        raise NotJson(f"not JSON: {e.msg} at character {e.pos}") from None


def dump(value: Any) -> str:
    """A parsed value as compact JSON text, numbers as they were written."""
    found: list[str] = []
    waiting: list[Any] = [value]  # the next one last
    while waiting:
        item = waiting.pop()
        if isinstance(item, _Text | JsonInt | JsonFloat):
            found.append(item)
        elif isinstance(item, NonFinite):
            found.append(item.text)
        elif isinstance(item, dict):
            pairs = list(getattr(item, "pairs", None) or item.items())
            waiting.append(_Text("}"))
            for n, (key, each) in reversed(list(enumerate(pairs))):
                waiting += (each, _Text(f"{',' if n else ''}{json.dumps(key, ensure_ascii=False)}:"))
            found.append("{")
        elif isinstance(item, list):
            waiting.append(_Text("]"))
            for n, each in reversed(list(enumerate(item))):
                waiting += (each, _Text("," if n else ""))
            found.append("[")
        else:
            found.append(json.dumps(item, ensure_ascii=False))
    return "".join(found)


class _Text(str):
    """Text that stands as it is."""


class RowRules:
    """A pipeline's columns, event time and unknown fields, applied to one message."""

    def __init__(self, pipeline: Pipeline, version: int = RULES_VERSION, also_known: tuple[Path, ...] = ()) -> None:
        self._version = version
        self._columns = [
            (c.name, paths.parse(c.path), parse(c.type), c.nullable, _as_text if c.convert == "text" else convert)
            for c in pipeline.columns
        ]
        time = pipeline.event_time
        self._time_path = None if time.path is None else paths.parse(time.path)
        self._time_field, self._time_format = time.path or "", time.format
        self.unknown_fields = pipeline.format.unknown_fields
        self.known = known_of(pipeline, version, also_known)
        self._nested = {name: inside(self.known, path) for name, path, _, _, _ in self._columns}

    def column_rule(self, name: str) -> Callable[[str], Any]:
        """Function that turns the JSON text of a column's value into the value. Raises Unfit."""
        kind, rule = next((kind, rule) for column, _, kind, _, rule in self._columns if column == name)
        known = None if self.unknown_fields == "ignore" else self._nested[name]
        if known is None:
            return lambda text: rule(parse_value(text), kind)

        def checked(text: str) -> Any:
            value = parse_value(text)
            if self._unknown({"": value}, {"": known}):
                raise Unfit("unknown fields inside: the whole message has to be looked at")
            return rule(value, kind)

        return checked

    def read(self, value: bytes | None) -> Row | Bad:
        try:
            return self.row(parse_message(value))
        except NotJson as e:
            return Bad(str(e))

    def row(self, message: dict[str, Any]) -> Row | Bad:
        """The row of a message's object, as `parse_message` gives it."""
        try:
            refuse_duplicates(message)
            return self._row(message)
        except Unfit as e:
            return Bad(e.reason, e.field)

    def _row(self, message: dict[str, Any]) -> Row | Bad:
        values: dict[str, Any] = {}
        for name, path, kind, nullable, rule in self._columns:
            try:
                values[name] = rule(_at(message, path), kind)
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
            unknown = self._unknown(message, self.known)
        if self.unknown_fields == "capture":
            values[EXTRA_COLUMN[0]] = list(unknown.items())
        return Row(values, moment, unknown)

    def _unknown(self, message: dict[str, Any], known: dict[str, Known]) -> dict[str, str]:
        return unknown_texts(message, known, self._version, dump, members, elements)


def known_of(pipeline: Pipeline, version: int, also: tuple[Path, ...] = ()) -> dict[str, Known]:
    """What the columns and the event time of a pipeline take; `also`: further paths that are known."""
    taken = [(paths.parse(c.path), parse(c.type)) for c in pipeline.columns]
    time = pipeline.event_time.path
    others = (*also, *(() if time is None else (paths.parse(time),)))
    return known_fields([*taken, *((path, None) for path in others)], version)


def _as_text(value: Any, kind: HiveType) -> Any:
    """As `convert`, but text may stand for a value of another type, and a number or boolean for its text."""
    number = isinstance(value, JsonInt | JsonFloat)
    if kind == Primitive("string") and (number or isinstance(value, bool)):
        return dump(value)
    if isinstance(value, str) and not (number or isinstance(value, Base64) or isinstance(kind, Array | Map | Struct)):
        return convert_text(value, kind)
    return convert(value, kind)


def _at(message: dict[str, Any], path: tuple[str, ...]) -> Any:
    """The value at a path; None where a parent is missing or null. Raises Unfit if a parent is no object."""
    found: Any = message
    for i, key in enumerate(path):
        if found is None:
            return None
        if not isinstance(found, dict):
            raise Unfit(f"expected an object at $.{'.'.join(path[:i])}, got {describe(found)}")
        refuse_duplicates(found)
        found = found.get(key)
    return found
