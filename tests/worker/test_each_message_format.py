"""The whole life of a pipeline for each format of messages: ingest, archive, replay; odd bytes shift nothing."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.parquet as pq
import pytest
from google.protobuf.message_factory import GetMessageClass

from tests.fakes.registry import FakeRegistry, serving
from tests.protobuf_values import SETS
from tests.world import HOUR, T0, TOPIC, World, make_pipeline, record
from tidegate import descriptors
from tidegate.core.base.errors import JobFailed
from tidegate.core.spec.pipeline import (
    RAW_HEADERS,
    RAW_PARTS,
    AvroFormat,
    Column,
    CsvFormat,
    EventTime,
    Format,
    Pipeline,
    ProtobufFormat,
)
from tidegate.spark.launcher import secrets_file

SCHEMA = {
    "type": "record",
    "name": "Reading",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "site", "type": ["null", "string"]},
        {"name": "value", "type": "int"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
LATER = {**SCHEMA, "fields": [{"name": "note", "type": "string"}, *SCHEMA["fields"]]}
ODD = [b"", b"\x00", b"a\nb\r\n", b'"', b"\xff\xfe", b"\x00\x00\x00\x00\x07", b"\x80" * 12, None]
ALL = GetMessageClass(descriptors.message_type(SETS["proto3"], "t.All"))


def csv(r: dict[str, Any]) -> bytes:
    return f'"{r["id"]}",{r["site"]},{r["value"]},{r["at"]}\n'.encode()


def avro(r: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, SCHEMA, r)
    return out.getvalue()


def confluent(r: dict[str, Any]) -> bytes:
    """Two versions of the schema, in turn."""
    out = io.BytesIO()
    later = r["value"] % 2
    fastavro.schemaless_writer(out, LATER if later else SCHEMA, {**r, "note": "n"})
    return b"\x00\x00\x00\x00" + bytes([8 if later else 7]) + out.getvalue()


def protobuf(r: dict[str, Any]) -> bytes:
    message = ALL(string=r["id"], int32=r["value"], m={"string": r["site"]})
    message.at.FromMilliseconds(r["at"])
    return message.SerializeToString()


PATHS = {"id": "$.string", "site": "$.m.string", "value": "$.int32"}
FORMATS: dict[str, tuple[Callable[[dict[str, Any]], bytes], Format]] = {
    "csv": (csv, Format("csv", csv=CsvFormat(("id", "site", "value", "at")))),
    "avro": (avro, Format("avro", avro=AvroFormat(schema=json.dumps(SCHEMA)))),
    "confluent": (confluent, Format("avro", avro=AvroFormat("confluent", registry_conn_id="r"))),
    "protobuf": (protobuf, Format("protobuf", protobuf=ProtobufFormat(SETS["proto3"], "t.All"))),
}


def pipeline_of(folder: Path, name: str) -> Pipeline:
    made = make_pipeline(f"file://{folder}/lake/readings")
    made = replace(made, format=FORMATS[name][1])
    if name == "protobuf":
        columns = tuple(replace(c, path=PATHS[c.name]) for c in made.columns)
        return replace(made, columns=columns, event_time=EventTime("$.at"))
    return made


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeRegistry]:
    fake = FakeRegistry({7: {"schema": json.dumps(SCHEMA)}, 8: {"schema": json.dumps(LATER)}}, login=("u", "p"))
    with serving(fake):
        names = {"url": fake.url, "user": "u", "password": "p"}
        with secrets_file({f"tidegate.registry.{key}": value for key, value in names.items()}) as path:
            monkeypatch.setenv("TIDEGATE_SECRETS_FILE", str(path))
            yield fake


def rows(world: World, table: str = "lake.readings") -> list[dict[str, Any]]:
    """Every row that a query returns, dynamic partition values put back in, by coordinates."""
    found = []
    for values, location in world.partitions(table).items():
        for path in sorted(Path(location.removeprefix("file://")).glob("[!_]*.parquet")):
            found += [{**r, **dict(values)} for r in pq.ParquetFile(path).read().to_pylist()]
    return sorted(found, key=lambda r: (r["_partition"], r["_offset"]))


@pytest.mark.parametrize("name", FORMATS)
def test_ingest_archive_replay(name: str, tmp_path: Path, registry: FakeRegistry) -> None:
    world = World(tmp_path, pipeline_of(tmp_path, name))
    write, readings = FORMATS[name][0], [record(f"a{i}", 0.1 + i / 100, "ab"[i % 2], i) for i in range(8)]
    for reading, odd in zip(readings, ODD, strict=True):
        world.kafka.append(TOPIC, 0, write(reading))
        world.kafka.append(TOPIC, 0, odd)
    world.ingest("r1")
    for partition in (0, 1):
        world.kafka.append(TOPIC, partition, write(record(f"late{partition}", 2.5)))
    world.ingest("r2")
    assert world.archive(0).rows == len(readings)
    found = rows(world)
    assert [(r["id"], r["site"], r["value"], r["_offset"]) for r in found] == [
        (r["id"], r["site"], r["value"], 2 * i) for i, r in enumerate(readings)
    ]
    dirty = rows(world, "lake.readings__dirty")
    # no byte at all is a message to protobuf: one without event time
    assert [(r["_offset"], r["raw_value"]) for r in dirty] == [(2 * i + 1, odd) for i, odd in enumerate(ODD)]
    assert (world.replay(0).new, world.replay(0).generation) == (False, 1)
    assert rows(world) == found
    world.close()


def test_a_batch_waits_for_the_registry_and_is_then_read_as_planned(tmp_path: Path, registry: FakeRegistry) -> None:
    world = World(tmp_path, pipeline_of(tmp_path, "confluent"))
    world.produce(*(confluent(record(f"a{i}", 0.1, value=i)) for i in range(4)))
    known = registry.schemas.pop(8)
    with pytest.raises(JobFailed, match="schema id 8 is not in the registry"):
        world.ingest("r1")
    registry.schemas[8] = known
    assert world.ingest("r1") == 1
    world.produce(confluent(record("w", 2.5)))
    world.produce(confluent(record("w", 2.5)), partition=1)
    world.ingest("r2")
    assert world.archive(0).rows == 4
    assert world.table("__dirty") == []
    world.close()


def test_raw_records_whatever_they_are(tmp_path: Path) -> None:
    made = make_pipeline(f"file://{tmp_path}/lake/readings")
    columns = tuple(Column(name=part, type=types[0], path=f"$.{part}") for part, types in RAW_PARTS.items())
    made = replace(
        made, format=Format("raw"), columns=columns, event_time=EventTime(None), partition_by=("date", "hour")
    )
    assert columns[2].type == RAW_HEADERS
    world = World(tmp_path, made)
    headers = [None, [], [("h", b"\x00"), ("h", None)], None, None, None, None, [("ü", b"")]]
    for i, (odd, found) in enumerate(zip(ODD, headers, strict=True)):
        world.kafka.append(TOPIC, 0, odd, key=ODD[-1 - i], timestamp_ms=T0 + i, headers=found)
    world.ingest("r1")
    for partition in (0, 1):
        world.kafka.append(TOPIC, partition, b"w", timestamp_ms=T0 + 3 * HOUR)
    world.ingest("r2")
    assert world.archive(0).rows == len(ODD)
    before = rows(world)
    assert [(r["key"], r["value"]) for r in before] == list(zip(reversed(ODD), ODD, strict=True))
    shown = [None if r["headers"] is None else [(h["name"], h["value"]) for h in r["headers"]] for r in before]
    assert shown == headers
    assert world.table("__dirty") == []
    assert world.replay(0).new is False
    assert rows(world) == before
    world.close()
