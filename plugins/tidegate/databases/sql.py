"""Keyset predicates and names in SQL, for both kinds of databases."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tidegate.core.base.errors import GOES_ON
from tidegate.core.copy.port import KeyGroups, KeyRange, SourceColumn, SourceTable, Times, Value

RARE_QUOTE = "\x01"
"""MariaDB's REPLACE takes the square of the time where what it doubles is often there, as `"` is in JSON."""
BATCH_ROWS, BATCH_BYTES = 50_000, 32 << 20
"""Where a batch ends."""
NO_ANSWER = f"check the connection to the source's database, which the section copy or source names; {GOES_ON}"
"""What to do about it."""
IDLE_S = 20.0
"""A session that was not used for so long may be gone: servers and firewalls end those that are idle. A job that reads
chunks, or a mirror whose rows are summed, may take hours between two questions."""


def look_at(settings: Mapping[str, str] | None) -> str:
    """What to do about a server that refuses. It is that of the source's database: not source.conn_id."""
    named = f"connection {settings['connection']}" if settings else "the connection to the source's database"
    return f"check {named}, and the rights of its user"


def quoted(name: str, mark: str) -> str:
    """A name between `mark`s, fit for a statement with parameters."""
    return mark + name.replace(mark, mark * 2).replace("%", "%%") + mark


def key_columns(table: SourceTable) -> list[SourceColumn]:
    by_name = {column.name: column for column in table.columns}
    return [by_name[name] for name in table.key]


def within(
    keys: KeyRange,
    compare: Callable[[Sequence[Value], str], tuple[str, list[Any]]],
    times: Times | None = None,
    column: Callable[[str], str] = str,
    group: Callable[[KeyGroups], str] | None = None,
) -> tuple[str, list[Any]]:
    """The predicate of a range, and its parameters. `compare(bound, operator)` is the database's own, and so are
    `column`, a name as a statement has it, and `group`, the number of each row's group."""
    parts: list[str] = []
    given: list[Any] = []
    for bound, operator in ((keys.lower, ">"), (keys.upper, "<=")):
        if bound is not None:
            text, values = compare(bound, operator)
            parts.append(text)
            given += values
    if times is not None:
        name = column(times.column)
        parts.append(f"{name} >= %s AND {name} < %s")
        given += [times.lower, times.upper]
    if keys.groups is not None:
        assert group is not None, "nobody says how the database makes groups"
        parts.append(f"{group(keys.groups)} IN ({', '.join(['%s'] * len(keys.groups.numbers))})")
        given += keys.groups.numbers
    # never without a parameter: else drivers leave the doubled %% of a name as it is
    return (" AND ".join(parts), given) if parts else ("1 = %s", [1])


def spelled_out(
    names: Sequence[str], marks: Sequence[str], values: Sequence[Any], operator: str
) -> tuple[str, list[Any]]:
    """`a >= x AND (a > x OR (a = x AND b > y))`: an optimizer finds the range of `a`, which it does not in a comparison
    of rows. `operator`: `>` or `<=`."""
    strict, loose = operator[0], f"{operator[0]}="
    if len(names) == 1:
        return f"{names[0]} {operator} {marks[0]}", list(values[:1])
    inner, given = spelled_out(names[1:], marks[1:], values[1:], operator)
    text = (
        f"{names[0]} {loose} {marks[0]} AND ({names[0]} {strict} {marks[0]} OR ({names[0]} = {marks[0]} AND {inner}))"
    )
    return text, [values[0]] * 3 + given
