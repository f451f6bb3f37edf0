"""For each CSV row of the page, and each text rule: a spec, and messages that are about that row."""

from __future__ import annotations

from random import Random

from tests.value_rules import page
from tests.value_rules.oracle_csv import CsvSettings
from tests.value_rules.oracle_json import PlainColumn, PlainSpec
from tests.value_rules.seeds_json import GROUPS, TIME_FORMATS, Seed, iso, literal

_SETTINGS = (
    CsvSettings(("a", "b", "c")),
    CsvSettings(("a", "b", "c"), null_text="\\N"),
    CsvSettings(("a", "b", "c"), ";", "'", "\\", "null"),
    CsvSettings(("a", "b", "c"), "\t", None, "\\", "\\N"),
    CsvSettings(("a", "b", "c"), "|", None, None),
    CsvSettings(("a", "b", "c"), "ü", '"', "^"),
)
_FIELDS = (
    "x",
    "",
    " ",
    "null",
    "\\N",
    "NULL",
    "a b",
    "7",
    "aü",
    "\x00",
    "1,5",
    'say "x"',
    "it's",
    "\\",
    "^",
    "a\nb",
    "#",
)


def field(text: str, settings: CsvSettings, rng: Random) -> str:
    """As a writer would write it, mostly."""
    quote, escape = settings.quote, settings.escape
    special = any(c and c in text for c in (settings.delimiter, quote, escape, "\r", "\n"))
    if quote and (special or rng.random() < 0.3):
        if escape and rng.random() < 0.5:
            return quote + text.replace(escape, escape * 2).replace(quote, escape + quote) + quote
        inner = text.replace(escape, escape * 2) if escape else text
        return quote + inner.replace(quote, quote * 2) + quote
    if escape and special and text != settings.null_text:
        return "".join(escape + c if c in (settings.delimiter, escape, "\n", quote) else c for c in text)
    return text


def record(texts: list[str], settings: CsvSettings, rng: Random) -> bytes:
    text = settings.delimiter.join(field(t, settings, rng) for t in texts)
    return (text + rng.choice(("", "", "\n", "\r\n"))).encode()


def message_seed(settings: CsvSettings, unknown: str = "ignore") -> Seed:
    columns = (PlainColumn("a", "string", ("a",)), PlainColumn("c", "string", ("c",), nullable=settings.quote is None))
    spec = PlainSpec(columns, unknown=unknown, settings=settings)

    def make(rng: Random) -> bytes | None:
        if rng.random() < 0.005:
            return None
        count = rng.choice((3, 3, 3, 3, 3, 2, 4, 5))
        return record([rng.choice(_FIELDS) for _ in range(count)], settings, rng)

    return spec, make


def type_seed(group: str) -> Seed:
    names = tuple(f"c{i}" for i in range(len(GROUPS[group])))
    settings = CsvSettings(names, null_text="-")
    columns = tuple(PlainColumn(n, kind, (n,)) for n, kind in zip(names, GROUPS[group], strict=True))
    spec = PlainSpec(columns, settings=settings)
    kinds = {"boolean": ("boolean",), "integer": ("integer",), "float": ("number", "integer"), "string": ("string",)}

    def make(rng: Random) -> bytes:
        texts = ["-"] * len(names)
        for _ in range(2):
            found = literal(rng.choice(kinds.get(group, ("string",))), group, rng)
            if group == "decimal":
                found = literal(rng.choice(("number", "integer")), group, rng)
            if group == "timestamp" and rng.random() < 0.3:
                found = literal("integer", group, rng)
            texts[rng.randrange(len(names))] = found.strip('"')
        return record(texts, settings, rng)

    return spec, make


def time_seeds() -> list[Seed]:
    found = []
    for form in sorted({form for forms in TIME_FORMATS.values() for form in forms}):
        settings = CsvSettings(("n", "t"))
        spec = PlainSpec((PlainColumn("n", "int", ("n",)),), ("t",), form, settings=settings)

        def make(rng: Random, form: str = form, settings: CsvSettings = settings) -> bytes:
            text = iso(rng) if form == "iso8601" else literal("integer", "integer", rng)
            if form.startswith("%d"):
                text = f"{rng.randint(1, 31):02}.{rng.randint(1, 12):02}.2013 04:{rng.randint(0, 59):02}"
            elif form.startswith("epoch") and rng.random() < 0.6:
                text = str(1357358706123 * 1000 ** ("epoch_s", "epoch_ms", "epoch_us", "epoch_ns").index(form) // 1000)
            return record(["1", text], settings, rng)

        found.append((spec, make))
    return found


def seeds() -> dict[str, list[Seed]]:
    """Row id -> what makes its messages; the text rules are met here as CSV fields."""
    found: dict[str, list[Seed]] = {}
    for row in page.rows():
        family, _, rest = row.partition("-")
        if family not in ("C", "T") or rest == "nested":
            continue
        if rest == "time":
            found[row] = time_seeds()
        elif rest.startswith("unknown-"):
            found[row] = [message_seed(s, rest.removeprefix("unknown-")) for s in _SETTINGS[:3]]
        elif rest.startswith(("message-", "field-")):
            unknown = "capture" if rest == "message-many" else "ignore"
            found[row] = [message_seed(s, unknown) for s in _SETTINGS]
        else:
            found[row] = [type_seed(rest)]
    return found
