"""What Parquet files hold: the child process of an audit. It answers JSON lines with JSON lines, until its input ends.

    ["uri", ...]                          a line for each file, in order, from its footer:
        {"path", "rows", "bytes", "kind", "checksum", "partitions": [{"partition", "rows", "min_offset", "max_offset"}]}
    {"slab": [first batch, last, offsets]}                            what follows is about these batches; no answer
    {"spans": [[batch, partition, start, end, [[start, end], ...]], ...]}   what they read, and its gaps; no answer
    {"files": [["uri", batch or null], ...]}   as above, from footer and rows: also
        "coordinates": {partition: [rows, min offset, max offset]} and "batches": [min, max], null without the columns
    {"end": true}                         {"rows", "missing", "excess", "strays"}: see `coordinates.Coverage.told`

A file that cannot be read gives {"path", "error"}; the others go on.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any, BinaryIO, TextIO

import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.coordinates import Coverage
from tidegate.adapters.storage import for_uri


def main(source: TextIO = sys.stdin, sink: TextIO = sys.stdout) -> int:
    pa.set_cpu_count(1)
    inspector = Inspector()
    for line in source:
        for answer in inspector.answer(json.loads(line)):
            print(json.dumps(answer), file=sink, flush=True)
    return 0


def open_file(uri: str) -> BinaryIO:
    """The only place where files are opened."""
    return for_uri(uri).open_existing(uri)


class Inspector:
    """One conversation: the slab that it is about is what it remembers."""

    def __init__(self) -> None:
        self._coverage: Coverage | None = None

    def answer(self, request: Any) -> Iterator[dict[str, Any]]:
        if isinstance(request, list):
            yield from (self._look(uri, None, deep=False) for uri in request)
        elif "slab" in request:
            self._coverage = Coverage(*request["slab"])
        elif "spans" in request:
            self._slab().expect(request["spans"])
        elif "files" in request:
            yield from (self._look(uri, batch, deep=True) for uri, batch in request["files"])
        else:
            found = self._slab().told()
            self._coverage = None
            yield found

    def _slab(self) -> Coverage:
        if self._coverage is None:
            raise ValueError("a slab comes first")
        return self._coverage

    def _look(self, uri: str, batch: int | None, *, deep: bool) -> dict[str, Any]:
        try:
            with open_file(uri) as file:
                parquet = pq.ParquetFile(file)
                told = {"path": uri, **describe(parquet), "bytes": file.seek(0, 2)}
                if deep:
                    told |= self._slab().read(uri, parquet, batch)
                return told
        except Exception as e:  # one file's trouble must not hide what the others hold
            return {"path": uri, "error": f"{type(e).__name__}: {e}"}


def describe(parquet: pq.ParquetFile) -> dict[str, Any]:
    """What an open file says of itself. Raises ValueError for a file without Tidegate's metadata."""
    labels = {key.decode(): value.decode() for key, value in (parquet.metadata.metadata or {}).items()}
    if "tidegate.rows" not in labels:
        raise ValueError("the footer does not say which Kafka ranges the rows come from")
    return {
        "rows": parquet.metadata.num_rows,
        "partitions": json.loads(labels["tidegate.rows"]),
        "checksum": int(labels["tidegate.checksum"]),
        "kind": labels["tidegate.kind"],
    }


if __name__ == "__main__":
    sys.exit(main())
