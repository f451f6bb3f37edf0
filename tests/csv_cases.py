"""Random CSV specs, and messages of them: every option of the format, marks where they do not belong."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.value_rules.oracle_csv import CsvSettings
from tests.value_rules.oracle_json import PlainColumn, PlainSpec
from tests.value_rules.seeds_csv import field
from tests.value_rules.seeds_json import iso, literal
from tidegate.core.spec.pipeline import Pipeline

_DELIMITERS = (*",,,,;;;\t\t||\x01\x01 :/#", *"1.e-+Tü\x7f")
_QUOTES = ('"', '"', '"', '"', "'", None, None, "]", "1", "\x02", "“")
_ESCAPES = (None, None, None, "\\", "\\", "^", '"', "0", "¬")
_NULLS = ("", "", "", "-", "\\N", "NULL", "null", "0", '""', "a,b", "ü", "nothing at all, which is a long text")
_TYPES = (
    "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal(5,2)", "decimal(18,6)",
    "decimal(38,0)", "decimal(38,38)", "string", "string", "binary", "date", "timestamp", "timestamp",
)  # fmt: skip
_TIMES = (
    "epoch_s", "epoch_ms", "epoch_us", "epoch_ns", "iso8601", "%Y-%m-%d", "%Y/%m/%d %H:%M", "%d.%m.%Y %H:%M:%S.%f%z",
    "%d %b %Y", "%d.%m.%y",
)  # fmt: skip
_MOMENT = 1_357_358_706_123
_FACTORS = {"epoch_s": 1e-3, "epoch_ms": 1, "epoch_us": 1e3, "epoch_ns": 1e6}
_STRINGS = (
    "x", "", " ", "NULL", "null", "-", "0", "a b", "aü", "日本", "😀", "\x00", "1,5", 'say "x"', "it's", "\\", "\\N",
    "^", "a\nb", "\r\n", "a\r", "#", '"', '""', "ends with \\", "a" * 15, "b" * 16, "c" * 33, "ü" * 8, "x" * 300,
    "\ufeff", "line\u2028break",
)  # fmt: skip


def csv_marks(pipeline: Pipeline) -> tuple[str | None, ...]:
    settings = pipeline.format.csv
    assert settings is not None
    return settings.delimiter, settings.quote, settings.escape


def _text(kind: str, rng: Random) -> str:
    """Of a sort that the type may meet."""
    if kind in ("string", "binary") or rng.random() < 0.03:
        return rng.choice(_STRINGS)
    if kind in _FACTORS:
        return str(int(_MOMENT * _FACTORS[kind]) + rng.randrange(1000)) if rng.random() < 0.7 else _number(rng)
    if kind.startswith("%"):
        month, day, hour, second = rng.randint(1, 12), rng.randint(1, 31), rng.randint(0, 24), rng.randint(0, 61)
        named = {"Y": "2013", "m": f"{month:02}", "d": f"{day:02}", "H": f"{hour:02}", "M": "05", "S": f"{second:02}"}
        named |= {
            "f": str(rng.randrange(10**6)),
            "z": rng.choice(("Z", "+0200", "-03:30", "+02", "")),
            "b": rng.choice(("Jan", "feb", "Mai")),
            "y": "13",
        }
        for letter, value in named.items():
            kind = kind.replace(f"%{letter}", value)
        return kind
    if kind == "boolean":
        return rng.choice(("true", "false", "TRUE", "1", "tru", "falsey"))
    if kind == "date":
        return literal("string", "date", rng).strip('"')
    if kind in ("timestamp", "iso8601"):
        return iso(rng) if rng.random() < 0.8 else _number(rng)
    return _number(rng, kind)


def _number(rng: Random, kind: str = "bigint") -> str:
    if kind.endswith("int"):
        most = {"tinyint": 128, "smallint": 1 << 15, "int": 1 << 31}.get(kind, 1 << 63)
        if rng.random() < 0.8:
            return str(
                rng.choice((0, rng.randint(-most, most - 1), rng.randint(-9, 9), most, most - 1, -most, -most - 1))
            )
        return literal("integer", "integer", rng)
    if rng.random() < 0.4:
        return f"{rng.randrange(-1000, 1000)}.{rng.randrange(100):02}"
    return literal(rng.choice(("number", "integer")), "float", rng)


def random_csv(rng: Random) -> tuple[PlainSpec, Callable[[Random], bytes | None]]:
    marks: list[str | None] = []
    for some in (_DELIMITERS, _QUOTES, _ESCAPES):
        marks.append(rng.choice([c for c in some if c is None or c not in marks]))
    names = [f"c{i}" if rng.random() < 0.9 else "_" for i in range(rng.randint(2, 12))] + ["last"]
    settings = CsvSettings(tuple(names), marks[0] or "", marks[1], marks[2], rng.choice(_NULLS))
    kinds = {name: rng.choice(_TYPES) for name in names}
    columns = [
        PlainColumn(name, kinds[name], (name,), rng.random() < 0.9)
        for name in names
        if name != "_" and rng.random() < 0.85
    ]
    columns += [PlainColumn(f"again_{c.name}", rng.choice(_TYPES), c.path) for c in columns[:1] if rng.random() < 0.3]
    columns = columns or [PlainColumn("last", kinds["last"], ("last",))]
    form = rng.choice(_TIMES) if rng.random() < 0.4 else ""
    time = ("last",) if form else None
    if form and rng.random() < 0.9:
        kinds["last"] = form
        columns = [c for c in columns if c.path != time] + [PlainColumn("t", "string", ("last",))]
    unknown = rng.choice(("ignore", "ignore", "ignore", "capture", "capture", "fail"))
    spec = PlainSpec(tuple(columns), time, form or "epoch_ms", unknown=unknown, settings=settings)
    odd = rng.choice((0.02, 0.1))

    def make(rng: Random) -> bytes | None:
        if rng.random() < 0.002:
            return None
        texts = [
            settings.null_text if rng.random() < 0.08 else field(_text(kinds[n], rng), settings, rng) for n in names
        ]
        if rng.random() < 0.1:
            texts += [field(rng.choice(_STRINGS), settings, rng) for _ in range(rng.randint(1, 3))]
        if rng.random() < odd:
            del texts[rng.randrange(len(texts))]
        text = settings.delimiter.join(texts) + rng.choice(("", "", "\n", "\r\n"))
        while rng.random() < odd:
            at = rng.randint(0, len(text))
            mark = rng.choice([m for m in (*marks, "\n", "\r", settings.null_text) if m])
            text = text[:at] + mark * rng.choice((1, 1, 2)) + text[at + rng.randrange(2) :]
        return text.encode()

    return spec, make
