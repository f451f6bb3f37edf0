"""Checksums of a table's key ranges, computed by MariaDB (`databases.forms` has the texts). All functions are MySQL's
too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from tidegate.core.copy.port import Checksum, Form, KeyRange, SourceTable
from tidegate.databases import sql
from tidegate.databases.forms import forms
from tidegate.databases.mariadb import session, worker
from tidegate.databases.pace import Rate
from tidegate.databases.types import Conversion


class MariaDBChecksums:
    """Implements `core.copy.port.Checksums`."""

    def __init__(
        self,
        asking: Callable[[], AbstractContextManager[Any]],
        table: SourceTable,
        columns: Sequence[tuple[str, str]],
        base64: bool,
        rate: int | None,
    ) -> None:
        self._asking, self._table, self._rate = asking, table, Rate(rate)
        self._made = forms(session.KIND, table, columns, base64)
        self.forms = tuple(form for _, form in self._made)

    def of(self, keys: KeyRange) -> Checksum:
        """A row whose text is longer than the server makes has no number: its range differs, and is read."""
        where, given = sql.within(keys, lambda bound, operator: session.comparison(self._table, bound, operator))
        with self._asking() as cursor:
            defaults = worker.with_default(cursor, self._table)
            texts = [
                field(made, form, made.column.name in defaults)
                for made, form in self._made
                if made is not None and form is not None
            ]
            row = "CONCAT({})".format(", ',', ".join(texts))  # not CONCAT_WS, which leaves out what is NULL
            number = f"CAST(CONV(LEFT(MD5({row}), 15), 16, 10) AS UNSIGNED)"
            source = f"{session.table_name(self._table)} FORCE INDEX (PRIMARY)"
            cursor.execute(f"SELECT COUNT(*), COALESCE(SUM({number}), 0) FROM {source} WHERE {where}", given)
            rows, total = cursor.fetchone()
        self._rate.took(int(rows))
        return Checksum(int(rows), int(total) % 2**64)


def field(made: Conversion, form: Form, has_default: bool) -> str:
    """The text of a column's values, empty of a null: as a read has it, but for what it has in several spellings."""
    name, family = session.column_name(made.column.name), made.family
    plain = f"({name} + 0)" if family.padded else name
    if form.name == "text":
        text = _string(made, plain, has_default)
        found = f"CONCAT(LENGTH({text}), ':', {text})"
    elif form.name == "hex":
        found = f"CONCAT('x', LOWER(HEX({name})))"
    elif form.name == "decimal" and family.scale:
        found = f"TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM {plain}))"
    elif family.padded:
        found = plain
    else:
        return worker.field(made, has_default)
    return f"IF({name} IS NULL, '', {found})"


def _string(made: Conversion, plain: str, has_default: bool) -> str:
    if made.family.name == "text":
        return f"CONVERT({plain} USING utf8mb4)"
    if made.family.name == "bytes":
        return f"REPLACE(TO_BASE64({plain}), '\\n', '')"
    return worker.text(made, plain, has_default)
