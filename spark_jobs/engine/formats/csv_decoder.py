"""CSV messages: one record each, without a header; the spec names the fields by their positions.

Each message is cut on its own: line breaks and quotes in one cannot shift another. The C library reads what it is sure
of; the rules here decide about all other messages, and say what is wrong with them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa

from spark_jobs.engine.failures import refuse
from spark_jobs.engine.formats import Bad, Decoded
from spark_jobs.engine.formats.assembly import Assembly
from spark_jobs.engine.formats.csv_program import CsvProgram, program_for
from spark_jobs.engine.formats.text_columns import TextColumn
from spark_jobs.engine.formats.undecodable import TOMBSTONE, Malformed
from spark_jobs.engine.formats.wire_program import why_not
from tidegate.core.source.records import Chunk
from tidegate.core.spec.pipeline import SKIPPED_FIELD, CsvFormat, Pipeline

BOM = "\ufeff"


class Cutter:
    """A message's fields as `settings` have them."""

    def __init__(self, settings: CsvFormat) -> None:
        self._delimiter, self._quote, self._escape = settings.delimiter, settings.quote, settings.escape
        self._special = tuple(c for c in (settings.quote, settings.escape, "\r", "\n") if c)
        escaped = f"|{re.escape(settings.escape)}." if settings.escape else ""
        stops = "".join(re.escape(c) for c in (settings.delimiter, *self._special))
        self._plain = re.compile(rf"(?:[^{stops}]++{escaped})*+", re.DOTALL)
        self._quoted = None
        if settings.quote:
            q, inner = re.escape(settings.quote), "".join(re.escape(c) for c in (settings.quote, settings.escape) if c)
            self._quoted = re.compile(rf"{q}((?:[^{inner}]++|{q}{q}{escaped})*+){q}", re.DOTALL)
        self._undo = re.compile(rf"{re.escape(settings.escape)}(.)", re.DOTALL) if settings.escape else None
        if settings.escape and settings.quote:  # from left to right: an escaped quote may stand before a doubled one
            self._undo_both = re.compile(rf"{re.escape(settings.escape)}(.)|{q}({q})", re.DOTALL)
        self._null = settings.null_text

    def fields(self, value: bytes) -> list[str | None]:
        """Text of each field, or null. Raises Malformed."""
        try:
            text = value.decode()
        except UnicodeDecodeError as e:
            raise Malformed(f"invalid UTF-8 at byte {e.start}") from None
        if text.endswith("\n"):
            text = self._without_end(text)
        if not text:
            raise Malformed("empty message")
        if text[0] == BOM:
            raise Malformed("a byte order mark")
        for c in self._special:
            if c in text:
                return self._cut(text)
        null = self._null
        return [None if field == null else field for field in text.split(self._delimiter)]

    def _without_end(self, text: str) -> str:
        """Without the line break at the end, or as much of it as is not escaped."""
        for end in ("\r\n", "\n"):
            rest = text.removesuffix(end)
            escapes = len(rest) - len(rest.rstrip(self._escape)) if self._escape else 0
            if len(rest) < len(text) and escapes % 2 == 0:
                return rest
        return text

    def _cut(self, text: str) -> list[str | None]:
        fields: list[str | None] = []
        at = 0
        while True:
            if self._quoted is not None and text.startswith(self._quote or "", at):
                match = self._quoted.match(text, at)
                if match is None:
                    raise Malformed(f"field {len(fields) + 1}: a quote that is not closed")
                fields.append(self._unquoted(match[1]))
            else:
                match = self._plain.match(text, at)
                assert match is not None
                found = match[0]
                fields.append(None if found == self._null else self._unescaped(found))
            at = match.end()
            if at == len(text):
                return fields
            if not text.startswith(self._delimiter, at):
                raise Malformed(f"field {len(fields)}: {_what(text[at], self._quote, self._escape)}")
            at += len(self._delimiter)

    def _unquoted(self, found: str) -> str:
        if self._quote and self._quote in found:
            if self._undo is None:
                return found.replace(self._quote * 2, self._quote)
            return self._undo_both.sub(lambda m: m[1] or m[2], found)
        return self._unescaped(found)

    def _unescaped(self, found: str) -> str:
        return self._undo.sub(r"\1", found) if self._undo is not None else found


