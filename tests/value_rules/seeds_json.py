"""For each JSON row of the page: a spec, and messages that are about that row."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.value_rules import page
from tests.value_rules.oracle_json import PlainColumn, PlainSpec

GROUPS: dict[str, tuple[str, ...]] = {
    "boolean": ("boolean",),
    "integer": ("tinyint", "smallint", "int", "bigint"),
    "float": ("float", "double"),
    "decimal": (
        "decimal(5,2)", "decimal(2,2)", "decimal(1,0)", "decimal(15,3)", "decimal(16,1)", "decimal(18,6)",
        "decimal(20,20)", "decimal(38,0)", "decimal(38,10)", "decimal(38,38)",
    ),
    "string": ("string",),
    "binary": ("binary",),
    "date": ("date",),
    "timestamp": ("timestamp",),
    "array": ("array<int>", "array<string>", "array<array<decimal(5,2)>>", "array<timestamp>", "array<struct<a:date>>"),
    "map": ("map<string,int>", "map<string,double>", "map<string,array<boolean>>", "map<string,map<string,float>>"),
    "struct": (
        "struct<a:int,b:string>", "struct<a:struct<a:bigint>,c:double>", "struct<b:map<string,int>,a:array<float>>",
    ),
    "key": (
        "map<int,int>", "map<tinyint,int>", "map<bigint,string>", "map<double,int>", "map<float,int>",
        "map<decimal(3,1),int>", "map<boolean,int>", "map<date,int>", "map<timestamp,int>", "map<binary,int>",
    ),
}  # fmt: skip
TIME_FORMATS = {
    "epoch": ("epoch_s", "epoch_ms", "epoch_us", "epoch_ns"),
    "iso": ("iso8601",),
    "pattern": ("%d.%m.%Y %H:%M", "%Y-%m-%dT%H:%M:%S.%f%z", "%j %y %H"),
    "missing": ("epoch_ms", "iso8601"),
    "calendar": ("epoch_ms", "epoch_s", "iso8601"),
}
_INTEGERS = (
    "0", "-0", "1", "7", "-1", "42", "127", "128", "-128", "255", "32767", "65536", "2147483647", "-2147483648",
    "2147483648", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "18446744073709551615",
    "16777217", "9007199254740993", "1357358706123", "-62135596800000", "253402300799999", "12345678901234567890123",
)  # fmt: skip
_NUMBERS = (
    "1.5", "0.1", "-0.0", "1.23", "99.995", "1e3", "1E-2", "1.50", "123.4500", "1e22", "1.7976931348623157e308",
    "3.4028234663852886e38", "4.9e-324", "1e-45", "0.30000000000000004", "12345678901234.123456", "1230e-3", "0.0e5",
    "9007199254740993.0", "1.00000017881393432617187499", "0.12345678901234567890123456789012345678",
)  # fmt: skip
_STRINGS = (
    "x", "", "null", "true", "123", "1.5", "aü", "日本", "😀", "a\\nb", "\\u00fc", "\\ud83d\\ude00", "\\u0000", "a,]b}",
    "2013-01-05", "2013-02-28", "2000-02-29", "9999-12-31", "0001-01-01",
)  # fmt: skip
_DATES = ("2013-01-05", "2000-02-29", "1900-02-28", "9999-12-31", "0001-01-01", "1582-10-10", "2013-12-31")
_CLOCKS = ("04:05:06", "04:05", "00:00:00", "23:59:59", "04:05:06.1", "04:05:06.123456", "23:59:59.9999999", "12:30")
_ZONES = ("", "Z", "+02:00", "-03:30", "+0530", "+02", "-23:59", "+00:00")
_SPACES = ("", "", "", " ", "\n", "\t ")


def iso(rng: Random) -> str:
    return rng.choice(_DATES) + rng.choice("TT ") + rng.choice(_CLOCKS) + rng.choice(_ZONES)


def literal(kind: str, group: str, rng: Random, depth: int = 0) -> str:
    """JSON text of a kind, of a sort that a column of the group may meet."""
    if kind == "integer":
        return rng.choice(_INTEGERS) if rng.random() < 0.5 else str(rng.randint(-(10 ** rng.randint(1, 20)), 10**13))
    if kind == "number":
        return rng.choice(_NUMBERS) if rng.random() < 0.6 else repr(rng.uniform(-1000, 1000) * 10 ** rng.randint(-9, 9))
    if kind == "string":
        text = rng.choice(_STRINGS)
        if group == "timestamp" or group == "iso":
            text = iso(rng)
        elif group == "date":
            text = rng.choice(_DATES)
        return f'"{text}"'
    if kind == "array":
        return _array(group, rng, depth)
    if kind == "object":
        return _object(group, rng, depth)
    words = {"null": ("null",), "boolean": ("true", "false"), "nonfinite": ("NaN", "-inf", "Infinity", "+nan")}
    return rng.choice(words[kind])


_ANY = ("null", "boolean", "integer", "integer", "number", "string", "string", "array", "object")


def _inner(group: str, rng: Random, depth: int) -> str:
    kinds = _ANY if depth < 2 else _ANY[:-2]
    return literal(rng.choice(kinds), rng.choice((group, "date", "timestamp")), rng, depth + 1)


def _array(group: str, rng: Random, depth: int) -> str:
    one = rng.choice(("integer", "string", "array", "object", "any"))
    items = []
    for _ in range(rng.randint(0, 4)):
        items.append(_inner(group, rng, depth) if one == "any" or depth > 1 else literal(one, group, rng, depth + 1))
    return "[" + ",".join(items) + "]"


def _object(group: str, rng: Random, depth: int) -> str:
    if group == "key":
        keys = rng.choice(
            (
                ("7", "-12", "0"),
                ("128", "9007199254740993", "9007199254740992"),
                ("true", "false"),
                ("2013-01-05", "2000-02-29"),
                ("1.5", "07", "-0"),
                ("a", "b", ""),
                ("16777216", "16777217"),
            )
        )
        pairs = [(rng.choice(keys), rng.choice(("1", "2", "null", '"x"'))) for _ in range(rng.randint(0, 3))]
    else:
        keys = ("a", "b", "c", "k", "ü", "A", "")
        pairs = [(key, _inner(group, rng, depth)) for key in rng.sample(keys, rng.randint(0, 3))]
        if pairs and rng.random() < 0.05:
            pairs.append(pairs[0])
    return "{" + ",".join(f'"{key}":{value}' for key, value in pairs) + "}"


def message(fields: list[tuple[str, str]], rng: Random) -> bytes:
    """An object of (key, JSON text), spaced at random."""
    space = rng.choice(_SPACES)
    inner = f",{space}".join(f'"{key}"{space}:{space}{value}' for key, value in fields)
    return f"{space}{{{inner}}}".encode("utf-8", "surrogatepass")


Seed = tuple[PlainSpec, Callable[[Random], bytes | None]]


def group_spec(group: str) -> PlainSpec:
    return PlainSpec(tuple(PlainColumn(f"c{i}", kind, (f"c{i}",)) for i, kind in enumerate(GROUPS[group])))


def pair_seed(kind: str, group: str) -> Seed:
    """Messages with a value of the kind in one or more columns of the group's types."""
    spec = group_spec(group)

    def make(rng: Random) -> bytes:
        fields = [(c.name, literal(kind, group, rng)) for c in spec.columns if rng.random() < 2 / len(spec.columns)]
        fields = fields or [(spec.columns[0].name, literal(kind, group, rng))]
        if rng.random() < 0.3:
            fields.insert(rng.randint(0, len(fields)), ("z", literal(rng.choice(_ANY), group, rng)))
        return message(fields, rng)

    return spec, make


