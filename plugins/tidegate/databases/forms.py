"""Which text of a column's values is made alike by its database and by a worker that has the wanted type (`Form`).

| form | of | text |
|---|---|---|
| text | what becomes a string, Base64 too | the number of its bytes in UTF-8, `:`, the text |
| integer | integers, booleans, decimals without a fraction | its digits; 1 and 0 |
| decimal | integers, decimals -> decimal | its digits, without zeros at the end of the fraction |
| bits | real, double precision (PostgreSQL) | the IEEE 754 bits, in hex; MariaDB has no function that tells them |
| hex | bytes -> binary | `x`, lower-case hex |
| date, days | date; days since 1970 | 2026-01-02 |
| time, ms, us | times; since 1970 | 2026-01-02 03:04:05.678, as many digits as the database writes (`Form.digits`) |

A null is an empty text, which no value has. Texts are joined by commas: none but `text` has any, and that says how long
it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

from tidegate.core.base.hivetypes import Decimal
from tidegate.core.copy.port import Checksum, Form, KeyGroups, KeyRange, SourceTable
from tidegate.core.files.failure import JobError, refuse
from tidegate.databases.conversions import planned
from tidegate.databases.pace import Rate
from tidegate.databases.types import INTEGERS, Conversion

BITS = 60
"""Of a row's number."""
_MARIADB = "mariadb"
_PLAIN = {"boolean": "integer", "date": "date", **dict.fromkeys(INTEGERS, "integer")}
_SINCE_1970 = {"days": "days", "ms": "ms", "us": "us"}


class SummedTable(ABC):
    """Implements `core.copy.port.Checksums` for a database that says how it sums. `asking` opens a cursor, and makes
    errors of sources of its driver's."""

    kind: ClassVar[str]

    def __init__(
        self,
        asking: Callable[[], AbstractContextManager[Any]],
        table: SourceTable,
        columns: Sequence[tuple[str, str]],
        base64: bool,
        rate: int | None,
    ) -> None:
        self._asking, self._table, self._rate, self._base64 = asking, table, Rate(rate), base64
        made = forms(self.kind, table, columns, base64)
        self.forms = tuple(form for _, form in made)
        self._summed = [(each, form) for each, form in made if each is not None and form is not None]

    def of(self, keys: KeyRange) -> Checksum:
        return self._asked(keys, None).get(0, Checksum(0, 0))

    def of_groups(self, keys: KeyRange, groups: KeyGroups) -> Sequence[Checksum]:
        found = self._asked(keys, groups)
        return [found.get(number, Checksum(0, 0)) for number in groups.numbers]

    def _asked(self, keys: KeyRange, groups: KeyGroups | None) -> dict[int, Checksum]:
        with self._asking() as cursor:
            cursor.execute(*self._statement(cursor, keys, groups))
            found = {int(group): Checksum(int(rows), int(total) % 2**64) for group, rows, total in cursor.fetchall()}
        self._rate.took(sum(one.rows for one in found.values()))
        return found

    @abstractmethod
    def _statement(self, cursor: Any, keys: KeyRange, groups: KeyGroups | None) -> tuple[str, list[Any]]:
        """Group, number of rows and sum of their numbers, of each group that has any; 0 for a group without `groups`.
        The statement, and its parameters."""


def key_texts(kind: str, table: SourceTable, groups: KeyGroups, base64: bool) -> list[tuple[Conversion, Form]]:
    """Of the key's columns, which the groups are made of. Raises JobError where one has no text that is made alike."""
    wanted = list(zip(table.key, groups.types, strict=True))
    found = forms(kind, table, wanted, base64)
    for (name, kind_of), (made, form) in zip(wanted, found, strict=True):
        if made is None or form is None:
            raise refuse(f"column {name} of the key of {table.schema}.{table.name} has no text as {kind_of} any more")
    return [(made, form) for made, form in found if made is not None and form is not None]


def forms(
    kind: str, table: SourceTable, columns: Sequence[tuple[str, str]], base64: bool
) -> tuple[tuple[Conversion | None, Form | None], ...]:
    """Of each wanted column. No conversion either for one whose type does not become the wanted one: who reads it says
    why."""
    return tuple(_form_of(kind, table, column, base64) for column in columns)


def _form_of(
    kind: str, table: SourceTable, column: tuple[str, str], base64: bool
) -> tuple[Conversion | None, Form | None]:
    try:
        ((_, made),) = planned(kind, table, [column], "base64" if base64 else "bytes")
    except JobError:
        return None, None
    name = _name(kind, made)
    digits = made.family.digits if kind == _MARIADB and name in ("time", "ms", "us") else None
    return made, None if name is None else Form(name, digits)


def _name(kind: str, made: Conversion) -> str | None:
    if isinstance(made.wanted, Decimal):
        return "decimal"
    word = getattr(made.wanted, "name", "")
    if made.how == "json":
        return None  # events have MySQL's own JSON in another spelling
    if word == "string" or made.how == "base64_bytes":
        return "text"
    if word in ("float", "double"):
        return "bits" if kind != _MARIADB and made.family.name in ("float4", "float8") else None
    found = {"binary": "hex", "timestamp": "time"}.get(word) or _SINCE_1970.get(made.how)
    return found or _PLAIN.get(word)
