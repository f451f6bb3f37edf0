"""Numbers among a table's properties, which anybody may set who may alter the table."""

from __future__ import annotations

from pyiceberg.table.metadata import TableMetadata

from tidegate.core.base.errors import CatalogueMismatch

LOGGED = "write.metadata.previous-versions-max"
MOST_LOGGED = 100
"""Metadata files that the log names, unless the property says otherwise: the format's own number."""


def number(metadata: TableMetadata, key: str, usual: int) -> int:
    """What the property says; `usual` where it is missing or empty. Raises CatalogueMismatch."""
    said = metadata.properties.get(key) or str(usual)
    try:
        return int(said)
    except ValueError:
        raise CatalogueMismatch(
            f"the table at {metadata.location} has the property {key} = {said!r}, which is no whole number",
            advice=f"set a number, {usual} is the usual one; in Spark: ALTER TABLE ... SET TBLPROPERTIES "
            f"('{key}' = '{usual}')",
        ) from None
