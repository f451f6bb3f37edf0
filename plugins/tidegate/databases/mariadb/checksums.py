"""Checksums of a table's key ranges and groups of keys, computed by MariaDB (`databases.forms` has the texts). All
functions are MySQL's too."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

from tidegate.core.copy.port import Form, KeyGroups, KeyRange, SourceTable
from tidegate.databases import sql
from tidegate.databases.forms import BITS, SummedTable, key_texts
from tidegate.databases.mariadb import expressions, session
from tidegate.databases.types import IN_EVENTS, Conversion


class MariaDBChecksums(SummedTable):
    kind = session.KIND

    def _statement(self, cursor: Any, keys: KeyRange, groups: KeyGroups | None) -> tuple[str, list[Any]]:
        """A row whose text is longer than the server makes has no number: its range differs, and is read."""
        where, given = sql.within(keys, partial(session.comparison, self._table))
        defaults = expressions.with_default(cursor, self._table)
        number = _number([field(made, form, made.column.name in defaults) for made, form in self._summed])
        each = "0" if groups is None else group(self._table, groups, self._base64, defaults)
        source = f"{session.table_name(self._table)} FORCE INDEX (PRIMARY)"
        statement = f"SELECT {each}, COUNT(*), COALESCE(SUM({number}), 0) FROM {source} WHERE {where}"
        return statement + ("" if groups is None else " GROUP BY 1"), given


def group(table: SourceTable, groups: KeyGroups, base64: bool, defaults: Collection[str]) -> str:
    """The number of each row's group."""
    made = key_texts(session.KIND, table, groups, base64)
    number = _number([field(each, form, each.column.name in defaults) for each, form in made])
    return f"COALESCE({number} >> {BITS - groups.bits}, 0)"


def _number(texts: Sequence[str]) -> str:
    row = "CONCAT({})".format(", ',', ".join(texts))  # not CONCAT_WS, which leaves out what is NULL
    return f"CAST(CONV(LEFT(SHA2({row}, 256), 15), 16, 10) AS UNSIGNED)"  # MySQL 9.6 and later have no MD5


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
        return expressions.field(made, has_default)
    return f"IF({name} IS NULL, '', {found})"


def _string(made: Conversion, plain: str, has_default: bool) -> str:
    if made.family.name == "text":
        characters, other = IN_EVENTS.get(made.family.charset, ("", ""))
        found = f"CONVERT({plain} USING utf8mb4)"
        for each in characters:
            found = f"REPLACE({found}, {_literal(each)}, {_literal(other)})"
        return found
    if made.family.name == "bytes":
        return f"REPLACE(TO_BASE64({plain}), '\\n', '')"
    return expressions.text(made, plain, has_default)


def _literal(text: str) -> str:
    return f"_utf8mb4 x'{text.encode().hex()}'"
