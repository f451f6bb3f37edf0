"""Numbers, texts and keys as the C library reads them."""

from __future__ import annotations

import random

import pytest
from engine_fixtures import chunk_of

from spark_jobs.engine.formats.json_decoder import JsonDecoder
from tests.worker.test_engine_native import run, spec, sure
from tidegate.core.spec.pipeline import Column

NON_FINITE = ["NaN", "Infinity", "-Infinity"]
RARE = ["nan", "-nan", "+NaN", "-NaN", "NAN", "inf", "-inf", "Inf", "+Infinity", "infinity", "INFINITY"]
NO_NUMBER = [
    "NaN1",
    "NaNa",
    "Na",
    "N",
    "I",
    "Infinit",
    "Infinityy",
    "-I",
    "-",
    "--Infinity",
    "-Infinit",
    "NaN.5",
    "-NaN5",
]


@pytest.mark.parametrize("unknown", ["ignore", "capture"])
@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize(
    "place",
    ['{"z":%s,"c":1}', '{"c":1,"z":%s}', '{"c":1,"z": [1, %s ]}', '{"z":{"c":%s},"c":1}', '{"c":1,"z":%s,"y":nan}'],
)
def test_what_is_no_finite_number_is_a_row_where_no_column_looks(place: str, version: int, unknown: str) -> None:
    of = spec(Column(name="c", type="int", path="$.c"), unknown=unknown)
    for texts, all_sure in ((NON_FINITE, "nan" not in place), (RARE, False), (NO_NUMBER, False)):
        values = [(place % text).encode() for text in texts]
        fast, slow = (JsonDecoder(of, version, vectorised=v).decode(chunk_of(values)) for v in (True, False))
        assert fast.bad == slow.bad
        assert set(fast.bad) == (set(range(len(values))) if texts is NO_NUMBER else set())
        assert (fast.unknown, fast.table.to_pylist()) == (slow.unknown, slow.table.to_pylist())
        assert run(of, *values)[1] == ([] if all_sure else list(range(len(values))))


def test_what_is_no_finite_number_is_dirty_where_a_column_looks() -> None:
    kinds = ["int", "double", "float", "decimal(5,2)", "string", "boolean", "date", "timestamp", "array<double>"]
    for convert in (None, "text"):
        of = spec(
            *(
                Column(name=f"c{i}", type=k, path=f"$.c{i}", convert=convert if i < 8 else None)
                for i, k in enumerate(kinds)
            )
        )
        values = [b'{"c%d":%s}' % (i, text) for i in range(9) for text in (b"NaN", b"-Infinity", b"[NaN]")]
        fast, slow = (JsonDecoder(of, vectorised=v).decode(chunk_of(values)) for v in (True, False))
        assert fast.bad == slow.bad
        assert set(fast.bad) == set(range(len(values)))


TEXTS = {
    "int": ["7", '"7"', '"-0"', "null"],
    "double": ["1.5", '"1.50"', '"1e-3"', '"7"'],
    "float": ["0.1", '"0.1"', '"-0.0"'],
    "decimal(5,2)": ["1.5", '"1.50"', '"150e-2"', '"-0"'],
    "boolean": ["true", '"true"', '"false"'],
    "string": ['"x"', "1.50", "-0", "1E+2", "true", "false", '"\\u00e9"', '"7"'],
    "binary": ['"x"'],
    "date": ['"2013-01-05"'],
    "timestamp": ["1357358706123", '"1357358706123"', '"2013-01-05T04:05:06Z"', '"-1"', '"2013-01-05 04:05"'],
}
NO_TEXTS = [
    '"7 "',
    '" 7"',
    '"+7"',
    '"07"',
    '"0x7"',
    '""',
    '"7\\u0030"',
    '"7',
    '"1.5.1"',
    '"tru"',
    '"TRUE"',
    "[1]",
    "{}",
]


def test_texts_of_numbers_and_numbers_as_texts() -> None:
    """The library is sure of what is plain; of anything else only the row rules know."""
    for kind, texts in TEXTS.items():
        of = spec(Column(name="c", type=kind, path="$.c", convert="text"))
        sure(of, *(b'{"c":%s}' % text.encode() for text in texts))
        values = [b'{"c":%s}' % text.encode() for text in NO_TEXTS]
        fast, slow = (JsonDecoder(of, vectorised=v).decode(chunk_of(values)) for v in (True, False))
        assert fast.bad == slow.bad
        assert fast.table.equals(slow.table)


def test_short_keys_in_any_order(rng: random.Random) -> None:
    """More of them than are remembered, some with escapes, each with a value of its own."""
    names = [f"k{i}" for i in range(300)] + ["a" * 14, "a" * 15, "a" * 16, "é", "q", "a b"]
    of = spec(*(Column(name=f"c{i}", type="int", path=f'$."{n}"') for i, n in enumerate(names)))
    values = []
    for _ in range(12):
        some = rng.sample(range(len(names)), 200)
        escaped = {i: "".join(f"\\u{ord(x):04x}" if rng.random() < 0.3 else x for x in names[i]) for i in some[:20]}
        values.append(("{" + ",".join(f'"{escaped.get(i, names[i])}":{i}' for i in some) + "}").encode())
    rows = sure(of, *values)
    assert all(v in (None, i) for row in rows for i, v in enumerate(row.values()))


HALVES = [r"\ud83d", r"\ude00", r"\ud83dx", r"\ud83d\u0041", r"\ude00\ud83d", r"\ud83d\ud83d\ude00", r"\uDBFF\uE000"]


@pytest.mark.parametrize("vectorised", [True, False], ids=["vectorised", "rows"])
@pytest.mark.parametrize("place", ['{"c":"%s"}', '{"z":["%s"],"c":"x"}', '{"%s":1,"c":"x"}', '{"z":{"%s":1},"c":"x"}'])
def test_half_of_a_surrogate_pair_is_no_character_anywhere(place: str, vectorised: bool) -> None:
    whole = [r"\ud83d\ude00", r"\uDBFF\uDFFF\ud7ff\ue000", r"\\ud83d", r"\\\ud83d\ude00"]
    chunk = chunk_of([(place % text).encode() for text in HALVES + whole])
    decoded = JsonDecoder(spec(Column(name="c", type="string", path="$.c")), vectorised=vectorised).decode(chunk)
    assert set(decoded.bad) == set(range(len(HALVES)))
    assert {why.reason for why in decoded.bad.values()} == {"an escape that is no character (half of a surrogate pair)"}
