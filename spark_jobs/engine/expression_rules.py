"""SQL that pipelines compute with: one scalar expression over its columns, the same for the same row at any time.

DuckDB's own parser and function catalogue say what an expression is made of; what they cannot vouch for is refused.
Results become a column's type by strict rules: nothing is rounded, cut off or guessed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import duckdb

from tidegate.core.base.hivetypes import Array, Decimal, HiveType, Map, Primitive, Struct

_CLASSES = frozenset(
    re.findall(
        r"\w+", "BETWEEN CASE CAST COLLATE COLUMN_REF COMPARISON CONJUNCTION CONSTANT FUNCTION LAMBDA OPERATOR TYPE"
    )
)
_REFUSED = {
    "SUBQUERY": "a subquery",
    "WINDOW": "a window function",
    "STAR": "a star",
    "PARAMETER": "a parameter",
    "POSITIONAL_REFERENCE": "a positional reference",
    "DEFAULT": "DEFAULT",
    "LAMBDA_REF": "a lambda's own name",
}
# The catalogue calls these consistent. They look at a clock, a session, or change with DuckDB's version.
_INCONSISTENT = frozenset(("current_localtime", "current_localtimestamp", "version", "hash"))
_AGGREGATE_BY_NAME = frozenset(("list_aggr", "list_aggregate", "array_aggr", "array_aggregate", "aggregate"))
_APPROXIMATE = ("approx", "reservoir")
_ONE_ARGUMENT_MEANS_TODAY = frozenset(("age",))
_BY_THE_BINDER = frozenset(("if", "ifnull", "count_star"))
_WORDS_THAT_ARE_CALLS = frozenset(
    (
        "current_date",
        "current_time",
        "current_timestamp",
        "current_localtime",
        "current_localtimestamp",
        "localtime",
        "localtimestamp",
        "current_user",
        "current_role",
        "current_catalog",
        "current_schema",
        "session_user",
        "user",
    )
)
_NOT_SAME = "its result depends on more than the row: a replay would compute something else"
_DEPTH = 200
_KINDS: dict[str, list[tuple]] = {}
"""Of the functions that were asked for: DuckDB's own are the same in every connection."""


class Wrong(ValueError):
    """Says why an expression is refused, in words for its author."""


def connect() -> duckdb.DuckDBPyConnection:
    """A DuckDB that computes and can do nothing else: no files, no network, no extensions, no settings; UTC."""
    connection = duckdb.connect(
        config={
            "threads": 1,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "enable_external_access": False,
        }
    )
    connection.execute("set TimeZone='UTC'")
    # it takes what two expressions have in common out of TRY(), where its errors stop the query
    connection.execute("set disabled_optimizers='common_subexpressions'")
    connection.execute("set lock_configuration=true")
    return connection


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


# ---------------------------------------------------------------- what it is made of


