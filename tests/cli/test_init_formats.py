"""Drafts from messages of other formats than JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from engine_fixtures import DAY_ONE
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet

from spark_jobs.handlers.draft import kind_of
from tests.cli.test_init import Bench, bench

__all__ = ["bench"]  # fixtures


# ---------------------------------------------------------------- formats


def test_formats_are_told_apart() -> None:
    assert kind_of([b'{"a":1}', b"x"]) == "raw"
    assert kind_of([b' {"a":1}', b'{"a":1}', b"x"]) == "json"
    assert kind_of([b"1;2"] * 2) == "csv"
    assert kind_of([b"\x00\x00\x00\x00\x07abc"]) == "confluent"
    assert kind_of([b"\xff\xfe", None]) == "raw"
    assert kind_of([None]) == kind_of([]) == "raw"


def test_csv(bench: Bench) -> None:
    bench.topic([f"s{i};{i};{DAY_ONE // 1000 + i * 60};007".encode() for i in range(50)])
    spec, _, said = bench.drafted("--fields", "site,value,ts,code")
    assert spec.format.csv is not None
    assert spec.format.csv.delimiter == ";"
    assert [(c.name, c.type) for c in spec.columns] == [
        ("site", "string"), ("value", "bigint"), ("ts", "bigint"), ("code", "string"),
    ]  # fmt: skip
    assert (spec.event_time.path, spec.event_time.format) == ("$.ts", "epoch_s")
    assert "50 of 50 messages become rows; 0 would be dirty" in said


def test_csv_with_an_iso_time_and_without_names(bench: Bench) -> None:
    bench.topic([f"a,2013-01-05T{i % 24:02d}:00:00Z".encode() for i in range(48)])
    spec, _, _ = bench.drafted("--event-time", "field_2")
    assert (spec.event_time.path, spec.event_time.format) == ("$.field_2", "iso8601")


def test_raw(bench: Bench) -> None:
    bench.topic([b"\xff\x00binary"] * 9)
    spec, _, said = bench.drafted()
    assert (spec.format.type, spec.event_time.path) == ("raw", None)
    assert [c.name for c in spec.columns] == ["key", "value", "headers"]
    assert "9 of 9 messages become rows" in said


SCHEMA = {"type": "record", "name": "R", "fields": [{"name": "site", "type": "string"}, {"name": "at", "type": "long"}]}


def varint(n: int) -> bytes:
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def avro(i: int) -> bytes:
    return varint(2) + b"s" + varint((DAY_ONE + i) << 1)


def test_avro(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "r.avsc").write_text(json.dumps(SCHEMA))
    bench.topic([avro(i) for i in range(30)])
    spec, _, said = bench.drafted("--format", "avro", "--schema", str(tmp_path / "r.avsc"))
    assert [(c.name, c.type) for c in spec.columns] == [("site", "string"), ("at", "bigint")]
    assert spec.event_time.path == "$.at"
    assert "30 of 30 messages become rows" in said


def test_protobuf(bench: Bench, tmp_path: Path) -> None:
    described = FileDescriptorProto(name="r.proto", package="t", syntax="proto3")
    kind = described.message_type.add(name="R")
    for number, (name, code) in enumerate([("site", "STRING"), ("at", "INT64"), ("raw", "BYTES")], 1):
        kind.field.add(name=name, number=number, label=1, type=getattr(FieldDescriptorProto, f"TYPE_{code}"))
    (tmp_path / "r.desc").write_bytes(FileDescriptorSet(file=[described]).SerializeToString())
    message = b"\x0a\x01s\x10" + varint(DAY_ONE) + b"\x1a\x02\xff\x00"
    bench.topic([message] * 20)
    spec, _, said = bench.drafted(
        "--format", "protobuf", "--descriptor-set", str(tmp_path / "r.desc"), "--message", "t.R"
    )
    assert [(c.name, c.type) for c in spec.columns][:2] == [("site", "string"), ("at", "bigint")]
    assert spec.event_time.path == "$.at"
    assert "20 of 20 messages become rows; 0 would be dirty" in said


def test_a_schemas_id_is_recognised(bench: Bench) -> None:
    bench.topic([b"\x00\x00\x00\x00\x07" + avro(i) for i in range(5)])
    result = bench.run()
    assert result.exit_code == 2
    assert "--format avro --wire confluent" in result.stderr


def test_what_cannot_be_decoded_is_refused(bench: Bench) -> None:
    bench.topic([b"hello"] * 5)
    result = bench.run("--format", "json")
    assert result.exit_code == 1
    assert "none of 5 messages can be decoded as json: not JSON" in result.stderr
    assert "'hello'" in result.stderr


@pytest.mark.parametrize("schemas", [True, False])
def test_change_events_of_a_database_are_told(bench: Bench, schemas: bool) -> None:
    """People get a table of envelopes otherwise, and hear nothing of mirrors."""
    source = {"connector": "mariadb", "ts_ms": DAY_ONE, "table": "orders"}
    change = {"op": "u", "before": {"id": 1}, "after": {"id": 1}, "source": source, "ts_ms": DAY_ONE}
    sent: Any = {"schema": {"type": "struct"}, "payload": change} if schemas else change
    bench.topic([json.dumps(sent).encode()] * 3)
    _, _, said = bench.drafted()
    assert "docs/mirrors.md" in said
    bench.topic([json.dumps({"op": "u", "ts_ms": DAY_ONE}).encode()] * 3)
    assert "docs/mirrors.md" not in bench.run().output
