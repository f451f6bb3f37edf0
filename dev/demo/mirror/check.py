"""The independent checker: is the mirror's table what the database holds? Imports nothing of Tidegate; pyiceberg,
psycopg2, confluent_kafka and MariaDB's own client only.

    python check.py --catalogue postgresql://user@host:port/iceberg --table lake.orders --kafka HOST:PORT --topic NAME
        --source shop.orders -- mariadb --batch --raw ...

It asks the database for its rows by the client whose command comes last, finds the table's metadata by SQL, reads its
newest snapshot by pyiceberg, and compares row by row, in all columns that the source's table has. Then it reads the
topic and compares what the table says of itself: events, keys, tombstones. Exit code 0 only if all of it holds.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

Row = tuple[Any, ...]
_EPOCH = datetime(1970, 1, 1)
CONVERSIONS: dict[str, Callable[[str], Any]] = {
    "bigint": int, "int": int, "varchar": str, "decimal": Decimal, "date": date.fromisoformat,
    "datetime": lambda text: (datetime.fromisoformat(text) - _EPOCH) // timedelta(microseconds=1),
}  # fmt: skip
"""What a value of the source, as text, is in the mirror."""
SHOWN = 3


@dataclass(frozen=True)
class Check:
    name: str
    ok: bool
    detail: str

    def __str__(self) -> str:
        return f"{'PASS' if self.ok else 'FAIL'}  {self.name}: {self.detail}"


@dataclass(frozen=True)
class Source:
    """The database's table: its columns, in order, and its rows by key (the first column)."""

    columns: tuple[str, ...]
    rows: Mapping[int, Row]


@dataclass(frozen=True)
class Mirror:
    """The table's rows as dicts, tombstones too, and the summary of its newest snapshot."""

    columns: tuple[str, ...]
    rows: Sequence[Mapping[str, Any]]
    summary: Mapping[str, str]

    @property
    def seen(self) -> list[Mapping[str, Any]]:
        """What readers see."""
        return [row for row in self.rows if row["_op"] != "d"]


@dataclass(frozen=True)
class Topic:
    """What went through Kafka: events, those among them that came before, and all keys."""

    events: int
    repeated: int
    keys: frozenset[int]


# ---------------------------------------------------------------- who is asked


def read_source(client: Sequence[str], table: str) -> Source:
    """By the client: one JSON array of texts a row, for its own form cannot tell NULL from a text."""

    def ask(sql: str) -> list[list[str | None]]:
        done = subprocess.run(client, input=sql.encode(), capture_output=True, check=True)
        return [json.loads(line) for line in done.stdout.decode().splitlines()]

    schema, _, name = table.partition(".")
    kinds = dict(
        ask(
            "SELECT JSON_ARRAY(column_name, data_type) FROM information_schema.columns "
            f"WHERE table_schema = '{schema}' AND table_name = '{name}' ORDER BY ordinal_position"
        )
    )
    texts = ", ".join(f"CAST(`{column}` AS CHAR)" for column in kinds)
    found = ask(f"SET NAMES utf8mb4; SELECT JSON_ARRAY({texts}) FROM {table}")
    convert = [CONVERSIONS[str(kind)] for kind in kinds.values()]
    rows = [tuple(None if v is None else c(v) for c, v in zip(convert, row, strict=True)) for row in found]
    return Source(tuple(map(str, kinds)), {row[0]: row for row in rows})


def read_mirror(catalogue: str, table: str) -> Mirror:
    """By SQL and pyiceberg."""
    from check_catalogues import sql_table

    opened = sql_table(catalogue, table)
    snapshot = None if opened is None else opened.current_snapshot()
    if opened is None or snapshot is None:
        raise SystemExit(f"{table} does not exist, or nothing was merged")
    rows = opened.scan().to_arrow()
    return Mirror(tuple(rows.column_names), rows.to_pylist(), dict(snapshot.summary.additional_properties))


