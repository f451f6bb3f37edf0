"""The places that a task's rows go to: one for each window and combination of partition values, numbered.

Memory: what has been admitted is kept to the end, at most `sink.max_partitions` combinations for each window. Numbers
of all that was seen are forgotten by `forget`, however many different values a topic has.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.engine.write import Place
from tidegate.core.base.partition_values import PartitionValues
from tidegate.core.files.overflow import MAX_COUNTED, Overflow, has_a_name, overflow_values
from tidegate.core.files.receipt import DATA, LATE
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.window.schedule import time_partitions

_UNWANTED = -1
MOST_CODES = 2**62
MANY_NUMBERS, MANY_CHARACTERS = 100_000, 32 * 1024 * 1024
_SAMPLES, _SAMPLE_CHARACTERS = 5, 60


@dataclass
class _Told:
    rows: int = 0
    distinct: set[bytes] = field(default_factory=set)
    samples: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class TaskOverflow:
    """Of one window, from one task; `distinct` are hashes, at most MAX_COUNTED."""

    window_ms: int
    rows: int
    distinct: frozenset[bytes]
    samples: tuple[str, ...]


class Places:
    """`known`: combinations that a window has already; they have a partition whatever the limit is."""

    def __init__(self, pipeline: Pipeline, known: Mapping[int, set[PartitionValues]]) -> None:
        self._pipeline, self._time = pipeline, dict[int, PartitionValues]()
        self._names, self._limit = pipeline.dynamic_partitions, pipeline.sink.max_partitions
        self._beyond = overflow_values(pipeline)
        self._admitted: dict[int, set[PartitionValues]] = {w: set(v) for w, v in known.items()}
        self._told: dict[int, _Told] = {}
        self.forget()

    def forget(self) -> None:
        """Begin to number anew; no row with an old number may be left."""
        self._numbers: dict[tuple[int, int, tuple[str | None, ...]], int] = {}
        self._values: list[tuple[str | None, ...]] = []
        self._targets: list[Place] = []
        self._characters = 0

    @property
    def many(self) -> bool:
        """Whether numbers take so much memory that it is time to forget."""
        return len(self._targets) > MANY_NUMBERS or self._characters > MANY_CHARACTERS

    def number(
        self, window: pa.Array, late: pa.Array, values: Mapping[str, pa.Array], wanted: pa.Array | None
    ) -> pa.Array:
        """int32 per row; null for rows that are not `wanted` (None: all are)."""
        code, codes = late.cast(pa.int64()), 2
        layers: list[tuple[list | None, list]] = []
        for column in (window, *(values[name] for name in self._names)):
            encoded = column.dictionary_encode()
            found = [*encoded.dictionary.to_pylist(), None]
            index = pc.fill_null(encoded.indices, len(found) - 1)
            packed = None
            if codes * len(found) > MOST_CODES:  # several columns with very many values each
                short = code.dictionary_encode()
                packed, code = short.dictionary.to_pylist(), short.indices.cast(pa.int64())
                codes = len(packed)
            code = pc.add_checked(pc.multiply_checked(code, len(found)), index)
            codes *= len(found)
            layers.append((packed, found))
        if wanted is not None:
            code = pc.if_else(wanted, code, pa.scalar(_UNWANTED, pa.int64()))
        encoded = code.dictionary_encode()
        numbers = self._numbers_of(encoded.dictionary.to_pylist(), layers)
        return pa.array(numbers, pa.int32()).take(encoded.indices)

    def _numbers_of(self, codes: list[int], layers: list[tuple[list | None, list]]) -> list[int | None]:
        wanted = [code != _UNWANTED for code in codes]
        found: list[list] = []
        for packed, values in reversed(layers):
            found.append([values[code % len(values)] for code in codes])
            codes = [code // len(values) for code in codes]
            codes = codes if packed is None else [packed[code] for code in codes]
        texts = zip(*reversed(found[:-1]), strict=True) if len(found) > 1 else itertools.repeat(())
        keys = zip(codes, found[-1], texts, strict=False)
        return [self._number_of(key) if mine else None for key, mine in zip(keys, wanted, strict=True)]

    def _number_of(self, key: tuple[int, int, tuple[str | None, ...]]) -> int:
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._targets)
            self._targets.append(self._place(*key))
            self._values.append(key[2])
            self._characters += sum(len(v) for v in key[2] if v is not None)
        return number

    def _place(self, late: int, window: int, texts: tuple[str | None, ...]) -> Place:
        if late:
            return Place(LATE, window, ())  # a late file may mix dynamic values
        values = tuple(zip(self._names, texts, strict=True))
        if not values or values == self._beyond:
            return Place(DATA, window, values)
        admitted = self._admitted.setdefault(window, set())
        if (values not in admitted and len(admitted) >= self._limit) or not self._has_a_name(window, values):
            return Place(DATA, window, self._beyond, overflow=True)
        admitted.add(values)
        return Place(DATA, window, values)

    def _has_a_name(self, window: int, values: PartitionValues) -> bool:
        """Also asked of values that the window has already: a release that did not ask may have let them in."""
        if window not in self._time:
            self._time[window] = time_partitions(self._pipeline, window)
        return has_a_name(self._time[window], values, self._pipeline.sink.workdir)

    @property
    def targets(self) -> list[Place]:
        """The place of each number."""
        return self._targets

    def texts(self, name: str, numbers: pa.Array, *, beyond: bool = False) -> pa.Array:
        """What rows with these numbers say of a dynamic column; `beyond`: what their overflow partition says."""
        if beyond:
            return pa.repeat(pa.scalar(dict(self._beyond)[name], pa.string()), len(numbers))
        at = self._names.index(name)
        return pa.array([v[at] for v in self._values], pa.string()).take(numbers)

    def originals(self, numbers: pa.Array, kind: pa.MapType) -> pa.Array:
        """The column `_overflow` of rows with these numbers: all dynamic columns with what the rows say."""
        encoded = numbers.dictionary_encode()
        maps = [list(zip(self._names, self._values[n], strict=True)) for n in encoded.dictionary.to_pylist()]
        return pa.array(maps, kind).take(encoded.indices)

    def overflowed(self, window: int, numbers: pa.Array) -> None:
        """Count rows of one window that go to its overflow partition."""
        told = self._told.setdefault(window, _Told())
        told.rows += len(numbers)
        for number in pc.unique(numbers).to_pylist():
            if len(told.distinct) >= MAX_COUNTED:
                return
            texts = self._values[number]
            told.distinct.add(hashlib.blake2b(repr(texts).encode(), digest_size=8).digest())
            if len(told.samples) < _SAMPLES:
                told.samples.append(" ".join(f"{n}={_shown(t)}" for n, t in zip(self._names, texts, strict=True)))

    def told(self) -> tuple[TaskOverflow, ...]:
        return tuple(
            TaskOverflow(w, t.rows, frozenset(t.distinct), tuple(t.samples)) for w, t in sorted(self._told.items())
        )


def _shown(text: str | None) -> str:
    """For people: bounded, and nothing in it that a terminal would act on."""
    if text is None:
        return "null"
    safe = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text[:_SAMPLE_CHARACTERS])
    return safe if len(text) <= _SAMPLE_CHARACTERS else f"{safe}... ({len(text):,} characters)"


def combined(found: list[TaskOverflow]) -> tuple[Overflow, ...]:
    """Rows that all tasks of an attempt sent to overflow partitions, by window."""
    by_window: dict[int, list[TaskOverflow]] = {}
    for one in found:
        by_window.setdefault(one.window_ms, []).append(one)
    return tuple(
        Overflow(
            window,
            sum(t.rows for t in each),
            min(MAX_COUNTED, len(frozenset().union(*(t.distinct for t in each)))),
            tuple(dict.fromkeys(s for t in each for s in t.samples))[:_SAMPLES],
        )
        for window, each in sorted(by_window.items())
    )
