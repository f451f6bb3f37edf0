"""Change events that a real MariaDB, MySQL and PostgreSQL have sent through Debezium, as rows."""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from spark_jobs.engine.decoder import decoder_for
from spark_jobs.engine.formats import Decoded
from tests.change_events.recordings import Message, chunk, reading, recorded
from tidegate.core.spec.pipeline import Column

KEYS = {"mariadb": "id string", "mysql": "id string", "postgres": "id bigint"}
UNIT = 1 << 40


def decoded(name: str, *columns: str, **changes: Any) -> Decoded:
    envelope = "flat" if name.endswith("flat") else "full"
    made = reading(KEYS[name.split("-")[0]], *columns, envelope=envelope, **changes)
    return decoder_for(made).decode(chunk(recorded(name)))


def events(found: Decoded) -> list[dict[str, Any]]:
    """Rows that are kept, in their order."""
    kept = [True] * len(found.table) if found.kept is None else found.kept.to_pylist()
    return [row for i, row in enumerate(found.table.to_pylist()) if kept[i] and i not in found.bad]


def position(row: dict[str, Any]) -> tuple[int, int]:
    return row["_position_commit"], row["_position_row"]


def story(rows: list[dict[str, Any]]) -> list[str]:
    return [f"{row['_op']} {row['id']}" for row in rows]


MARIADB = ["r AQ==", "c Ag==", "c AP//////////", "u AQ==", "u Ag==", "u AP//////////", "d Ag==", "c FA==", "d FA=="]
MARIADB += ["d AP//////////", "c Aw==", "c BA=="]
POSTGRES = ["r 1", "c 2", "u 1", "u 2", "d 2", "c 20", "d 20", "c 3", "c 6", "c 8", "c 5", "c 7", "c 4"]


@pytest.mark.parametrize(("database", "expected"), [("mariadb", MARIADB), ("mysql", MARIADB), ("postgres", POSTGRES)])
@pytest.mark.parametrize("form", ["plain", "flat"])
def test_events_have_their_order_and_repeats_their_positions(database: str, expected: list[str], form: str) -> None:
    """A key change is d and c at one position; transactions of PostgreSQL interleave; Connect was killed, and has sent
    all but the snapshot again."""
    rows = events(decoded(f"{database}-{form}"))
    assert story(rows) == [*expected, *expected[1:]]
    first, again = rows[: len(expected)], rows[len(expected) :]
    assert again == first[1:]
    positions = [position(row) for row in first]
    assert positions == sorted(positions)
    twice = {p for p in positions if positions.count(p) > 1}
    changed = expected.index("d 2" if database == "postgres" else "d Ag==")
    assert twice == {positions[changed]} == {positions[changed + 1]}


@pytest.mark.parametrize("database", [*KEYS])
def test_messages_with_their_schemas_say_the_same(database: str) -> None:
    columns = ("customer string", "total decimal(12,2) as text", "pieces int", "note string")
    plain, schema = (events(decoded(f"{database}-{form}", *columns)) for form in ("plain", "schema"))
    nowhere = {"_position_commit": 0, "_position_row": 0, "_source_ms": 0}  # connectors have positions of their own
    assert [row | nowhere for row in schema] == [row | nowhere for row in plain[: len(schema)]]
    assert len(schema) >= 5


def test_positions_are_those_of_the_logs() -> None:
    mariadb, postgres = events(decoded("mariadb-plain")), events(decoded("postgres-plain"))
    assert [position(row) for row in mariadb[:4]] == [
        (UNIT + p, n) for p, n in ((1156, 0), (1504, 0), (1504, 1), (1844, 0))
    ]
    mysql = events(decoded("mysql-plain"))
    assert [position(row) for row in mysql[:4]] == [
        (UNIT + p, n) for p, n in ((2273, 0), (2501, 0), (2501, 1), (2912, 0))
    ]
    assert [position(row) for row in postgres[:2]] == [(0, 0), (0, 36858584)]
    interleaved = {row["id"]: position(row) for row in postgres if row["id"] in (5, 6, 7, 8)}
    assert interleaved == {
        6: (36860840, 36860984), 8: (36860840, 36861272), 5: (36861464, 36860840), 7: (36861464, 36861128),
    }  # fmt: skip
    assert interleaved[5][1] < interleaved[6][1]  # written first, committed last


