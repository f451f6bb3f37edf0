"""Partition values: escaping in directory names, the length of the metastore's names, which values fit."""

from __future__ import annotations

import re

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


MAX_NAME_BYTES = 255


# Hive's FileUtils.charToEscape, plus what is no URI text (HiveServer2 refuses it in SET LOCATION), plus `.` alone and
# `..`, which Hive forgets and every filesystem collapses.
_ESCAPED = re.compile(r"[\x00-\x20\x7f\"#%'*/:=?\\{}\[\]^<>|`]")


def escape(value: str | None) -> str:
    """A partition value as a directory name, Hive's way; null and the empty string are Hive's default partition."""
    if value is None or value == "":
        return HIVE_NULL
    if value in (".", ".."):
        return value.replace(".", "%2E")
    return _ESCAPED.sub(lambda m: f"%{ord(m.group()):02X}", value)


def unescape(name: str) -> str | None:
    """The inverse of `escape`, but for the empty string, which comes back as null."""
    if name == HIVE_NULL:
        return None
    return re.sub(r"%([0-9A-Fa-f]{2})", lambda m: chr(int(m.group(1), 16)), name)


def fits(value: str | None, column: str) -> bool:
    """Whether `column=value` can be a directory name (255 bytes, no NUL)."""
    return value is None or ("\x00" not in value and len(f"{column}={escape(value)}".encode()) <= MAX_NAME_BYTES)


PartitionValues = tuple[tuple[str, str | None], ...]
"""(column, value) pairs in the table's partition order; a None value is Hive's default partition."""


MAX_PARTITION_NAME = 767
"""Characters of a partition's whole name that Hive's metastore can store (PARTITIONS.PART_NAME)."""


_ESCAPED_BY_HIVE = re.compile(r"[\x01-\x1f\"#%'*/:=?\\{\[\]^\x7f]")


def metastore_name_length(values: PartitionValues) -> int:
    """Length of the name that the metastore gives the partition: `date=2013-01-05/hour=04/site=a%2Fb`.

    Its own escaping, which leaves blanks as they are, and Java's characters: what is beyond 16 bits counts as two."""
    return sum(_java_length(name) + 1 + _escaped_length(value) for name, value in values) + max(0, len(values) - 1)


def _escaped_length(value: str | None) -> int:
    if value is None or value == "":
        return len(HIVE_NULL)
    return _java_length(value) + 2 * len(_ESCAPED_BY_HIVE.findall(value))


def _java_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def partition_path(values: PartitionValues) -> str:
    return "/".join(f"{column}={escape(value)}" for column, value in values)


def parse_partition_path(path: str) -> PartitionValues:
    pairs = (part.partition("=") for part in path.split("/") if part)
    return tuple((column, unescape(value)) for column, _, value in pairs)
