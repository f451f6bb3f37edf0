"""The YAML section `sink` of kind `hive`."""

from __future__ import annotations

from tidegate.spec.section import key
from tidegate.spec.sink import SinkSection
from tidegate.spec.values import ConnectionId, Table


class HiveSection(SinkSection):
    """The Hive table and its files."""

    conn_id: ConnectionId = key("Airflow connection of the HiveServer2 endpoint.", "hiveserver2_default")
    metastore_conn_id: ConnectionId | None = key(
        "Airflow connection (type `hive_metastore`) of the metastore that the endpoint of `conn_id` uses. With it a "
        "replay, a reopening or a rollback switches all partitions of a window in one transaction; without it, one "
        "partition after the other. See [readers during a swap](swap.md).",
        None,
    )
    table: Table = key("The external table; Tidegate creates it if it is missing.")
