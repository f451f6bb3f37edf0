"""Both decoders of JSON agree on anything."""

from __future__ import annotations

import json

from engine_fixtures import chunk_of
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.engine.formats.json_decoder import JsonDecoder
from tests.worker.test_engine_decode import spec_of
from tidegate.core.spec.pipeline import Column, EventTime

COLUMNS = (
    Column(name="i", type="int", path="$.i"),
    Column(name="s", type="string", path="$.s"),
    Column(name="d", type="double", path="$.d"),
    Column(name="p", type="decimal(9,3)", path="$.n.p"),
    Column(name="h", type="decimal(20,3)", path="$.n.h"),
    Column(name="w", type="timestamp", path="$.w"),
    Column(name="y", type="date", path="$.y"),
    Column(name="b", type="boolean", path="$.b", nullable=False),
    Column(name="a", type="array<int>", path="$.n.a"),
)
PAIR = [JsonDecoder(spec_of(COLUMNS, event_time=EventTime("$.w", "epoch_ms")), vectorised=v) for v in (True, False)]

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.integers(-1000, 10**12),
    st.floats(width=64),
    st.text(max_size=8),
    st.dates().map(str),
    st.datetimes().map(lambda d: d.isoformat()),
    st.decimals(allow_nan=False, allow_infinity=False, places=4).map(float),
)
values = st.recursive(
    scalars, lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=2), v, max_size=3), max_leaves=6
)
nested = st.fixed_dictionaries({}, optional={"p": scalars, "h": scalars, "a": values, "q": values})
objects = st.fixed_dictionaries(
    {"b": st.booleans() | values, "w": st.integers(0, 10**13) | values},
    optional={"i": scalars, "s": scalars, "d": scalars, "n": nested | values, "y": scalars, "zz": values},
)
texts = objects.flatmap(
    lambda o: st.sampled_from([json.dumps(o), json.dumps(o, indent=1), json.dumps(o, ensure_ascii=False)])
)


@st.composite
def mutated(draw):
    """A JSON text with a few bytes changed, cut or doubled."""
    raw = bytearray(draw(texts).encode("utf-8", "surrogatepass"))
    for _ in range(draw(st.integers(0, 3))):
        at, what = (
            draw(st.integers(0, len(raw))),
            draw(st.sampled_from(['"', ",", "}", "]", "0", ".", "e", "-", "\n", "x"])),
        )
        raw[at : at + draw(st.integers(0, 2))] = what.encode()
    return bytes(raw)


messages = st.one_of(
    st.none(), st.binary(max_size=20), texts.map(lambda t: t.encode("utf-8", "surrogatepass")), mutated()
)


@settings(max_examples=100, deadline=None)
@given(st.lists(messages, min_size=1, max_size=12))
def test_both_decoders_agree_on_anything(chunk):
    fast, slow = (decoder.decode(chunk_of(chunk)) for decoder in PAIR)
    assert fast.bad == slow.bad
    good = [i for i in range(len(chunk)) if i not in slow.bad]
    assert [fast.event_ms[i].as_py() for i in good] == [slow.event_ms[i].as_py() for i in good]
    assert _rows(fast, good) == _rows(slow, good)


def _rows(decoded, good: list[int]) -> list[dict]:
    rows = decoded.table.to_pylist()
    return [rows[i] for i in good]
