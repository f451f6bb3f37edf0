"""Odd values through real Debezium and Kafka: what an event, a chunk and the checksum make of each is the same, or the
column is refused by name.

A part of the tier `make test-copies`."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import NewTopic

from dev.demo.mirror.connect import Connect
from dev.stack.info import StackInfo
from dev.stack.ports import choose_ports
from dev.stack.topics import create_topic
from spark_jobs.engine.decoder import decoder_for
from tests.change_events.recordings import chunk, reading
from tests.contract.test_databases_checksums import KeyRange, of_the_worker, rows_of
from tests.copies.real_parts import FLUSH_MS, drop_slot, launcher_of, settings_of
from tests.copies.writer import Table
from tests.databases.record import Message, messages
from tests.databases.servers import Server
from tidegate.core.files.failure import JobError
from tidegate.databases import kinds
from tidegate.databases.mariadb.charsets import ALIKE
from tidegate.databases.types import IN_EVENTS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.environ.get("TIDEGATE_COPIES") != "all", reason="make test-copies"),
]
LINE_END = b"\n"
DIGITS = ("0", "0.0000001", "-1e-20", "1e-30", "1234567.5", "-0.000", "NULL")
FLOATS = ("-0e0", "1e-45", "5e-324", "1e-310", "0.1", "1e16", "16777217", "9007199254740993", "1e-5", "3.4028235e38")
MOMENTS = ("'2026-01-02 03:04:05'", "'2026-01-02 03:04:05.1'", "'1999-12-31 23:59:59.123456'",
           "'2026-10-25 00:30:00.000001'", "'2026-10-25 01:30:00.12'")  # fmt: skip
FIRST = ("'1901-02-03 04:05:06.5'", "'1500-02-28 12:00:00'")
DAYS = ("'2026-10-25'", "'1969-12-31'", "'1901-02-03'", "'1500-02-28'")
TEXTS = ("'a  '", "''", "' '", "'NULL'", "'\"\"'", "'a,b'")


@dataclass(frozen=True)
class Case:
    """Values (SQL) of a column of this type, which becomes the `wanted` ones."""

    type: str
    wanted: Sequence[str]
    values: Sequence[str]


def _times(name: str, wanted: Sequence[str], values: Sequence[str]) -> list[Case]:
    return [Case(f"{name}({n}) NULL", [wanted[0 if n <= 3 else 1]], values) for n in range(7)]


def _every_character(charset: str, multi: bool) -> list[str]:
    """Of one byte, or of two, between line ends."""
    found = [bytes([n]) for n in range(1, 256) if n != 10]
    if multi:
        found = [bytes([a, b]) for a in range(0xA1, 0xF8) for b in range(0xA1, 0xFF)]
    return [f"CONVERT(x'{LINE_END.join(found).hex()}' USING {charset})"]


MARIADB = [
    Case("DECIMAL(65,30)", ["string", "decimal(38,30) as text"], DIGITS),
    Case("DECIMAL(38,10)", ["string", "decimal(38,10) as text", "double as text"], DIGITS),
    Case("DOUBLE", ["double"], (*FLOATS[:1], *FLOATS[2:])), Case("FLOAT", ["float"], (*FLOATS[:2], *FLOATS[4:])),
    *_times("DATETIME", ("bigint", "bigint"), (*MOMENTS, *FIRST)),
    *_times("TIMESTAMP", ("string", "string"), MOMENTS),
    Case("DATE", ["int", "bigint"], DAYS), Case("TIMESTAMP(6) NULL", ["timestamp"], MOMENTS),
    Case("CHAR(8)", ["string"], TEXTS), Case("VARCHAR(40)", ["string"], (*TEXTS, "CHAR(0)", "_utf8mb4 x'efbbbf'")),
    Case("ENUM('a','it''s','Ä',' f','g(h)','')", ["string"], ("'invalid'", "1", "2", "3", "4", "5", "6")),
    Case("SET('a','it''s','Ä')", ["string"], ("''", "1", "2", "4", "7")),
    Case("BINARY(4)", ["string"], ("''", "x'0100'", "x'61200000'")),
    Case("VARBINARY(10)", ["string"], ("''", "x'0100'", "x'2020'")),
    *(Case(f"TEXT CHARACTER SET {name}", ["string"], _every_character(name, name[:2] == "gb"))
      for name in sorted({*ALIKE, *IN_EVENTS}) if not name.startswith(("u", "asc"))),
    *(Case(f"TEXT CHARACTER SET {name}", ["string"], ("'a€😀\n'", "'é'"))
      for name in sorted(ALIKE) if name.startswith("u") and name != "utf8"),
]  # fmt: skip
POSTGRESQL = [
    Case("numeric", ["string", "decimal(38,30) as text", "double as text"], DIGITS),
    Case("numeric(38,10)", ["string", "decimal(38,10) as text"], DIGITS),
    Case("double precision", ["double"], ("'-0'", *FLOATS[2:])),
    Case("real", ["float"], ("'-0'", FLOATS[1], *FLOATS[4:])),
    *_times("timestamp", ("bigint", "bigint"), (*MOMENTS, *FIRST)),
    Case("date", ["int", "bigint"], DAYS), Case("timestamptz", ["timestamp"], MOMENTS),
    *_times("timestamptz", ("string", "string"), (*MOMENTS, *FIRST, "'2026-10-25 02:30:00+02'")),
    Case("char(8)", ["string"], TEXTS), Case("text", ["string"], (*TEXTS, "E'\\uFEFFa'", "'\\.'", "'\\N'")),
    Case("uuid", ["string"], ("'{A0EEBC99-9C0B4EF8-BB6D6BB9-BD380A11}'",)),
    Case("json", ["string"], ("'{\"a\": 1.0,  \"a\":2}'",)), Case("jsonb", ["string"], ("'{\"b\":1e40,\"a\":1}'",)),
    Case("inet", ["string"], ("'10.0.0.1/32'", "'::ffff:1.2.3.4'")), Case("bytea", ["string"], ("''", "'\\x0100'")),
]  # fmt: skip
CASES = {"mariadb": MARIADB, "postgresql": POSTGRESQL}
UNDEFINED = "?"
"""What MariaDB makes of a byte that a character set does not define; the connector makes U+FFFD."""


ZONES = {
    "mariadb": ("SET GLOBAL time_zone = '{}'", "+05:30", "SYSTEM"),
    # the stack's own knows no zones by name
    "postgresql": ("ALTER DATABASE tidegate SET timezone = '{}'", "<+0530>-05:30", "UTC"),
}
"""How a server gets its time zone, one that it may have, and the one that it had."""


@pytest.fixture(params=CASES)
def server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """The server, Kafka Connect and this process are in three time zones: no value goes by any of them."""
    found: Server = request.getfixturevalue(request.param)
    sets, zone, before = ZONES[request.param]
    found.run(sets.format(zone))
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Duser.timezone=America/St_Johns")
    monkeypatch.setenv("TZ", "NOWHERE+09:15")
    time.tzset()
    yield found
    found.run(sets.format(before))
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def sent(server: Server, kafka: StackInfo, tmp_path: Path, rng: random.Random) -> Iterator[tuple[str, dict[int, Any]]]:
    """The table's name, and the message of each row; the connector has streamed them."""
    prefix = f"edges{rng.randrange(10**6)}"
    table, cases = Table(server.kind, f"shop.{prefix}"), CASES[server.kind]
    columns = ", ".join(f"c{n} {case.type}" for n, case in enumerate(cases))
    server.run(f"CREATE TABLE {table.name} (id BIGINT PRIMARY KEY, {columns})")
    made = settings_of(server, table, prefix, tmp_path / "history", rng.randrange(9_000))
    port, topic = choose_ports(("connect",), {})["connect"], f"{prefix}.{table.name}"
    create_topic({"bootstrap.servers": kafka.kafka_bootstrap}, NewTopic(topic, 1, 1))
    launcher = launcher_of(prefix, tmp_path)
    connect = Connect(tmp_path / "connect", kafka.kafka_bootstrap, port, {prefix: made}, launcher, 1, FLUSH_MS)
    numbers = iter(range(-1, -10_000, -1))

    def begun(found: Sequence[Message]) -> bool:
        """A row is there that the connector has seen."""
        server.run(f"INSERT INTO {table.name} (id) VALUES ({next(numbers)})")
        return bool(found)

    connect.start()
    try:
        messages(kafka.kafka_bootstrap, topic, begun)
        rows = [(n, value) for n, case in enumerate(cases) for value in case.values]
        start = f"INSERT INTO {table.name}"
        server.run(*(f"{start} (id, c{n}) VALUES ({key}, {value})" for key, (n, value) in enumerate(rows)))
        last = f'{{"id":{len(rows) - 1}}}'
        found = messages(kafka.kafka_bootstrap, topic, lambda some: bool(some) and some[-1][0] == last)
        yield table.name, {json.loads(key)["id"]: (key.encode(), value.encode()) for key, value in found}
    finally:
        connect.stop()
        if server.kind == "postgresql":
            drop_slot(server, prefix)
        server.run(f"DROP TABLE {table.name}")


