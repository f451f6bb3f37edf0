"""Keys of a delivery to another cluster in the YAML."""

from __future__ import annotations

from tidegate.spec.deliver import DeliverySection
from tidegate.spec.section import key
from tidegate.spec.values import ConnectionId, HdfsUser, Location, Period, Size


class ClusterSection(DeliverySection):
    """Windows into a table of another cluster ([another cluster](cluster.md))."""

    location: Location = key(
        "Directory of the table there, `hdfs://...`, `file:///...` or, for Iceberg tables, `s3://...`. It belongs to "
        "this delivery alone.",
        shown="required for `cluster`",
    )
    metastore_conn_id: ConnectionId | None = key(
        "Of Hive tables: Airflow connection (type `hive_metastore`) of the metastore that the endpoint of `conn_id` "
        "uses. With it all partitions of a window are switched in one transaction; without it, one after the other.",
        None,
    )
    object_store_conn_id: ConnectionId | None = key(
        "Airflow connection of type `aws` by which an `s3://` location is reached; null: the environment's "
        "credentials, or the role of the hosts.",
        None,
    )
    user: HdfsUser | None = key("User that writes files on the other HDFS; null: that of `sink.user`.", None)
    rate: Size | None = key("Bytes that a task copies a second, at most; null: as many as it can.", None)
    success: bool = key("Of Hive tables: whether each window's directory there gets a file `_SUCCESS`.", True)
    keep: Period = key("How long files of a replaced generation stay there, for queries that still read them.", "1d")


def section() -> type[DeliverySection]:
    """Called by the kind."""
    return ClusterSection
