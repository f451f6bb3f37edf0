"""Tells the C library what to look for in a pipeline's messages: a tree of paths and types, and its answers."""

from __future__ import annotations

import calendar
import ctypes
import re
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from spark_jobs.engine import native
from spark_jobs.engine.event_time import EPOCH_UNITS
from spark_jobs.engine.failures import refuse
from spark_jobs.engine.formats.json_rows import known_of
from spark_jobs.engine.formats.known import NESTED, Items, Known, Path, inside, path_of
from spark_jobs.engine.types import schema_of
from tidegate.core.base.hivetypes import Array, Decimal, HiveType, Map, Primitive, Struct, parse
from tidegate.core.batch.rules_version import RULES_VERSION
from tidegate.core.files import slow_path
from tidegate.core.spec import paths
from tidegate.core.spec.pipeline import EXTRA_COLUMN, Pipeline

EVENT = "*event"
"""The last column of the answer: event time in epoch ms, or its text where Python has to read it."""
MAX_NESTING = 32
"""Types nested more deeply are left to Python: the library calls itself for each level."""
_OBJECT, _DECIMAL, _STRING, _LIST, _MAP, _STRUCT, _EXTRA, _EPOCH_MS, _ISO_MS, _PATTERN_MS, _KNOWN = (
    0,
    8,
    9,
    12,
    13,
    14,
    15,
    16,
    17,
    18,
    19,
)
_PRIMITIVES = {
    "boolean": 1,
    "tinyint": 2,
    "smallint": 3,
    "int": 4,
    "bigint": 5,
    "float": 6,
    "double": 7,
    "string": _STRING,
    "binary": _STRING,
    "date": 10,
    "timestamp": 11,
}
_KEYS = ("boolean", "tinyint", "smallint", "int", "bigint", "string", "binary", "date")
# a fraction must end before the next digit, a zone at the end of the text; a space is one space, not any number of them
_PLAIN = re.compile(r"(?:%[YmbBdaAHMS]|%f(?=%z|$|[^%0-9])|[!#$&'()*+,./:;<=>?@A-Z\[\]^_`a-z{|}~-]| (?! ))*(?:%z)?")
_AT_ONCE = 1000
"""Messages that are laid out together: few enough to stay in a processor's cache until they are read."""
_AS_TEXT = 1
"""`a` of a string's node: not the string, but the value's JSON text."""
_REQUIRED, _SPELLED = 1, 2
"""Flags of a node: null is not sure; it may be the text of its type, or of a string a number or a boolean."""
_SPELLED_ANYWAY = ("binary", "date")
"""Types that `convert: text` says nothing new of."""
_MONTHS = "January February March April May June July August September October November December"
_WEEKDAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday"
_NOT_SURE = -1
"""`b` of a node with keys: a message with an unknown one is left to Python. Else the length of what comes before such a
key in `_extra`, 0 where nobody asks."""
_WHY = {
    1: slow_path.RARE,
    2: slow_path.NUMBER,
    3: slow_path.TIME,
    4: slow_path.KEY,
    5: slow_path.UNKNOWN,
    6: slow_path.SCHEMA,
}
"""Why a message is not sure (enum why in json_native.h), as it is counted if it is a row."""
Place = tuple[Any, ...]
"""Keys, and `Items` for what is inside an array or a map."""


@dataclass
class Description:
    """Nodes as the library wants them (struct description in program.c)."""

    numbers: array = field(default_factory=lambda: array("i"))
    names: bytearray = field(default_factory=bytearray)
    count: int = 0
    places: dict[int, Place] = field(default_factory=dict)  # of what is inside objects, arrays and maps
    keys: dict[int, set[str]] = field(default_factory=dict)  # that an object's or struct's node looks for

    def node(
        self, kind: int, parent: int, key: str = "", a: int = 0, b: int = 0, flags: int = 0, column: int = -1
    ) -> int:
        name = key.encode()
        self.numbers.extend((kind, parent, len(self.names), len(name), a, b, flags, column))
        self.names += name
        if parent in self.keys:
            self.keys[parent].add(key)
        if kind in (_OBJECT, _STRUCT, _LIST, _MAP):
            place = (*self.places.get(parent, ()), *((key,) if parent in self.keys else ()))
            self.places[self.count] = place if kind in (_OBJECT, _STRUCT) else (*place, Items)
            if kind in (_OBJECT, _STRUCT):
                self.keys[self.count] = set()
        self.count += 1
        return self.count - 1

    def typed(self, kind: HiveType, parent: int, key: str = "", flags: int = 0, column: int = -1) -> None:
        if isinstance(kind, Primitive):
            self.node(_PRIMITIVES[kind.name], parent, key, 0, 0, flags, column)
        elif isinstance(kind, Decimal):
            self.node(_DECIMAL, parent, key, kind.precision, kind.scale, flags, column)
        elif isinstance(kind, Array):
            self.typed(kind.element, self.node(_LIST, parent, key, 0, 0, flags, column))
        elif isinstance(kind, Map):
            at = self.node(_MAP, parent, key, 0, 0, flags, column)
            self.typed(kind.key, at)
            self.typed(kind.value, at)
        else:
            at = self.node(_STRUCT, parent, key, 0, 0, flags, column)
            for name, each in kind.fields:
                self.typed(each, at, name)

    def watch(self, known: dict[str, Known], policy: str, version: int) -> None:
        """What the library does about keys that no column takes. Where two nodes look at the same object, neither
        knows what the other one takes of what is inside: a message with an unknown key there is left to Python."""
        often = Counter(self.places[n] for n in self.keys)
        for n, mine in sorted(self.keys.items()):
            place = self.places[n]
            taken = inside(known, place)
            if not isinstance(taken, dict) or policy == "ignore":
                continue
            a, b = 0, _NOT_SURE
            if policy == "capture" and often[place] == 1:
                before = (path_of(place) + "." if version >= NESTED else "$").encode()
                a, b = len(self.names), len(before)
                self.names += before
            self.numbers[8 * n + 4], self.numbers[8 * n + 5] = a, b
            for key in sorted(taken.keys() - mine):
                self.node(_KNOWN, n, key)


