"""Checksums of a PostgreSQL table's key ranges and groups of keys, computed there (`databases.forms` has the texts)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from tidegate.core.copy.port import Form, KeyGroups, KeyRange, SourceTable
from tidegate.databases import sql
from tidegate.databases.forms import BITS, SummedTable, key_texts
from tidegate.databases.postgresql import session
from tidegate.databases.postgresql.expressions import expression
from tidegate.databases.types import Conversion


class PostgreSQLChecksums(SummedTable):
    kind = session.KIND

    def _statement(self, cursor: Any, keys: KeyRange, groups: KeyGroups | None) -> tuple[str, list[Any]]:
        where, given = sql.within(keys, partial(session.comparison, self._table))
        number = _number([field(made, form) for made, form in self._summed])
        each = "0" if groups is None else group(self._table, groups, self._base64)
        start = f"SELECT {each}, count(*), COALESCE(sum({number}), 0) FROM {session.table_name(self._table)}"
        return f"{start} WHERE {where}" + ("" if groups is None else " GROUP BY 1"), given


def group(table: SourceTable, groups: KeyGroups, base64: bool) -> str:
    """The number of each row's group."""
    number = _number([field(made, form) for made, form in key_texts(session.KIND, table, groups, base64)])
    return f"COALESCE({number} >> {BITS - groups.bits}, 0)"


def _number(texts: Sequence[str]) -> str:
    row = f"convert_to({' || chr(44) || '.join(texts)}, 'UTF8')"
    return f"('x' || substr(encode(sha256({row}), 'hex'), 1, 15))::bit(60)::bigint"


def field(made: Conversion, form: Form) -> str:
    """The text of a column's values, empty of a null."""
    if form.name == "text":
        text = _string(made)
        return f"COALESCE(octet_length(convert_to({text}, 'UTF8')) || ':' || {text}, '')"
    return f"COALESCE({_plain(made, form)}, '')"


def _string(made: Conversion) -> str:
    """A cast of char(n) to text would leave blanks out, and concat() makes an empty text of a null."""
    name = session.column_name(made.column.name)
    if made.family.name == "bytes":
        return f"translate(encode({name}, 'base64'), chr(10), '')"
    if made.how == "iso":
        return expression(made)
    return f"CASE WHEN {name} IS NOT NULL THEN concat({name}) END"


def _plain(made: Conversion, form: Form) -> str:
    name = session.column_name(made.column.name)
    if made.family.name == "boolean" and made.column.type == "boolean":
        return f"{name}::int::text"
    if form.name == "decimal" and made.family.name == "decimal":
        return f"trim_scale({name})::text"
    if form.name == "hex":
        return f"'x' || encode({name}, 'hex')"
    if form.name == "bits":
        return f"encode({'float4send' if made.family.name == 'float4' else 'float8send'}({name}), 'hex')"
    return f"({expression(made)})::text"
