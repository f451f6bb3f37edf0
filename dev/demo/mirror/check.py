"""The independent checker: is the mirror's table what the database holds? Imports nothing of Tidegate; pyiceberg,
pyarrow, psycopg2, confluent_kafka and MariaDB's own client only.

    python check.py --catalogue postgresql://user@host:port/iceberg --table lake.orders --kafka HOST:PORT --topic NAME
        --source shop.orders_a shop.orders_b -- mariadb --batch --raw ...

It asks the database for the rows of each shard by the client whose command comes last, finds the table's metadata by
SQL, reads its newest snapshot by pyiceberg, and compares each row in all columns that the source's tables have. Then it
reads the topic and compares what the table says of itself: events, keys, tombstones. Exit code 0 only if all of it
holds.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

Key = tuple[str, int]
SHARD, ID = "shard", "id"
KEY = [SHARD, ID]
"""Of a row: the table that it is of, and its number there."""
OTHER = " of the mirror"
SHOWN = 3


@dataclass(frozen=True)
class Check:
    name: str
    ok: bool
    detail: str

    def __str__(self) -> str:
        return f"{'PASS' if self.ok else 'FAIL'}  {self.name}: {self.detail}"


@dataclass(frozen=True)
class Mirror:
    """The table's rows, tombstones too, and the summary of its newest snapshot."""

    rows: pa.Table
    summary: Mapping[str, str]

    @property
    def seen(self) -> pa.Table:
        """What readers see."""
        return self.rows.filter(pc.not_equal(self.rows["_op"], "d"))


@dataclass(frozen=True)
class Topic:
    """What went through Kafka: events, those among them that came before, all keys, and those whose last event is a
    delete."""

    events: int
    repeated: int
    keys: frozenset[Key]
    deleted: frozenset[Key]


# ---------------------------------------------------------------- who is asked


def read_source(client: Sequence[str], tables: Sequence[str]) -> pa.Table:
    """By the client: one JSON object of texts a row, for its own form cannot tell NULL from a text."""
    return pa.concat_tables([_read_shard(client, *table.split(".")) for table in tables])


def _read_shard(client: Sequence[str], schema: str, name: str) -> pa.Table:
    def ask(sql: str) -> bytes:
        return subprocess.run(client, input=sql.encode(), capture_output=True, check=True).stdout

    described = ask(
        "SELECT JSON_ARRAY(column_name, column_type) FROM information_schema.columns "
        f"WHERE table_schema = '{schema}' AND table_name = '{name}' ORDER BY ordinal_position"
    )
    kinds = dict(json.loads(line) for line in described.decode().splitlines())
    texts = ", ".join(f"'{column}', CAST(`{column}` AS CHAR)" for column in kinds)
    found = BytesIO(ask(f"SET NAMES utf8mb4; SELECT JSON_OBJECT({texts}) FROM {schema}.{name}"))
    parsed = arrow_json.ParseOptions(explicit_schema=pa.schema([(column, pa.string()) for column in kinds]))
    rows = arrow_json.read_json(found, parse_options=parsed)
    columns = {column: _converted(rows[column], kind) for column, kind in kinds.items()}
    return pa.table({SHARD: pa.array([name] * rows.num_rows, pa.string()), **columns})


def _converted(texts: pa.ChunkedArray, kind: str) -> pa.ChunkedArray:
    """What values of the source, as texts, are in the mirror."""
    name, _, size = kind.rstrip(")").partition("(")
    if name in ("bigint", "int"):
        return texts.cast(pa.int64())
    if name == "decimal":
        return texts.cast(pa.decimal128(*map(int, size.split(","))))
    if name == "date":
        return texts.cast(pa.date32()).cast(pa.int32()).cast(pa.int64())  # days since 1970
    if name == "datetime":
        return texts.cast(pa.timestamp("us")).cast(pa.int64())
    if name != "varchar":
        raise SystemExit(f"what is {kind} in the mirror?")
    return texts


def read_mirror(catalogue: str, table: str) -> Mirror:
    """By SQL and pyiceberg."""
    from check_catalogues import sql_table

    opened = sql_table(catalogue, table)
    snapshot = None if opened is None else opened.current_snapshot()
    if opened is None or snapshot is None:
        raise SystemExit(f"{table} does not exist, or nothing was merged")
    return Mirror(opened.scan().to_arrow(), dict(snapshot.summary.additional_properties))


