"""Numbers of a mirror's rows, and their sums by ranges of the key, as docs/mirrors.md says them."""

from __future__ import annotations

import hashlib
import random
import struct
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from spark_jobs.engine.mirror.checksums import OUTSIDE, grouped, located, of_tables, row_numbers, sums_of
from tidegate.core.copy.checksums import TableKeys
from tidegate.core.copy.port import Form, KeyGroups, KeyRange

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LETTERS = ("a", ",", ":", "1", " ", "\x00", "\n", "é", "e\u0301", "😀", '"', "\\")


def time(value: datetime, digits: int | None) -> str:
    found = f"{value.year:04d}-{value:%m-%d %H:%M:%S}.{value.microsecond:06d}"
    if digits is None:
        return found.rstrip("0").rstrip(".")
    return found[: len(found) - 6 + digits].rstrip(".")


def fraction(value: Decimal) -> str:
    found = f"{value:f}"
    return found.rstrip("0").rstrip(".") if "." in found else found


def made(rng: random.Random, name: str, digits: int | None) -> tuple[Any, str]:
    """A value of the form, and its text by the page."""
    if name == "text":
        text = "".join(rng.choices(LETTERS, k=rng.randrange(6)))
        return text, f"{len(text.encode())}:{text}"
    if name == "integer":
        number = rng.choice((0, -1, 2**63 - 1, -(2**63), rng.randrange(10**6)))
        return number, str(number)
    if name in ("decimal2", "decimal20"):
        scale = int(name.removeprefix("decimal"))
        value = Decimal(rng.choice((0, 1, -1, 10, 100, -(10**17), rng.randrange(10**16)))).scaleb(-scale)
        return value, fraction(value)
    if name == "bits":
        value = rng.choice((0.0, -0.0, 1.5, -1e300, 5e-324, rng.random()))
        return value, struct.pack(">d", value).hex()
    if name == "hex":
        data = rng.randbytes(rng.randrange(4))
        return data, f"x{data.hex()}"
    moment = datetime(rng.choice((1, 99, 1582, 1969, 2026, 9999)), 10, rng.randrange(1, 28), 23, 59, 59, tzinfo=UTC)
    if name in ("date", "days"):
        day = moment.date()
        return (day if name == "date" else (day - date(1970, 1, 1)).days), day.isoformat()
    unit = 10 ** (6 - (6 if digits is None else digits))
    moment += timedelta(microseconds=rng.choice((0, 1, 500_000, 999_999)) // unit * unit)
    if name == "ms":
        moment = moment.replace(microsecond=moment.microsecond // 1000 * 1000)
    micro = (moment - EPOCH) // timedelta(microseconds=1)
    return {"time": moment, "us": micro, "ms": micro // 1000}[name], time(moment, digits)


TYPES = {
    "text": pa.string(), "integer": pa.int64(), "decimal2": pa.decimal128(20, 2), "decimal20": pa.decimal128(38, 20),
    "bits": pa.float64(), "hex": pa.binary(), "date": pa.date32(), "days": pa.int64(),
    "time": pa.timestamp("us", "UTC"), "ms": pa.int64(), "us": pa.int64(),
}  # fmt: skip
COLUMNS = [*((name, None) for name in TYPES), *((name, n) for name in ("time", "us") for n in (0, 3, 6)), ("ms", 3)]


def test_numbers_are_those_of_the_page(rng: random.Random) -> None:
    values = [[made(rng, *column) if rng.random() < 0.9 else (None, "") for column in COLUMNS] for _ in range(300)]
    arrays = [pa.array([row[i][0] for row in values], TYPES[name]) for i, (name, _) in enumerate(COLUMNS)]
    rows = pa.table(arrays, [str(i) for i in range(len(arrays))])
    forms = [(str(i), Form(name.rstrip("0123456789"), digits)) for i, (name, digits) in enumerate(COLUMNS)]
    texts = [",".join(text for _, text in row) for row in values]
    wanted = [int(hashlib.sha256(text.encode()).hexdigest()[:15], 16) for text in texts]
    assert row_numbers(rows, forms).tolist() == wanted


def numbers_of(kind: pa.DataType, form: Form, *values: Any) -> list[int]:
    rows = pa.table([pa.array(values, kind), pa.array(values, kind)], ["a", "b"])
    found: list[int] = row_numbers(rows, [("a", form), ("b", form)]).tolist()
    return found


def test_values_that_differ_have_other_numbers() -> None:
    text, time = Form("text"), Form("time")
    stamp = pa.timestamp("us", "UTC")
    for kind, form, values in (
        (pa.string(), text, (None, "", " ", "a", "a ", "A", "é", "e\u0301", "0", "NULL", ",", "0:")),
        (pa.int64(), Form("integer"), (None, 0, 1, -1, 10, 2**63 - 1)),
        (pa.bool_(), Form("integer"), (None, True, False)),
        (pa.decimal128(20, 2), Form("decimal"), tuple(map(Decimal, ("0", "0.01", "-0.01", "1", "10", "100", "0.1")))),
        (pa.float64(), Form("bits"), (None, 0.0, -0.0, 1.0, 5e-324)),
        (pa.binary(), Form("hex"), (None, b"", b"\x00", b"\x00\x00", b"0")),
        (pa.date32(), Form("date"), (None, date(1582, 10, 4), date(1582, 10, 10), date(1, 1, 1), date(1970, 1, 1))),
        (stamp, time, (None, EPOCH, EPOCH + timedelta(microseconds=1), EPOCH - timedelta(microseconds=1))),
        (stamp, Form("time", 0), (EPOCH, EPOCH + timedelta(microseconds=1), EPOCH + timedelta(seconds=1))),
        (stamp, Form("time", 3), (EPOCH, EPOCH + timedelta(microseconds=1), EPOCH + timedelta(microseconds=1000))),
        (pa.int64(), Form("days"), (None, 0, 1, -1, 2**40, 2**40 + 1)),
        (pa.int64(), Form("us", 3), (None, 0, 1, 1000, 2**63 - 1)),
    ):
        found = numbers_of(kind, form, *values)
        assert len(set(found)) == len(values), (kind, form)


def test_neighbours_are_told_apart() -> None:
    """Where a text has a separator, or looks like the next column."""
    pairs = [("a,1:b", "c"), ("a", "b,1:c"), ("", "a"), ("a", ""), (None, "a"), ("a", None), (None, ""), ("", None)]
    rows = pa.table([pa.array([a for a, _ in pairs]), pa.array([b for _, b in pairs])], ["a", "b"])
    assert len(set(row_numbers(rows, [("a", Form("text")), ("b", Form("text"))]).tolist())) == len(pairs)


def test_each_column_counts() -> None:
    rows = pa.table([pa.array([1, 1]), pa.array(["x", "x"]), pa.array([1.5, 2.5])], ["a", "b", "c"])
    found = row_numbers(rows, [("a", Form("integer")), ("b", Form("text")), ("c", Form("bits"))]).tolist()
    assert found[0] != found[1]


# ---------------------------------------------------------------- ranges


def test_keys_are_located_as_one_by_one(rng: random.Random) -> None:
    for columns in (1, 2) * 10:  # so often that some keys always lie outside

        def key(columns: int = columns) -> tuple[int, ...]:
            return tuple(rng.choice((-(2**63), 2**63 - 1, *range(-5, 6))) for _ in range(columns))

        keys = [key() for _ in range(300)]
        ends = sorted({key() for _ in range(rng.randrange(1, 9))})
        ranges = [KeyRange(a, b) for a, b in zip([None, *ends], [*ends, None], strict=True)]
        some = [one for one in ranges if rng.random() < 0.7]
        found = located([np.array([k[i] for k in keys], np.int64) for i in range(columns)], some)
        assert found.tolist() == [_place(k, some) for k in keys]


def _place(key: tuple[int, ...], ranges: Sequence[KeyRange]) -> int:
    for n, one in enumerate(ranges):
        if (one.lower is None or key > one.lower) and (one.upper is None or key <= one.upper):
            return n
    return OUTSIDE


def test_bounds_beyond_what_a_mirror_holds_are_beyond_all_keys() -> None:
    keys = [np.array([0, 2**63 - 1], np.int64)]
    assert located(keys, [KeyRange(None, (2**64 - 1,)), KeyRange((2**64 - 1,), None)]).tolist() == [0, 0]


def test_sums_are_of_the_rows_inside_and_wrap() -> None:
    most = np.array([2**60 - 1] * 40, np.uint64)
    found = sums_of(np.array([0, OUTSIDE, *[1] * 38]), most, 3)
    assert found.rows == (1, 38, 0)
    assert found.totals == (2**60 - 1, (2**60 - 1) * 38 % 2**64, 0)


# ---------------------------------------------------------------- groups, and tables


def test_keys_are_of_the_group_that_their_digest_begins_with(rng: random.Random) -> None:
    keys = ["".join(rng.choices(LETTERS, k=rng.randrange(5))) for _ in range(300)]
    rows = pa.table([pa.array(keys)], ["id"])
    for bits in (0, 1, 5, 12):
        numbers = tuple(sorted(rng.sample(range(2**bits), max(1, 2**bits // 3))))
        found = grouped(row_numbers(rows, [("id", Form("text"))]), KeyGroups(bits, numbers, ("string",))).tolist()
        digests = [hashlib.sha256(f"{len(k.encode())}:{k}".encode()).digest() for k in keys]
        mine = [int.from_bytes(one) >> (256 - bits) for one in digests]
        assert found == [numbers.index(n) if n in numbers else OUTSIDE for n in mine]


class _Named:
    """What is asked of a `Shape`."""

    def named(self, column: str) -> str:
        return f"_{column}"


def test_rows_are_told_apart_by_the_table_that_they_are_of(rng: random.Random) -> None:
    names = [("shop_0", "a"), ("shop_1", "a"), ("shop_1", "b"), ("shop_0a", "")]
    tables = rng.choices([*names, ("shop_2", "a"), (None, "a")], k=200)
    rows = pa.table([pa.array([t[i] for t in tables], pa.string()) for i in range(2)], ["_db", "_of"])
    keys = [TableKeys(("id",), said=(("db", db), ("of", of))) for db, of in names]
    found = [places.tolist() for places in of_tables(_Named(), rows, keys)]  # type: ignore[arg-type]
    assert found == [[n for n, each in enumerate(tables) if each == one] for one in names]
    assert [p.tolist() for p in of_tables(_Named(), rows.slice(0, 0), keys)] == [[]] * 4  # type: ignore[arg-type]
    (everything,) = of_tables(_Named(), rows, [TableKeys(("id",))])  # type: ignore[arg-type]
    assert everything.tolist() == list(range(200))