_MIXED = PlainSpec(
    (
        PlainColumn("i", "int", ("i",)),
        PlainColumn("s", "string", ("n", "s"), nullable=False),
        PlainColumn("p", "decimal(9,3)", ("n", "p")),
        PlainColumn("w", "timestamp", ("w",)),
        PlainColumn("whole", "struct<s:string,q:array<int>>", ("n",)),
        PlainColumn("d", "double", ("i",)),
    ),
    ("t", "at"),
    "epoch_ms",
)


_TEXT = PlainSpec(
    tuple(
        PlainColumn(f"c{i}", kind, (f"c{i}",), convert="text")
        for i, kind in enumerate((
            "boolean", "tinyint", "int", "bigint", "float", "double", "decimal(5,2)", "decimal(20,6)", "date",
            "timestamp", "string", "binary",
        ))
    )
)  # fmt: skip


def text_seed(row: str) -> Seed:
    """Columns with `convert: text`."""

    def value(kind: str, rng: Random) -> str:
        found = literal({"string": "integer", "scalar": "number"}.get(row, rng.choice(_ANY)), kind, rng)
        if row == "string":
            found = {"date": rng.choice(_DATES), "timestamp": iso(rng), "boolean": "true"}.get(kind, found)
            found = literal("number", kind, rng) if kind in ("float", "double") or kind[:3] == "dec" else found
            return f'"{found}"' if rng.random() < 0.9 else found
        return rng.choice((found, "true", literal("integer", kind, rng)))

    def make(rng: Random) -> bytes:
        return message([(c.name, value(c.type, rng)) for c in rng.sample(_TEXT.columns, rng.randint(1, 3))], rng)

    return _TEXT, make