@dataclass(frozen=True)
class Rules:
    """Judges expressions with `connection`, which holds DuckDB's parser and catalogue."""

    connection: duckdb.DuckDBPyConnection

    def names(self, text: str, known: Sequence[str]) -> frozenset[str]:
        """The columns that the expression reads, of the `known` ones. Raises Wrong."""
        try:
            tree = self._tree(text)
        except Wrong as e:
            raise Wrong(f"{e}{self._reserved(text, known)}") from None
        return frozenset(self._walk(tree, {k.lower() for k in known}, frozenset(), 0))

    def result(self, text: str, columns: Sequence[tuple[str, HiveType]]) -> duckdb.sqltypes.DuckDBPyType:
        """DuckDB's type of the expression over columns of these types. Raises Wrong."""
        inputs = ", ".join(f"cast(null as {sql_type(kind)}) as {quoted(name)}" for name, kind in columns)
        source = f"(select {inputs})" if inputs else "(select 1)"
        try:
            return self.connection.sql(f"select ({text}\n) as v from {source}").types[0]
        except duckdb.Error as e:
            raise Wrong(said(e)) from None

    def _tree(self, text: str) -> Any:
        rows = self.connection.execute("select json_serialize_sql(?::varchar)", [f"select ({text}\n)"]).fetchall()
        found = json.loads(rows[0][0])
        if found["error"]:
            raise Wrong(f"is not SQL: {found.get('error_message', 'not a query')}")
        node = found["statements"][0]["node"]
        single = len(found["statements"]) == 1 and node.get("type") == "SELECT_NODE"
        plain = single and node["from_table"]["type"] == "EMPTY" and len(node["select_list"]) == 1
        rest = ("where_clause", "having", "sample", "qualify", "modifiers", "group_expressions")
        if not plain or any(node.get(key) for key in rest) or node["cte_map"]["map"]:
            raise Wrong("must be one expression, not a query")
        return node["select_list"][0]

    def _reserved(self, text: str, known: Sequence[str]) -> str:
        """Column that the text seems to name and whose name SQL keeps for itself."""
        words = {w.lower() for w in re.findall(r"[A-Za-z_]\w*", text)} & {k.lower() for k in known}
        rows = self.connection.execute(
            "select keyword_name from duckdb_keywords() where keyword_category in ('reserved', 'type_function')"
        )
        kept = sorted(words & {name for (name,) in rows.fetchall()})
        return f'; {kept[0]} is a word of SQL: write the column as "{kept[0]}"' if kept else ""

    def _walk(self, node: Any, known: set[str], bound: frozenset[str], depth: int) -> Iterator[str]:
        if depth > _DEPTH:
            raise Wrong("is nested too deeply")
        if isinstance(node, list):
            for item in node:
                yield from self._walk(item, known, bound, depth + 1)
            return
        if not isinstance(node, dict):
            return
        kind = node.get("class")
        if kind is not None:
            if kind in _REFUSED or kind not in _CLASSES:
                raise Wrong(f"{_REFUSED.get(kind, kind.lower())} is not available in expressions")
            if kind == "COLUMN_REF":
                yield from self._column(node["column_names"], known, bound)
                return
            if kind == "LAMBDA":
                bound = bound | _parameters(node["lhs"])
                yield from self._walk(node["expr"], known, bound, depth + 1)
                return
            if kind == "FUNCTION":
                self._function(node, depth)
            if node.get("type") == "GROUPING_FUNCTION":
                raise Wrong("grouping() is not available in expressions")
        for value in node.values():
            if isinstance(value, dict | list):
                yield from self._walk(value, known, bound, depth + 1)

    def _column(self, path: list[str], known: set[str], bound: frozenset[str]) -> Iterator[str]:
        name = path[0].lower()
        if name in bound:
            return
        if name in known:
            yield name
            return
        if name in _WORDS_THAT_ARE_CALLS:
            raise Wrong(f"{name} is not available in expressions: {_NOT_SAME}")
        near = get_close_matches(name, sorted(known), n=1, cutoff=0.6)
        hint = f" (did you mean {near[0]}?)" if near else f"; there are {', '.join(sorted(known)) or 'none'}"
        raise Wrong(f"there is no column {path[0]}{hint}")

    def _function(self, node: dict[str, Any], depth: int) -> None:
        name = node["function_name"].lower()
        if node.get("filter") or node.get("distinct") or node["order_bys"].get("orders"):
            raise Wrong(f"{name}() is no scalar function as it is written")
        if name == "count_star":
            raise Wrong("count() is an aggregate function: an expression sees one row")
        if name in _BY_THE_BINDER:
            return
        if name in _INCONSISTENT | _WORDS_THAT_ARE_CALLS or (
            name in _ONE_ARGUMENT_MEANS_TODAY and len(node["arguments"]) < 2
        ):
            raise Wrong(f"{name}() is not available in expressions: {_NOT_SAME}")
        if name in _AGGREGATE_BY_NAME:
            _aggregate_by_name(name, node["arguments"])
        if name not in _KINDS:  # all functions are listed for each question: a tenth of a second
            _KINDS[name] = self.connection.execute(
                "select distinct function_type, stability, macro_definition from duckdb_functions() "
                "where lower(function_name) = ? and internal",
                [name],
            ).fetchall()
        kinds = _KINDS[name]
        scalars = [stability for kind, stability, _ in kinds if kind == "scalar"]
        macros = [definition for kind, _, definition in kinds if kind == "macro"]
        if any(stability != "CONSISTENT" for stability in scalars):
            raise Wrong(f"{name}() is not available in expressions: {_NOT_SAME}")
        if scalars:
            return
        if macros:
            for definition in macros:
                self._macro(name, definition, depth)
            return
        if any(kind == "aggregate" for kind, _, _ in kinds):
            raise Wrong(f"{name}() is an aggregate function: an expression sees one row")
        if kinds:
            raise Wrong(f"{name}() is not available in expressions")
        near = get_close_matches(name, self._functions(), n=1, cutoff=0.6)
        raise Wrong(f"there is no function {name}()" + (f" (did you mean {near[0]}()?)" if near else ""))

    def _macro(self, name: str, definition: str, depth: int) -> None:
        try:
            list(self._walk(self._tree(definition), _Everything(), frozenset(), depth + 10))
        except Wrong:
            raise Wrong(f"{name}() is not available in expressions: {_NOT_SAME}") from None

    def _functions(self) -> list[str]:
        rows = self.connection.execute(
            "select distinct function_name from duckdb_functions() where function_type in ('scalar', 'macro')"
        ).fetchall()
        return [name for (name,) in rows]


def _aggregate_by_name(name: str, arguments: list[dict[str, Any]]) -> None:
    """Check an aggregate of a list's elements: it must be written down, and be one that does not draw lots."""
    which = arguments[1]["expression"] if len(arguments) > 1 else {}
    told = which.get("literal", {}).get("text") or which.get("value", {}).get("value")
    if which.get("class") != "CONSTANT" or not isinstance(told, str) or told.lower().startswith(_APPROXIMATE):
        raise Wrong(f"{name}() needs the name of an exact aggregate function, in quotes: its result must stay the same")