def test_a_delete_has_the_key_and_nothing_else() -> None:
    """PostgreSQL says `before` what it does not know: an empty name, no pieces."""
    before = (
        "customer string",
        "pieces int",
        "was string from $._before.customer",
        "key string from $._key.id as text",
    )
    for name, was in (
        ("mariadb-plain", "Bo"), ("mariadb-flat", "Bo"), ("mysql-plain", "Bo"), ("mysql-flat", "Bo"),
        ("postgres-plain", ""), ("postgres-flat", ""),
    ):  # fmt: skip
        deleted = next(row for row in events(decoded(name, *before)) if row["_op"] == "d")
        assert (deleted["customer"], deleted["pieces"], deleted["was"]) == (None, None, was)
        assert deleted["key"] == str(deleted["id"])


def test_truncate_is_dirty_and_tombstones_are_filtered() -> None:
    for name, count in (("mariadb-plain", 6), ("mysql-plain", 6), ("postgres-plain", 4)):
        found = decoded(name)
        assert found.kept is not None
        assert found.kept.to_pylist().count(False) == count
        assert [bad.reason for bad in found.bad.values()] == ["TRUNCATE (op t): it is no event of one row"] * 2
        flat = decoded(f"{name.split('-')[0]}-flat")  # ExtractNewRecordState leaves out both
        assert (flat.kept, flat.bad) == (None, {})


def test_tombstones_that_may_have_lost_their_delete_are_dirty() -> None:
    gaps = replace(reading().source, gaps="allow")
    found = decoded("mariadb-plain", source=gaps)
    assert found.kept is None
    assert [bad.reason for bad in found.bad.values()].count("null value (tombstone)") == 6
    flat = decoder_for(reading(KEYS["mariadb"], envelope="flat")).decode(chunk([(b'{"id":"Ag=="}', None)]))
    assert flat.bad[0].reason == "null value (tombstone)"


def test_a_filter_sees_no_tombstones() -> None:
    hidden = Column(name="half", type="int", path="", nullable=False, expr="pieces // 2")
    made = reading(KEYS["mariadb"], "pieces int", where="_op <> 'r'")
    made = replace(made, columns=(*made.columns, hidden))
    found = decoder_for(made).decode(chunk(recorded("mariadb-plain")))
    assert story(events(found)) == [e for e in [*MARIADB, *MARIADB[1:]] if e[0] not in "rd"]
    assert {bad.field for bad in found.bad.values()} == {"", "half"}  # TRUNCATE, and deletes, which have no pieces
    assert len(found.bad) == 2 + 6


def test_unavailable_values_are_dirty_where_a_column_takes_them() -> None:
    assert not any("unavailable" in bad.reason for bad in decoded("postgres-plain", "pieces int").bad.values())
    for column in ("note string", "blob string"):
        for name in ("postgres-plain", "postgres-flat"):
            found = decoded(name, column)
            bad = [bad for bad in found.bad.values() if "unavailable" in bad.reason]
            assert {each.field for each in bad} == {column.split()[0]}
            assert len(bad) == 4  # the update and the key change, both sent twice
            assert "long long" in str(found.table["note"][1]) if column == "note string" else True


PLACEHOLDER = "__debezium_unavailable_value"


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("tags array<int>", [*PLACEHOLDER.encode()]),
        ("tags array<bigint>", [*PLACEHOLDER.encode()]),
        ("tags array<string>", [PLACEHOLDER]),
        ("tags array<string>", [str(uuid.UUID(bytes=hashlib.md5(PLACEHOLDER.encode()).digest(), version=3))]),
        ("tags string", json.dumps({PLACEHOLDER: PLACEHOLDER})),
        ("tags string", base64.b64encode(PLACEHOLDER.encode()).decode()),
    ],
)
def test_unavailable_values_have_a_form_for_each_type(column: str, value: object) -> None:
    """As Debezium's UnchangedToastedPlaceholder makes them; taken for values they would replace what is still there."""
    message = spoilt("postgres-plain", 1, lambda event: event | {"after": event["after"] | {"tags": value}})
    found = decoder_for(reading(KEYS["postgres"], column)).decode(chunk([message]))
    assert "unavailable" in found.bad[0].reason
    assert not decoder_for(reading(KEYS["postgres"], "pieces int")).decode(chunk([message])).bad


