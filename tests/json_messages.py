"""Random JSON messages for decoders: values of every type and near it, written in many ways, then damaged."""

from __future__ import annotations

import json
import random
from collections.abc import Callable

from tidegate.core.base.hivetypes import Array, Decimal, HiveType, Map, Struct

_EDGES = (
    "0 -0 1 -1 127 128 -128 -129 255 32767 32768 -32768 -32769 2147483647 2147483648 -2147483648 -2147483649 "
    "9223372036854775807 9223372036854775808 -9223372036854775808 -9223372036854775809 18446744073709551615 "
    "18446744073709551616 99999999999999999999 1e0 1E5 1e-5 1.0 0.1 -0.0 0.30000000000000004 1e308 1e309 -1e309 "
    "1.7976931348623157e308 1.7976931348623159e308 2.2250738585072014e-308 2.2250738585072011e-308 5e-324 4.9e-324 "
    "2.4703282292062327e-324 2.4703282292062328e-324 1e-400 3.4028235e38 3.4028236e38 1.401298464324817e-45 "
    "9007199254740992 9007199254740993 9007199254740994 9007199254740995 0.1e1 100e-2 123456789012345678 "
    "1234567890123456789 12345678901234567890 0.1234567890123456789 1e22 1e23 9e22 1e27 1e28 8.5e-28 "
    "4503599627370497.5 4503599627370496.5 1.5e300 1e400 0e400 0e99999999999999999999 "
    "1e-99999999999999999999 999.99 1000 1.230 1.234 "
    "12345678901234567890123456789012345678 0.00000000000000000000000000000000000001 253402300799999 253402300800000 "
    "-62135596800000 -62135596800001 1357358706123"
)
_ODD = "01 +1 1. .5 1e 1e+ - 0x1 1_0 NaN Infinity -inf nan tru nul True None 'x' 1e999 -1e999 [1,] {,} /**/1 1;"
_NON_FINITE = "NaN Infinity -Infinity NaN NaN -NaN nan inf -inf +Infinity NaN1 Infinit"
EDGES, ODD, NON_FINITE = _EDGES.split(), _ODD.split(), _NON_FINITE.split()
TEXTS = (
    "", "x", "null", "true", "2013-01-05", "2000-02-29", "1900-02-29", "0000-01-01", "9999-12-31", "2013-1-5",
    "2013-01-05T04:05:06Z", "2013-01-05 04:05", "2013-01-05T04:05:06.1234567", "2013-01-05T04:05:06.123+02:00",
    "2013-01-05T04:05:06-0330", "2013-01-05T04:05:06+24:00", "2013-01-05T24:00:00", "2016-12-31T23:59:60Z",
    "0001-01-01T00:00:00+00:01", "9999-12-31T23:59:59.999999999Z", "2013-01-05T04:05:06.1234567890Z", "7", "-0",
    "1969-12-31T23:59:59.9999999Z", "ünïcödé", "日本語のテキスト", "😀😀", "\x7f", "\x00\x01\x1f",
    "a\"b\\c/d\n\r\t\b\f",
    "\u2028\ufeff\uffff", "long " * 40, "é" * 33, "x" * 15, "x" * 16, "x" * 17, "x" * 31,
)  # fmt: skip