class _Everything(set):
    """A macro's own parameters are whatever it calls them; words that are calls in disguise are not."""

    def __contains__(self, name: object) -> bool:
        return name not in _WORDS_THAT_ARE_CALLS


def _parameters(node: Any) -> frozenset[str]:
    """Names that a lambda binds: one, or several in a row()."""
    if node.get("class") == "COLUMN_REF":
        return frozenset((node["column_names"][0].lower(),))
    return frozenset(p for a in node.get("arguments", []) for p in _parameters(a["expression"]))


def said(error: Exception) -> str:
    """DuckDB's message in one line, without its kind and without the query that it did not like."""
    text = str(error).split("\n\nLINE", 1)[0]
    _, _, rest = text.partition(" Error: ")
    return " ".join((rest or text).split(" Use TRY(")[0].split())[:400]


# ---------------------------------------------------------------- types

_SQL = {
    "boolean": "BOOLEAN",
    "tinyint": "TINYINT",
    "smallint": "SMALLINT",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "VARCHAR",
    "binary": "BLOB",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
}
_INTEGERS = frozenset(
    ("tinyint", "smallint", "integer", "bigint", "hugeint", "utinyint", "usmallint", "uinteger", "ubigint", "uhugeint")
)
_FLOATS = frozenset(("float", "double"))
_INSTANTS = frozenset(
    ("timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns", "timestamp_us", "timestamp with time zone")
)
_FIRST_DAY, _LAST_DAY = "0001-01-01", "9999-12-31"


def sql_type(kind: HiveType) -> str:
    """DuckDB's type for a Hive type. Timestamps are UTC without a mark, so that no function asks for a zone."""
    if isinstance(kind, Decimal):
        return f"DECIMAL({kind.precision},{kind.scale})"
    if isinstance(kind, Array):
        return f"{sql_type(kind.element)}[]"
    if isinstance(kind, Map):
        return f"MAP({sql_type(kind.key)}, {sql_type(kind.value)})"
    if isinstance(kind, Struct):
        return f"STRUCT({', '.join(f'{quoted(name)} {sql_type(field)}' for name, field in kind.fields)})"
    return _SQL[kind.name]


def strict(value: str, found: duckdb.sqltypes.DuckDBPyType, target: HiveType) -> str:
    """SQL that turns `value` of type `found` into `target`, null where it does not fit. Raises Wrong for types that
    never do: text is not parsed and nothing is spelled as text unless the expression says so."""
    wanted, name = sql_type(target), "json" if str(found) == "JSON" else str(found.id)
    cast = f"try_cast({value} as {wanted})"
    if name in ("sqlnull", "null"):
        return f"cast(null as {wanted})"
    if isinstance(target, Decimal):
        return _to_decimal(value, found, target, cast, name)
    if not isinstance(target, Primitive):
        if str(found).lower().replace('"', "") == wanted.lower().replace('"', ""):
            return cast
        raise _unlike(found, target)
    if target.name in ("tinyint", "smallint", "int", "bigint"):
        if name in _INTEGERS:
            return cast
        if name in _FLOATS or name == "decimal":
            return f"case when {value} = trunc({value}) then {cast} end"
    elif target.name in ("float", "double"):
        if name in _INTEGERS or name in _FLOATS or name == "decimal":
            return f"case when isfinite({cast}) then {cast} end"
    elif target.name == "date" and name == "date":
        return f"case when {value} between date '{_FIRST_DAY}' and date '{_LAST_DAY}' then {value} end"
    elif target.name == "timestamp" and name in _INSTANTS:
        first, last = f"timestamp '{_FIRST_DAY}'", f"timestamp '{_LAST_DAY} 23:59:59.999999'"
        return f"case when {cast} between {first} and {last} then {cast} end"
    elif (target.name, name) in (("boolean", "boolean"), ("string", "varchar"), ("binary", "blob")):
        return value
    raise _unlike(found, target)


def _to_decimal(value: str, found: duckdb.sqltypes.DuckDBPyType, target: Decimal, cast: str, name: str) -> str:
    if name in _INTEGERS:
        return cast
    if name == "decimal":
        scale = dict(found.children)["scale"]
        return cast if scale <= target.scale else f"case when {cast} = {value} then {cast} end"
    if name in _FLOATS:
        return f"case when cast({cast} as {name}) = {value} then {cast} end"
    raise _unlike(found, target)


def _unlike(found: duckdb.sqltypes.DuckDBPyType, target: HiveType) -> Wrong:
    return Wrong(
        f"gives {found}, the column is {target}; write cast(... as {sql_type(target)}) if that is what you mean"
    )