def test_numbers_dates_and_bytes_are_as_the_connector_writes_them() -> None:
    """Documented in docs/formats.md: what Debezium writes otherwise than a column could take it is dirty."""
    for name in ("mariadb-plain", "mysql-plain"):
        reasons = {bad.field: bad.reason for bad in decoded(name, "huge decimal(38,0) as text").bad.values()}
        assert "huge" in reasons
        huge = decoded(name, "huge string").table["huge"][1].as_py()
        assert huge == "123456789012345678901234567890123456789012345"
        assert {bad.field for bad in decoded(name, "n bigint from $.id").bad.values()} >= {"n"}
        zero = decoded(name, "placed int", "due int").table.to_pylist()[2]
        assert (zero["placed"], zero["due"]) == (None, 0)
    assert {bad.field for bad in decoded("postgres-plain", "placed date").bad.values()} >= {"placed"}
    endless = decoded("postgres-plain", "placed int").table.to_pylist()[1]
    assert endless["placed"] == -2147472692  # infinity


def test_a_column_that_is_younger_than_the_event_is_null() -> None:
    for name in ("mariadb-plain", "mysql-plain", "postgres-plain"):
        cities = [(row["city"], row["customer"]) for row in events(decoded(name, "city string", "customer string"))]
        assert ("Oslo", "Di") in cities
        assert (None, "Ada") in cities


def test_unknown_fields_are_the_columns_of_the_row() -> None:
    made = reading("id string", "customer string")
    made = replace(made, format=replace(made.format, unknown_fields="capture"))
    found = decoder_for(made).decode(chunk(recorded("mariadb-plain")))
    columns = {"total", "huge", "placed", "due", "note", "changed", "pieces"}
    assert set(found.unknown) == columns | {"city"}
    assert {name for name, _ in found.table["_extra"][0].as_py()} == columns


# ---------------------------------------------------------------- events that are spoilt


def _source(**changes: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def change(value: dict[str, Any]) -> dict[str, Any]:
        source = {k: v for k, v in (value["source"] | changes).items() if v is not ...}
        return value | {"source": source}

    return change


def _value(**changes: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda value: {k: v for k, v in (value | changes).items() if v is not ...}


def spoilt(name: str, number: int, change: Callable[[dict[str, Any]], Any]) -> Message:
    key, value = recorded(name)[number]
    assert value is not None
    return key, json.dumps(change(json.loads(value))).encode()


PLACES = "no position: source.sequence is no pair of positions"


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        ("postgres", _source(sequence=...), "no position: source.sequence is missing"),
        ("postgres", _source(sequence=None), "no position: source.sequence is missing"),
        ("postgres", _source(sequence=12), "no position: source.sequence is missing"),
        ("postgres", _source(sequence="12"), PLACES),
        ("postgres", _source(sequence="[12,13]"), PLACES),
        ("postgres", _source(sequence='["12x","13"]'), PLACES),
        ("postgres", _source(sequence='["9223372036854775808","13"]'), PLACES),
        ("postgres", _source(sequence="["), PLACES),
        ("postgres", _source(lsn=...), "no position: source.lsn is no number"),
        ("postgres", _source(lsn="12"), "no position: source.lsn is no number"),
        ("postgres", _source(lsn=-1), "no position: source.lsn is no number"),
        ("mariadb", _source(file=...), "no position: source.file does not name a file of a binary log"),
        ("mariadb", _source(file="binlog.index"), "no position: source.file does not name a file of a binary log"),
        ("mariadb", _source(pos=...), "no position: source.pos is no number"),
        ("mariadb", _source(row=None), "no position: source.row is no number"),
        ("mariadb", _source(pos=UNIT), "no position: the binary log's number or offset is too large"),
        ("mariadb", _source(file="binlog.9999999999"), "no position: the binary log's number or offset is too large"),
        ("mariadb", _source(connector="sqlserver"), "no position: there is no rule for the connector 'sqlserver'"),
        ("mariadb", _source(connector=...), "no position: source.connector is missing"),
        ("mariadb", _source(snapshot="incremental"), "a row of an incremental snapshot has no position among"),
        ("mariadb", _value(op="m"), "no event of a row: op is 'm'"),
        ("mariadb", _value(op=3), "no event of a row: op is '3'"),
        ("mariadb", _value(op=...), "no change event: op and source are missing"),
        ("mariadb", _value(source=...), "no change event: op and source are missing"),
        ("mariadb", _value(source=[]), "no change event: source is no object"),
        ("mariadb", _value(after=None), "no change event: after is no object"),
        ("mariadb", lambda value: {"schema": {}, "payload": None}, "no change event: the payload of the value is no"),
        ("mariadb", lambda value: [value], "expected an object, got an array"),
        ("mariadb", _value(after={"_op": 1}), "the source's table has a column _op, a name that Tidegate needs"),
    ],
)
def test_spoilt_events_are_dirty(name: str, change: Callable[[dict[str, Any]], Any], says: str) -> None:
    made = reading(KEYS[name])
    whole, message = recorded(f"{name}-plain")[1], spoilt(f"{name}-plain", 1, change)
    found = decoder_for(made).decode(chunk([whole, message, whole]))
    assert list(found.bad) == [1]
    assert found.bad[1].reason.startswith(says)
    assert found.table["id"][0] == found.table["id"][2]


