"""What the generated readers of Avro data call, and which conversion they write where."""

from __future__ import annotations

from collections.abc import Callable

from spark_jobs.engine.event_time import EPOCH_UNITS
from spark_jobs.engine.formats import scalars
from spark_jobs.engine.formats.avro_json import json_form
from spark_jobs.engine.formats.undecodable import Malformed
from spark_jobs.engine.strict import MAX_MS, MIN_MS
from spark_jobs.engine.types import INTEGER_BITS
from tidegate.core.base.hivetypes import Decimal, HiveType, Primitive
from tidegate.core.spec.avro import Schema, event_misfit, misfit

EVENT, PLAIN, JSON = Primitive("*event"), Primitive("*plain"), Primitive("*json")
"""In place of a type: the event time; the value as JSON can show it; the value as the row rules of JSON take it."""
WHOLE = (PLAIN, JSON)
"""Whatever the schema has there, with all that is inside."""


def more(b: bytes, p: int, n: int) -> tuple[int, int]:
    """The rest of a variable-length number whose first byte was `n`, and where it ends."""
    n &= 127
    shift = 7
    while True:
        c = b[p]
        p += 1
        n |= (c & 127) << shift
        if c < 128:
            break
        shift += 7
        if shift > 63:
            raise Malformed("a number of more than 10 bytes")
    if n >> 64:
        raise Malformed("a number beyond 64 bits")
    return n, p


def signed(b: bytes, p: int, n: int) -> tuple[int, int]:
    n, p = more(b, p, n)
    return (n >> 1) ^ -(n & 1), p


def read_int(b: bytes, p: int, n: int) -> tuple[int, int]:
    n, p = signed(b, p, n)
    if not -2147483648 <= n <= 2147483647:
        raise Malformed("an int beyond 32 bits")
    return n, p


def length(b: bytes, p: int, n: int) -> tuple[int, int]:
    """Twice a length whose first byte was `n`: one that has more bytes, or is odd, which means negative."""
    if n > 127:
        n, p = more(b, p, n)
    if n & 1:
        raise Malformed("a negative length")
    return n, p


def cut_off() -> Malformed:
    return Malformed("cut off")


def refusal(schema: Schema, kind: HiveType) -> str | None:
    """Why no value of `schema` itself, whatever is inside of it, is taken; None if some are."""
    if kind in WHOLE:
        return None
    return event_misfit(schema) if kind is EVENT else misfit(schema, kind, deep=False)


def conversion(schema: Schema, kind: HiveType, form: str) -> Callable | None:
    """What makes of a scalar of `schema` what Arrow takes for `kind`; `form`: the event time's format."""
    word = schema.kind
    unit = word.rpartition("-")[2]
    if kind is PLAIN:
        return None
    if kind is JSON:
        return json_form(schema)
    if kind is EVENT:
        if "timestamp" in word:
            return scalars.event_instant(unit)
        return scalars.event_text(form) if word == "string" else scalars.event_integer(form)
    if "timestamp" in word:
        return scalars.instant(kind, unit)
    if word in ("int", "long", "time-millis", "time-micros"):
        return scalars.integer(kind, 32 if schema.type == "int" else 64)
    if word in ("float", "double"):
        return scalars.floating(kind)
    if word == "date":
        return scalars.day
    if word == "string":
        return scalars.text(kind)
    if word == "decimal" and isinstance(kind, Decimal):
        return scalars.decimal_bytes(kind, schema.scale)
    if word == "uuid" and schema.type == "fixed" and str(kind) == "string":
        return scalars.uuid_text
    return None


NEVER_REFUSED = {
    ("boolean", "boolean"),
    ("int", "int"),
    ("int", "bigint"),
    ("int", "double"),
    ("int", "float"),
    ("long", "bigint"),
    ("long", "double"),
    ("long", "float"),
    ("bytes", "binary"),
    ("fixed", "binary"),
    ("duration", "binary"),
    ("enum", "string"),
}


def _within(low: int, high: int, reason: str, *then: str) -> tuple[str, ...]:
    return (f"if not {low} <= {{v}} <= {high}: raise Unfit(f'{{{{{{v}}}}}} {reason}')", *then)


_YEARS = "is outside of the years 1 to 9999"
_FINITE = ("if {v} - {v} != 0.0: raise Unfit('not a finite double')",)
INLINE: dict[tuple[str, str], tuple[str, ...]] = {
    **{
        (word, name): _within(-(1 << (bits - 1)), (1 << (bits - 1)) - 1, f"does not fit in {bits} bits")
        for word, most in (("int", 16), ("long", 32))
        for name, bits in INTEGER_BITS.items()
        if bits <= most
    },
    ("float", "double"): _FINITE,
    ("double", "double"): _FINITE,
    ("timestamp-millis", "timestamp"): _within(MIN_MS, MAX_MS, _YEARS, "{v} *= 1000"),
    ("timestamp-micros", "timestamp"): _within(MIN_MS * 1000, MAX_MS * 1000 + 999, _YEARS),
    ("long", "event epoch_ms"): _within(MIN_MS, MAX_MS, _YEARS),
    **{("timestamp-millis", f"event {form}"): _within(MIN_MS, MAX_MS, _YEARS) for form in (*EPOCH_UNITS, "iso8601")},
}
"""(kind, type) -> statements for the commonest conversions, where a call would cost more than the check."""


def least_bytes(schema: Schema, known: dict[int, int]) -> int:
    """0 if a value may take no bytes, else 1. `known`: what has been found of the same tree's records, by their ids."""
    if schema.type == "null":
        return 0
    if schema.type == "fixed":
        return min(schema.size, 1)
    if schema.type != "record":
        return 1
    if id(schema) not in known:
        known[id(schema)] = 1  # within itself
        known[id(schema)] = max((least_bytes(s, known) for _, s in schema.fields), default=0)
    return known[id(schema)]