def mixed_seed(unknown: str = "ignore") -> Seed:
    """Several columns, one inside another, and an event time."""
    spec = PlainSpec(_MIXED.columns, _MIXED.time, _MIXED.time_format, unknown)

    def make(rng: Random) -> bytes:
        inner = [("s", literal("string", "string", rng)), ("p", rng.choice(_NUMBERS[:10]))]
        inner += [("q", "[1,2]")] * rng.randint(0, 1)
        fields = [("i", rng.choice(_INTEGERS[:12])), ("n", message(inner, rng).decode().strip())]
        fields += [("t", '{"at":1357358706123}'), ("w", f'"{iso(rng)}"')]
        if rng.random() < 0.5:
            fields.append((rng.choice(("z", "y", "ü\\t")), literal(rng.choice(("nonfinite", *_ANY)), "string", rng)))
        rng.shuffle(fields)
        return message(fields, rng)

    return spec, make


def time_seed(row: str) -> list[Seed]:
    def seed(form: str) -> Seed:
        spec = PlainSpec((PlainColumn("n", "int", ("n",)),), ("c",), form)

        def make(rng: Random) -> bytes:
            text = f'"{iso(rng)}"' if form == "iso8601" else rng.choice(_INTEGERS)
            if form.startswith("%d"):
                text = f'"{rng.randint(1, 31):02}.{rng.randint(1, 12):02}.2013 04:{rng.randint(0, 59):02}"'
            elif form.startswith("%Y"):
                text = f'"2013-01-{rng.randint(1, 31):02}T04:05:06.{rng.randint(0, 999999)}+0{rng.randint(0, 9)}00"'
            elif form.startswith("%j"):
                text = f'"{rng.randint(1, 366):03} {rng.randint(0, 99):02} {rng.randint(0, 23)}"'
            elif form != "iso8601" and rng.random() < 0.5:
                text = str(
                    1357358706123 * 1000 ** (("epoch_s", "epoch_ms", "epoch_us", "epoch_ns").index(form)) // 1000
                )
            fields = [("n", "1"), ("c", "null" if row == "missing" and rng.random() < 0.5 else text)]
            return message(fields[: 1 if row == "missing" and rng.random() < 0.2 else 2], rng)

        return spec, make

    return [seed(form) for form in TIME_FORMATS[row]]


def path_seed() -> Seed:
    spec = PlainSpec((PlainColumn("c", "int", ("a", "b")), PlainColumn("m", "string", ("a", "d", "e"))))

    def make(rng: Random) -> bytes:
        inner = [
            ("b", rng.choice(_INTEGERS[:8])),
            ("d", rng.choice(('{"e":"x"}', "{}", "null", "5", '{"e":"y","f":2}'))),
        ]
        inner += [("z", "1")] * rng.randint(0, 1)
        value = message(inner[rng.randint(0, 1) :], rng).decode().strip()
        return message([("a", rng.choice((value, value, value, "null", "5", "[]"))), ("z", '{"q":1,"q":2}')], rng)

    return spec, make


