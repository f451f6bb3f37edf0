"""The slow path of decoding: messages that the row rules decided about one by one, in Python, and why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

DIRTY, RARE, NUMBER, TIME, KEY = "dirty", "rare form", "number", "time format", "key"
UNKNOWN, TYPE, SCHEMA, LIBRARY = "unknown field", "column type", "schema", "no library"

REASONS: dict[str, str] = {
    DIRTY: "The message is dirty, whatever the format: only the row rules can say why.",
    RARE: "A value has a rare form: nan, inf or +Infinity in a field that no column takes, escapes in the text of a "
    "number; in protobuf a field in parts, or an unknown one that matters.",
    NUMBER: "A number is longer than the library reads (800 digits; 400 characters or an exponent beyond 400 for a "
    "decimal), fits its column only by old rules, or ends at a CSV mark that could be a part of it (`1`, `.`, `e`).",
    TIME: "A date or a time fits its format, but not in the plain form, or the library does not read the format.",
    KEY: "An object has more than about a thousand keys that were never seen before, or a long one with escapes.",
    UNKNOWN: "An unknown field lies in an object that two columns look into; in CSV any, where `unknown_fields` is "
    "`fail`.",
    TYPE: "A column's type is one that the library does not read, as a map with keys of fractions.",
    SCHEMA: "The library does not read messages of this Avro schema or protobuf type, nor CSV whose `delimiter`, "
    "`quote` or `escape` is not ASCII.",
    LIBRARY: "The C library is missing on that worker: all messages take the slow path.",
}
"""Every reason that is counted, with what it means; docs/formats.md has the same words."""


@dataclass(frozen=True, order=True)
class Slow:
    """Messages that took the slow path for one reason. A message counts once, for the first of its reasons."""

    reason: str
    messages: int


def told(slow: Iterable[Slow], read: int, seconds: float) -> str:
    """Words for a log: how many of the messages that were read took the slow path, why, and about how long that
    took."""
    most_first = sorted(slow, key=lambda one: -one.messages)
    count = sum(one.messages for one in most_first)
    share = f" ({100 * count / read:.1f} %)" if read else ""
    why = ", ".join(f"{one.messages:,} {one.reason}" for one in most_first)
    return f"{count:,} of {read:,} messages{share} took the slow path: {why}; about {seconds:.1f} CPU-seconds"