def _what(c: str, quote: str | None, escape: str | None) -> str:
    if c in "\r\n":
        return "a line break that is not quoted"
    if c == escape:
        return "an escape with nothing after it"
    return "a quote within a field" if c == quote else f"{c!r} after the closing quote"


class CsvDecoder:
    """Raises JobError for columns that no position can give. `vectorised=False` sends every message to the row rules:
    slow, the same result."""

    def __init__(
        self, pipeline: Pipeline, also_known: tuple[tuple[str, ...], ...] = (), *, vectorised: bool = True
    ) -> None:
        settings = pipeline.format.csv
        if settings is None:
            raise refuse("format csv needs format.fields, the names of the fields", field="format.fields")
        self._assembly, self._cutter = Assembly(pipeline), Cutter(settings)
        self._names, self._count = settings.fields, len(settings.fields)
        self._columns = [
            (self._position(path), TextColumn(kind, pipeline.event_time.format))
            for path, kind in self._assembly.targets
        ]
        taken = {position for position, _ in self._columns}
        passed_over = {SKIPPED_FIELD, *(path[0] for path in also_known)}
        self._spare = [i for i, n in enumerate(self._names) if i not in taken and n not in passed_over]
        self._program: CsvProgram | None = None
        self._why_not = why_not(pipeline)
        if vectorised:
            self._program = program_for(pipeline, settings, [at for at, _ in self._columns], self._spare)

    def _position(self, path: tuple[str, ...]) -> int:
        if len(path) != 1 or path[0] not in self._names or path[0] == SKIPPED_FIELD:
            raise refuse(
                f"$.{'.'.join(path)} is not among format.fields: {', '.join(self._names)}",
                advice="name the field in format.fields, at its position",
                field="format.fields",
            )
        return self._names.index(path[0])

    def decode(self, chunk: Chunk) -> Decoded:
        return self._assembly.by_program(self._program, self._why_not, chunk.values, self._by_rules)

    def _by_rules(self, values: Sequence[bytes | None]) -> Decoded:
        bad: dict[int, Bad] = {}
        rows = self._cut(values, bad)
        columns: list[pa.Array | list] = []
        names = [name for name, _, _, _ in self._assembly.columns]
        for number, (position, column) in enumerate(self._columns):
            array, refused = column.convert([row[position] for row in rows])
            for i, why in refused.items():
                field = names[number] if number < len(names) else self._assembly.time_field
                bad.setdefault(i, Bad(why.reason, field + why.field))
            if number < len(names) and not self._assembly.columns[number][3] and array.null_count:
                self._assembly.refuse_nulls(array, number, bad)
            columns.append(array)
        if self._assembly.unknown_matter:
            columns.append([self._unknown(row) for row in rows])
        return self._assembly.assembled(columns, bad)

    def _cut(self, values: Sequence[bytes | None], bad: dict[int, Bad]) -> list[list[str | None]]:
        rows, fields, count = [], self._cutter.fields, self._count
        nothing: list[str | None] = [None] * count
        for i, value in enumerate(values):
            try:
                if value is None:
                    bad[i] = TOMBSTONE
                    row = nothing
                else:
                    row = fields(value)
                    if len(row) < count:
                        raise Malformed(f"{len(row)} fields instead of {count}")
            except Malformed as e:
                bad[i] = Bad(str(e))
                row = nothing
            rows.append(row)
        return rows

    def _unknown(self, row: list[str | None]) -> list[tuple[str, str | None]]:
        """Fields that no column takes: by their names, and those beyond the last name by their positions, from 1."""
        named = [(self._names[i], row[i]) for i in self._spare]
        return named + [(f"#{i + 1}", row[i]) for i in range(self._count, len(row))]