def read_topic(bootstrap: str, name: str) -> Topic:
    """Every record; a null value is no event, and the delete before it has said the same."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "checker", "enable.auto.commit": False})
    partitions = [TopicPartition(name, p, 0) for p in consumer.list_topics(name, timeout=30).topics[name].partitions]
    left = {p.partition: consumer.get_watermark_offsets(p, timeout=30)[1] for p in partitions}
    consumer.assign(partitions)
    total, seen, events, keys = sum(left.values()), set(), 0, set()
    while total:
        for message in consumer.consume(10_000, 30.0):
            if message.error() or message.offset() >= left[message.partition()]:
                raise SystemExit(f"{name}: {message.error() or 'it has grown meanwhile'}")
            total -= 1
            keys.add(json.loads(message.key())["id"])
            if message.value() is not None:
                events += 1
                value = json.loads(message.value())
                value = value.get("payload", value)  # it may come with its schema
                source = value["source"]
                seen.add((message.key(), value["op"], source["file"], source["pos"], source["row"]))
    consumer.close()
    return Topic(events, events - len(seen), frozenset(keys))


# ---------------------------------------------------------------- what must hold


def compare(source: Source, mirror: Mirror, topic: Topic) -> list[Check]:
    """All claims."""
    lacking = [c for c in source.columns if c not in mirror.columns]
    checks = [Check("columns", not lacking, f"{', '.join(source.columns)}; missing in the mirror: {lacking or 'none'}")]
    keys, key = [row[source.columns[0]] for row in mirror.rows], source.columns[0]
    twice = len(keys) - len(set(keys))
    checks.append(Check("keys", not twice, f"{len(keys):,} rows and tombstones, {twice} keys twice"))
    if not lacking:
        checks.append(_contents(source, {row[key]: tuple(row[c] for c in source.columns) for row in mirror.seen}))
    checks += [_history(set(keys), topic, source, mirror), *_balance(mirror, topic)]
    return checks


def _contents(source: Source, seen: Mapping[int, Row]) -> Check:
    missing, foreign = sorted(source.rows.keys() - seen.keys()), sorted(seen.keys() - source.rows.keys())
    other = sorted(k for k in source.rows.keys() & seen.keys() if not _same(source.rows[k], seen[k]))
    told = f"{len(source.rows):,} rows in the database, {len(seen):,} in the mirror"
    for what, found in (("missing", missing), ("gone from the database", foreign), ("different", other)):
        if found:
            told += f"; {len(found):,} {what}, such as {found[:SHOWN]}"
    if other:
        told += f": {source.rows[other[0]]} and {seen[other[0]]}"
    return Check("content", not (missing or foreign or other), told)


def _same(one: Row, other: Row) -> bool:
    """Equal, and of one type: 1 and Decimal(1) are two things."""
    return one == other and list(map(type, one)) == list(map(type, other))


def _history(keys: set[int], topic: Topic, source: Source, mirror: Mirror) -> Check:
    """Each key of the topic is a row or a tombstone, unless it was gone before the table was copied: then it counts as
    purged. Other keys are those of rows that were copied."""
    gone = topic.keys - keys
    off = (gone & source.rows.keys()) | (keys - topic.keys - source.rows.keys())
    if len(gone) > int(mirror.summary.get("tidegate.purged", 0)):
        off |= gone
    told = f"{len(topic.keys):,} keys went through the topic, {len(keys):,} are rows or tombstones"
    return Check("tombstones", not off, told + (f"; such as {sorted(off)[:SHOWN]}" if off else ""))


def _balance(mirror: Mirror, topic: Topic) -> Iterable[Check]:
    said = {name: int(mirror.summary.get(f"tidegate.{name}", -1)) for name in _TOLD}
    seen = len(mirror.seen)
    counted = {"rows": seen, "tombstones": len(mirror.rows) - seen, "events": topic.events}
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
    parser.add_argument("--source", metavar="SCHEMA.TABLE", required=True)
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
