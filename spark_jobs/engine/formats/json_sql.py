"""The DuckDB query that decodes a chunk of JSON messages: typed values, and what is needed to know which to believe.

DuckDB's conversions are lax (1.7 becomes 2, "123" becomes 123). So each message also gives its *shape*: the JSON types
found where the columns look, and the keys found on the way there. Few shapes occur in a topic; each is judged once.
What a shape cannot tell (overflow, an odd date) shows as a null where the shape has a value.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from spark_jobs.engine import paths
from spark_jobs.engine.event_time import EPOCH_UNITS
from spark_jobs.engine.strict import DOUBLE_DIGITS, MAX_MS, MIN_MS
from tidegate.core.hivetypes import Decimal, HiveType, Primitive, parse
from tidegate.core.pipeline import Pipeline

Path = tuple[str, ...]
INTEGERS = frozenset({"UBIGINT", "BIGINT"})
NUMBERS = INTEGERS | {"DOUBLE"}
_ISO = r"\d{4}-\d{2}-\d{2}[T ]([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d{1,6})?)?(Z|[+-](0\d|1[0-4]):[0-5]\d)?"
_TRAILING_COMMA = r",\s*[}\]]"


@dataclass(frozen=True)
class Leaf:
    """One value that the query gives: a column's, or the event time's.

    `accepts`: JSON types that can be right. `raw`: what DuckDB extracts; `value` makes SQL from the SQL of that: null
    where it is in doubt. `text`: Python finishes the job on the value's JSON text (or string).
    """

    path: Path
    accepts: frozenset[str]
    raw: str
    value: Callable[[str], str]
    text: bool = False


def column_leaf(path: Path, kind: HiveType) -> Leaf:
    if isinstance(kind, Decimal):
        return Leaf(path, NUMBERS, "JSON", lambda x: _decimal(x, path[-1], kind))
    if not isinstance(kind, Primitive):
        return Leaf(path, frozenset({"OBJECT", "ARRAY"}), "JSON", _as_is, text=True)
    return Leaf(path, *_PRIMITIVES[kind.name])


def event_leaf(path: Path, form: str) -> Leaf:
    """Epoch ms, but for patterns: those come as text."""
    if form in EPOCH_UNITS:
        return Leaf(path, INTEGERS, "BIGINT", lambda x: _epoch_ms(x, *EPOCH_UNITS[form]))
    if form == "iso8601":
        return Leaf(path, _STRING, "VARCHAR", lambda x: _floor_divide(_iso_micros(x), 1000))
    return Leaf(path, _STRING, "VARCHAR", _as_is, text=True)


def _as_is(x: str) -> str:
    return x


def _narrow(kind: str) -> Callable[[str], str]:
    return lambda x: f"try_cast({x} as {kind})"


def _finite(x: str) -> str:
    return f"case when isfinite({x}) then {x} end"


def _date(x: str) -> str:
    return f"case when length({x}) = 10 and try_cast({x} as DATE)::VARCHAR = {x} then try_cast({x} as DATE) end"


def _timestamp(x: str) -> str:
    """From JSON text: a quoted ISO date and time, or epoch ms."""
    text = f"{x}::VARCHAR"
    number = f"try_cast({text} as BIGINT)"
    inside = f"{number} between {MIN_MS} and {MAX_MS}"
    iso = _iso_micros(f"trim({text}, '\"')")
    return f"make_timestamp(case when starts_with({text}, '\"') then {iso} when {inside} then {number} * 1000 end)"


def _iso_micros(x: str) -> str:
    """Epoch us of an ISO text; DuckDB's own cast ignores the offset."""
    plain = f"epoch_us(try_cast(rtrim({x}, 'Z') as TIMESTAMP))"
    minutes = f"(substr({x}, length({x}) - 4, 2)::BIGINT * 60 + right({x}, 2)::BIGINT)"
    sign = f"case when substr({x}, length({x}) - 5, 1) = '-' then -1 else 1 end"
    zoned = f"epoch_us(try_cast(left({x}, length({x}) - 6) as TIMESTAMP)) - {sign} * {minutes} * 60000000"
    micros = f"case when regexp_matches({x}, '[+-]..:..$') then {zoned} else {plain} end"
    bounded = f"case when ({micros}) between {MIN_MS * 1000} and {MAX_MS * 1000 + 999} then ({micros}) end"
    return f"(case when regexp_full_match({x}, '{_ISO}') then {bounded} end)"


def _decimal(x: str, key: str, kind: Decimal) -> str:
    """Exact, or null. DuckDB has read the number as a double: beyond its digits the message must have it as read."""
    text = f"{x}::VARCHAR"
    digits = f"length({text}) - position('.' in {text})"
    exact = f"not contains({text}, 'e') and (position('.' in {text}) = 0 or {digits} <= {kind.scale})"
    if kind.precision > DOUBLE_DIGITS:
        exact += f" and {_as_written(text, key)}"
    return f"case when {exact} then try_cast({text} as DECIMAL({kind.precision},{kind.scale})) end"


def _as_written(text: str, key: str) -> str:
    """Whether the message `v` has `"key":text` literally, and that key nowhere else."""
    quoted = _quote(json.dumps(key, ensure_ascii=False))
    literals = " ".join(
        f"when contains(v, {quoted} || '{colon}' || {text} || '{end}') then true"
        for colon in (":", ": ")
        for end in (",", "}")
    )
    once = f"strlen(v) - strlen(replace(v, {quoted}, '')) = strlen({quoted})"
    return f"(case {literals} else false end) and {once}"


