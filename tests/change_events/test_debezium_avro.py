"""Change events in Avro: they are what the same events are in JSON."""

from __future__ import annotations

import base64
import io
import json
import struct
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from random import Random
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from spark_jobs.engine.decoder import decoder_for
from spark_jobs.engine.failures import JobError
from spark_jobs.engine.formats import Decoded
from spark_jobs.engine.formats.avro_json import json_form
from spark_jobs.engine.formats.debezium_decoder import DebeziumDecoder
from spark_jobs.engine.formats.registry import SchemaRegistry
from spark_jobs.engine.identity import checksum
from spark_jobs.engine.strict import JsonFloat, JsonInt
from tests.change_events.envelopes import ENVELOPE, FIELDS, KEY, SOME, WRITTEN, record
from tests.change_events.recordings import BY_ID, Message, chunk, pairs, reading
from tests.fakes.registry import FakeRegistry, serving
from tidegate.core.spec.avro import Schema
from tidegate.core.spec.pipeline import AvroFormat, Pipeline

NAMES = ("mariadb-avro", "mariadb-avroflat", "postgres-avro", "postgres-avroflat")
COLUMNS = {
    "mariadb": ("customer string", "note string", "placed int", "due int", "changed bigint", "source_file string "
                "from $._source.file"),
    "postgres": ("key bigint from $._key.id", "id bigint", "customer string", "placed int", "tags array<string>",
                 "changed timestamp", "lsn bigint from $._source.lsn"),
}  # fmt: skip
SHARED = ("total decimal(12,2) as text", "digits string from $.total as text", "huge string as text", "pieces int")
SHARED += ("city string", "was string from $._before.customer", "at bigint from $._source.ts_ms")


def both(name: str, *columns: str, **changes: Any) -> tuple[Decoded, Decoded]:
    """What is made of the recorded events in Avro and in JSON."""
    envelope = "flat" if name.endswith("flat") else "full"
    in_avro, in_json = pairs(name)
    made = [reading(*columns, envelope=envelope, avro=avro, **changes) for avro in (BY_ID, None)]
    return tuple(decoder_for(p).decode(chunk(m)) for p, m in zip(made, (in_avro, in_json), strict=True))  # type: ignore[return-value]


def rows(found: Decoded) -> list[dict[str, Any]]:
    """Nothing of messages that make no row, nor of a snapshot's place and time: each connector read its own."""
    kept = [True] * len(found.table) if found.kept is None else found.kept.to_pylist()
    nowhere = {"_position_commit": 0, "_source_ms": 0, "at": 0, "lsn": 0, "source_file": ""}
    return [
        {}
        if not kept[i] or i in found.bad
        else row | {k: v for k, v in nowhere.items() if row["_op"] == "r" and k in row}
        for i, row in enumerate(found.table.to_pylist())
    ]


@pytest.mark.parametrize("name", NAMES)
def test_recorded_events_are_the_same_rows(name: str) -> None:
    """Of a real MariaDB and a real PostgreSQL: snapshot, unavailable values, a key change, zero dates, a new column,
    TRUNCATE, tombstones, a connector that has sent all again."""
    in_avro, in_json = both(name, *SHARED, *COLUMNS[name.split("-")[0]])
    assert rows(in_avro) == rows(in_json)
    assert in_avro.bad == in_json.bad
    assert in_avro.kept == in_json.kept
    ops = [row["_op"] for row in rows(in_avro) if row]
    assert {*ops} == {"r", "c", "u", "d"}
    assert len(ops) > 20
    streamed = [i for i, row in enumerate(rows(in_avro)) if row and row["_op"] != "r"]
    tables = [found.table.take(streamed) for found in (in_avro, in_json)]
    assert checksum(tables[0], {}) == checksum(tables[1], {}) != 0
    assert [found.event_ms.take(streamed) for found in (in_avro,)] == [
        found.event_ms.take(streamed) for found in (in_json,)
    ]


@pytest.mark.parametrize("name", NAMES)
def test_what_a_json_event_is_refused_for_an_event_in_avro_is_refused_for(name: str) -> None:
    columns = ("note string", "blob string", "placed date", "customer int", "pieces string", "tags array<int>")
    for column in columns:
        in_avro, in_json = both(name, column)
        assert in_avro.bad == in_json.bad
        assert rows(in_avro) == rows(in_json)
    unavailable = [bad for bad in both(name, "blob string")[0].bad.values() if "unavailable" in bad.reason]
    assert len(unavailable) == (4 if name.startswith("postgres") else 0)


