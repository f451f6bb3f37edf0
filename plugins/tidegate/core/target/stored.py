"""The stored form: what files hold of rows, where a kind of table wants more than the logical columns or other ones.

The logical columns are those of `core.target.tables.columns_of`: rules, checksums, audits and merges know no others.
Files of a kind without a stored form hold just them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from tidegate.core.base.partition_values import PartitionValues
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.target.tables import columns_of

Value = int | str | None
"""A partition value of one file: a number or a text; a time is microseconds since 1970, UTC."""


class Origin(Enum):
    """What a stored column's values are. All but those of LOGICAL are the same in each row of a file."""

    LOGICAL = "logical"
    WINDOW = "window"
    BATCH = "batch"
    BUCKET = "bucket"
    VALUE = "value"


@dataclass(frozen=True)
class StoredColumn:
    """A column as files and table have it. `type` is a Hive type.

    `of`: the logical column, or the dynamic partition column whose value it is; empty for a window, batch or bucket."""

    name: str
    type: str
    origin: Origin
    of: str = ""

    @property
    def required(self) -> bool:
        """Whether it is never null."""
        return self.origin in (Origin.WINDOW, Origin.BATCH, Origin.BUCKET)

    def value(self, window_ms: int | None, batch_id: int, values: PartitionValues) -> Value:
        """The value of a file that says this of itself; not for logical columns."""
        if self.origin is Origin.BATCH:
            return batch_id
        if self.origin is Origin.WINDOW:
            assert window_ms is not None
            return window_ms * 1000
        text = dict(values)[self.of]
        return text if text is None or self.type == "string" else int(text)


@dataclass(frozen=True)
class StoredForm:
    """How files of a kind of table hold rows.

    `constants(pipeline, kind)`: columns with one value in each file of that kind (data | late | dirty); they come
    first. `column(name, type)`: how a logical column is stored, in every pipeline."""

    constants: Callable[[Pipeline, str], tuple[StoredColumn, ...]]
    column: Callable[[str, str], StoredColumn]

    def columns(self, pipeline: Pipeline, kind: str) -> tuple[StoredColumn, ...]:
        """All columns of the table that files of that kind go to, in order."""
        logical = (self.column(name, text) for name, text in columns_of(pipeline, kind))
        return (*self.constants(pipeline, kind), *logical)


@dataclass(frozen=True)
class Bounds:
    """What a file's footer says of its columns, by field id: smallest and largest values (Base64 of Iceberg's binary
    form of single values, cut to what it keeps), and nulls. A column without an entry may hold anything."""

    lower: dict[int, str]
    upper: dict[int, str]
    nulls: dict[int, int]
