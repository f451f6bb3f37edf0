"""Messages changed in a few bytes, so that they are nearly right: what a parser and a converter must tell apart."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random

_TOKENS = (
    b'"', b"'", b",", b":", b"{", b"}", b"[", b"]", b" ", b"\n", b"\t", b"\x0b", b"\x00", b"\x1f", b"\x7f", b"\\",
    b"\\u", b"\\ud83d", b"\\ude00", b"\\u0000", b"\\x", b"/", b"/**/", b"-", b"+", b".", b"e", b"E", b"0", b"1", b"9",
    b"00", b"e5", b"e-5", b"e400", b".0", b"null", b"true", b"false", b"NaN", b"inf", b"-Infinity", b"nan", b"T", b"Z",
    b"+02:00", b"-2359", b":60", b"24", b"12", b"31", b"02-29", b"\xef\xbb\xbf", b"\xff", b"\xc0\x80", b"\xed\xa0\x80",
    b"\xf0\x9f\x98\x80", b"\xc3\xbc", b"\xe2\x80\xa8", b"\xd9\xa3", b'"c"', b'"c":1,', b'{"a":1}', b"[]", b"{}",
)  # fmt: skip
_NUMBER = re.compile(rb"-?[0-9][0-9.eE+-]*")
_NUMBERS = (
    "0", "-0", "-1", "1", "127", "128", "-128", "-129", "255", "32767", "32768", "2147483647", "2147483648",
    "-2147483648", "-2147483649", "4294967296", "9007199254740993", "9223372036854775807", "9223372036854775808",
    "-9223372036854775808", "-9223372036854775809", "18446744073709551615", "18446744073709551616", "1e0", "1E2",
    "1.0", "0.1", "0.30000000000000004", "1e308", "1e309", "-1e309", "1e-400", "1.5e-7", "3.4028235e38", "3.5e38",
    "99.99", "999.99", "1000", "1e-999999999999999999999", "0e999999999999999999999", "1357358706123",
    "253402300799999",
    "253402300800000", "-62135596800000", "-62135596800001", "100000000000000000000000000000000000000",
    "99999999999999999999999999999999999999", "0.000000000000000000001", "12345678901234.123456",
)  # fmt: skip

Mutation = Callable[[bytearray, int, Random], None]


def _flip(raw: bytearray, at: int, rng: Random) -> None:
    if raw:
        raw[at % len(raw)] ^= 1 << rng.randrange(8)


def _random_byte(raw: bytearray, at: int, rng: Random) -> None:
    if raw:
        raw[at % len(raw)] = rng.randrange(256)


def _insert(raw: bytearray, at: int, rng: Random) -> None:
    raw[at:at] = rng.choice(_TOKENS)


def _replace(raw: bytearray, at: int, rng: Random) -> None:
    raw[at : at + rng.randint(1, 3)] = rng.choice(_TOKENS)


def _delete(raw: bytearray, at: int, rng: Random) -> None:
    del raw[at : at + rng.choice((1, 1, 1, 2, 3, 8))]


def _double(raw: bytearray, at: int, rng: Random) -> None:
    """A slice twice."""
    raw[at:at] = raw[at : at + rng.randint(1, 12)]


def _digit(raw: bytearray, at: int, rng: Random) -> None:
    digits = [i for i, b in enumerate(raw) if 48 <= b <= 57]
    if digits:
        raw[rng.choice(digits)] = 48 + rng.randrange(10)


def _number(raw: bytearray, at: int, rng: Random) -> None:
    """One number becomes another that is at a limit."""
    found = list(_NUMBER.finditer(raw))
    if found:
        match = rng.choice(found)
        raw[match.start() : match.end()] = rng.choice(_NUMBERS).encode()


def _letter(raw: bytearray, at: int, rng: Random) -> None:
    """One byte inside a word or a number becomes another of its sort."""
    places = [i for i, b in enumerate(raw) if b < 128 and chr(b).isalnum()]
    if places:
        raw[rng.choice(places)] = rng.choice(b"0123456789abcdeEnrtuxTZNI")


def _sign(raw: bytearray, at: int, rng: Random) -> None:
    """A separator inside a number, date or zone becomes another one."""
    places = [i for i, b in enumerate(raw) if b in b"-+.:T"]
    if places:
        raw[rng.choice(places)] = rng.choice(b"-+.:T ")


def _long(raw: bytearray, at: int, rng: Random) -> None:
    """A run of digits, letters or zeros."""
    raw[at:at] = rng.choice((b"0", b"1", b"9", b"x", b" ")) * rng.choice((5, 20, 40, 400))


def _deep(raw: bytearray, at: int, rng: Random) -> None:
    levels = rng.choice((1, 2, 10, 497, 498, 499, 500, 501))
    left, right = rng.choice(((b"[", b"]"), (b'{"a":', b"}")))
    raw[at:at] = left * levels + b"1" + right * levels


_WEIGHTED: tuple[tuple[Mutation, int], ...] = (
    (_flip, 10), (_random_byte, 4), (_insert, 14), (_replace, 10), (_delete, 10), (_double, 8), (_digit, 26),
    (_number, 22), (_letter, 16), (_sign, 6), (_long, 2), (_deep, 1),
)  # fmt: skip
_MUTATIONS = [m for m, _ in _WEIGHTED]
_WEIGHTS = [w for _, w in _WEIGHTED]


def mutate(message: bytes, others: Sequence[bytes], rng: Random) -> bytes:
    """One to three changes; now and then the rest of another message is put behind a part of this one."""
    raw = bytearray(message)
    for mutation in rng.choices(_MUTATIONS, _WEIGHTS, k=rng.choice((1, 1, 1, 2, 3))):
        mutation(raw, rng.randint(0, len(raw)), rng)
    if others and rng.random() < 0.03:
        other = rng.choice(others)
        raw[rng.randint(0, len(raw)) :] = other[rng.randint(0, len(other)) :]
    return bytes(raw)


_BYTES = (0, 1, 2, 3, 4, 5, 8, 10, 0x7E, 0x7F, 0x80, 0x81, 0xFE, 0xFF)
_PIECES = (
    b"\x00", b"\x01", b"\x02", b"\x80\x00", b"\xff" * 9 + b"\x01", b"\xff" * 10, b"\xff" * 9 + b"\x7f",
    b"\x80" * 9 + b"\x00", b"\x80" * 10, b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x80\x10",
    b"\xff\xff\xff\xff\x1f", b"\x02\x02", b"\x01\x04", b"\x00\x00\xc0\x7f", b"\x00\x00\x80\xff",
    b"\x00" * 6 + b"\xf0\x7f", b"\xc3\x28", b"\xf0\x9f\x98\x80", b"\x07", b"\x0b", b"\x0c",
)  # fmt: skip


def _small_byte(raw: bytearray, at: int, rng: Random) -> None:
    if raw:
        raw[at % len(raw)] = rng.choice(_BYTES)


def _piece(raw: bytearray, at: int, rng: Random) -> None:
    """A number at its limits, a special float, an odd character."""
    raw[at : at + rng.choice((0, 0, 1, 2))] = rng.choice(_PIECES)


def _off(raw: bytearray, at: int, rng: Random) -> None:
    """One more or less."""
    if raw:
        raw[at % len(raw)] = (raw[at % len(raw)] + rng.choice((-2, -1, 1, 2))) % 256


_BINARY: tuple[tuple[Mutation, int], ...] = (
    (_flip, 24), (_random_byte, 18), (_small_byte, 24), (_off, 18), (_piece, 10), (_delete, 8), (_double, 6),
)  # fmt: skip
_BINARY_MUTATIONS = [m for m, _ in _BINARY]
_BINARY_WEIGHTS = [w for _, w in _BINARY]


def mutate_binary(message: bytes, others: Sequence[bytes], rng: Random) -> bytes:
    """As `mutate`, for messages that are no text."""
    raw = bytearray(message)
    for mutation in rng.choices(_BINARY_MUTATIONS, _BINARY_WEIGHTS, k=rng.choice((1, 1, 1, 2, 3))):
        mutation(raw, rng.randint(0, len(raw)), rng)
    if others and rng.random() < 0.03:
        other = rng.choice(others)
        raw[rng.randint(0, len(raw)) :] = other[rng.randint(0, len(other)) :]
    return bytes(raw)