@pytest.mark.parametrize("name", NAMES)
def test_unknown_fields_are_the_same(name: str) -> None:
    envelope = "flat" if name.endswith("flat") else "full"
    made = reading("total string as text", "id string as text", "huge string as text", envelope=envelope, avro=BY_ID)
    captured = replace(made.format, unknown_fields="capture")
    in_avro, in_json = pairs(name)
    mine = decoder_for(replace(made, format=captured)).decode(chunk(in_avro))
    debezium = replace(captured.debezium, encoding="json")  # type: ignore[type-var]
    its = decoder_for(replace(made, format=replace(captured, avro=None, debezium=debezium))).decode(chunk(in_json))
    assert mine.table["_extra"] == its.table["_extra"]
    assert mine.unknown == its.unknown
    assert "city" in mine.unknown


def ids(messages: list[Message], part: int) -> set[int]:
    found = [message[part] for message in messages]
    return {int.from_bytes(each[1:5], "big") for each in found if each is not None}


@pytest.mark.parametrize("name", NAMES)
def test_one_batch_has_messages_of_several_schemas(name: str) -> None:
    assert len(ids(pairs(name)[0], 1)) >= 2
    cities = [(row["city"], row["customer"]) for row in rows(both(name, "city string", "customer string")[0]) if row]
    assert ("Oslo", "Di") in cities
    assert (None, "Ada") in cities


def test_avro_knows_numbers_and_bytes_that_json_has_only_as_base64() -> None:
    """`bigint.unsigned.handling.mode=precise` and `decimal.handling.mode=precise`."""
    found = rows(both("mariadb-avro", "id decimal(20,0)", "text string from $.id as text", "total decimal(12,2)")[0])
    assert [row["id"] for row in found if row][:4] == [1, 2, Decimal(2**64 - 1), 1]
    assert all(row["text"] == str(row["id"]) for row in found if row)
    assert [row["total"] for row in found if row][:3] == [Decimal("12.50"), Decimal("7.00"), Decimal("-0.01")]
    narrow = both("mariadb-avro", "id bigint")[0]
    assert {bad.reason for bad in narrow.bad.values() if bad.field} == {f"{2**64 - 1} does not fit in 64 bits"}
    in_avro, in_json = both("postgres-avro", "blob binary")
    assert {row["blob"] for row in rows(in_avro) if row} == {None, b"\0\xff" * 1500}
    assert {len(row["blob"] or b"") for row in rows(in_json) if row} == {0, 4000}


# ---------------------------------------------------------------- events that are written here


