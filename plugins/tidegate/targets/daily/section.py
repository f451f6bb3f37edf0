"""The YAML section `sink` of kind `mirror` with `store: hive_daily`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tidegate.spec.section import key
from tidegate.spec.values import ColumnName, OneOf
from tidegate.targets.hive.section import HiveSection
from tidegate.targets.mirror.section import BUCKETS, KEEP, KEY, MOST_BUCKETS, STORE, TOMBSTONES, Tombstones


class DailySection(HiveSection):
    """The Hive table and its files."""

    store: Annotated[Literal["hive_daily"], OneOf()] = key(STORE)
    key_: Annotated[list[ColumnName], Field(min_length=1)] = key(KEY, alias="key", shown="required for `mirror`")
    buckets: Annotated[int, Field(gt=0, le=MOST_BUCKETS)] = key(BUCKETS, 64, unit="parts")
    tombstones: Tombstones = key(TOMBSTONES, KEEP)
