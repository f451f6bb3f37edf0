"""Raw records by docs/types.md: each row of its section."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spark_jobs.engine.decoder import decoder_for
from spark_jobs.engine.failures import JobError
from tests.engine_fixtures import DAY_ONE, job_plan, pipeline
from tests.format_fixtures import spec
from tidegate.core.base.plain import to_plain
from tidegate.core.batch.jobs import wants_headers
from tidegate.core.source.records import Chunk, bytes_of
from tidegate.core.spec.pipeline import RAW_HEADERS, Format
from tidegate.sources.kafka.worker import _beside_values

RAW = Format("raw")
ODD = [b"", b"a\nb\r\n", None, b'{"a":1}{"a":2}', b"\xff\x00", b"\xef\xbb\xbf"]


def chunk(values, keys=None, headers=None) -> Chunk:
    count = len(values)
    return Chunk(list(range(count)), [DAY_ONE] * count, keys or [None] * count, values, headers)


def test_records_are_as_they_are():
    """("R-key", "R-value", "R-headers"): nothing in a record makes it dirty."""
    headers = [None, [], [("h", b"\xff"), ("h", None), ("", b"")], None, [("ü", b"1")], None]
    made = spec(RAW, {"key": "binary", "value": "binary", "headers": RAW_HEADERS})
    decoded = decoder_for(made).decode(chunk(ODD, list(reversed(ODD)), headers))
    assert decoded.bad == decoded.unknown == {}
    assert decoded.event_ms is None
    rows = decoded.table.to_pylist()
    assert [r["value"] for r in rows] == ODD
    assert [r["key"] for r in rows] == list(reversed(ODD))
    found = [None if r["headers"] is None else [(h["name"], h["value"]) for h in r["headers"]] for r in rows]
    assert found == headers


def test_without_headers_from_the_reader_they_are_null():
    made = spec(RAW, {"headers": RAW_HEADERS})
    assert decoder_for(made).decode(chunk(ODD)).table["headers"].null_count == len(ODD)


@pytest.mark.parametrize("row", ["R-string", "R-nullable"])
def test_text_and_null_where_the_spec_asks_for_more(row):
    kind = "string from $.value" if row == "R-string" else "binary from $.value not null"
    decoded = decoder_for(spec(RAW, {"c": kind, "key": "binary"})).decode(chunk(ODD, list(ODD)))
    assert decoded.table["key"].to_pylist() == ODD
    if row == "R-string":
        assert {i: bad.field for i, bad in decoded.bad.items()} == {4: "c"}
        assert decoded.bad[4].reason == "invalid UTF-8 at byte 0"
        assert decoded.table["c"].to_pylist() == ["", "a\nb\r\n", None, '{"a":1}{"a":2}', None, "\ufeff"]
    else:
        assert list(decoded.bad) == [2]


@pytest.mark.parametrize("row", ["R-columns", "R-unknown"])
def test_what_a_raw_record_does_not_have_is_refused(row):
    """The spec refuses it first: tests/spec/test_spec_formats.py."""
    wrong = {"R-columns": {"c": "int from $.value"}, "R-unknown": {"field": "binary"}}[row]
    with pytest.raises(JobError, match="a raw record has no"):
        decoder_for(spec(RAW, wrong))
    with pytest.raises(JobError, match="no event time but Kafka's"):
        decoder_for(spec(RAW, {"value": "binary"}, "$.at"))


def test_keys_and_headers_count_where_a_chunk_is_measured():
    headers = [[("name", b"12345"), ("n", None)], None, []]
    made = chunk([b"v"] * 3, [b"key", None, b""], headers)
    assert _beside_values(made, bytes_of(made.keys)) == 3 + 4 + 5 + 1
    assert _beside_values(replace(made, headers=None), 0) == 0


def test_headers_are_fetched_only_for_raw_records(tmp_path):

    json_plan = job_plan(pipeline(tmp_path), [(0, 0, 1)])
    raw_plan = job_plan(pipeline(tmp_path, format=RAW), [(0, 0, 1)])
    pinned = replace(json_plan, parts=(replace(json_plan.parts[0], pinned=to_plain(pipeline(tmp_path, format=RAW))),))
    assert [wants_headers(p) for p in (json_plan, raw_plan, pinned)] == [False, True, True]
