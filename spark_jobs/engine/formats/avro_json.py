"""Avro values as the row rules of JSON take them: as a converter for JSON would have written the same value, and more
where Avro says more: a decimal is a number, and bytes are known as bytes."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from spark_jobs.engine.formats.json_rows import NonFinite
from spark_jobs.engine.formats.scalars import uuid_text
from spark_jobs.engine.strict import Base64, JsonFloat, JsonInt
from tidegate.core.spec.avro import Schema

_MOST_BYTES = 1000
"""Of a number: no column takes a longer one, and Python does not write it."""


def json_form(schema: Schema) -> Callable[[Any], Any] | None:
    """What makes of a scalar of `schema` what the rules take; None: it is that already."""
    if schema.logical == "decimal":
        return lambda value: _decimal(value, schema.scale)
    if schema.logical == "uuid" and schema.type == "fixed":
        return uuid_text
    return _BY_TYPE.get(schema.type)


def _decimal(value: bytes, scale: int) -> str:
    """The number with its digits, `12.50`; the bytes themselves where they are no number that can be written."""
    if not 0 < len(value) <= _MOST_BYTES:
        return _bytes(value)
    number = int.from_bytes(value, "big", signed=True)
    if not scale:
        return JsonInt(number)
    digits = f"{abs(number):0{scale + 1}d}"
    return JsonFloat(f"{'-' if number < 0 else ''}{digits[:-scale]}.{digits[-scale:]}")


def _bytes(value: bytes) -> Base64:
    return Base64(base64.b64encode(value).decode())


def _double(value: float) -> JsonFloat | NonFinite:
    return JsonFloat(repr(value)) if math.isfinite(value) else NonFinite(str(value))


def _float(value: float) -> JsonFloat | NonFinite:
    """With the digits that tell it from its neighbours among floats."""
    return JsonFloat(str(np.float32(value))) if math.isfinite(value) else NonFinite(str(value))


_BY_TYPE: dict[str, Callable[[Any], Any]] = {
    "int": JsonInt,
    "long": JsonInt,
    "float": _float,
    "double": _double,
    "bytes": _bytes,
    "fixed": _bytes,
}
