"""Keys of a delivery to ClickHouse in the YAML."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tidegate.spec.deliver import DeliverySection
from tidegate.spec.section import key
from tidegate.spec.values import ColumnName


class ClickHouseSection(DeliverySection):
    """Windows into ClickHouse ([ClickHouse](clickhouse.md))."""

    order_by: list[ColumnName] | None = key(
        "Columns by which the table that Tidegate creates is sorted; null: by none. A table that is there keeps its "
        "own order.",
        None,
    )
    quorum: Annotated[int, Field(ge=1)] | None = key(
        "How many replicas of each shard have to show a window before it is delivered; null: the one that is written "
        "to. Others that lag are named ([replicas](clickhouse.md#replicas)).",
        None,
    )