class Writer:
    """Values as JSON text, spelled in one of many ways: `ascii` and `spaces` are chances."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.ascii, self.spaces = rng.choice([0.0, 0.0, 1.0, 0.3]), rng.choice([0.0, 0.0, 0.0, 0.2])

    def space(self) -> str:
        return "".join(self.rng.choices(" \n\r\t", k=self.rng.randrange(20))) if self.rng.random() < self.spaces else ""

    def string(self, text: str) -> str:
        if self.rng.random() >= self.ascii:
            return json.dumps(text, ensure_ascii=False)
        units = text.encode("utf-16-be", "surrogatepass")
        codes = [int.from_bytes(units[i : i + 2], "big") for i in range(0, len(units), 2)]
        return '"' + "".join(self._unit(c) for c in codes) + '"'

    def _unit(self, code: int) -> str:
        plain = 32 <= code < 127 and chr(code) not in '"\\'
        if plain and self.rng.random() < 0.8:
            return r"\/" if code == 47 and self.rng.random() < 0.5 else chr(code)
        return f"\\u{code:04x}" if self.rng.random() < 0.5 else f"\\u{code:04X}"

    def object(self, members: list[tuple[str, str]]) -> str:
        each = [f"{self.space()}{self.string(k)}{self.space()}:{self.space()}{v}{self.space()}" for k, v in members]
        return "{" + ",".join(each) + self.space() + "}"

    def array(self, items: list[str]) -> str:
        return "[" + ",".join(self.space() + each + self.space() for each in items) + "]"


def number(rng: random.Random) -> str:
    how = rng.randrange(6)
    if how == 0:
        return rng.choice(EDGES)
    if how == 1:
        return str(rng.randrange(-(10 ** rng.randrange(1, 22)), 10 ** rng.randrange(1, 22)))
    if how == 2:
        return repr(rng.uniform(-1, 1) * 10.0 ** rng.randrange(-30, 30))
    if how == 3:
        return repr(round(rng.uniform(-1000, 1000), rng.randrange(5)))
    if how == 4:
        digits = "".join(rng.choices("0123456789", k=rng.randrange(1, 40)))
        return f"{rng.randrange(10)}.{digits}e{rng.randrange(-330, 308)}"
    whole = str(rng.randrange(10 ** rng.randrange(1, 40)))
    return whole + (f".{rng.randrange(10 ** rng.randrange(1, 40))}" if rng.random() < 0.7 else "")


def anything(rng: random.Random, writer: Writer, levels: int = 3) -> str:
    how = rng.randrange(8 if levels else 5)
    if how == 0:
        return rng.choice(["null", "true", "false"] if rng.random() < 0.9 else NON_FINITE)
    if how in (1, 2):
        return number(rng)
    if how in (3, 4):
        return writer.string(rng.choice(TEXTS))
    if how == 5:
        return writer.array([anything(rng, writer, levels - 1) for _ in range(rng.randrange(4))])
    keys = rng.choices(
        [*"abcxyz", "", "a b", "köln", "key of fifteen_", "key of sixteen__", "k" * 40], k=rng.randrange(4)
    )
    return writer.object([(key, anything(rng, writer, levels - 1)) for key in keys])


def fitting(kind: HiveType, rng: random.Random, writer: Writer) -> str:
    """Mostly a value of the type."""
    if rng.random() < 0.005:
        return rng.choice(ODD) if rng.random() < 0.3 else anything(rng, writer)
    if rng.random() < 0.05:
        return "null"
    if isinstance(kind, Array):
        return writer.array([fitting(kind.element, rng, writer) for _ in range(rng.randrange(5))])
    if isinstance(kind, Map):
        make = {"string": lambda: rng.choice(TEXTS), "date": lambda: f"20{rng.randrange(10, 99)}-01-05"}
        make |= {"boolean": lambda: rng.choice(["true", "false"]), "binary": make["string"]}
        key = make.get(str(kind.key), lambda: str(rng.randrange(-5, 128)))
        keys = {key() for _ in range(rng.randrange(5))} if rng.random() < 0.99 else [key(), key()]
        return writer.object([(key, fitting(kind.value, rng, writer)) for key in keys])
    if isinstance(kind, Struct):
        fields = [(name, fitting(each, rng, writer)) for name, each in kind.fields if rng.random() < 0.9]
        if rng.random() < 0.2:
            fields.append((rng.choice(["z", "other", "A", "ö", "a.b"]), anything(rng, writer, 1)))
        rng.shuffle(fields)
        return writer.object(fields)
    if isinstance(kind, Decimal):
        if rng.random() < 0.02:
            return number(rng)
        value = rng.randrange(10**kind.precision)
        fraction = f".{value % 10**kind.scale:0{kind.scale}d}" if kind.scale else rng.choice(["", ".0", ".000e0"])
        return f"{rng.choice(['', '-'])}{value // 10**kind.scale}{fraction}{rng.choice(['', '', '0', 'e0', 'E-0'])}"
    return _SCALARS[str(kind)](rng, writer)


def _integer(bits: int) -> Callable[[random.Random, Writer], str]:
    return lambda rng, _: str(rng.randrange(-(1 << bits - 1), 1 << bits - 1)) if rng.random() < 0.97 else number(rng)


def _float(rng: random.Random, _: Writer) -> str:
    return number(rng)


def _time(rng: random.Random, writer: Writer) -> str:
    if rng.random() < 0.3:
        return str(rng.randrange(-62_135_597_000_000, 253_402_301_000_000))
    zone = rng.choice(["", "Z", "+02:00", "-1130", "+05"])
    fraction = rng.choice(["", ".5", ".123456", ".123456789"])
    day = f"{rng.randrange(1, 10000):04d}-{rng.randrange(1, 13):02d}-{rng.randrange(1, 30):02d}"
    return json.dumps(f"{day}{rng.choice('T ')}{rng.randrange(24):02d}:{rng.randrange(60):02d}:07{fraction}{zone}")


_SCALARS: dict[str, Callable[[random.Random, Writer], str]] = {
    "boolean": lambda rng, _: rng.choice(["true", "false"]),
    "tinyint": _integer(8),
    "smallint": _integer(16),
    "int": _integer(32),
    "bigint": _integer(64),
    "float": _float,
    "double": _float,
    "string": lambda rng, writer: writer.string(rng.choice(TEXTS)),
    "binary": lambda rng, writer: writer.string(rng.choice(TEXTS)),
    "date": lambda rng, _: f'"{rng.randrange(1, 10000):04d}-{rng.randrange(1, 13):02d}-{rng.randrange(1, 30):02d}"',
    "timestamp": _time,
}


def damaged(message: bytes, rng: random.Random) -> bytes:
    """A few bytes changed, cut, doubled or moved."""
    raw = bytearray(message)
    for _ in range(rng.choice([1, 1, 1, 2, 3, 5])):
        at, to = sorted((rng.randrange(len(raw) + 1), rng.randrange(len(raw) + 1)))
        how = rng.randrange(8)
        if how == 0:
            raw[at : at + 1] = bytes([rng.randrange(256)])
        elif how == 1:
            raw[at : at + rng.randrange(3)] = rng.choice(
                b'"\\,:{}[]0123456789.eE+- \n\x00\x1f\x7f\x80\xc3\xed\xf4tfnu'
            ).to_bytes()
        elif how == 2:
            del raw[at : at + rng.randrange(1, 4)]
        elif how == 3:
            del raw[to:]
        elif how == 4:
            raw[at:at] = raw[at : min(to, at + 60)]
        elif how == 5 and raw:
            raw[min(at, len(raw) - 1)] ^= 1 << rng.randrange(8)
        elif how == 6:
            raw[at:at] = rng.choice(
                [b"\xef\xbb\xbf", b"\xc0\x80", b"\xed\xa0\x80", b"\\ud83d", b"\\u0000", b"1" * 30, b"[" * 7]
            )
        else:
            raw[at : at + 10], raw[to : to + 10] = raw[to : to + 10], raw[at : at + 10]
    return bytes(raw)
