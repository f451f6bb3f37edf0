"""One Parquet file from several: row groups that are large enough are copied as they are, under a new footer.

No version of pyarrow copies row groups. As long as nothing is copied, pyarrow writes the file and its footer itself:
taking a footer apart in Python costs as much as reading some hundred rows. After that, rows become a small file in
memory first, and its row groups are copied, too.
"""

from __future__ import annotations

import copy
import io
from collections.abc import Mapping
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.engine.failures import refuse
from spark_jobs.engine.sinks.base import Encoding, FileFormat, Joiner, Writer
from spark_jobs.engine.sinks.thrift import Field, decode, encode, get, put
from spark_jobs.engine.streams import Tap

COPIED_ROWS, COPIED_BYTES = 50_000, 4 * 1024 * 1024
"""A row group is worth copying from one of these on: readers pay for each one, and small ones compress badly."""
_MAGIC = b"PAR1"
# fields of the footer's structs
_SCHEMA, _ROWS, _GROUPS, _LABELS = 2, 3, 4, 5
_COLUMNS, _GROUP_OFFSET, _ORDINAL = 1, 5, 7
_CHUNK_OFFSET, _CHUNK_METADATA, _PAGE_INDEXES = 2, 3, (4, 5, 6, 7)
_CODEC, _PAGE_OFFSETS, _BLOOM_FILTERS = 4, (9, 10, 11), (14, 15)
_CODECS = {"none": 0, "snappy": 1, "gzip": 2, "zstd": 6}
_ENCRYPTED = (8, 9)


class Joined(Joiner):
    def __init__(
        self, stream: BinaryIO, schema: pa.Schema, encoding: Encoding, codec: str, file_format: FileFormat
    ) -> None:
        self._stream, self._schema, self._encoding, self._codec = stream, schema, encoding, codec
        self._format = file_format
        self._tap = Tap(stream)
        self._plain: Writer | None = None
        self._footer: list[Field] | None = None
        self._groups: list[list[Field]] = []
        self._position = len(_MAGIC)
        self.rows = 0
        self.footer: pq.FileMetaData | None = None

    def write(self, rows: pa.Table) -> None:
        if self._footer is None:
            if self._plain is None:
                self._plain = self._format.open(self._tap, self._schema, self._encoding, self._codec)
            self._plain.write(rows)
            return
        small = io.BytesIO()
        writer = self._format.open(small, self._schema, self._encoding, self._codec)
        writer.write(rows)
        writer.close({})
        content = small.getvalue()
        self._append(content, footer_of(content))

    def takes(self, content: bytes) -> bool:
        """Append the row groups as they are. False if schema or codec are others."""
        footer = footer_of(content)
        if any(get(footer, number) is not None for number in _ENCRYPTED):
            return False
        codec, found = _CODECS[self._codec], _codecs(get(footer, _GROUPS)[1])
        if codec not in found or not found <= {codec, _CODECS["none"]}:  # small columns are not compressed
            return False
        self._settle()
        if self._footer is None:  # what is written decides, so that nobody has to know how pyarrow spells a schema
            if not pq.read_schema(io.BytesIO(content)).equals(self._schema):
                return False
        elif get(footer, _SCHEMA) != get(self._footer, _SCHEMA):
            return False
        self._append(content, footer)
        return True

    def _settle(self) -> None:
        """What pyarrow has written so far becomes the first row groups of a file that is joined."""
        if self._plain is None:
            return
        self._position = self._tap.tell()
        self._tap.keep()
        self._plain.close({})
        self._plain = None
        self._footer = decode(b"".join(self._tap.kept)[:-8])
        self._groups = list(get(self._footer, _GROUPS)[1])
        self.rows = get(self._footer, _ROWS)

    def _append(self, content: bytes, footer: list[Field]) -> None:
        if self._footer is None:
            self._footer = footer
            self._stream.write(_MAGIC)
        elif get(footer, _SCHEMA) != get(self._footer, _SCHEMA):
            raise refuse("pyarrow spells one schema in two ways: row groups cannot be joined")
        end = _footer_start(content)
        shift = self._position - len(_MAGIC)
        self._stream.write(memoryview(content)[len(_MAGIC) : end])
        self._position += end - len(_MAGIC)
        for group in get(footer, _GROUPS)[1]:
            self._groups.append(_moved(group, shift, len(self._groups)))
        self.rows += get(footer, _ROWS)

    def size(self) -> int:
        return self._position if self._plain is None else self._tap.tell()

    def held(self) -> int:
        return 0

    def close(self, labels: Mapping[str, str]) -> int:
        if self._footer is None:
            if self._plain is None:
                self.write(self._schema.empty_table())
            assert self._plain is not None
            rows = self._plain.close(labels)
            self.footer = self._plain.footer
            return rows
        small = io.BytesIO()  # spells the labels as every file has them
        self._format.open(small, self._schema, self._encoding, self._codec).close(labels)
        footer = [f for f in self._footer if f[0] != _LABELS]
        footer.append(next(f for f in footer_of(small.getvalue()) if f[0] == _LABELS))
        footer.sort(key=lambda field: field[0])
        put(footer, _ROWS, self.rows)
        put(footer, _GROUPS, [get(footer, _GROUPS)[0], self._groups])
        spelled = encode(footer)
        end = spelled + len(spelled).to_bytes(4, "little") + _MAGIC
        told = pq.read_metadata(io.BytesIO(_MAGIC + end))
        if (told.num_rows, told.num_row_groups) != (self.rows, len(self._groups)):
            raise refuse("a joined Parquet footer does not say what was written", retry=True)
        self._stream.write(end)
        self.footer = told
        return told.num_rows


