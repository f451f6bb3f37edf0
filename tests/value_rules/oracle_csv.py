"""The oracle for CSV messages: the page's grammar, character by character. Imports nothing of the engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.value_rules.oracle_json import PlainSpec, Refused, Row
from tests.value_rules.oracle_plain_text import from_text, time_from_text
from tests.value_rules.oracle_text import Dirty
from tests.value_rules.oracle_values import kind_of

ENDS = ("", "\n", "\r\n")
"""What may be left when a record is read."""


@dataclass(frozen=True)
class CsvSettings:
    """As `format`'s keys; a name `_` skips a position."""

    fields: tuple[str, ...]
    delimiter: str = ","
    quote: str | None = '"'
    escape: str | None = None
    null_text: str = ""


def read(spec: PlainSpec, message: bytes | None) -> Row | Refused:
    settings: CsvSettings = spec.settings
    try:
        record = fields_of(message, settings)
        named = dict(zip(settings.fields, record, strict=False))
        values = {c.name: _value(named[c.path[0]], c.type, c.name, c.nullable) for c in spec.columns}
        event = None if spec.time is None else _event(named[spec.time[0]], spec)
    except Dirty as e:
        return Refused(e.category, e.field)
    taken = {c.path[0] for c in spec.columns} | {name for name in spec.time or ()} | {"_"}
    unknown: dict[str, Any] = {}
    if spec.unknown != "ignore":
        unknown = {name: text for name, text in named.items() if name not in taken}
        unknown |= {f"#{i + 1}": record[i] for i in range(len(settings.fields), len(record))}
    if spec.unknown == "fail":  # an example for people: null is no text
        unknown = {name: text or "" for name, text in unknown.items()}
    return Row(values, event, unknown)


def _value(text: str | None, kind: str, name: str, nullable: bool) -> Any:
    if text is None:
        if not nullable:
            raise Dirty("null", name)
        return None
    try:
        return from_text(text, kind_of(kind))
    except Dirty as e:
        raise Dirty(e.category, name) from None


def _event(text: str | None, spec: PlainSpec) -> int:
    try:
        if text is None:
            raise Dirty("null")
        return time_from_text(text, spec.time_format)
    except Dirty as e:
        raise Dirty("event time: " + e.category, f"$.{(spec.time or ('',))[0]}") from None


def fields_of(message: bytes | None, settings: CsvSettings) -> list[str | None]:
    """Raises Dirty."""
    if message is None:
        raise Dirty("tombstone")
    try:
        text = message.decode("utf-8")
    except UnicodeDecodeError:
        raise Dirty("utf8") from None
    if text.startswith("\ufeff"):
        raise Dirty("bom")
    if text in ENDS:
        raise Dirty("empty")
    record: list[str | None] = []
    at = 0
    while True:
        quoted = settings.quote is not None and text[at : at + 1] == settings.quote
        found, at = _quoted(text, at + 1, settings) if quoted else _unquoted(text, at, settings)
        record.append(found)
        if text[at:] in ENDS:
            break
        if text[at] != settings.delimiter:
            raise Dirty("quote" if quoted else "csv")
        at += 1
    if len(record) < len(settings.fields):
        raise Dirty("few fields")
    return record


def _quoted(text: str, at: int, settings: CsvSettings) -> tuple[str, int]:
    """`at` is behind the opening quote; gives the field, and the place behind the closing one."""
    found: list[str] = []
    while at < len(text):
        c = text[at]
        if c == settings.escape:
            if at + 1 == len(text):
                raise Dirty("escape")
            found.append(text[at + 1])
            at += 2
        elif c == settings.quote:
            if text[at + 1 : at + 2] != settings.quote:
                return "".join(found), at + 1
            found.append(c)
            at += 2
        else:
            found.append(c)
            at += 1
    raise Dirty("quote")


def _unquoted(text: str, start: int, settings: CsvSettings) -> tuple[str | None, int]:
    found: list[str] = []
    at = start
    while at < len(text) and text[at] != settings.delimiter:
        c = text[at]
        if c == settings.escape:
            if at + 1 == len(text):
                raise Dirty("escape")
            found.append(text[at + 1])
            at += 2
            continue
        if c == settings.quote:
            raise Dirty("quote")
        if text[at:] in ENDS:
            break
        if c in "\r\n":
            raise Dirty("line break")
        found.append(c)
        at += 1
    return (None if text[start:at] == settings.null_text else "".join(found)), at
