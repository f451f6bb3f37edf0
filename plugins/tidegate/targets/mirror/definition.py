"""A keyed table as Iceberg wants it: partitioned by the bucket of its key, then the columns of its events."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.core.files.receipt import DATA
from tidegate.core.mirror.jobs import BUCKET, N, TableColumn
from tidegate.core.spec.change_events import EVENT_COLUMNS
from tidegate.core.spec.pipeline import table_columns
from tidegate.core.target.stored import Origin, StoredColumn
from tidegate.targets.iceberg.columns import FORM
from tidegate.targets.iceberg.definition import Definition

_, _, _LAST_OF_POSITION, _ = (name for name, _, _ in EVENT_COLUMNS)


@dataclass(frozen=True)
class MirrorDefinition(Definition):
    """Its files are written by merges alone: landed events have the logical columns."""

    kind: str = DATA

    @property
    def parts(self) -> tuple[StoredColumn, ...]:
        """The bucket: a file holds rows of one (C7)."""
        return (StoredColumn(BUCKET, "int", Origin.BUCKET),)

    @property
    def columns(self) -> tuple[StoredColumn, ...]:
        """The bucket, the row's columns, and what its event says of itself."""
        found = list(self.parts)
        for name, kind in table_columns(self.pipeline):
            found.append(FORM.column(name, kind))
            if name == _LAST_OF_POSITION:
                found.append(StoredColumn(N, "bigint", Origin.LOGICAL))
        return tuple(found)

    @property
    def told(self) -> tuple[TableColumn, ...]:
        """The columns as an apply's plan has them."""
        return tuple(TableColumn(c.name, c.type, c.of) for c in self.columns)