class Program:
    """A pipeline's columns for the library. Not for two threads at once.

    `texts`: columns that come as the JSON text of their values, because Python knows better what they mean."""

    def __init__(
        self,
        library: ctypes.CDLL,
        pipeline: Pipeline,
        version: int = RULES_VERSION,
        also_known: tuple[Path, ...] = (),
        *,
        watched: bool = True,
    ) -> None:
        """`watched`: the library tells of unknown fields."""
        self._library, self._address = library, None
        self.why: list[str] = []  # of the messages that the last run was not sure of
        self.texts = unreadable(pipeline)
        description = self.description = describe(pipeline, self.texts, version, also_known, watched=watched)
        columns = [(c.name, "string" if c.name in self.texts else c.type) for c in pipeline.columns]
        schema = schema_of((*columns, EXTRA_COLUMN) if _captures(pipeline) else tuple(columns))
        if pipeline.event_time.path is not None:
            kind = pa.string() if reads_text(pipeline) else pa.int64()
            schema = schema.append(pa.field(EVENT, kind))
        self._schema = schema
        numbers, names = description.numbers, bytes(description.names)
        self._address = library.tg_new(numbers.buffer_info()[0], description.count, names, len(names))
        if not self._address:
            raise MemoryError("the JSON decoder's library could not be set up")

    def __del__(self) -> None:
        if self._address:
            self._library.tg_free(self._address)

    def run(self, values: Sequence[bytes | None]) -> tuple[pa.RecordBatch, list[int]]:
        """A row per message, and which messages the row rules must decide about: those are null in every column. Why
        is in `why` until the next run."""
        look: list[int] = []
        self.why = []
        for at in range(0, len(values), _AT_ONCE):
            self._read(values[at : at + _AT_ONCE], len(values), at, look)
        made = (ctypes.c_int64 * 10)()  # struct ArrowArray
        if self._library.tg_take(self._address, ctypes.addressof(made)):
            raise MemoryError(f"no memory for the columns of {len(values)} messages")
        batch = pa.RecordBatch._import_from_c(ctypes.addressof(made), self._schema)
        if batch.num_rows != len(values):  # one message is one row, whatever its bytes
            raise AssertionError(f"decoding shifted rows: {batch.num_rows} results for {len(values)} messages")
        return batch, look

    def _read(self, values: Sequence[bytes | None], expected: int, first: int, look: list[int]) -> None:
        data, lengths = laid_out(values)
        self.read_by(self._library.tg_read, self._address, data, lengths, expected, first, look)

    def read_by(
        self, read: Callable[..., int], what: int | None, data: bytes, lengths: array, expected: int, first: int,
        look: list[int],
    ) -> None:  # fmt: skip
        """Rows for messages that are laid out; those that are not sure join `look`, counted from `first`."""
        flags = bytearray(len(lengths))
        place = (ctypes.c_char * len(flags)).from_buffer(flags)
        unsure = read(what, data, len(data), lengths.buffer_info()[0], len(lengths), expected, place)
        if unsure == -1:
            raise MemoryError(f"no memory to decode {len(lengths)} messages of {len(data)} bytes")
        if unsure < 0:
            raise refuse(
                f"{expected} messages at once, or one of {len(data)} bytes, are too much to decode",
                advice="lower max.message.bytes of the topic, or fetch.max.bytes in the extra of the Kafka connection",
            )
        if unsure:
            found = np.flatnonzero(np.frombuffer(flags, np.uint8)).tolist()
            look += (first + i for i in found)
            self.why += (_WHY[flags[i]] for i in found)