def test_an_event_a_chunk_and_a_checksum_agree(server: Server, sent: tuple[str, dict[int, Any]]) -> None:
    name, found = sent
    database = kinds.opened(server.connection, 30.0)
    table, wrong, key = database.describe(name), [], -1
    for n, case in enumerate(CASES[server.kind]):
        for value in case.values:
            key += 1
            keys = KeyRange((key - 1,), (key,))
            for wanted in case.wanted:
                spec = reading("id bigint", f"v {wanted.split()[0]} from $.c{n}{wanted[len(wanted.split()[0]) :]}")
                event = decoder_for(spec).decode(chunk([found[key]]))
                columns = [("id", "bigint"), (f"c{n}", wanted.split()[0])]
                said = repr(list(event.bad.values())) if event.bad else repr(event.table.to_pylist()[0]["v"])
                try:
                    rows = rows_of(server, table, columns, keys, "base64")
                except JobError as e:
                    wrong.append((case.type, wanted, value[:40], said[:200], e.failure.what))
                    continue
                read = repr(rows.to_pylist()[0][f"c{n}"])
                sums = database.checksums(table, columns, base64=True)
                if None not in sums.forms and sums.of(keys) != of_the_worker(rows, sums.forms):
                    wrong.append((case.type, wanted, value[:40], "another checksum", read[:200]))
                if not same(said, read):
                    wrong.append((case.type, wanted, value[:40], said[:200], read[:200]))
    database.close()
    assert wrong == []


def same(event: str, read: str) -> bool:
    """But for what a character set does not define."""
    parts = [text.split(repr("\n")[1:-1]) for text in (event, read)]
    return len(parts[0]) == len(parts[1]) and all(a == b or b == UNDEFINED for a, b in zip(*parts, strict=True))
