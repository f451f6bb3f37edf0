"""Whole Avro records as another library writes them, and the same with bytes changed."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.engine.formats import Bad
from tests.avro_values import ENUM, INNER, decoder, record, written
from tests.engine_fixtures import chunk_of
from tests.format_fixtures import between

EVERYTHING = record(
    b="boolean",
    i=["null", "int"],
    l="long",
    f="float",
    d="double",
    y="bytes",
    s=["string", "null"],
    e=ENUM,
    x={"type": "fixed", "name": "F", "size": 2},
    a={"type": "array", "items": ["null", "long"]},
    m={"type": "map", "values": "string"},
    r=INNER,
)
COLUMNS = {
    "b": "boolean",
    "i": "int",
    "l": "bigint",
    "f": "float",
    "d": "double",
    "y": "binary",
    "s": "string",
    "e": "string",
    "x": "binary",
    "a": "array<bigint>",
    "m": "map<string,string>",
    "r": "struct<x:int,s:string>",
}
ints, longs = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
floats = st.floats(allow_nan=False, allow_infinity=False)
rows = st.fixed_dictionaries(
    {
        "b": st.booleans(),
        "i": st.none() | ints,
        "l": longs,
        "f": st.floats(width=32, allow_nan=False, allow_infinity=False),
        "d": floats,
        "y": st.binary(max_size=9),
        "s": st.none() | st.text(max_size=9),
        "e": st.sampled_from("AB"),
        "x": st.binary(min_size=2, max_size=2),
        "a": st.lists(st.none() | longs, max_size=3),
        "m": st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=3),
        "r": st.fixed_dictionaries({"x": ints, "s": st.text(max_size=3)}),
    }
)
WHOLE = decoder(EVERYTHING, COLUMNS)
PARTS = [decoder(EVERYTHING, {name: kind}) for name, kind in COLUMNS.items()]


@settings(max_examples=40, deadline=None)
@given(st.lists(rows, min_size=1, max_size=4))
def test_what_another_library_writes_is_read(values):
    decoded = WHOLE.decode(chunk_of([written(EVERYTHING, v) for v in values]))
    assert not decoded.bad
    found = [{**row, "m": dict(row["m"])} for row in decoded.table.to_pylist()]
    wanted = [{**{name: v[name] for name in COLUMNS}, "r": {"x": v["r"]["x"], "s": v["r"]["s"]}} for v in values]
    assert repr(found) == repr(wanted)  # minus zero shows


@settings(max_examples=40, deadline=None)
@given(rows, st.randoms(use_true_random=False))
def test_mutated_messages_shift_nothing_and_are_judged_alike_whatever_the_columns(value, rng: random.Random):
    """A message is malformed for one set of columns if and only if it is for any other."""
    raw = bytearray(written(EVERYTHING, value))
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(raw) + 1)
        raw[at : at + rng.randint(0, 2)] = rng.choice([b"", b"\x00", b"\x80", b"\xff", b"\x01", rng.randbytes(2)])
    good = written(EVERYTHING, value)
    found, _ = between(WHOLE, bytes(raw), good)
    parts = [between(part, bytes(raw), good)[0] for part in PARTS]
    reasons = {part.reason for part in parts if isinstance(part, Bad) and not part.field}
    assert reasons == ({found.reason} if isinstance(found, Bad) and not found.field else set())
