"""Tells the C library of binary messages, whatever their format: columns, and what a value becomes."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

from spark_jobs.engine import native
from spark_jobs.engine.event_time import EPOCH_UNITS
from spark_jobs.engine.formats import json_program, scalars
from spark_jobs.engine.formats.json_program import Program, is_plain, reads_text, unreadable
from tidegate.core.base.hivetypes import HiveType
from tidegate.core.files import slow_path
from tidegate.core.spec.pipeline import Pipeline

NUMBER, INSTANT, EVENT, REAL, BOOLEAN, TEXT, BYTES, DATE, ISO, ISO_MS, PATTERN_MS, DECIMAL, UUID = range(13)
How = tuple[int, int, int]
"""One of these, and two numbers (enum how in wire.h)."""
_EVENT_UNITS = {"millis": (1, 1), "micros": (1, 1000), "nanos": (1, 1_000_000)}
"""Unit -> (multiply, divide) to milliseconds."""


class Unsure(Exception):
    """The library cannot read such messages: the row rules do."""


@dataclass
class Node:
    """A column, or a part of one, by its number among the library's nodes."""

    number: int
    children: list[Node] = field(default_factory=list)


class WireProgram(Program):
    """A pipeline's columns for binary messages. Not for two threads at once."""

    reads, frees = "", ""
    """Functions of the library, which take `_handle`: what a format adds to the columns."""

    def __init__(self, library: ctypes.CDLL, pipeline: Pipeline) -> None:
        self._handle: int | None = None
        super().__init__(library, pipeline, watched=False)
        numbers, nodes = self.description.numbers, [Node(i) for i in range(self.description.count)]
        for i, node in enumerate(nodes[1:], 1):
            nodes[numbers[8 * i + 1]].children.append(node)
        found = {numbers[8 * node.number + 7]: node for node in nodes}
        self.nodes = [found[i] for i in range(len(pipeline.columns))]
        """Of the columns, then of the event time if it is in the message."""
        if pipeline.event_time.path is not None:
            self.nodes.append(found[max(found)])

    def __del__(self) -> None:
        if self._handle:
            getattr(self._library, self.frees)(self._handle)
        super().__del__()

    def _read(self, values: Sequence[bytes | None], expected: int, first: int, look: list[int]) -> None:
        data, lengths = laid_out(values)
        self.read_by(getattr(self._library, self.reads), self._handle, data, lengths, expected, first, look)


def fits(pipeline: Pipeline) -> bool:
    """Whether the library has columns for all that the pipeline wants."""
    in_message = pipeline.event_time.path is not None
    return not unreadable(pipeline) and not (in_message and reads_text(pipeline))


def why_not(pipeline: Pipeline) -> str:
    """Reason why the pipeline has no program, as it is counted."""
    if library() is None:
        return slow_path.LIBRARY
    if unreadable(pipeline):
        return slow_path.TYPE
    return slow_path.SCHEMA if fits(pipeline) else slow_path.TIME


def library_for(pipeline: Pipeline) -> ctypes.CDLL | None:
    """The library, if it reads binary messages and has columns for all that the pipeline wants."""
    return library() if fits(pipeline) else None


def library() -> ctypes.CDLL | None:
    """The library, if it reads binary messages."""
    found = native.library()
    return found if found is not None and hasattr(found, native.WIRE) else None


def laid_out(values: Sequence[bytes | None]) -> tuple[bytes, array]:
    """As `json_program.laid_out`; the length of a null is -1."""
    data, lengths = json_program.laid_out(values)
    if None in values:
        for i, value in enumerate(values):
            if value is None:
                lengths[i] = -1
    return data, lengths


def event_integer(form: str) -> How:
    """Raises Unsure: such a number is no event time."""
    if form not in EPOCH_UNITS:
        raise Unsure
    return (EVENT, *EPOCH_UNITS[form])


def event_text(form: str) -> How:
    if form == "iso8601":
        return ISO_MS, 0, 0
    if form in EPOCH_UNITS or not is_plain(form):
        raise Unsure
    return PATTERN_MS, 0, 0


def event_instant(unit: str) -> How:
    return (EVENT, *_EVENT_UNITS[unit])


def instant(kind: HiveType, unit: str) -> How:
    return (NUMBER, 0, 0) if str(kind) == "bigint" else (INSTANT, *scalars.SCALED[unit])


def integer(kind: HiveType) -> How:
    return (INSTANT, 1000, 1) if str(kind) == "timestamp" else (NUMBER, 0, 0)


def text(kind: HiveType) -> How:
    return {"date": DATE, "timestamp": ISO}.get(str(kind), TEXT), 0, 0
