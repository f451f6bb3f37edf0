"""Avro data, read by Python code that is made for one writer's schema and one pipeline's columns.

The reader trusts nothing: a length, a count or an index that the message does not bear out, a boolean that is neither 0
nor 1, a number beyond its type's bits make the message unusable, never the process. (The libraries that were tried
overflow the stack on nested records and take such bytes for values.)
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from spark_jobs.engine.formats.assembly import as_text
from spark_jobs.engine.formats.avro_rules import (
    EVENT,
    INLINE,
    NEVER_REFUSED,
    PLAIN,
    WHOLE,
    conversion,
    cut_off,
    least_bytes,
    length,
    more,
    read_int,
    refusal,
    signed,
)
from spark_jobs.engine.formats.avro_unknown import finder, tells
from spark_jobs.engine.formats.known import Known, as_arrays
from spark_jobs.engine.formats.undecodable import Malformed, Misfits
from spark_jobs.engine.strict import Unfit
from tidegate.core.base.hivetypes import Array, HiveType, Map, Struct
from tidegate.core.spec.avro import Schema, struct_field

DEPTH = 200
"""Records within records; the top one is the first."""
Path = tuple[str, ...]
Target = tuple[Path, HiveType | None]
Read = Callable[[bytes, int], tuple]


def reader(schema: Schema, targets: list[Target], time_format: str, known: dict[str, Known] | None) -> Read:
    """`read(message, start)` gives a value for each target (None as type: the event time), and if `known` is not None
    a list of (name, text) of the fields that are not in it. Raises Malformed and Misfits."""
    if schema.type != "record":
        raise ValueError(f"the messages are {schema}, not records: columns have no fields to look at")
    return _Code(targets, time_format, known).reader(schema)


class _Code:
    """Lines of source. In it `b` is the message, `p` the place, `d` the depth, `v0`.. the values."""

    def __init__(self, targets: list[Target], time_format: str, known: dict[str, Known] | None) -> None:
        self._targets, self._time_format, self._known = targets, time_format, known
        self._names: dict[str, Any] = {
            "more": more,
            "signed": signed,
            "int_": read_int,
            "length": length,
            "Z": tuple((n >> 1) ^ -(n & 1) for n in range(128)),
            "cut_off": cut_off,
            "Malformed": Malformed,
            "Misfits": Misfits,
            "Unfit": Unfit,
            "as_text": as_text,
            "as_arrays": as_arrays,
            "f4": struct.Struct("<f").unpack_from,
            "f8": struct.Struct("<d").unpack_from,
            "short": struct.error,
        }
        self._functions: dict[tuple[int, str, str], str] = {}
        self._bodies: list[str] = []
        self._schemas: list[Schema] = []  # keeps ids unique
        self._count = 0

    def reader(self, schema: Schema) -> Read:
        body: list[str] = []
        wanted = [(i, path, kind) for i, (path, kind) in enumerate(self._targets)]
        self._record(body, 2, schema, wanted, 1)
        values = "".join(f"v{i}, " for i in range(len(self._targets)))
        extra = "[*x.items(), *as_arrays(w).items()], " if self._known is not None else ""
        lines = [
            "def read(b, p):",
            f"    {' = '.join([f'v{i}' for i in range(len(self._targets))])} = None",
            "    bad = False",
            "    d = 1",
            "    x, w = {}, {}",
            "    try:",
            *(body or ["        pass"]),
            "    except (IndexError, short, OverflowError):",
            "        raise cut_off() from None",
            "    except RecursionError:",
            "        raise Malformed('records nested too deeply') from None",
            "    if p != len(b):",
            "        raise cut_off() if p > len(b) else Malformed(f'{len(b) - p} bytes too many')",
            "    if bad:",
            f"        raise Misfits(({values}))",
            f"    return ({values}{extra})",
        ]
        source = "\n".join([*self._bodies, *lines])
        exec(compile(source, "<avro reader>", "exec"), self._names)
        return self._names["read"]

    # ------------------------------------------------------------ records on the way to columns

    def _record(self, out: list[str], deep: int, schema: Schema, wanted: list, level: int) -> None:
        """Reads a record; `wanted`: (index, path below the record, type)."""
        pad = "    " * deep
        by_name: dict[str, list] = {}
        for i, path, target in wanted:
            by_name.setdefault(path[0], []).append((i, path[1:], target))
        for name, kind in schema.fields:
            mine = by_name.get(name, ())
            leaves = [(i, target) for i, rest, target in mine if not rest]
            below = [w for w in mine if w[1]]
            steps: list[Callable[[], None]] = []
            for i, target in leaves:
                steps.append(lambda i=i, target=target, kind=kind: self._leaf(out, deep, kind, target, f"v{i}"))  # type: ignore[misc]
            if below:
                steps.append(lambda kind=kind, below=below: self._below(out, deep, kind, below, level))  # type: ignore[misc]
            if level == 1 and self._known is not None and tells(name, kind, self._known):
                steps.append(lambda name=name, kind=kind: self._unknown(out, deep, name, kind))  # type: ignore[misc]
            if not steps:
                self._skip(out, deep, kind)
            start = self._fresh("s")
            for number, step in enumerate(steps):
                if len(steps) > 1:
                    out.append(f"{pad}{start} = p" if not number else f"{pad}p = {start}")
                step()

    def _below(self, out: list[str], deep: int, schema: Schema, wanted: list, level: int) -> None:
        """A field that must be a record, for the columns that look into it."""
        if schema.type == "union":
            self._branches(out, deep, schema, lambda at_, branch: self._below(out, at_, branch, wanted, level))
        elif schema.type == "record":
            if level >= DEPTH:
                raise ValueError("a path that is too deep")
            out.append(f"{'    ' * deep}d = {level + 1}")
            self._record(out, deep, schema, wanted, level + 1)
            out.append(f"{'    ' * deep}d = {level}")
        else:
            self._skip(out, deep, schema)
            if schema.type != "null":
                reason = f"expected a record, got {schema}"
                out.extend(f"{'    ' * deep}v{i} = Unfit({reason!r})" for i, _, _ in wanted)
                out.append(f"{'    ' * deep}bad = True")

    def _unknown(self, out: list[str], deep: int, name: str, schema: Schema) -> None:
        assert self._known is not None
        pad = "    " * deep
        self._leaf(out, deep, schema, PLAIN, "y")
        if name in self._known:
            out.append(f"{pad}{self._constant(finder(name, self._known[name]))}(y, x, w)")
        else:
            out.append(f"{pad}x[{name!r}] = as_text(y)")

    def _leaf(self, out: list[str], deep: int, schema: Schema, target: HiveType | None, var: str) -> None:
        """A value into `var`; what the type refuses is put there as the Unfit that says why."""
        pad, kind = "    " * deep, EVENT if target is None else target
        if not self._may_refuse(schema, kind):
            self._value(out, deep, schema, kind, var)
            return
        start = self._fresh("q")
        out += [f"{pad}{start} = p", f"{pad}try:"]
        self._value(out, deep + 1, schema, kind, var)
        out += [
            f"{pad}except Unfit as e:",
            f"{pad}    {var}, bad, p = e, True, {start}",
        ]
        self._skip(out, deep + 1, schema)
        out += [
            f"{pad}except UnicodeDecodeError:",
            f"{pad}    {var}, bad, p = Unfit('invalid UTF-8'), True, {start}",
        ]
        self._skip(out, deep + 1, schema)

    def _may_refuse(self, schema: Schema, kind: HiveType) -> bool:
        if schema.type == "union":
            return any(self._may_refuse(b, kind) for b in schema.branches)
        return kind is not PLAIN and schema.type != "null" and (schema.kind, str(kind)) not in NEVER_REFUSED

    # ------------------------------------------------------------ values

    def _value(self, out: list[str], deep: int, schema: Schema, kind: HiveType, var: str) -> None:
        """Reads a value and converts it into `var`; the code may raise Unfit anywhere in it."""
        pad = "    " * deep
        if schema.type == "union":
            self._branches(out, deep, schema, lambda at_, branch: self._value(out, at_, branch, kind, var))
            return
        if schema.type == "null":
            out.append(f"{pad}{var} = None")
            return
        reason = refusal(schema, kind)
        if reason:
            out.append(f"{pad}raise Unfit({reason!r})")
            return
        if schema.type in ("record", "array", "map"):
            out.append(f"{pad}{var}, p = {self._function('value', schema, kind)}(b, p, d)")
            return
        self._scalar(out, deep, schema, var, "'backslashreplace'" if kind is PLAIN else "")
        inline = INLINE.get((schema.kind, str(kind) if kind is not EVENT else f"event {self._time_format}"))
        convert = None if inline else conversion(schema, kind, self._time_format)
        if inline:
            out.extend(f"{pad}{line.format(v=var)}" for line in inline)
        elif convert is not None:
            out.append(f"{pad}{var} = {self._constant(convert)}({var})")

    def _scalar(self, out: list[str], deep: int, schema: Schema, var: str, errors: str) -> None:
        """The value as it is written, into `var`; `errors`: what to do about invalid UTF-8."""
        pad = "    " * deep
        if schema.type in ("int", "long", "enum"):
            self._signed(out, pad, var, "signed" if schema.type == "long" else "int_")
            if schema.type == "enum":
                self._check_symbol(out, pad, schema, var)
                out.append(f"{pad}{var} = {self._constant(schema.symbols)}[{var}]")
        elif schema.type == "boolean":
            out += [f"{pad}{var} = b[p]", f"{pad}p += 1"]
            out.append(f"{pad}if {var} > 1: raise Malformed('a boolean that is neither 0 nor 1')")
            out.append(f"{pad}{var} = {var} == 1")
        elif schema.type in ("float", "double"):
            size = 4 if schema.type == "float" else 8
            out += [f"{pad}{var}, = f{size}(b, p)", f"{pad}p += {size}"]
        elif schema.type in ("bytes", "string"):
            self._length(out, pad)
            cut = "" if schema.type == "bytes" else f".decode('utf-8', {errors})" if errors else ".decode()"
            out += [f"{pad}{var} = b[p:n]{cut}", f"{pad}p = n"]
        else:  # fixed
            out += [f"{pad}{var} = b[p:p + {schema.size}]", f"{pad}p += {schema.size}"]
            out.append(f"{pad}if p > len(b): raise cut_off()")

    def _number(self, out: list[str], pad: str, var: str) -> None:
        """A variable-length number, not yet signed."""
        out += [f"{pad}{var} = b[p]", f"{pad}p += 1", f"{pad}if {var} > 127: {var}, p = more(b, p, {var})"]

    def _signed(self, out: list[str], pad: str, var: str, longer: str) -> None:
        """The same, with its sign; `longer` is the function for more than one byte."""
        out += [f"{pad}{var} = b[p]", f"{pad}p += 1"]
        out += [f"{pad}if {var} > 127: {var}, p = {longer}(b, p, {var})", f"{pad}else: {var} = Z[{var}]"]

    def _check_symbol(self, out: list[str], pad: str, schema: Schema, var: str) -> None:
        condition = f"not 0 <= {var} < {len(schema.symbols)}"
        out.append(f"{pad}if {condition}: raise Malformed('a symbol that its enum does not have')")

    def _length(self, out: list[str], pad: str) -> None:
        """Where a string or bytes end into `n`: perhaps beyond the message, which shows at the end of it."""
        out += [f"{pad}n = b[p]", f"{pad}p += 1", f"{pad}if n & 129: n, p = length(b, p, n)", f"{pad}n = p + (n >> 1)"]

    def _branches(self, out: list[str], deep: int, schema: Schema, each: Callable[[int, Schema], None]) -> None:
        pad = "    " * deep
        self._number(out, pad, "k")
        for i, branch in enumerate(schema.branches):
            out.append(f"{pad}{'el' if i else ''}if k == {2 * i}:")
            mark = len(out)
            each(deep + 1, branch)
            if len(out) == mark:
                out.append(f"{pad}    pass")
        out += [f"{pad}else:", f"{pad}    raise Malformed('a branch that its union does not have')"]

    # ------------------------------------------------------------ what nobody wants

    def _skip(self, out: list[str], deep: int, schema: Schema) -> None:
        """Passes over a value. It must be well-formed; what is in its strings is not looked at."""
        pad = "    " * deep
        if schema.type == "null":
            out.append(f"{pad}pass")
        elif schema.type == "union":
            self._branches(out, deep, schema, lambda at_, branch: self._skip(out, at_, branch))
        elif schema.type in ("record", "array", "map"):
            out.append(f"{pad}p = {self._function('skip', schema, PLAIN)}(b, p, d)")
        elif schema.type in ("bytes", "string"):
            self._length(out, pad)
            out.append(f"{pad}p = n")
        elif schema.type in ("int", "enum"):
            self._signed(out, pad, "k", "int_")
            if schema.type == "enum":
                self._check_symbol(out, pad, schema, "k")
        elif schema.type == "long":
            self._number(out, pad, "k")
        elif schema.type == "boolean":
            out += [f"{pad}if b[p] > 1: raise Malformed('a boolean that is neither 0 nor 1')", f"{pad}p += 1"]
        else:
            size = {"float": 4, "double": 8}.get(schema.type, schema.size)
            out += [f"{pad}p += {size}", f"{pad}if p > len(b): raise cut_off()"]

    # ------------------------------------------------------------ nested values

    def _function(self, what: str, schema: Schema, kind: HiveType) -> str:
        """The name of a function `(b, p, d)` that gives (value, p), or p alone to skip."""
        key = (id(schema), what, str(kind))
        if key not in self._functions:
            self._schemas.append(schema)
            name = self._functions[key] = self._fresh(what)
            out = [f"def {name}(b, p, d):"]
            if schema.type == "record":
                self._nested_record(out, what, schema, kind)
            else:
                self._blocks(out, what, schema, kind)
            out.append("    return (r, p)" if what == "value" else "    return p")
            self._bodies.append("\n".join(out))
        return self._functions[key]

    def _nested_record(self, out: list[str], what: str, schema: Schema, kind: HiveType) -> None:
        out += [f"    if d >= {DEPTH}: raise Malformed('records nested too deeply')", "    d += 1", "    r = {}"]
        takers: dict[str, list[tuple[str, HiveType]]] = {}
        if isinstance(kind, Struct):
            for field, wanted in kind.fields:
                takers.setdefault(struct_field(schema, field) or "", []).append((field, wanted))
        for name, field_schema in schema.fields:
            if what == "skip" or (isinstance(kind, Struct) and name not in takers):
                self._skip(out, 1, field_schema)
            elif kind in WHOLE:
                self._element(out, 1, field_schema, kind, f"{('.' + name)!r}")
                out.append(f"    r[{name!r}] = y")
            else:
                for number, (field, wanted) in enumerate(takers[name]):
                    out.append("    s = p" if not number else "    p = s")
                    self._element(out, 1, field_schema, wanted, f"{('.' + field)!r}")
                    out.append(f"    r[{field!r}] = y")

    def _element(self, out: list[str], deep: int, schema: Schema, kind: HiveType, place: str) -> None:
        """A value inside another into `y`; an Unfit gets the place (an expression) before its own."""
        pad = "    " * deep
        if kind is PLAIN or not self._may_refuse(schema, kind):
            self._value(out, deep, schema, kind, "y")
            return
        out.append(f"{pad}try:")
        self._value(out, deep + 1, schema, kind, "y")
        out += [
            f"{pad}except Unfit as e:",
            f"{pad}    raise e.below({place}) from None",
            f"{pad}except UnicodeDecodeError:",
            f"{pad}    raise Unfit('invalid UTF-8', {place}) from None",
        ]

    def _blocks(self, out: list[str], what: str, schema: Schema, kind: HiveType) -> None:
        """Items of an array or a map, which come in blocks with a count, and perhaps a size in bytes, before each."""
        assert schema.items is not None
        is_map = schema.type == "map"
        least = least_bytes(schema.items, {}) + is_map
        plain = "{}" if is_map and kind in WHOLE else "[]"
        out += [f"    r = {plain}", "    i = 0", "    seen = set()", "    while True:"]
        self._signed(out, "        ", "c", "signed")
        out += [
            "        if not c: break",
            "        end = -1",
            "        if c < 0:",
            "            c = -c",
        ]
        self._length(out, "            ")
        out += [
            "            end = n",
            "        if c > len(b) - p: raise cut_off()"
            if least
            else "        raise Malformed('items that take no bytes')",
            "        for _ in range(c):",
        ]
        if is_map:
            self._length(out, "            ")
            if what == "skip":
                out.append("            p = n")
            elif kind is PLAIN:
                out += ["            key = b[p:n].decode('utf-8', 'backslashreplace')", "            p = n"]
            else:
                out += [
                    "            key = b[p:n].decode()",
                    "            p = n",
                    "            if key in seen: raise Unfit(f'duplicate key {key[:80]!r}')",
                    "            seen.add(key)",
                ]
        if what == "skip":
            self._skip(out, 3, schema.items)
        else:
            inner = kind.element if isinstance(kind, Array) else kind.value if isinstance(kind, Map) else kind
            self._element(out, 3, schema.items, inner, "f'.{key}'" if is_map else "f'[{i}]'")
            if kind in WHOLE and is_map:
                out.append("            r[key] = y")
            else:
                out += [f"            r.append({'(key, y)' if is_map else 'y'})", "            i += 1"]
        out.append("        if end >= 0 and p != end: raise Malformed('a block that is not as long as it says')")

    # ------------------------------------------------------------

    def _fresh(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}_{self._count}"

    def _constant(self, value: Any) -> str:
        name = self._fresh("c")
        self._names[name] = value
        return name
