"""The section `copy`: how the table that a mirror shows is read from its database."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tidegate.spec.section import Section, key
from tidegate.spec.values import ConnectionId, Count, Cron, PoolName, SourceTableName, Text, Topic

MOST_TASKS = 64


class CopiedServerSpec(Section):
    """A server that has tables of the mirror, with a log and a connector of its own.

    See [mirrors](mirrors.md#several-servers)."""

    name: Topic = key(
        "What its events have in `source.name`, its connector's `topic.prefix`; a column of `sink.key` is read from it."
    )
    conn_id: ConnectionId = key("As `copy.conn_id`.")
    connect_conn_id: ConnectionId | None = key("As `copy.connect_conn_id`.", None)
    connector: Text | None = key("As `copy.connector`.", None)
    slot: Text | None = key("As `copy.slot`.", None)


class CopySpec(Section):
    """Rows that were in the source's table before the topic began, kind `mirror` only.

    They are read in chunks of its key, while events go on, and merged with them
    ([mirrors](mirrors.md#the-first-full-copy))."""

    conn_id: ConnectionId | None = key(
        "Airflow connection of the source's database, of type `mysql` or `postgres`. Required, or `servers`.", None
    )
    table: SourceTableName | None = key(
        "The source's table, `schema.name`; the schema is MariaDB's database. It must have the primary key that "
        "`sink.key` names. Required, or `tables`.",
        None,
    )
    tables: Text | None = key(
        "Shards that make one mirror: a regular expression of `schema.name`, from its beginning to its end. All "
        "events go to one topic ([mirrors](mirrors.md#shards)).",
        None,
    )
    servers: tuple[CopiedServerSpec, ...] = key(
        "Servers that have the tables, where they lie on several; instead of `conn_id`. Each is read by itself.",
        (),
    )
    chunk_rows: Count = key("Rows of a chunk, which is read by one query.", 100_000, unit="rows")
    rate: Count | None = key(
        "Rows a second that are read at most, by all tasks together; null: as fast as the database gives them.",
        None,
        unit="rows a second",
    )
    tasks: Annotated[int, Field(gt=0, le=MOST_TASKS)] = key(
        "Chunks that are read at once, each by a connection of its own.", 2, unit="chunks"
    )
    schedule: Cron | None = key(
        "When `<name>.copy` goes on with what is left; null: only when somebody triggers a run.", "*/10 * * * *"
    )
    compare: Cron | None = key(
        "When `<name>.compare` compares the mirror with its source, within `rate`; its task fails where a key "
        "differs ([mirrors](mirrors.md#compare-it-with-the-source)). null: there is no such DAG, as by days.",
        None,
    )
    compare_rows: Count | None = key(
        "Rows of the source that a run of `<name>.compare` compares; the next one goes on behind them, and after the "
        "last ones from the beginning. For keys of whole numbers. null: each run compares all.",
        None,
        unit="rows",
    )
    pool: PoolName = key("Airflow pool of the tasks.", "tidegate_ingest")
    connect_conn_id: ConnectionId | None = key(
        "Airflow HTTP connection of Kafka Connect's REST interface (3.5 or later), which says how far `connector` is, "
        "so that the mirror can tell since when nothing in it is older "
        "([mirrors](mirrors.md#since-when-nothing-is-older)).",
        None,
    )
    connector: Text | None = key("Name of the connector in Kafka Connect; with `connect_conn_id`.", None)
    slot: Text | None = key(
        "PostgreSQL: the connector's replication slot, which says the same instead of `connect_conn_id`.", None
    )
