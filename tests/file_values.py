"""Values at the edges of each type, for files of every format."""

from __future__ import annotations

import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from spark_jobs.engine.types import schema_of

FLAT = (
    ("words", "string"),
    ("raw", "binary"),
    ("flag", "boolean"),
    ("tiny", "tinyint"),
    ("small", "smallint"),
    ("number", "int"),
    ("big", "bigint"),
    ("single", "float"),
    ("whole", "double"),
    ("money", "decimal(38,10)"),
    ("price", "decimal(10,2)"),
    ("day", "date"),
    ("moment", "timestamp"),
)
NESTED = (
    ("list", "array<string>"),
    ("map", "map<string,int>"),
    ("place", "struct<city:string,at:timestamp,codes:array<int>>"),
)
COLUMNS = FLAT + NESTED
NUMBERS = tuple(c for c in FLAT if c[0] in ("number", "big", "whole"))

LONE_ESCAPES = ("\x01", "\\\x01", "a\x01\\")
"""DuckDB ends a value at a \\x01 even after a backslash."""
WORDS = (
    "", "\\N", "N", "\\", "\\\\", "\\n", "\\\n", "\n", "\r\n", "\r", *LONE_ESCAPES, "\ufeffx", "\x02", "é\u2028",
    "null", "NULL", '"q"', "'", " ", " x ", "\t", "\x85", "\U0001f600", "\\d", "d", "plain", "x" * 5_000,
)  # fmt: skip
_DAY = 86_400_000_000
_TIMES = (-_DAY, -1_000_000, 0, 1, 1_357_358_706_123_456, 4_102_444_800_000_000)
_FAR_TIMES = (-62_135_596_800_000_000, -1, -1_500, -12_219_292_800_000_000, 253_402_300_799_999_999)
_VALUES: dict[str, tuple] = {
    "words": WORDS,
    "raw": (b"", b"\x00\xff\n\x01\\", b"abc", b"\xef\xbb\xbf"),
    "flag": (True, False),
    "tiny": (-128, 127, 0),
    "small": (-(2**15), 2**15 - 1),
    "number": (-(2**31), 2**31 - 1, 0),
    "big": (-(2**63), 2**63 - 1, 0),
    "single": (0.0, -0.0, 1.5, float("nan"), float("inf"), -float("inf"), 3.4028234663852886e38, 1.401298464324817e-45),
    "whole": (0.0, -0.0, 0.1, float("nan"), float("inf"), -float("inf"), 1e300, 5e-324, 1e-5, 1e22, 1e16, 123456789.25),
    "money": (Decimal("1E-10"), Decimal("0"), Decimal("-1.5"), Decimal("1234567890123456789012345678.0123456789")),
    "price": (Decimal("99999999.99"), Decimal("-0.01")),
    "day": (-719_162, -1, 0, 2_932_896, 15_000),
    "list": ([], ["a", None, ""], ["x\ny"]),
    "map": ([], [("k", 1), ("ü", None)]),
}


def rows_of(
    columns: tuple[tuple[str, str], ...],
    rng: random.Random,
    count: int,
    *,
    far: bool = True,
    without: tuple[str, ...] = (),
) -> pa.Table:
    """`far`: times that only 64-bit microseconds reach, and fractions of seconds before 1970."""
    schema = schema_of(columns)
    times = _TIMES + (_FAR_TIMES if far else ())
    return pa.table(
        [_column(name, schema.field(name).type, times, rng, count, without) for name in schema.names], schema
    )


def _column(
    name: str, kind: pa.DataType, times: tuple[int, ...], rng: random.Random, count: int, without: tuple[str, ...]
) -> pa.Array:
    def one() -> Any:
        if rng.random() < 0.1:
            return None
        if name == "moment":
            return rng.choice(times)
        if name == "place":
            return {
                "city": rng.choice(("", "Köln", None)),
                "at": rng.choice(times),
                "codes": rng.choice(([], [1], None)),
            }
        value = rng.choice(_VALUES[name])
        return "other" if value in without else value

    values = [one() for _ in range(count)]
    if name == "day":
        return pa.array(values, pa.int32()).cast(kind)
    return pa.array(values, pa.int64()).cast(kind) if name == "moment" else pa.array(values, kind)


_DUCKDB = {
    "string": "VARCHAR", "binary": "VARCHAR", "timestamp": "TIMESTAMP", "int": "INTEGER",
}  # fmt: skip


def duckdb_text(path: Path, columns: tuple[tuple[str, str], ...] = FLAT) -> str:
    """The query that docs/types.md gives for text files."""
    types = {name: _DUCKDB.get(kind, kind.upper()) for name, kind in columns}
    plain = (
        "array_to_string(list_transform(string_split({0}, '\\\\'), lambda x: replace(replace(replace(x, "
        "'\\n', chr(10)), '\\r', chr(13)), '\\' || chr(65279), chr(65279))), '\\')"
    )
    read = {"string": plain, "binary": "from_base64({0})", "timestamp": "CAST({0} AS TIMESTAMPTZ)"}
    chosen = ", ".join(f"{read.get(kind, '{0}').format(name)} AS {name}" for name, kind in columns)
    return (
        f"select {chosen} from read_csv('{path}', auto_detect=false, header=false, delim='\x01', quote='', escape='', "
        f"new_line='\\n', nullstr='\\N', columns={types})"
    )
