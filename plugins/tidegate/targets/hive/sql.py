"""HiveQL as text: statements that HiveServer2 and Spark's Thrift server both understand, and the reading of answers.

Identifiers pass an allow-list, values are escaped; nothing here talks to a server.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tidegate.core.base.errors import CatalogueError, CatalogueMismatch, CatalogueUnsure
from tidegate.core.base.hivetypes import Array, HiveType, Map, Struct, canonical_type
from tidegate.core.base.hivetypes import parse as parse_type
from tidegate.core.base.partition_values import HIVE_NULL, PartitionValues, parse_partition_path
from tidegate.core.spec.evolution import Changes, can_grow, changes
from tidegate.targets.hive.formats import (
    FORMATS,
    INPUTS,
    SAFE_PROPERTIES,
    SERDES,
    differences,
    finds_by_name,
    harm,
    read_properties,
    read_settings,
    row_format,
)
from tidegate.targets.hive.ports import TableDef

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
# `$` begins a variable, which both servers substitute inside literals too, before they parse; `;` ends a statement for
# some gateways in between.
_PLAIN = re.compile(r"[ !\"#%&()*+,\-./0-9:<=>?@A-Z\[\]^_`a-z{|}~]")
# Types whose values every endpoint spells alike. Hive turns the partition 1.50 into 1.5, Spark doesn't.
_PARTITION_TYPES = ("string", "date", "boolean", "tinyint", "smallint", "int", "bigint")


def refused(message: str, advice: str = "") -> CatalogueError:
    """A definite error that no retry mends."""
    return CatalogueError(message, advice=advice, retry=False)


def unsure(said: object) -> CatalogueUnsure:
    """A statement without a definite answer."""
    return CatalogueUnsure(f"{said}; it may have been executed", advice="the next try reads back before it goes on")


# ---------------------------------------------------------------- names and values


def identifier(name: str) -> str:
    """A quoted name. Raises CatalogueError unless it is letters, digits and underscores."""
    if not _IDENTIFIER.fullmatch(name):
        raise refused(
            f"{name!r} is not a name for Hive",
            "use letters, digits and underscores, not beginning with a digit, at most 128 of them",
        )
    return f"`{name}`"


def split_table(table: str) -> tuple[str, str]:
    """Database and table. Raises CatalogueError unless the name is `database.table`."""
    database, dot, name = table.partition(".")
    if not dot:
        raise refused(f"table {table!r} lacks its database", "write sink.table as database.table")
    identifier(database), identifier(name)
    return database, name


def qualified(table: str) -> str:
    """A quoted `database`.`table`."""
    return ".".join(identifier(part) for part in split_table(table))


def literal(value: str) -> str:
    """A string literal that both servers read back as `value`, in ASCII. Raises CatalogueError for NUL."""
    if "\x00" in value:
        raise refused(f"{value!r} holds a NUL character, which metastores refuse")
    try:
        return f"'{''.join(c if _PLAIN.fullmatch(c) else _escape(c) for c in value)}'"
    except UnicodeEncodeError:
        raise refused(f"{value!r} is not valid Unicode") from None


def _escape(char: str) -> str:
    units = char.encode("utf-16-be")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


def canonical(values: PartitionValues) -> PartitionValues:
    """Hive has one default partition for null and the empty string; we call it None. Names are lower case."""
    return tuple((name.lower(), None if value in (None, "", HIVE_NULL) else value) for name, value in values)


def partition(values: PartitionValues) -> str:
    """`PARTITION (...)` of some values; None is spelled as the default partition's name."""
    pairs = (f"{identifier(name)}={literal(HIVE_NULL if value is None else value)}" for name, value in values)
    return f"PARTITION ({', '.join(pairs)})"


# What java.net.URI refuses in a path. Non-ASCII letters it takes.
_NO_URI = re.compile(r"[\x00-\x20\x7f\"<>\\^`{|}]|%(?![0-9A-Fa-f]{2})")


def is_uri(location: str) -> bool:
    """Whether HiveServer2 takes the location in SET LOCATION; in ADD PARTITION it takes any, as Spark does in both."""
    return not _NO_URI.search(location)


