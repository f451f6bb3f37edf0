"""The YAML section `sink` of kind `mirror`."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from tidegate.spec.section import key
from tidegate.spec.values import DURATION_UNITS, LONGEST, ColumnName, OneOf, show
from tidegate.targets.iceberg.section import IcebergSection

Store = Annotated[Literal["iceberg", "hive_daily"], OneOf()]
MOST_BUCKETS = 65_536
STORE = (
    "What kind of table holds the rows: one table in Iceberg, or with `hive_daily` a partition in Hive for each day, "
    "with all rows as they were at the day's end."
)
KEY = "Columns that name a row of the source's table: its primary key, in any order. Both stay as they are."
BUCKETS = (
    "The table is cut into so many parts by a hash of the key; a merge rewrites those whose rows change, of a table by "
    "days all. A good part has 50 to 500 MB. It may become a multiple or a divisor of what it was "
    "([mirrors](mirrors.md#another-number-of-buckets)); of a table by days it stays."
)
TOMBSTONES = (
    "What becomes of a deleted row: it stays as a row with `_op = 'd'`, so that no older event brings it back; of a "
    "table by days beside the rows, where no query meets it. With a duration, `30d`, old ones are dropped: you promise "
    "that what becomes readable in Kafka is never older, by its position, than what was readable so long before "
    "([mirrors](mirrors.md#purge-tombstones))."
)


KEEP = "keep"


def _tombstones(value: object) -> str | int:
    """`keep`, or `30d` as ms."""
    if value == KEEP:
        return KEEP
    found = re.fullmatch(r"([1-9][0-9]{0,17})([a-z]+)", value) if isinstance(value, str) else None
    if found is None or found[2] not in DURATION_UNITS:
        units = ", ".join(DURATION_UNITS)
        raise ValueError(
            f"must be {KEEP}, or a number above zero with a unit ({units}), such as 30d, not {show(value)}"
        )
    result = int(found[1]) * DURATION_UNITS[found[2]]
    if result > LONGEST:
        raise ValueError(f"is too large: {value}")
    return result


_SCHEMA = {"type": "string", "pattern": rf"^({KEEP}|[1-9]\d*(ms|s|m|h|d))$", "x-type": f"`{KEEP}` or duration"}
Tombstones = Annotated[str | int, BeforeValidator(_tombstones), WithJsonSchema(_SCHEMA)]


class MirrorSection(IcebergSection):
    """The keyed table and its files."""

    store: Store = key(STORE, "iceberg")
    key_: Annotated[list[ColumnName], Field(min_length=1)] = key(KEY, alias="key", shown="required for `mirror`")
    buckets: Annotated[int, Field(gt=0, le=MOST_BUCKETS)] = key(BUCKETS, 64, unit="parts")
    tombstones: Tombstones = key(TOMBSTONES, KEEP)
