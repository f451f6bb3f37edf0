"""Parquet: the labels are the footer's key-value metadata, so a file says what it holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.engine.sinks.base import Encoding


class Parquet:
    """FileFormat."""

    def extension(self, codec: str) -> str:
        return ".parquet"

    def open(self, stream: BinaryIO, schema: pa.Schema, encoding: Encoding, codec: str) -> _Writer:
        return _Writer(stream, schema, encoding, codec)


class _Writer:
    def __init__(self, stream: BinaryIO, schema: pa.Schema, encoding: Encoding, codec: str) -> None:
        self._footer: list[pq.FileMetaData] = []
        self._writer = pq.ParquetWriter(
            stream,
            schema,
            compression=codec,
            use_dictionary=encoding.dictionary or False,
            write_statistics=encoding.statistics or False,
            store_schema=False,
            metadata_collector=self._footer,
        )
        self.write = self._writer.write_table

    def close(self, labels: Mapping[str, str]) -> int:
        self._writer.add_key_value_metadata(dict(labels))
        self._writer.close()
        return self._footer[0].num_rows