def framed(number: int, schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return b"\0" + number.to_bytes(4, "big") + out.getvalue()


def in_avro(row: dict[str, Any], **changes: Any) -> Message:
    value = {"before": None, "after": row, "source": SOME, "op": "c", "ts_ms": 5} | changes
    return framed(0, KEY, {"id": row["id"]}), framed(1, ENVELOPE, value)


def _written(value: Any) -> str:
    """As a converter for JSON writes it, but decimals as numbers."""
    if isinstance(value, bytes):
        return json.dumps(base64.b64encode(value).decode())
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(k)}:{_written(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return f"[{','.join(map(_written, value))}]"
    return f"{value:.3f}" if isinstance(value, Decimal) else json.dumps(value)


def in_json(row: dict[str, Any]) -> Message:
    value = {"before": None, "after": row, "source": SOME, "op": "c", "ts_ms": 5}
    return _written({"id": row["id"]}).encode(), _written(value).encode()


def some_row(rng: Random) -> dict[str, Any]:
    def maybe(value: Any) -> Any:
        return None if rng.random() < 0.2 else value

    bits = rng.choice((1, 8, 31, 53, 63))
    whole = rng.randrange(-(1 << bits), 1 << bits)
    return {
        "id": whole, "t": maybe(rng.choice(("", "x", "7", "1.50", "2024-01-02", "true", "ü\0", "__debezium"))),
        "i": rng.randrange(-32768, 32768), "l": maybe(whole), "b": rng.random() < 0.5,
        "f": rng.choice((0.0, 0.5, -1.25, 3.0, 1024.0)), "d": maybe(rng.choice((0.1, -2.5e300, 1e-7, 3.0))),
        "x": maybe(rng.randbytes(rng.randrange(6))), "day": maybe(rng.randrange(-1000, 30000)),
        "us": rng.randrange(1 << 52), "ms": rng.randrange(1 << 42),
        "n": maybe(Decimal(rng.randrange(-(10 ** rng.randrange(1, 28)), 10**28)).scaleb(-3)),
        "a": maybe([maybe("y") for _ in range(rng.randrange(3))]), "m": {"k": rng.randrange(9)},
        "geo": maybe({"wkb": rng.randbytes(3), "srid": 4326}), "e": rng.choice("AB"),
    }  # fmt: skip


TYPES = ("boolean", "tinyint", "int", "bigint", "float", "double", "decimal(30,3)", "decimal(38,0)", "string", "date")
TYPES += ("timestamp", "array<string>", "map<string,bigint>", "struct<srid:int,wkb:string>")


def test_any_column_takes_and_refuses_the_same_of_both() -> None:
    seed = 20261126
    rng = Random(seed)
    some = [some_row(rng) for _ in range(15)]
    messages = chunk([in_avro(row) for row in some]), chunk([in_json(row) for row in some])
    forms = [(kind, form) for kind in TYPES for form in ("", " as text") if not form or "<" not in kind]
    for name in FIELDS:
        for kind, form in rng.sample(forms, 8):
            made = [reading(f"c {kind} from $.{name}{form}", avro=avro) for avro in (WRITTEN, None)]
            mine, its = (decoder_for(p).decode(m) for p, m in zip(made, messages, strict=True))
            assert mine.bad.keys() == its.bad.keys(), (seed, name, kind, form)
            assert [b.field for b in mine.bad.values()] == [b.field for b in its.bad.values()]
            good = pa.array([i for i in range(len(some)) if i not in mine.bad], pa.int64())
            assert mine.table.take(good) == its.table.take(good), (seed, name, kind, form)


def row(**changes: Any) -> dict[str, Any]:
    return some_row(Random(1)) | {"id": 3} | changes


def decoded(made: Pipeline, *messages: Message) -> Decoded:
    return decoder_for(made).decode(chunk(list(messages)))


@pytest.mark.parametrize(
    ("message", "says", "field"),
    [
        ((None, in_avro(row())[1]), "no key: the source's table has no primary key", ""),
        ((b'{"id":3}', in_avro(row())[1]), "the key is unusable: no Confluent header", ""),
        ((in_avro(row())[0][:5], in_avro(row())[1]), "the key is unusable: cut off", ""),
        ((b"\0\0\0\0\2\2x", in_avro(row())[1]), "the key is unusable: expected a record, got string", ""),
        ((in_avro(row())[0], in_json(row())[1]), "no Confluent header", ""),
        ((in_avro(row())[0], b""), "no Confluent header", ""),
        ((in_avro(row())[0], in_avro(row())[1][:-1]), "cut off", ""),
        ((in_avro(row())[0], in_avro(row())[1] + b"\0"), "1 bytes too many", ""),
        ((in_avro(row())[0], b"\0\0\0\0\2\2x"), "expected a record, got string", ""),
        ((in_avro(row())[0], in_avro(row())[0]), "no change event: op and source are missing", ""),
        (in_avro(row(), op="t", after=None), "TRUNCATE (op t)", ""),
        (in_avro(row(), op="m"), "no event of a row: op is 'm'", ""),
        (in_avro(row(), after=None), "no change event: after is no object", ""),
        (in_avro(row(), source=SOME | {"snapshot": "incremental"}), "a row of an incremental snapshot", ""),
        (in_avro(row(), source=SOME | {"pos": -1}), "no position: source.pos is no number", ""),
        (in_avro(row(), source=SOME | {"file": "x"}), "no position: source.file does not name", ""),
        (in_avro(row(t="__debezium_unavailable_value")), "the value is unavailable", "t"),
        (in_avro(row(x=b"__debezium_unavailable_value")), "the value is unavailable", "x"),
        (in_avro(row(a=["__debezium_unavailable_value"])), "the value is unavailable", "a"),
        ((in_avro(row())[0], in_avro(row(t="AXXB"))[1].replace(b"AXXB", b"A\xff\xffB")), "invalid UTF-8", "after.t"),
    ],
)  # fmt: skip
def test_spoilt_events_are_dirty_and_their_neighbours_are_read(message: Message, says: str, field: str) -> None:
    made = reading("id bigint", "t string", "x binary", "a array<string>", avro=WRITTEN)
    found = decoded(made, in_avro(row(t="z")), message, in_avro(row(t="z")))
    assert list(found.bad) == [1]
    assert found.bad[1].reason.startswith(says)
    assert found.bad[1].field == field
    assert found.table["t"].to_pylist()[::2] == ["z", "z"]


def test_a_decimal_that_is_no_number_is_dirty_where_a_column_takes_it() -> None:
    empty = in_avro(row(n=Decimal("1.000")))
    at = empty[1].replace(b"\2\4\3\xe8", b"\2\0")  # a branch, two bytes
    assert at != empty[1]
    assert decoded(reading("id bigint", avro=WRITTEN), (empty[0], at)).bad == {}
    assert (
        decoded(reading("n decimal(9,3)", avro=WRITTEN), (empty[0], at)).bad[0].reason
        == "expected a number, got a string"
    )


@pytest.mark.parametrize(
    ("unscaled", "scale", "expected"),
    [
        (1250, 0, JsonInt("1250")),
        (-5, 1, JsonFloat("-0.5")),
        (0, 2, JsonFloat("0.00")),
        (12345, 3, JsonFloat("12.345")),
    ],
)
def test_a_decimal_is_the_number_with_its_digits(unscaled: int, scale: int, expected: str) -> None:
    form = json_form(Schema(type="bytes", logical="decimal", precision=9, scale=scale))
    assert form is not None
    found = form(unscaled.to_bytes(3, "big", signed=True))
    assert (found, type(found)) == (expected, type(expected))


def test_a_float_has_the_digits_that_tell_it_from_others_and_may_be_no_number() -> None:
    form = json_form(Schema(type="float"))
    assert form is not None
    assert form(struct.unpack("<f", struct.pack("<f", 0.1))[0]) == JsonFloat("0.1")
    assert form(float("-inf")).text == "-inf"


def test_numbers_inside_of_maps_and_records_are_numbers() -> None:
    made = reading("m map<string,bigint>", "geo struct<srid:int,wkb:binary>", avro=WRITTEN)
    found = decoded(made, in_avro(row(m={"k": 7}, geo={"wkb": b"w", "srid": 4326})))
    assert found.bad == {}
    first = found.table.to_pylist()[0]
    assert (first["m"], first["geo"]) == ([("k", 7)], {"srid": 4326, "wkb": b"w"})


def test_a_delete_and_its_tombstone() -> None:
    made = reading("id bigint", "t string", "was string from $._before.t", avro=WRITTEN)
    delete = in_avro(row(), op="d", before=row(t="old"), after=None)
    found = decoded(made, delete, (delete[0], None))
    assert (found.bad, found.kept.to_pylist()) == ({}, [True, False])
    first = found.table.to_pylist()[0]
    assert (first["id"], first["t"], first["was"], first["_op"]) == (3, None, "old", "d")
    assert (first["_position_commit"], first["_position_row"]) == ((2 << 40) + 7, 0)
    gaps = decoded(replace(made, source=replace(made.source, gaps="allow")), (delete[0], None))
    assert gaps.bad[0].reason == "null value (tombstone)"


@pytest.mark.parametrize("name", NAMES)
def test_whatever_a_message_is_its_neighbours_are_read(name: str) -> None:
    rng, messages = Random(20261126), [m for m in pairs(name)[0] if m[1] and len(m[1]) < 2000]
    made = reading(
        "note string", "city string", "pieces int", envelope="flat" if "flat" in name else "full", avro=BY_ID
    )
    made = replace(made, format=replace(made.format, avro=replace(BY_ID, unknown_schema="dirty")))
    decoder = decoder_for(made)
    for _ in range(400):
        spoilt = tuple(_mutated(part, rng) for part in rng.choice(messages))
        found = decoder.decode(chunk([messages[1], spoilt, messages[1]]))  # type: ignore[list-item]
        assert not {0, 2} & set(found.bad)
        assert found.table.to_pylist()[0] == found.table.to_pylist()[2]


def _mutated(part: bytes | None, rng: Random) -> bytes | None:
    if part is None or rng.random() < 0.1:
        return part
    made = bytearray(part)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(made))
        rng.choice(_CHANGES)(made, at, rng)
    return bytes(made)


_CHANGES: tuple[Callable[[bytearray, int, Random], Any], ...] = (
    lambda made, at, rng: made.__setitem__(at, rng.randrange(256)),
    lambda made, at, rng: made.insert(at, rng.choice((0, 1, 2, 127, 128, 255))),
    lambda made, at, rng: made.__delitem__(slice(at, min(len(made) - 1, at + rng.randrange(4)))),
)


# ---------------------------------------------------------------- the registry


def test_a_key_column_may_have_the_name_of_a_part_that_values_are_not_asked_for() -> None:
    key = record("Key", before="long", transaction="long")
    made = reading(
        "id bigint from $._key.transaction", avro=replace(WRITTEN, schemas={**WRITTEN.schemas, 5: json.dumps(key)})
    )
    found = decoded(made, (framed(5, key, {"before": 1, "transaction": 8}), in_avro(row())[1]))
    assert found.bad == {}
    assert found.table["id"].to_pylist() == [8]


def test_a_flat_row_may_have_a_column_of_such_a_name() -> None:
    added = {f"__source_{name}": value for name, value in SOME.items()} | {"__op": "c", "__deleted": "false"}
    value = {"transaction": 8, "before": 1} | added
    schema = record("Value", **{name: "long" if isinstance(each, int) else "string" for name, each in value.items()})
    avro = replace(WRITTEN, schemas={**WRITTEN.schemas, 5: json.dumps(schema)})
    made = reading("transaction bigint", "before bigint", envelope="flat", avro=avro)
    found = decoded(made, (in_avro(row())[0], framed(5, schema, value)))
    assert found.bad == {}
    assert [found.table[name][0].as_py() for name in ("transaction", "before")] == [8, 1]


def test_schemas_come_from_the_registry_each_once() -> None:
    known = {n: {"schema": text} for n, text in WRITTEN.schemas.items()} | {9: {"schema": "", "schemaType": "PROTOBUF"}}
    made = reading("id bigint", avro=AvroFormat("confluent", registry_conn_id="r"))
    with serving(FakeRegistry(known)) as fake:
        decoder = DebeziumDecoder(made, registry=lambda: SchemaRegistry(fake.url, pause=lambda _: None))
        good = in_avro(row())
        of_another = (good[0], b"\0\0\0\0\x09" + b"x" * 9)
        found = decoder.decode(chunk([good, of_another, good, (good[0], None)]))
        assert {i: bad.reason for i, bad in found.bad.items()} == {1: "schema id 9 is of type PROTOBUF, not AVRO"}
        assert sorted(fake.asked) == ["/schemas/ids/0", "/schemas/ids/1", "/schemas/ids/9"]
        fake.failures = [503] * 10
        with pytest.raises(JobError, match="has no answer: HTTP 503") as error:
            decoder.decode(chunk([(good[0], b"\0\0\0\0\x0a")]))
        assert error.value.failure.retry


@pytest.mark.parametrize("part", [0, 1])
def test_an_id_that_nobody_knows_stops_the_batch_or_is_dirty(part: int) -> None:
    good = in_avro(row())
    bad = tuple(b"\0\0\0\0\x63x" if i == part else each for i, each in enumerate(good))
    messages = chunk([good, bad, good])  # type: ignore[list-item]
    with pytest.raises(JobError, match=r"schema id 99 is not in format\.schemas") as error:
        decoder_for(reading("id bigint", avro=WRITTEN)).decode(messages)
    assert (error.value.failure.retry, error.value.failure.offset) == (True, 1)
    found = decoder_for(reading("id bigint", avro=replace(WRITTEN, unknown_schema="dirty"))).decode(messages)
    says = "schema id 99 is not in format.schemas"
    assert found.bad[1].reason == (says if part else f"the key is unusable: {says}")


def test_a_schema_that_is_none_stops_the_batch() -> None:
    broken = replace(WRITTEN, schemas={**WRITTEN.schemas, 1: '{"type":"record"}'})
    with pytest.raises(JobError, match="an Avro schema cannot be used"):
        decoded(reading("id bigint", avro=broken), in_avro(row()))
