"""Decoding alone, by format: the same event of 17 columns (18 in CSV, which has no structs), by the C library and by
the row rules, in one run.

    .venv/bin/python -m bench.formats [--records 100000] [--runs 3] [--formats avro,protobuf]
    .venv/bin/python -m bench.formats --formats cliffs

CPU microseconds a record of this process (user and system), repetitions interleaved; the first round warms up. `cliffs`
are the JSON events with what has been slow at some time: each message is spelled in one odd way.
"""

from __future__ import annotations

import argparse
import base64
import csv
import io
import json
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from bench.events import COLUMNS, event, pipeline
from bench.limits import chunks_of
from bench.parts import circumstances
from spark_jobs.engine.formats import Decoder
from spark_jobs.engine.formats.avro_decoder import AvroDecoder
from spark_jobs.engine.formats.csv_decoder import CsvDecoder
from spark_jobs.engine.formats.json_decoder import JsonDecoder
from spark_jobs.engine.formats.protobuf_decoder import ProtobufDecoder
from tidegate.core.spec.pipeline import AvroFormat, Column, CsvFormat, EventTime, Format, Pipeline, ProtobufFormat

KINDS = {
    "id": "string", "at": "long", "app": "string", "user_id": "long", "session": "string", "country": "string",
    "city": "string", "os": "string", "version": "string", "price": "double", "quantity": "int", "paid": "boolean",
    "url": "string", "referrer": "string", "note": "string",
}  # fmt: skip
"""Beside these an event has a device and tags."""


def avro_schema(optional: bool = False) -> dict[str, Any]:
    fields: list[dict[str, Any]] = [{"name": n, "type": ["null", k] if optional else k} for n, k in KINDS.items()]
    model = [{"name": "model", "type": "string"}, {"name": "memory", "type": "int"}]
    fields.append({"name": "device", "type": {"type": "record", "name": "Device", "fields": model}})
    fields.append({"name": "tags", "type": {"type": "array", "items": "string"}})
    return {"type": "record", "name": "Event", "fields": fields}


def protobuf_set() -> bytes:
    from google.protobuf import descriptor_pb2

    kinds = {"string": 9, "long": 3, "int": 5, "double": 1, "boolean": 8}
    files = descriptor_pb2.FileDescriptorSet()
    file = files.file.add(name="event.proto", syntax="proto3", package="bench")
    device = file.message_type.add(name="Device")
    device.field.add(name="model", number=1, type=9, label=1)
    device.field.add(name="memory", number=2, type=5, label=1)
    made = file.message_type.add(name="Event")
    for number, (name, kind) in enumerate(KINDS.items(), 1):
        made.field.add(name=name, number=number, type=kinds[kind], label=1)
    made.field.add(name="device", number=16, type=11, label=1, type_name=".bench.Device")
    made.field.add(name="tags", number=17, type=9, label=3)
    return files.SerializeToString()


def events(count: int, seed: int) -> tuple[list[bytes], list[dict[str, Any]]]:
    """As JSON, and what it says; those that are cut off are left out."""
    rng = random.Random(seed)
    texts, values = [], []
    for number in range(count):
        text = event(rng, number)
        if text.endswith(b"}"):
            texts.append(text)
            values.append(json.loads(text))
    return texts, values


def in_avro(values: list[dict[str, Any]], optional: bool) -> list[bytes]:
    import fastavro

    schema, found = fastavro.parse_schema(avro_schema(optional)), []
    for value in values:
        out = io.BytesIO(b"\0\0\0\0\7")
        out.seek(5)
        fastavro.schemaless_writer(out, schema, value)
        found.append(out.getvalue())
    return found


def in_protobuf(values: list[dict[str, Any]]) -> list[bytes]:
    from google.protobuf import message_factory

    from tidegate import descriptors

    kind = descriptors.message_type(base64.b64encode(protobuf_set()).decode(), "bench.Event")
    made = message_factory.GetMessageClass(kind)
    return [made(**value).SerializeToString() for value in values]


def in_csv(values: list[dict[str, Any]], quoting: int) -> list[bytes]:
    """Tags as JSON, which has commas and quotes."""
    found = []
    for value in values:
        out = io.StringIO()
        flat = [str(v).lower() if isinstance(v, bool) else v for name, v in value.items() if name in KINDS]
        flat += [*value["device"].values(), json.dumps(value["tags"])]
        csv.writer(out, quoting=quoting, lineterminator="").writerow(flat)  # type: ignore[arg-type]
        found.append(out.getvalue().encode())
    return found


def csv_pipeline(base: Pipeline) -> Pipeline:
    fields = (*KINDS, "model", "memory", "tags")
    columns = [(n, kind) for n, kind in COLUMNS if n in KINDS]
    columns += [("model", "string"), ("memory", "int"), ("tags", "string")]
    made = tuple(Column(name=name, type=kind, path=f"$.{name}") for name, kind in columns)
    return replace(base, columns=made, format=Format("csv", csv=CsvFormat(fields)))


