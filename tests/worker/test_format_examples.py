"""docs/formats.md: each of its examples is a pipeline, and reads what it says that it reads."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

import jsonschema
import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as F

from spark_jobs.engine.decoder import decoder_for
from tests.engine_fixtures import chunk_of
from tidegate.spec import load_file, schema
from tidegate.spec.document import read
from tidegate.spec.variables import plain

PAGE = (Path(__file__).parents[2] / "docs/formats.md").read_text()
EXAMPLES = {
    re.search(r"^name: (\w+)$", text, re.MULTILINE)[1]: text
    for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
}  # type: ignore[index]
AVSC = re.search(r"```json\n(.*?)```", PAGE, re.DOTALL)[1]  # type: ignore[index]


def trips() -> bytes:
    """What protoc makes of the page's trips.proto."""
    file = descriptor_pb2.FileDescriptorProto(name="trips.proto", package="fleet.v1", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    trip = file.message_type.add(name="Trip")
    vehicle, stop, state = (
        trip.nested_type.add(name="Vehicle"),
        trip.nested_type.add(name="Stop"),
        trip.enum_type.add(name="State"),
    )
    vehicle.field.add(name="plate", number=1, label=1, type=F.TYPE_STRING)
    stop.field.add(name="name", number=1, label=1, type=F.TYPE_STRING)
    stop.field.add(name="seconds", number=2, label=1, type=F.TYPE_INT32)
    for number, name in enumerate(("UNKNOWN", "RUNNING", "DONE")):
        state.value.add(name=name, number=number)
    trip.field.add(name="vehicle", number=1, label=1, type=F.TYPE_MESSAGE, type_name=".fleet.v1.Trip.Vehicle")
    trip.field.add(name="started_at", number=2, label=1, type=F.TYPE_MESSAGE, type_name=".google.protobuf.Timestamp")
    trip.field.add(name="state", number=3, label=1, type=F.TYPE_ENUM, type_name=".fleet.v1.Trip.State")
    trip.field.add(name="meters", number=4, label=1, type=F.TYPE_UINT64)
    trip.field.add(name="stops", number=5, label=3, type=F.TYPE_MESSAGE, type_name=".fleet.v1.Trip.Stop")
    return descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "orders.avsc").write_text(AVSC)
    (tmp_path / "trips.desc").write_bytes(trips())
    for name, text in EXAMPLES.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    return tmp_path


def test_there_is_an_example_for_each_format() -> None:
    assert {name.partition("_")[0] for name in EXAMPLES} == {"csv", "avro", "protobuf", "raw", "debezium"}


@pytest.mark.parametrize("name", EXAMPLES)
def test_each_example_is_a_pipeline(name: str, folder: Path) -> None:
    pipeline = load_file(folder / f"{name}.yaml", {})
    assert pipeline.format.type == name.partition("_")[0]
    jsonschema.validate(plain(read(EXAMPLES[name], "x.yaml"), {})[0], schema())
    decoder_for(pipeline)


def test_the_csv_line_of_the_page(folder: Path) -> None:
    line = re.search(r"such as `(.*?)`:", PAGE)[1]  # type: ignore[index]
    decoded = decoder_for(load_file(folder / "csv_payments.yaml", {})).decode(chunk_of([line.encode()]))
    assert decoded.bad == decoded.unknown == {}
    (row,) = decoded.table.to_pylist()
    assert (row["branch"], row["amount"]) == ("Oslo; central", Decimal("12.50"))
    assert decoded.event_ms.to_pylist() == [1357358706000]
