"""Tells the C library of CSV messages: their marks, and which columns want the field at each position."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Collection, Sequence

from spark_jobs.engine import native
from spark_jobs.engine.formats import wire_program
from spark_jobs.engine.formats.wire_program import Unsure, WireProgram
from tidegate.core.spec.pipeline import CsvFormat, Pipeline

_NONE = -1
_LINE_BREAKS = "\r\n"


class CsvProgram(WireProgram):
    """A pipeline's columns for CSV messages."""

    reads, frees = "tg_csv_read", "tg_csv_free"

    def __init__(
        self,
        library: ctypes.CDLL,
        pipeline: Pipeline,
        settings: CsvFormat,
        wanted: Sequence[int],
        spare: Collection[int],
    ) -> None:
        """`wanted`: the position of each column, then of the event time if it is in the message; `spare`: positions
        that are unknown fields. Raises Unsure."""
        super().__init__(library, pipeline)
        numbers = [(position, node.number) for position, node in zip(wanted, self.nodes, strict=True)]
        self.layout = about, positions, takers, names = _layout(pipeline, settings, numbers, spare)
        self._handle = library.tg_csv_new(
            self._address, about.buffer_info()[0], positions.buffer_info()[0], len(settings.fields),
            takers.buffer_info()[0], len(takers), names, len(names),
        )  # fmt: skip
        if not self._handle:
            raise MemoryError("the CSV decoder's library could not be set up")


def _layout(
    pipeline: Pipeline, settings: CsvFormat, wanted: Sequence[tuple[int, int]], spare: Collection[int]
) -> tuple[array, array, array, bytes]:
    """The settings, the positions, who wants each, and names, as csv.c has them; `wanted`: (position, node) pairs.
    Raises Unsure."""
    marks = [_mark(c) for c in (settings.delimiter, settings.quote, settings.escape)]
    present = [mark for mark in marks if mark != _NONE]
    if len(set(present)) < len(present):
        raise Unsure
    names = bytearray(_bytes(settings.null_text))
    watched = pipeline.format.unknown_fields != "ignore"
    about, positions, takers = array("i", (*marks, len(names), watched)), array("i"), array("i")
    for at, name in enumerate(settings.fields):
        mine, text = [node for position, node in wanted if position == at], _bytes(name)
        positions.extend((len(takers), len(mine), len(names), len(text) if at in spare else _NONE))
        takers.extend(mine)
        names += text
    return about, positions, takers, bytes(names)


def _mark(character: str | None) -> int:
    """Raises Unsure: the library cuts at single bytes."""
    if character is None:
        return _NONE
    if not "\0" < character < "\x80" or character in _LINE_BREAKS:
        raise Unsure
    return ord(character)


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def program_for(
    pipeline: Pipeline, settings: CsvFormat, wanted: Sequence[int], spare: Collection[int]
) -> CsvProgram | None:
    """Program for the pipeline; None without a library, or where it cannot read such messages."""
    library = wire_program.library_for(pipeline)
    if library is None or not hasattr(library, native.CSV):
        return None
    try:
        return CsvProgram(library, pipeline, settings, wanted, spare)
    except Unsure:
        return None
