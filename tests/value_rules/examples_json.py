"""Examples of JSON rows that do not fit on the page: bytes that are no text, long ones, more than one column."""

from __future__ import annotations

from dataclasses import dataclass

from tests.value_rules.oracle_json import PlainColumn, PlainSpec
from tests.value_rules.page import DIRTY

ARROWS_IN_PROSE = 0
"""Arrows in cells that are no examples."""

C_STRING = PlainSpec((PlainColumn("c", "string", ("c",)),))
C_INT = PlainSpec((PlainColumn("c", "int", ("a", "b")),))


def column(kind: str, **changes: object) -> PlainSpec:
    return PlainSpec((PlainColumn("c", kind, ("c",), **changes),))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Wide:
    """`expected`: DIRTY, or what the page would write for column `c`; `field` is where a dirty message is wrong."""

    row: str
    spec: PlainSpec
    message: bytes | None
    expected: str
    field: str = ""


def nested(levels: int, inner: bytes = b"1") -> bytes:
    """A value of so many levels of arrays."""
    return b"[" * levels + inner + b"]" * levels


_LONG = b"1" * 100_000
_TWO = PlainSpec((PlainColumn("c", "array<struct<price:int>>", ("c",)), PlainColumn("d", "int", ("d",))), ("t",))
_STRICT = PlainSpec((PlainColumn("c", "string", ("c",), nullable=False),))

WIDE = [
    Wide("J-message-tombstone", C_STRING, None, DIRTY),
    Wide("J-message-empty", C_STRING, b"", DIRTY),
    Wide("J-message-empty", C_STRING, b" \t\r\n", DIRTY),
    Wide("J-message-utf8", C_STRING, b'{"c":"\xff"}', DIRTY),
    Wide("J-message-utf8", C_STRING, b'{"c":"\xc0\xaf"}', DIRTY),
    Wide("J-message-utf8", C_STRING, b'{"c":"\xed\xa0\x80"}', DIRTY),
    Wide("J-message-utf8", C_STRING, b'{"c":"\xf4\x90\x80\x80"}', DIRTY),
    Wide("J-message-utf8", C_STRING, b'{"c":"x","z":"\xe2\x82"}', DIRTY),
    Wide("J-message-utf8", C_STRING, b'{"c":"\xf4\x8f\xbf\xbf"}', '"\U0010ffff"'),
    Wide("J-message-bom", C_STRING, b'\xef\xbb\xbf{"c":"x"}', DIRTY),
    Wide("J-message-bom", C_STRING, b'{"c":"x"}\xef\xbb\xbf', DIRTY),
    Wide("J-message-bom", C_STRING, b'{"c":"\xef\xbb\xbf"}', '"\ufeff"'),
    Wide("J-message-trailing", C_STRING, b'{"c":"x"}\x00', DIRTY),
    Wide("J-message-trailing", C_STRING, b'{"c":"x"}\n{"c":"y"}', DIRTY),
    Wide("J-message-syntax", C_STRING, b'{"c":"a\nb"}', DIRTY),
    Wide("J-message-syntax", C_STRING, b'{"c":"\x7f"}', '"\x7f"'),
    Wide("J-message-syntax", C_STRING, b'{"c":"x"\x0b}', DIRTY),
    Wide("J-message-syntax", C_STRING, b'{"c":"x"\xc2\xa0}', DIRTY),
    Wide("J-message-nonfinite", C_STRING, b'{"c":"x","y":-inf,"z":NaNaN}', DIRTY),
    Wide("J-message-nonfinite", C_STRING, b'{"c":"x","y":-inf,"z":NaN,"q":[+INFINITY]}', '"x"'),
    Wide("J-message-depth", C_STRING, b'{"c":"x","z":' + nested(499) + b"}", '"x"'),
    Wide("J-message-depth", C_STRING, b'{"c":"x","z":' + nested(500) + b"}", DIRTY),
    Wide("J-message-depth", C_STRING, b'{"c":"x","z":' + b'{"a":' * 499 + b"1" + b"}" * 499 + b"}", '"x"'),
    Wide("J-message-depth", C_STRING, b'{"c":"x","z":' + b'{"a":' * 500 + b"1" + b"}" * 500 + b"}", DIRTY),
    Wide("J-message-depth", C_STRING, b"[" * 100_000, DIRTY),
    Wide("J-message-depth", C_STRING, b'{"c":"x","z":' + nested(100_000) + b"}", DIRTY),
    Wide("J-message-large", C_STRING, b'{"c":"' + b"x" * 3_000_000 + b'"}', '"' + "x" * 3_000_000 + '"'),
    Wide("J-message-large", C_STRING, b'{"c":"x","z":' + _LONG + b"}", '"x"'),
    Wide("J-message-large", column("bigint"), b'{"c":' + _LONG + b"}", DIRTY, "c"),
    Wide("J-message-large", column("double"), b'{"c":0.' + _LONG + b"}", "0.1111111111111111"),
    Wide("J-message-large", column("decimal(5,2)"), b'{"c":1.' + b"0" * 100_000 + b"}", "1.00"),
    Wide("J-number-decimal", column("decimal(38,10)"), b'{"c":1.' + b"0" * 500 + b"}", "1.0000000000"),
    Wide("X-null", _STRICT, b'{"c":null}', DIRTY, "c"),
    Wide("X-null", _STRICT, b"{}", DIRTY, "c"),
    Wide("X-null", column("array<string>", nullable=False), b'{"c":[null]}', "[null]"),
    Wide("X-reason", _TWO, b'{"c":[{"price":1},{"price":"1"}],"d":"1","t":"x"}', DIRTY, "c[1].price"),
    Wide("X-reason", _TWO, b'{"c":null,"d":"1","t":"x"}', DIRTY, "d"),
    Wide("X-reason", _TWO, b'{"c":null,"d":1,"t":"x"}', DIRTY, "$.t"),
    Wide("X-reason", _TWO, b'{"c":null,"d":1,"t":"x"', DIRTY),
    Wide("X-range-timestamp", column("array<timestamp>"), b'{"c":[253402300800000]}', DIRTY, "c[0]"),
    Wide("X-range-date", column("array<date>"), b'{"c":["0000-12-31"]}', DIRTY, "c[0]"),
    Wide("X-decimal", column("array<decimal(2,2)>"), b'{"c":[0,0.0,0.990]}', "[0.00, 0.00, 0.99]"),
    Wide("X-decimal", column("array<decimal(2,2)>"), b'{"c":[1]}', DIRTY, "c[0]"),
    Wide("X-finite", column("array<double>"), b'{"c":[-0.0,NaN]}', DIRTY, "c[1]"),
]