def large_groups(size: int, rows: int, groups: int) -> bool:
    """Of a file of so many bytes."""
    return groups > 0 and max(rows / COPIED_ROWS, size / COPIED_BYTES) >= groups


def spells_alike(content: bytes, schema: pa.Schema) -> bool:
    """Whether a finished file's schema is spelled as one with this schema would be, field ids and all."""
    empty = io.BytesIO()
    pq.write_table(schema.empty_table(), empty, store_schema=False)
    return bool(get(footer_of(content), _SCHEMA) == get(footer_of(empty.getvalue()), _SCHEMA))


def footer_of(content: bytes) -> list[Field]:
    """Raises ValueError if this is not a Parquet file."""
    return decode(content[_footer_start(content) : -8])


def _footer_start(content: bytes) -> int:
    start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    if content[:4] != _MAGIC or content[-4:] != _MAGIC or start < 4:
        raise ValueError("this is not a Parquet file")
    return start


def _codecs(groups: list[list[Field]]) -> set[int]:
    return {get(get(chunk, _CHUNK_METADATA), _CODEC) for group in groups for chunk in get(group, _COLUMNS)[1]}


def _moved(group: list[Field], shift: int, ordinal: int) -> list[Field]:
    """The row group's description when its bytes lie `shift` further on."""
    group = copy.deepcopy(group)
    _move(group, (_GROUP_OFFSET,), shift)
    group[:] = [f for f in group if f[0] != _ORDINAL or ordinal < 2**15]
    if get(group, _ORDINAL) is not None:
        put(group, _ORDINAL, ordinal)
    for chunk in get(group, _COLUMNS)[1]:
        chunk[:] = [f for f in chunk if f[0] not in _PAGE_INDEXES]
        _move(chunk, (_CHUNK_OFFSET,), shift)
        metadata = get(chunk, _CHUNK_METADATA)
        metadata[:] = [f for f in metadata if f[0] not in _BLOOM_FILTERS]
        _move(metadata, _PAGE_OFFSETS, shift)
    return group


def _move(struct: list[Field], numbers: tuple[int, ...], shift: int) -> None:
    for field in struct:
        if field[0] in numbers and field[2] > 0:  # 0 says that nothing is there
            field[2] += shift