def _epoch_ms(x: str, multiply: int, divide: int) -> str:
    low, high = MIN_MS * divide // multiply, (MAX_MS + 1) * divide // multiply - 1
    return _floor_divide(f"(case when {x} between {low} and {high} then {x} end * {multiply})", divide)


def _floor_divide(x: str, by: int) -> str:
    return x if by == 1 else f"({x} - (({x} % {by}) + {by}) % {by}) // {by}"


_STRING = frozenset({"VARCHAR"})
_PRIMITIVES: dict[str, tuple[frozenset[str], str, Callable[[str], str]]] = {
    "boolean": (frozenset({"BOOLEAN"}), "BOOLEAN", _as_is),
    "tinyint": (INTEGERS, "BIGINT", _narrow("TINYINT")),
    "smallint": (INTEGERS, "BIGINT", _narrow("SMALLINT")),
    "int": (INTEGERS, "BIGINT", _narrow("INTEGER")),
    "bigint": (INTEGERS, "BIGINT", _as_is),
    "float": (NUMBERS, "DOUBLE", lambda x: f"try_cast({_finite(x)} as FLOAT)"),
    "double": (NUMBERS, "DOUBLE", _finite),
    "string": (_STRING, "VARCHAR", _as_is),
    "binary": (_STRING, "VARCHAR", lambda x: f"encode({x})"),
    "date": (_STRING, "VARCHAR", _date),
    "timestamp": (_STRING | INTEGERS, "JSON", _timestamp),
}


@dataclass(frozen=True)
class Query:
    """`sql` reads `input(i, v)` and gives i, types, keys, and v0.. for the leaves. `probes`: the paths that `types` is
    about, in order; `objects`: those whose keys are in `keys`."""

    sql: str
    leaves: tuple[Leaf, ...]
    probes: tuple[Path, ...]
    objects: tuple[Path, ...]


def query(pipeline: Pipeline) -> Query:
    leaves = [column_leaf(paths.parse(c.path), parse(c.type)) for c in pipeline.columns]
    if pipeline.event_time.path is not None:
        leaves.append(event_leaf(paths.parse(pipeline.event_time.path), pipeline.event_time.format))
    parents = {leaf.path[:n] for leaf in leaves for n in range(1, len(leaf.path))}
    objects = ((), *sorted(parents))
    probes = tuple(dict.fromkeys([leaf.path for leaf in leaves] + sorted(parents)))
    raws: dict[Path, str] = {}
    for leaf in leaves:
        raws[leaf.path] = leaf.raw if raws.get(leaf.path, leaf.raw) == leaf.raw else "JSON"
    layers = list(_layers(raws))
    where = {path: f"d{i}" for i, layer in enumerate(layers) for path in layer}
    values = []
    for i, leaf in enumerate(leaves):
        x = where[leaf.path] + "".join(f"[{_quote(key)}]" for key in leaf.path)
        if raws[leaf.path] != leaf.raw:
            x = _FROM_JSON[leaf.raw].format(x=x)
        values.append(f"{leaf.value(x)} as v{i}")
    structs = [f"from_json(o, {_quote(json.dumps(_structure(layer)))}) as d{i}" for i, layer in enumerate(layers)]
    sql = f"""
        select i, types, keys, {", ".join(values)}
        from (
            select i, o as v, json_type(o, {_pointers(probes)})::VARCHAR as types,
                json_keys(o, {_pointers(objects)})::VARCHAR as keys, {", ".join(structs)}
            from (
                select i, case when json_valid(v) and not regexp_matches(v, '{_TRAILING_COMMA}') then v end as o
                from input
            )
        )"""
    return Query(sql, tuple(leaves), probes, objects)


_FROM_JSON = {
    "BIGINT": "try_cast({x}::VARCHAR as BIGINT)",
    "DOUBLE": "try_cast({x}::VARCHAR as DOUBLE)",
    "BOOLEAN": "({x}::VARCHAR = 'true')",
    "VARCHAR": "({x} ->> '$')",
    "JSON": "{x}",
}


def _layers(raws: dict[Path, str]) -> Iterator[dict[Path, str]]:
    """Paths that one DuckDB struct can hold together: none inside another, no two that differ in case only."""
    waiting = dict(raws)
    while waiting:
        layer: dict[Path, str] = {}
        for path, raw in waiting.items():
            if not any(_clash(path, other) for other in layer):
                layer[path] = raw
        yield layer
        waiting = {path: raw for path, raw in waiting.items() if path not in layer}


def _clash(one: Path, other: Path) -> bool:
    for a, b in zip(one, other, strict=False):
        if a != b:
            return a.lower() == b.lower()
    return True


def _structure(layer: dict[Path, str]) -> dict:
    tree: dict = {}
    for path, raw in layer.items():
        node = tree
        for key in path[:-1]:
            node = node.setdefault(key, {})
        node[path[-1]] = raw
    return tree


def _pointers(found: tuple[Path, ...]) -> str:
    return "[" + ", ".join(_quote(_pointer(path)) for path in found) + "]"


def _pointer(path: Path) -> str:
    return "".join("/" + key.replace("~", "~0").replace("/", "~1") for key in path) or "$"


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
