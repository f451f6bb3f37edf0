"""Keys of a delivery to another cluster in the YAML."""

from __future__ import annotations

from typing import Annotated, Literal

from tidegate.core.deliver.units import SIDES
from tidegate.spec.deliver import DeliverySection
from tidegate.spec.section import key
from tidegate.spec.values import ConnectionId, HdfsUser, Location, OneOf, Period, Size

SideTable = Annotated[Literal["late", "dirty"], OneOf()]


class ClusterSection(DeliverySection):
    """Windows into a table of another cluster ([another cluster](cluster.md))."""

    location: Location = key(
        "Directory of the table there, `hdfs://...`, `file:///...` or `s3://...`. It belongs to this delivery alone.",
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
    side_tables: tuple[SideTable, ...] = key(
        "`late`, `dirty`: these tables beside the pipeline's own are copied, too, to `<table>__late` and "
        "`<table>__dirty` there, whole batches at a time.",
        (),
    )
    keep: Period = key("How long files of a replaced generation stay there, for queries that still read them.", "1d")

    @property
    def sides(self) -> tuple[str, ...]:
        """Each once, in this order."""
        return tuple(side for side in SIDES if side in self.side_tables)
