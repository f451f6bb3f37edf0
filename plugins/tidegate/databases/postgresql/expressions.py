"""What PostgreSQL is asked for of a column whose values become those of a mirror."""

from __future__ import annotations

from tidegate.databases.postgresql import session
from tidegate.databases.types import Conversion


def expression(each: Conversion) -> str:
    name = session.column_name(each.column.name)
    if each.family.name == "bytes":
        return f"encode({name}, 'hex')"
    if each.family.name != "instant":
        return name
    utc = f"({name} AT TIME ZONE 'UTC')"
    if each.how != "iso":
        return utc
    fraction = f".FF{each.family.digits}" if each.family.digits else ""
    form = f"""YYYY-MM-DD"T"HH24:MI:SS{fraction}"Z\""""
    in_range = f"{utc} >= '0001-01-01' AND {utc} < '10000-01-01'"
    return f"CASE WHEN {in_range} THEN to_char({utc}, '{form}') ELSE {utc}::text END"