def laid_out(values: Sequence[bytes | None]) -> tuple[bytes, array]:
    """Messages as the library wants them, each followed by a NUL, with padding at the end; and their lengths."""
    present: list[bytes] = [v or b"" for v in values] if None in values else list(values)  # type: ignore[arg-type]
    lengths = array("i", map(len, present))
    present.append(bytes(native.PADDING))
    return b"\0".join(present), lengths


def unreadable(pipeline: Pipeline) -> list[str]:
    """Columns whose values the library hands on as JSON text."""
    return [c.name for c in pipeline.columns if not _readable(parse(c.type))]


def reads_text(pipeline: Pipeline) -> bool:
    """Whether event times come as text."""
    form = pipeline.event_time.format
    return form not in EPOCH_UNITS and form != "iso8601" and not is_plain(form)


def is_plain(pattern: str) -> bool:
    """Whether the library reads this pattern of strptime's: a date, perhaps a time, each part once, and nothing beside
    them that strptime takes in more than one spelling, but for letters. Names of months and weekdays are English ones
    where this process's locale has these."""
    parts = _PLAIN.fullmatch(pattern) and re.findall(r"%(.)", pattern)
    if not parts or len(set(parts)) < len(parts) or not {"Y", "d"} <= set(parts):
        return False
    months, named = set("mbB") & set(parts), set("bBaA") & set(parts)
    return len(months) == 1 and (not named or _english())


def _english() -> bool:
    months, days = _MONTHS.split(), _WEEKDAYS.split()
    names = [(calendar.month_name, ["", *months]), (calendar.day_name, days)]
    short = [(calendar.month_abbr, ["", *(m[:3] for m in months)]), (calendar.day_abbr, [d[:3] for d in days])]
    return all(list(local) == english for local, english in names + short)


def _captures(pipeline: Pipeline) -> bool:
    return pipeline.format.unknown_fields == "capture"


def describe(
    pipeline: Pipeline,
    texts: Collection[str],
    version: int = RULES_VERSION,
    also_known: tuple[Path, ...] = (),
    *,
    watched: bool = True,
) -> Description:
    """The tree for a pipeline; the columns `texts` as JSON text. `also_known`: paths that are no unknown fields."""
    found = Description()
    top = found.node(_OBJECT, -1)
    objects: dict[tuple[str, ...], int] = {(): top}

    def parent(path: tuple[str, ...]) -> int:
        if path not in objects:
            objects[path] = found.node(_OBJECT, parent(path[:-1]), path[-1])
        return objects[path]

    for number, column in enumerate(pipeline.columns):
        path, flags = paths.parse(column.path), 0 if column.nullable else _REQUIRED
        if column.name in texts:
            found.node(_STRING, parent(path[:-1]), path[-1], _AS_TEXT, 0, flags, number)
        else:
            if column.convert is not None and column.type not in _SPELLED_ANYWAY:
                flags |= _SPELLED
            found.typed(parse(column.type), parent(path[:-1]), path[-1], flags, number)
    number = len(pipeline.columns)
    if _captures(pipeline):
        extra = found.node(_EXTRA, top, column=number)
        found.node(_STRING, extra)
        found.node(_STRING, extra)
        number += 1
    time = pipeline.event_time
    if time.path is not None:
        path = paths.parse(time.path)
        kind, a, b = _STRING if reads_text(pipeline) else _ISO_MS, 0, 0
        if time.format in EPOCH_UNITS:
            kind, (a, b) = _EPOCH_MS, EPOCH_UNITS[time.format]
        elif is_plain(time.format):
            kind, a, b = _PATTERN_MS, len(found.names), len(time.format)
            found.names += time.format.encode()
        found.node(kind, parent(path[:-1]), path[-1], a, b, _REQUIRED, number)
    for path in also_known if version >= NESTED else ():
        parent(path[:-1])
    if not watched:
        return found
    found.watch(known_of(pipeline, version, also_known), pipeline.format.unknown_fields, version)
    return found


def _readable(kind: HiveType, levels: int = MAX_NESTING) -> bool:
    if isinstance(kind, Decimal | Primitive):
        return True
    if isinstance(kind, Map) and str(kind.key) not in _KEYS:
        return False
    inner = [each for _, each in kind.fields] if isinstance(kind, Struct) else [_inside(kind)]
    return levels > 0 and all(_readable(each, levels - 1) for each in inner)


def _inside(kind: Array | Map) -> HiveType:
    return kind.element if isinstance(kind, Array) else kind.value
