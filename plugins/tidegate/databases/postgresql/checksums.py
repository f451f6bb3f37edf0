"""Checksums of a PostgreSQL table's key ranges, computed there (`databases.forms` has the texts)."""

from __future__ import annotations

from functools import partial
from typing import Any

from tidegate.core.copy.port import Form, KeyRange
from tidegate.databases import sql
from tidegate.databases.forms import SummedTable
from tidegate.databases.postgresql import session
from tidegate.databases.postgresql.worker import expression
from tidegate.databases.types import Conversion


class PostgreSQLChecksums(SummedTable):
    kind = session.KIND

    def _statement(self, cursor: Any, keys: KeyRange) -> tuple[str, list[Any]]:
        where, given = sql.within(keys, partial(session.comparison, self._table))
        texts = [field(made, form) for made, form in self._summed]
        row = f"convert_to({' || chr(44) || '.join(texts)}, 'UTF8')"
        number = f"('x' || substr(encode(sha256({row}), 'hex'), 1, 15))::bit(60)::bigint"
        return (
            f"SELECT count(*), COALESCE(sum({number}), 0) FROM {session.table_name(self._table)} WHERE {where}",
            given,
        )


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
