"""Rows as ClickHouse must have them, said from the table of types in `docs/clickhouse.md` alone; random rows."""

from __future__ import annotations

import datetime
import math
import random
import struct
from collections.abc import Sequence
from decimal import Context, Decimal
from typing import Any

from tests.deliver.rows import COLUMNS, T0

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_EXACT = Context(prec=60)
NESTED = ("tags", "m", "st")


def as_stored(row: dict[str, Any], columns: Sequence[tuple[str, str]] = COLUMNS) -> tuple[Any, ...]:
    """Values by the format RowBinary; nested ones are left out (None), their texts are compared apart."""
    return tuple(_stored(row.get(name), kind) if name != "_window" else T0 // 1000 for name, kind in columns)


def _stored(value: Any, kind: str) -> Any:
    if value is None or "<" in kind:
        return None
    if kind == "string":
        return value.encode()
    if kind == "timestamp":
        return (value - _EPOCH) // datetime.timedelta(microseconds=1)
    if kind == "date":
        return (value - _EPOCH.date()).days
    if kind == "float":
        return struct.unpack("<f", struct.pack("<f", value))[0]
    return value


def comparable(rows: Sequence[tuple[Any, ...]], columns: Sequence[tuple[str, str]] = COLUMNS) -> list[str]:
    """Sorted, NaN equal to itself, without nested values."""
    nested = [i for i, (_, kind) in enumerate(columns) if "<" in kind]
    plain = [[None if i in nested else _same(value) for i, value in enumerate(row)] for row in rows]
    return sorted(map(repr, plain))


def _same(value: Any) -> Any:
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value.hex()
    if isinstance(value, bool):
        return int(value)
    return value.normalize(_EXACT) if isinstance(value, Decimal) else value


def random_row(rng: random.Random) -> dict[str, Any]:
    """Every type, its ends among the values."""
    made = {name: _random(rng, kind) for name, kind in COLUMNS[1:] if rng.random() > 0.15}
    return {**made, "tags": rng.choice([None, [], ["ü", None]])}


def _random(rng: random.Random, kind: str) -> Any:
    bits = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
    if kind in bits:
        end = 1 << (bits[kind] - 1)
        return rng.choice([-end, end - 1, 0, -1, rng.randrange(-end, end)])
    if kind.startswith("decimal") and "<" not in kind:
        precision, scale = map(int, kind[8:-1].split(","))
        most = 10**precision - 1
        return Decimal(rng.choice([0, -1, most, -most, rng.randrange(-most, most)])).scaleb(-scale, _EXACT)
    if kind in ("float", "double"):
        return rng.choice([0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, rng.uniform(-1e30, 1e30)])
    if kind == "timestamp":
        return datetime.datetime(1900, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(
            microseconds=rng.randrange(12_622_780_800 * 10**6)
        )
    others = {
        "boolean": lambda: rng.random() < 0.5,
        "string": lambda: rng.choice(["", "a", "ü€😀", "\0\n\t'\\", "x" * rng.choice([127, 128, 16_383, 16_384, 40])]),
        "binary": lambda: rng.randbytes(rng.randrange(200)),
        "date": lambda: datetime.date(1900, 1, 1) + datetime.timedelta(rng.randrange(146_097)),
    }
    return others[kind]() if kind in others else None