def read_topic(bootstrap: str, name: str) -> Topic:
    """Every record; a null value is no event, and the delete before it has said the same."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "checker", "enable.auto.commit": False})
    partitions = [TopicPartition(name, p, 0) for p in consumer.list_topics(name, timeout=30).topics[name].partitions]
    left = {p.partition: consumer.get_watermark_offsets(p, timeout=30)[1] for p in partitions}
    consumer.assign(partitions)
    total, seen, events = sum(left.values()), set(), 0
    newest: dict[Key, tuple[str, int, int, str]] = {}
    while total:
        for message in consumer.consume(10_000, 30.0):
            if message.error() or message.offset() >= left[message.partition()]:
                raise SystemExit(f"{name}: {message.error() or 'it has grown meanwhile'}")
            total -= 1
            if message.value() is not None:
                events += 1
                value = json.loads(message.value())
                value = value.get("payload", value)  # it may come with its schema
                source = value["source"]
                key = (source["table"], json.loads(message.key())[ID])
                event = (source["file"], source["pos"], source["row"], value["op"])
                newest[key] = max(newest.get(key, event), event)
                seen.add((key, event))
    consumer.close()
    deleted = frozenset(key for key, (*_, op) in newest.items() if op == "d")
    return Topic(events, events - len(seen), frozenset(newest), deleted)


# ---------------------------------------------------------------- what must hold


def compare(source: pa.Table, mirror: Mirror, topic: Topic) -> list[Check]:
    """All claims."""
    columns = source.column_names
    lacking = [c for c in columns if c not in mirror.rows.column_names]
    checks = [Check("columns", not lacking, f"{', '.join(columns)}; missing in the mirror: {lacking or 'none'}")]
    keys, there = _keys(mirror.rows), _keys(source)
    twice = mirror.rows.num_rows - len(keys)
    checks.append(Check("keys", not twice, f"{mirror.rows.num_rows:,} rows and tombstones, {twice} keys twice"))
    if not lacking:
        checks.append(_contents(source, there, mirror.seen.select(columns)))
    return [*checks, _history(keys, there, topic, mirror), *_balance(mirror, topic)]


def _keys(rows: pa.Table) -> set[Key]:
    return set(zip(rows[SHARD].to_pylist(), rows[ID].to_pylist(), strict=True))


def _contents(source: pa.Table, there: set[Key], seen: pa.Table) -> Check:
    found = _keys(seen)
    shards = ", ".join(f"{one['counts']:,} of {one['values']}" for one in source[SHARD].value_counts().to_pylist())
    told = f"{source.num_rows:,} rows in the database ({shards}), {seen.num_rows:,} in the mirror"
    both = source.join(_plain(seen), KEY, join_type="inner", right_suffix=OTHER)
    other = both.filter(_any_differs(both, source.column_names))
    off = {"missing": there - found, "gone from the database": found - there, "different": _keys(other)}
    for what, keys in off.items():
        if keys:
            told += f"; {len(keys):,} {what}, such as {sorted(keys)[:SHOWN]}"
    if other.num_rows:
        told += f": {other.slice(0, 1).to_pylist()[0]}"
    return Check("content", not any(off.values()), told)


def _any_differs(both: pa.Table, columns: Sequence[str]) -> pa.ChunkedArray:
    return reduce(pc.or_, [_differs(both[c], both[c + OTHER]) for c in columns if c not in KEY])


def _plain(rows: pa.Table) -> pa.Table:
    """Whole numbers and texts, of whatever length they may be."""

    def kind(field: pa.Field) -> pa.DataType:
        if pa.types.is_integer(field.type):
            return pa.int64()
        return pa.string() if pa.types.is_large_string(field.type) else field.type

    return rows.cast(pa.schema([(field.name, kind(field)) for field in rows.schema]))


def _differs(one: pa.ChunkedArray, other: pa.ChunkedArray) -> pa.ChunkedArray:
    """True for each pair that is not equal; 1 and Decimal(1) are two things."""
    if one.type != other.type:
        return pa.chunked_array([pa.array([True] * len(one), pa.bool_())])
    return pc.or_(pc.xor(one.is_null(), other.is_null()), pc.not_equal(one, other).fill_null(False))


def _history(keys: set[Key], there: set[Key], topic: Topic, mirror: Mirror) -> Check:
    """Each key of the topic is a row or a tombstone, unless it counts as purged; a delete from before the table was
    copied may have left none. Other keys are those of rows that were copied."""
    gone = topic.keys - keys
    off = (gone & there) | (keys - topic.keys - there)
    lost = gone - topic.deleted if "tidegate.copied" in mirror.summary else gone
    if len(lost) > int(mirror.summary.get("tidegate.purged", 0)):
        off |= lost
    told = f"{len(topic.keys):,} keys went through the topic, {len(keys):,} are rows or tombstones"
    return Check("tombstones", not off, told + (f"; such as {sorted(off)[:SHOWN]}" if off else ""))


def _balance(mirror: Mirror, topic: Topic) -> Iterable[Check]:
    said = {name: int(mirror.summary.get(f"tidegate.{name}", -1)) for name in _TOLD}
    seen = mirror.seen.num_rows
    counted = {"rows": seen, "tombstones": mirror.rows.num_rows - seen, "events": topic.events}
    off = [f"{name} {said[name]:,}, counted {n:,}" for name, n in counted.items() if said[name] != n]
    told = f"{topic.events:,} events, {topic.repeated:,} of them sent again"
    yield Check("the table's own word", not off, "; ".join([told, *off]))
    stand = said["rows"] + said["tombstones"] + said["purged"]
    terms = f"{said['rows']:,} rows + {said['tombstones']:,} tombstones + {said['purged']:,} purged"
    yield Check("balance", stand == said["inserted"], f"{terms} = {stand:,} of {said['inserted']:,} inserted")


_TOLD = ("rows", "tombstones", "events", "inserted", "purged")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Compare a mirror with its database, independently.")
    parser.add_argument("--catalogue", metavar="URL", required=True, help="has iceberg_tables; password: PGPASSWORD")
    parser.add_argument("--table", required=True)
    parser.add_argument("--kafka", metavar="HOST:PORT", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--source", metavar="SCHEMA.TABLE", required=True, nargs="+", help="shards of one table")
    parser.add_argument("client", nargs="+", help="command of MariaDB's client")
    asked = parser.parse_args(argv)
    sys.path.append(str(Path(__file__).parents[1]))  # python -I leaves it out
    source = read_source(asked.client, asked.source)
    checks = compare(source, read_mirror(asked.catalogue, asked.table), read_topic(asked.kafka, asked.topic))
    for check in checks:
        print(check, flush=True)
    return 0 if all(check.ok for check in checks) else 1


if __name__ == "__main__":
    sys.exit(main())