def cliffs(base: Pipeline, values: list[dict[str, Any]], seed: int) -> dict[str, tuple[Pipeline, list[bytes]]]:
    """The events with one thing about each message that is odd, beside the same events without."""
    rng = random.Random(seed)
    month = "%d %b %Y %H:%M:%S"
    texts = ("user_id", "price", "quantity", "paid")

    def shuffled(value: dict[str, Any]) -> dict[str, Any]:
        return dict(rng.sample(list(value.items()), len(value)))

    def month_names(value: dict[str, Any]) -> dict[str, Any]:
        return {**value, "at": datetime.fromtimestamp(value["at"] / 1000, UTC).strftime(month)}

    def as_texts(value: dict[str, Any]) -> dict[str, Any]:
        return {**value, **{name: json.dumps(value[name]) for name in texts}}

    columns = tuple(replace(c, convert="text") if c.name in texts else c for c in base.columns)
    captured = replace(base, format=Format(unknown_fields="capture"))
    odd: dict[str, tuple[Pipeline, Callable[[dict[str, Any]], dict[str, Any]]]] = {
        "as they are": (base, lambda v: v),
        "a field more": (base, lambda v: {**v, "score": 1.5}),
        "a field more that is NaN": (base, lambda v: {**v, "score": float("nan")}),
        "the same, captured": (captured, lambda v: {**v, "score": float("nan")}),
        "four columns of text": (replace(base, columns=columns), as_texts),
        "%b in the event time": (replace(base, event_time=EventTime("$.at", month)), month_names),
        "keys shuffled": (base, shuffled),
    }
    return {
        name: (spec, [json.dumps(change(value), ensure_ascii=False).encode() for value in values])
        for name, (spec, change) in odd.items()
    }


def cases(count: int, seed: int, wanted: set[str]) -> dict[str, tuple[list[bytes], dict[str, Decoder]]]:
    texts, values = events(count, seed)
    base, found = pipeline("memory", "file:///nowhere"), {}
    if "json" in wanted:
        found["json"] = texts, {"library": JsonDecoder(base), "rules": JsonDecoder(base, vectorised=False)}
    if "cliffs" in wanted:
        for name, (spec, made) in cliffs(base, values, seed).items():
            found[name] = made, {"library": JsonDecoder(spec), "rules": JsonDecoder(spec, vectorised=False)}
    for name, optional in (("avro", False), ("avro, nullable fields", True)):
        if "avro" in wanted:
            avro = AvroFormat("confluent", None, {7: json.dumps(avro_schema(optional))}, None, "fail")
            spec = replace(base, format=Format("avro", avro=avro))
            found[name] = in_avro(values, optional), {
                "library": AvroDecoder(spec), "rules": AvroDecoder(spec, vectorised=False)
            }  # fmt: skip
    for name, quoting in (("csv", csv.QUOTE_MINIMAL), ("csv, every text in quotes", csv.QUOTE_NONNUMERIC)):
        if "csv" in wanted:
            spec = csv_pipeline(base)
            found[name] = in_csv(values, quoting), {
                "library": CsvDecoder(spec), "rules": CsvDecoder(spec, vectorised=False)
            }  # fmt: skip
    if "protobuf" in wanted:
        settings = ProtobufFormat(base64.b64encode(protobuf_set()).decode(), "bench.Event", "plain")
        spec = replace(base, format=Format("protobuf", protobuf=settings))
        found["protobuf"] = in_protobuf(values), {
            "library": ProtobufDecoder(spec), "rules": ProtobufDecoder(spec, vectorised=False)
        }  # fmt: skip
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--formats", default="json,avro,protobuf,csv")
    asked = parser.parse_args()
    pa.set_cpu_count(1)
    parts: dict[str, Callable[[], None]] = {}
    sizes: dict[str, float] = {}
    for name, (messages, decoders) in cases(asked.records, asked.seed, set(asked.formats.split(","))).items():
        sizes[name] = sum(map(len, messages)) / len(messages)
        chunks = chunks_of(messages)
        first = [decoder.decode(chunks[0]) for decoder in decoders.values()]
        assert all(d.table.equals(first[0].table) and d.bad == first[0].bad == {} for d in first), name
        for how, decoder in decoders.items():
            parts[f"{name}: {how}"] = lambda d=decoder, c=chunks: [d.decode(each) for each in c] and None  # type: ignore[misc]
    figures: dict[str, list[float]] = {name: [] for name in parts}
    for number in range(asked.runs + 1):
        for name, part in parts.items():
            began = time.process_time()
            part()
            if number:
                figures[name].append((time.process_time() - began) / asked.records * 1e6)
    print(f"{asked.records:,} records, seed {asked.seed}")
    print(circumstances())
    print(f"{'CPU us/record':34}{'min':>8}{'median':>8}{'max':>8}{'bytes':>8}")
    for name, each in figures.items():
        size = sizes[name.partition(":")[0]]
        print(f"{name:34}{min(each):8.2f}{statistics.median(each):8.2f}{max(each):8.2f}{size:8.0f}")


if __name__ == "__main__":
    main()