def location_uri(location: str) -> str:
    """`file:/x/` and `file:///x` are the same place: the latter, without a trailing slash."""
    scheme, colon, path = location.partition(":")
    if colon and path.startswith("/") and not path.startswith("//"):
        location = f"{scheme}://{path}"
    return location.rstrip("/")


# ---------------------------------------------------------------- statements


def create_database(table: str) -> str:
    return f"CREATE DATABASE IF NOT EXISTS {identifier(split_table(table)[0])}"


def create_table(table: TableDef) -> str:
    if table.format not in FORMATS:
        raise refused(f"no table format {table.format!r}; there are {', '.join(FORMATS)}")
    for name, kind in table.partitions:
        if canonical_type(kind) not in _PARTITION_TYPES:
            raise refused(
                f"{table.name} cannot be partitioned by {name} {kind}: endpoints spell such values differently",
                f"give the column one of the types {', '.join(_PARTITION_TYPES)}",
            )
    properties = dict(SAFE_PROPERTIES) | dict(table.properties) | dict(SAFE_PROPERTIES)
    parts = [
        f"CREATE EXTERNAL TABLE IF NOT EXISTS {qualified(table.name)} ({_columns(table.columns)})",
        f"COMMENT {literal(table.comment)}" if table.comment else "",
        f"PARTITIONED BY ({_columns(table.partitions)})" if table.partitions else "",
        _row_format(table.format),
        f"STORED AS {FORMATS[table.format]}",
        f"LOCATION {literal(table.location)}",
        f"TBLPROPERTIES ({_settings(properties.items())})",
    ]
    return " ".join(part for part in parts if part)


def _row_format(file_format: str) -> str:
    serde, properties = row_format(file_format)
    return f"ROW FORMAT SERDE {literal(serde)} WITH SERDEPROPERTIES ({_settings(properties)})" if serde else ""