_ODD_KEYS = {
    "ü k": ("ü k", "\\u00fc k", "\\u00FC\\u0020k"),
    'q"t\\': ('q\\"t\\\\', "q\\u0022t\\u005c"),
    "a.b": ("a.b", "a\\u002eb"),
    "😀": ("😀", "\\ud83d\\ude00"),
    "\t": ("\\t", "\\u0009"),
}
"""Keys that are no plain words, and how they may be spelled."""


def odd_path_seed() -> Seed:
    """Keys with escapes, dots, quotes; objects in objects."""
    spec = PlainSpec(
        tuple(PlainColumn(f"c{i}", "int", (key,) if i % 2 else ("a.b", key)) for i, key in enumerate(_ODD_KEYS))
    )

    def make(rng: Random) -> bytes:
        inner = [
            (rng.choice(spelled), rng.choice(_INTEGERS[:8])) for spelled in _ODD_KEYS.values() if rng.random() < 0.6
        ]
        outer = [
            (rng.choice(s), rng.choice(_INTEGERS[:8]))
            for k, s in _ODD_KEYS.items()
            if k != "a.b" and rng.random() < 0.5
        ]
        outer.append((rng.choice(_ODD_KEYS["a.b"]), message(inner, rng).decode().strip()))
        rng.shuffle(outer)
        return message(outer, rng)

    return spec, make


def message_seed(row: str) -> Seed:
    spec = PlainSpec((PlainColumn("c", "string", ("c",)),))

    def make(rng: Random) -> bytes | None:
        if row == "tombstone" and rng.random() < 0.01:
            return None
        if row == "empty" and rng.random() < 0.5:
            return rng.choice((b"", b" ", b"\r\n", b"\t\n "))
        texts = [("c", literal("string", "string", rng))]
        if rng.random() < 0.5:
            texts.append(("z", literal(rng.choice(("nonfinite", *_ANY)), "string", rng)))
        if row == "depth" and rng.random() < 0.2:
            levels = rng.choice((1, 100, 498, 499, 500, 501))
            texts.append(
                ("y", "[" * levels + "]" * levels if rng.random() < 0.5 else '{"a":' * levels + "1" + "}" * levels)
            )
        if row == "large" and rng.random() < 0.05:
            texts.append(("y", rng.choice((f'"{"x" * 20_000}"', "1" * 20_000, "0." + "1" * 5_000))))
        made = message(texts, rng)
        if row in ("top", "trailing") and rng.random() < 0.3:
            made = rng.choice((b"[" + made + b"]", made + b"{}", made + b" ", b"null", b"[]", b'"x"', b"1"))
        return made

    return spec, make


def seeds() -> dict[str, list[Seed]]:
    """Row id -> what makes its messages."""
    found: dict[str, list[Seed]] = {}
    for row in page.rows():
        family, _, rest = row.partition("-")
        kind, _, group = rest.partition("-")
        if family == "X":
            found[row] = [mixed_seed()] if row in ("X-null", "X-reason") else [pair_seed(*_GENERAL[row])]
        elif family != "J":
            continue
        elif kind == "text":
            found[row] = [text_seed(group)]
        elif kind == "message":
            found[row] = [message_seed(group)]
        elif kind == "path":
            found[row] = [path_seed(), odd_path_seed()]
        elif kind == "iso":
            found[row] = [pair_seed("string", "timestamp"), *time_seed("iso")]
        elif kind == "key":
            found[row] = [pair_seed("object", "key")]
        elif kind == "time":
            found[row] = time_seed(group)
        elif kind == "unknown":
            found[row] = [mixed_seed(group)]
        else:
            found[row] = [pair_seed(kind, group)]
    return found


_GENERAL = {
    "X-range-timestamp": ("string", "timestamp"),
    "X-range-date": ("string", "date"),
    "X-decimal": ("number", "decimal"),
    "X-finite": ("number", "float"),
}
