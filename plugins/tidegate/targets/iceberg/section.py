"""The YAML section `sink` of kind `iceberg`."""

from __future__ import annotations

from typing import Annotated, Literal

from tidegate.spec.section import key
from tidegate.spec.sink import SinkSection
from tidegate.spec.values import ConnectionId, OneOf, Table

Parquet = Annotated[Literal["parquet"], OneOf()]


class IcebergSection(SinkSection):
    """The Iceberg table and its files."""

    conn_id: ConnectionId = key(
        "Airflow connection of the catalogue: type `iceberg` for a REST catalogue, or a database (`postgres`) with "
        "the standard `iceberg_tables`.",
        "iceberg_default",
        alias="catalog_conn_id",
    )
    table: Table = key("The table, `namespace.table`; Tidegate creates it if it is missing.")
    object_store_conn_id: ConnectionId | None = key(
        "Airflow connection of type `aws` by which an `s3://` location is reached; null: the environment's "
        "credentials, or the role of the hosts that run tasks and executors "
        "([object stores](object-stores.md)).",
        None,
    )
    format: Parquet = key("Format of the files.", "parquet")
