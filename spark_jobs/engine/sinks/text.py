"""Text as Hive's LazySimpleSerDe keeps it: a line for each row, \\x01 between values, `\\N` for null.

Within a string a backslash stands before \\x01 and before itself, and line breaks are `\\n` and `\\r`: so no value ever
breaks a line. `tidegate.targets.hive.formats` tells Hive the same. There is no footer: a file says nothing of itself.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv

from spark_jobs.engine.failures import refuse
from spark_jobs.engine.sinks.base import Encoding, FileFormat, Joiner
from spark_jobs.engine.types import TIMESTAMP, schema_of
from tidegate.core.files.overflow import OVERFLOW_COLUMN

GZIP_LEVEL = 4
_PACKER_BYTES = 272 * 1024
"""What zlib's deflate keeps for each stream."""
BLOCK_BYTES = 8 * 1024 * 1024
_EXTENSIONS = {"gzip": ".txt.gz", "none": ".txt"}
_DELIMITER, _NULL, _BOM = "\x01", "\\N", b"\xef\xbb\xbf"
_ESCAPES = (("\\", "\\\\"), (_DELIMITER, "\\" + _DELIMITER), ("\n", "\\n"), ("\r", "\\r"))
_ESCAPED = re.compile(rb"\\(.)", re.DOTALL)
_MEANT = {b"n": b"\n", b"r": b"\r", b"d": b"\x01"}
_LOCAL = pa.timestamp("us")
_OVERFLOW = schema_of((OVERFLOW_COLUMN,)).field(0)
"""The last column of files of an overflow partition: here it is JSON, in a column of strings."""
_WIDE = pa.large_string()
"""The lines of a batch may pass 2 GiB."""


class Text(FileFormat):
    def extension(self, codec: str) -> str:
        if codec not in _EXTENSIONS:
            raise refuse(
                f"text cannot be compressed with {codec} so that every reader reads it",
                advice=f"set sink.compression to one of {', '.join(_EXTENSIONS)}, or sink.format to parquet or orc",
                field="sink.compression",
            )
        return _EXTENSIONS[codec]

    def open(self, stream: BinaryIO, schema: pa.Schema, encoding: Encoding, codec: str) -> _Writer:
        return _Writer(stream, codec)

    join = open

    def read(self, stream: BinaryIO, name: str, schema: pa.Schema | None) -> _Finished:
        if schema is None:
            raise ValueError("a text file does not say what its columns are")
        return _Finished(stream, name.endswith(".gz"), schema)


class _Writer(Joiner):
    def __init__(self, stream: BinaryIO, codec: str) -> None:
        self._stream = stream
        self._packer = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, 31) if codec == "gzip" else None
        self._begun = False

    def write(self, rows: pa.Table) -> None:
        for batch in rows.to_batches():
            if batch.num_rows:
                self._write(lines(batch))

    def _write(self, content: memoryview) -> None:
        if not self._begun and bytes(content[:3]) == _BOM:
            self._put(b"\\")  # Hadoop drops a byte order mark at the start of a file, which here is a value's
        self._begun = True
        self._put(content)

    def _put(self, content: bytes | memoryview) -> None:
        self._stream.write(content if self._packer is None else self._packer.compress(content))

    def size(self) -> int:
        return self._stream.tell()

    def held(self) -> int:
        return 0 if self._packer is None else _PACKER_BYTES

    def close(self, labels: Mapping[str, str]) -> None:
        if self._packer is not None:
            self._stream.write(self._packer.flush())
            self._packer = None


def lines(batch: pa.RecordBatch) -> memoryview:
    """The rows as bytes, a line break after each."""
    columns = [pc.fill_null(_spelled(column), _NULL) for column in batch.columns]
    joined = pc.binary_join_element_wise(*columns, pa.scalar(_DELIMITER, _WIDE))
    ended = pc.binary_join_element_wise(joined, pa.scalar("", _WIDE), pa.scalar("\n", _WIDE))
    return _content(ended)


def _content(texts: pa.Array) -> memoryview:
    """All values of a string array, one after the other."""
    _, offsets, data = texts.buffers()
    if data is None:
        return memoryview(b"")
    wide = pa.types.is_large_string(texts.type)
    ends = memoryview(offsets).cast("q" if wide else "i")
    return memoryview(data)[ends[texts.offset] : ends[texts.offset + len(texts)]]


def _spelled(column: pa.Array) -> pa.Array:
    """Values as large strings, null where they are null."""
    kind = column.type
    if pa.types.is_string(kind):
        return _escaped(column.cast(_WIDE))
    if pa.types.is_binary(kind):
        values = column.to_pylist()
        return pa.array([None if v is None else base64.b64encode(v).decode() for v in values], _WIDE)
    if pa.types.is_timestamp(kind):
        return column.cast(_LOCAL).cast(_WIDE)
    if pa.types.is_floating(kind):
        return _float(column)
    if pa.types.is_decimal(kind):
        return _decimal(column)
    if kind == _OVERFLOW.type:
        texts = [None if v is None else json.dumps(dict(v), ensure_ascii=False) for v in column.to_pylist()]
        return _escaped(pa.array(texts, _WIDE))
    if pa.types.is_nested(kind):
        raise refuse(f"text has no way to write {kind}", advice="set sink.format to parquet or orc", field="columns")
    return column.cast(_WIDE)