@pytest.mark.parametrize(
    ("key", "says"),
    [
        (None, "no key: the source's table has no primary key"),
        (b"{}", "no key: it has no columns"),
        (b'{"schema":null,"payload":{}}', "no key: it has no columns"),
        (b"7", "the key is unusable: expected an object, got"),
        (b"\xff", "the key is unusable: invalid UTF-8"),
        (b'{"id":1,"id":2}', "duplicate key 'id'"),
    ],
)
def test_events_without_a_key_are_dirty(key: bytes | None, says: str) -> None:
    found = decoder_for(reading("id bigint")).decode(chunk([(key, recorded("postgres-plain")[1][1])]))
    assert found.bad[0].reason.startswith(says)


@pytest.mark.parametrize("place", [b'"after":{', b'"source":{', b"{"])
def test_an_object_that_has_a_key_twice_is_dirty(place: bytes) -> None:
    key, value = recorded("mariadb-plain")[1]
    assert value is not None
    found = decoder_for(reading("id string")).decode(chunk([(key, value.replace(place, place + b'"x":1,"x":2,', 1))]))
    assert found.bad[0].reason == "duplicate key 'x'"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (_value(__op=...), "no flattened change event: __op is missing"),
        (_value(__deleted=...), ""),
        (_value(__deleted="true"), "__op and __deleted disagree"),
        (_value(__source_file=...), "no position: source.file does not name"),
        (_value(__source_connector=...), "no position: source.connector is missing"),
        (_value(__op="t"), "TRUNCATE"),
    ],
)
def test_flat_events_say_enough_or_are_dirty(change: Callable[[dict[str, Any]], Any], says: str) -> None:
    made = reading("id string", envelope="flat")
    found = decoder_for(made).decode(chunk([spoilt("mariadb-flat", 1, change)]))
    assert bool(found.bad) == bool(says)
    assert not says or found.bad[0].reason.startswith(says)
    unlike = decoder_for(reading("id string")).decode(chunk([recorded("mariadb-flat")[1]]))
    assert unlike.bad[0].reason == "no change event: op and source are missing"


@pytest.mark.parametrize("name", ["mariadb-plain", "mariadb-flat", "postgres-plain", "postgres-flat"])
def test_whatever_a_message_is_its_neighbours_are_read(name: str) -> None:
    rng, messages = Random(20261124), [m for m in recorded(name) if m[1] and len(m[1]) < 2000]
    made = reading(
        KEYS[name.split("-")[0]], "note string", "city string", envelope=name.split("-")[1].replace("plain", "full")
    )
    decoder = decoder_for(made)
    mutated = [tuple(_mutated(part, rng) for part in rng.choice(messages)) for _ in range(400)]
    deep = b'{"id":1,"note":' + b"[" * 490 + b"]" * 490 + b"}"
    mutated += [
        (None, None),
        (deep, deep),
        (messages[0][0], (messages[0][1] or b"").replace(b'"first"', b"[" * 480 + b"]" * 480)),
    ]
    for spoiled in mutated:
        found = decoder.decode(chunk([messages[1], spoiled, messages[1]]))
        assert not {0, 2} & set(found.bad)
        assert found.table.to_pylist()[0] == found.table.to_pylist()[2]


def _mutated(part: bytes | None, rng: Random) -> bytes | None:
    if part is None or rng.random() < 0.1:
        return None if rng.random() < 0.1 else part
    at, to = sorted(rng.randrange(len(part) + 1) for _ in range(2))
    other = rng.choice(
        [b"", b"0", b'"', b"null", b"{", b"[", b"\xff", part[at:to] * 2, part[: rng.randrange(len(part))]]
    )
    return part[:at] + other + part[min(to, at + rng.randrange(12)) :]