def _settings(pairs: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{literal(key)}={literal(value)}" for key, value in pairs)


def add_columns(table: str, columns: Iterable[tuple[str, str]]) -> str:
    return f"ALTER TABLE {qualified(table)} ADD COLUMNS ({_columns(columns)})"


def change_column(table: str, name: str, kind: str) -> str:
    return f"ALTER TABLE {qualified(table)} CHANGE COLUMN {identifier(name)} {_columns([(name, kind)])}"


def cascading(statement: str) -> str:
    """Hive keeps columns of their own for each partition: without this, partitions that are there keep the old ones.

    Spark refuses the word as a syntax error, and reads every partition by the table's columns."""
    return f"{statement} CASCADE"


def _columns(columns: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{identifier(name)} {_type(name, kind)}" for name, kind in columns)


def _type(column: str, text: str) -> str:
    try:
        return _quoted(parse_type(text))
    except ValueError as error:
        raise refused(f"column {column}: {error}") from None


def _quoted(kind: HiveType) -> str:
    """Field names of a struct may be reserved words, like `order`."""
    match kind:
        case Array(element):
            return f"array<{_quoted(element)}>"
        case Map(key, value):
            return f"map<{_quoted(key)},{_quoted(value)}>"
        case Struct(fields):
            return f"struct<{','.join(f'{identifier(name)}:{_quoted(field)}' for name, field in fields)}>"
    return str(kind)


def describe(table: str, values: PartitionValues = ()) -> str:
    suffix = f" {partition(values)}" if values else ""
    return f"DESCRIBE FORMATTED {qualified(table)}{suffix}"


def show_partitions(table: str, prefix: PartitionValues = ()) -> str:
    suffix = f" {partition(prefix)}" if prefix else ""
    return f"SHOW PARTITIONS {qualified(table)}{suffix}"


def add_partitions(table: str, locations: Sequence[tuple[PartitionValues, str]]) -> str:
    added = " ".join(f"{partition(values)} LOCATION {literal(location)}" for values, location in locations)
    return f"ALTER TABLE {qualified(table)} ADD IF NOT EXISTS {added}"


def set_location(table: str, values: PartitionValues, location: str) -> str:
    return f"ALTER TABLE {qualified(table)} {partition(values)} SET LOCATION {literal(location)}"


def drop_partitions(table: str, values: Iterable[PartitionValues]) -> str:
    return f"ALTER TABLE {qualified(table)} DROP IF EXISTS {', '.join(map(partition, values))}"


# ---------------------------------------------------------------- answers


@dataclass(kw_only=True)
class Description:
    """What DESCRIBE FORMATTED says. Types are canonical, names lower case, as the metastore keeps them."""

    columns: dict[str, str] = field(default_factory=dict)
    partitions: dict[str, str] = field(default_factory=dict)
    location: str = ""
    kind: str = ""  # EXTERNAL_TABLE, EXTERNAL, MANAGED_TABLE, VIRTUAL_VIEW ...
    serde: str = ""
    inputs: str = ""  # the class that opens files
    buckets: str = ""  # by how many it is clustered: -1 or 0 if not
    settings: dict[str, str] = field(default_factory=dict)  # the table's properties, where they matter
    properties: dict[str, str] = field(default_factory=dict)  # of the SerDe, where they matter

    @property
    def external(self) -> bool:
        return self.kind.upper().startswith("EXTERNAL")


def read_description(rows: Iterable[Sequence[str | None]]) -> Description:
    """Of a detail that comes twice the first counts: Spark prints what a partition has, then what the table has."""
    found, section = Description(), "columns"
    for row in rows:
        label, text, more = ((cell or "").strip() for cell in (*row, "", "", "")[:3])
        if label.startswith("#"):
            section = _section(label, section)
        elif label.rstrip(":") == "Location" and section == "details":
            found.location = found.location or location_uri(_unpadded(row[1] or ""))
        elif section == "details":
            _read_detail(found, label.rstrip(":").lower(), text, more)
        elif label and text:
            getattr(found, section)[label.lower()] = canonical_type(text)
    for name in found.partitions:  # Spark lists them among the columns, too
        found.columns.pop(name, None)
    return found


def _unpadded(text: str) -> str:
    """Hive fills a detail up to 20 characters; a blank at the end of a longer one belongs to the name."""
    return text if len(text) > 20 else text.rstrip(" ")


def _section(header: str, current: str) -> str:
    if header.startswith("# col_name"):
        return current
    return "partitions" if header.startswith("# Partition Information") else "details"


def _read_detail(found: Description, label: str, text: str, more: str) -> None:
    if label in ("type", "table type"):
        found.kind = found.kind or text
    elif label == "serde library":
        found.serde = found.serde or text
    elif label == "inputformat":
        found.inputs = found.inputs or text
    elif properties := read_properties(label, text, more):
        at_once = label == "storage properties"  # all in one row, the partition's before the table's
        found.properties |= {} if at_once and found.properties else properties
    elif label == "num buckets":
        found.buckets = found.buckets or text
    else:
        found.settings |= read_settings(label, text, more)


_NOT_OURS = "correct sink.table, sink.location or the columns in the spec, or the table in Hive"


def check_same(table: TableDef, found: Description) -> None:
    """Raises CatalogueMismatch, in words, unless what is there is the table that was asked for."""
    words = _column_differences(table, found) + _table_differences(table, found)
    if not words:
        return
    advice = _NOT_OURS
    missing = [(name, kind) for name, kind in table.columns if name.lower() not in found.columns]
    if missing and len(missing) == len(words):
        advice = (
            f"if the spec is right, run: {add_columns(table.name, missing)} (on HiveServer2 with CASCADE at its end)"
        )
    raise CatalogueMismatch(
        f"table {table.name} is not the one that the spec describes: {'; '.join(words)}", advice=advice
    )


def _table_differences(table: TableDef, found: Description) -> list[str]:
    words = []
    wanted = [f"{name.lower()} {canonical_type(kind)}" for name, kind in table.partitions]
    there = [f"{name} {kind}" for name, kind in found.partitions.items()]
    if wanted != there:
        words.append(f"it is partitioned by ({', '.join(there)}), not by ({', '.join(wanted)})")
    if found.location != location_uri(table.location):
        words.append(f"it lies in {found.location}, not in {location_uri(table.location)}")
    if not found.external:
        words.append(f"it is a {found.kind or 'table of unknown kind'}, not an external table")
    words += harm(found.settings)
    if found.buckets not in ("", "0", "-1"):
        words.append(
            f"it is clustered into {found.buckets} buckets: Hive would look for a row in one file of a partition"
        )
    if SERDES[table.format] not in found.serde:
        words.append(f"its format is {found.serde or 'unknown'}, not {table.format}")
    elif found.inputs and INPUTS[table.format] not in found.inputs:
        words.append(f"its files are opened by {found.inputs}, not as {table.format}")
    else:
        words += differences(table.format, found.properties)
    return words


def _column_differences(table: TableDef, found: Description) -> list[str]:
    """By name where files' columns are found by name, so that their order does not matter; nor do dropped ones. Else
    those of the files come first, in their order."""
    wanted = {name.lower(): canonical_type(kind) for name, kind in _as_grown(table, found)}
    there = found.columns
    words = [f"column {name} {_clipped(kind)} is missing" for name, kind in wanted.items() if name not in there]
    for name in wanted.keys() & there.keys():
        if there[name] != wanted[name]:
            words.append(
                f"column {name} is {_clipped(there[name], wanted[name])}, not {_clipped(wanted[name], there[name])}"
            )
    first = list(there)[: len(wanted)]
    if not words and not finds_by_name(SERDES[table.format]) and first != list(wanted):
        words.append(f"its columns begin with ({', '.join(first)}), those of its files are ({', '.join(wanted)})")
    return sorted(words)


def check_publishable(table: TableDef, found: Description) -> None:
    """Raises CatalogueMismatch for a table that a publication would refuse, and could not give its columns."""
    try:
        check_same(table, found)
    except CatalogueMismatch:
        evolution(table, found)


def _as_grown(table: TableDef, found: Description) -> list[tuple[str, str]]:
    """Columns of the spec, those that the table has wider as it has them: a batch that widens one does so before its
    spec is known to all tasks, and their files are read as older ones are. Not those that readers could not read so."""
    there = ((name, kind, found.columns.get(name.lower(), kind)) for name, kind in table.columns)
    return [(name, wide if can_grow(kind, wide, table.format) else kind) for name, kind, wide in there]


def evolution(table: TableDef, found: Description) -> Changes:
    """What has to change. Raises CatalogueMismatch when it is another table, or readers could not take the change."""
    wanted = changes(tuple(found.columns.items()), _as_grown(table, found), table.format)
    words = _table_differences(table, found)
    if words or wanted.refused:
        raise CatalogueMismatch(
            f"table {table.name} is not the one that the spec describes: {'; '.join([*wanted.refused, *words])}",
            advice="take the change of the columns back" if wanted.refused else _NOT_OURS,
        )
    return wanted


def alterations(table: TableDef, wanted: Changes) -> list[str]:
    """The statements that carry it out; each is refused or done as a whole."""
    added = [add_columns(table.name, wanted.added)] if wanted.added else []
    return added + [change_column(table.name, name, kind) for name, _, kind in wanted.widened]


def _clipped(kind: str, other: str = "") -> str:
    """A type in at most 80 characters: from a little before the place where it begins to differ from the other one."""
    if len(kind) <= 80:
        return kind
    common = next((i for i, (a, b) in enumerate(zip(kind, other, strict=False)) if a != b), min(len(kind), len(other)))
    start = max(0, common - 30)
    return f"{'…' if start else ''}{kind[start : start + 75]}{'…' if start + 75 < len(kind) else ''}"


def read_partitions(rows: Iterable[Sequence[str | None]]) -> list[PartitionValues]:
    """SHOW PARTITIONS prints names escaped, as directories are."""
    return [canonical(parse_partition_path(row[0])) for row in rows if row[0]]


def starts_with(values: PartitionValues, prefix: PartitionValues) -> bool:
    return values[: len(prefix)] == prefix