def _escaped(texts: pa.Array) -> pa.Array:
    content = bytes(_content(texts))
    for plain, escape in _ESCAPES:
        if plain.encode() in content:
            texts = pc.replace_substring(texts, plain, escape)
    return texts


def _float(column: pa.Array) -> pa.Array:
    """Text as Java spells infinity and NaN."""
    texts = column.cast(_WIDE)
    if pc.all(pc.is_finite(column)).as_py() is not False:
        return texts
    for found, spelled in (("nan", "NaN"), ("inf", "Infinity"), ("-inf", "-Infinity")):
        texts = pc.if_else(pc.fill_null(pc.equal(texts, found), False), spelled, texts)
    return texts


def _decimal(column: pa.Array) -> pa.Array:
    """Digits only: Arrow spells a small one as 1E-7."""
    texts = column.cast(_WIDE)
    odd = pc.fill_null(pc.match_substring(texts, "E"), False)
    if not pc.any(odd).as_py():
        return texts
    return pa.array([None if v is None else f"{v:f}" for v in column.to_pylist()], _WIDE)


class _Finished:
    """One group: all of it."""

    rows = None

    def __init__(self, stream: BinaryIO, packed: bool, schema: pa.Schema) -> None:
        self._stream, self._packed, self.schema = stream, packed, schema
        self.labels: Mapping[str, str] = {}
        first = next(self._blocks(), b"").partition(b"\n")[0]
        if _ESCAPED.sub(b"", first).count(b"\x01") == len(schema.names):
            self.schema = schema.append(_OVERFLOW)

    def groups(self) -> int:
        return 1

    def spans(self, group: int) -> Mapping[str, tuple[Any, Any]]:
        return {}

    def group(self, group: int, columns: Sequence[str]) -> pa.Table:
        schema = pa.schema([self.schema.field(name) for name in columns])
        return pa.Table.from_batches(self.batches(BLOCK_BYTES, columns), schema)

    def batches(self, size: int, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        names = self.schema.names if columns is None else list(columns)
        for block in self._blocks():
            yield from self._parsed(block, names).to_batches(size)

    def _blocks(self) -> Iterator[bytes]:
        self._stream.seek(0)
        return _blocks(_unpacked(self._stream) if self._packed else _chunks(self._stream))

    def _parsed(self, block: bytes, names: list[str]) -> pa.Table:
        if b"\\\x01" in block:  # rare: pyarrow would end the value there
            block = _ESCAPED.sub(lambda m: b"\\d" if m[1] == b"\x01" else m[0], block)
        if block.startswith(_BOM):
            block = b"\\" + block
        try:
            found = pcsv.read_csv(
                pa.BufferReader(block),
                pcsv.ReadOptions(use_threads=False, block_size=len(block) + 1, column_names=self.schema.names),
                pcsv.ParseOptions(delimiter=_DELIMITER, quote_char=False, escape_char=False, ignore_empty_lines=False),
                pcsv.ConvertOptions(
                    column_types={f.name: _raw(f.type) for f in self.schema},
                    include_columns=names,
                    null_values=[_NULL],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            )
        except pa.ArrowInvalid as e:
            raise ValueError(f"these are not the columns {', '.join(self.schema.names)}: {e}") from None
        columns = [_meant(found[name], self.schema.field(name).type) for name in names]
        return pa.table(columns, pa.schema([self.schema.field(name) for name in names]))


def _raw(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return _LOCAL
    texts = pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_nested(kind)
    return pa.binary() if texts else kind


def _meant(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_timestamp(kind):
        return column.cast(TIMESTAMP)
    if pa.types.is_binary(kind):
        values = column.to_pylist()
        return pa.chunked_array([[None if v is None else base64.b64decode(v, validate=True) for v in values]], kind)
    if not pa.types.is_string(kind) and not pa.types.is_nested(kind):
        return column
    if pc.any(pc.match_substring(column, b"\\")).as_py():
        values = [None if v is None else _ESCAPED.sub(_unescaped, v) for v in column.to_pylist()]
        column = pa.chunked_array([values], pa.binary())
    if pa.types.is_nested(kind):
        maps = [None if v is None else list(json.loads(v).items()) for v in column.to_pylist()]
        return pa.chunked_array([maps], kind)
    return column.cast(kind)


def _unescaped(found: re.Match[bytes]) -> bytes:
    return _MEANT.get(found[1], found[1])


def _chunks(stream: BinaryIO) -> Iterator[bytes]:
    while chunk := stream.read(BLOCK_BYTES):
        yield chunk


def _unpacked(stream: BinaryIO) -> Iterator[bytes]:
    """Raises ValueError when a gzip stream is spoilt, or ends before its time."""
    opened = zlib.decompressobj(31)
    for chunk in _chunks(stream):
        while chunk:
            try:
                yield opened.decompress(chunk, BLOCK_BYTES)
            except zlib.error as e:
                raise ValueError(f"its gzip stream is spoilt: {e}") from None
            chunk = opened.unconsumed_tail
        if opened.unused_data:
            raise ValueError("something comes after the end of its gzip stream")
    if not opened.eof:
        raise ValueError("its gzip stream ends too early")


def _blocks(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Whole lines. Raises ValueError when the last one is not ended."""
    rest = b""
    for chunk in chunks:
        at = chunk.rfind(b"\n") + 1
        if not at:
            rest += chunk
            continue
        yield rest + chunk[:at]
        rest = chunk[at:]
    if rest:
        raise ValueError("its last line is not ended")
