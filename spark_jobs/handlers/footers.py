"""Reads what files hold: asked by an audit. Requests, and their answers:

    ["uri", ...]                          a line for each file, in order, from its footer:
        {"path", "rows", "bytes", "kind", "checksum", "partitions": [{"partition", "rows", "min_offset", "max_offset"}]}
    {"slab": [first batch, last, offsets]}                            what follows is about these batches; no answer
    {"spans": [[batch, partition, start, end, [[start, end], ...]], ...]}   what they read, and its gaps; no answer
    {"files": [["uri", batch or null, columns, manifest or null], ...], "apart": true or false}
                                          as above, from footer and rows: also
        "coordinates": {partition: [rows, min offset, max offset]} and "batches": [min, max], null without the columns
        where `manifest` is given, {"kind", "values", "dynamic"}: "content", the rows' checksum computed again, null
        where only other readers can read them all, and "read", how many they are
    {"end": true}                         {"rows", "missing", "excess", "strays"}: see `coordinates.Coverage.told`

A file that cannot be read gives {"path", "error"}; the others go on. `columns`, [["name", "type"], ...], are those of a
file that does not say them itself. It has no footer either: its rows are counted, kind and checksum are null. Rows of
files that are read `apart`, or without a slab, are compared with no span.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from spark_jobs.engine.sinks import Columns, Finished, finished
from spark_jobs.handlers.contents import Manifest, Reading
from spark_jobs.handlers.coordinates import Coverage
from spark_jobs.handlers.places import open_file


def handler() -> Callable[[Any], Iterator[dict[str, Any]]]:
    pa.set_cpu_count(1)
    return Inspector().answer


class Inspector:
    """One conversation: the slab that it is about is what it remembers."""

    def __init__(self) -> None:
        self._coverage: Coverage | None = None

    def answer(self, request: Any) -> Iterator[dict[str, Any]]:
        if isinstance(request, list):
            yield from (self._look(uri, None) for uri in request)
        elif "slab" in request:
            self._coverage = Coverage(*request["slab"])
        elif "spans" in request:
            self._slab().expect(request["spans"])
        elif "files" in request:
            rows = None if request.get("apart") else self._coverage
            for uri, batch, *more in request["files"]:
                columns, manifest = (*more, None, None)[:2]
                yield self._look(uri, columns, lambda u, f, b=batch, m=manifest: self.read(u, f, b, m, rows))
        else:
            found = self._slab().told()
            self._coverage = None
            yield found

    def _slab(self) -> Coverage:
        if self._coverage is None:
            raise ValueError("a slab comes first")
        return self._coverage

    def read(
        self, uri: str, file: Finished, batch: int | None, manifest: dict[str, Any] | None, rows: Coverage | None
    ) -> dict[str, Any]:
        """What the rows say."""
        reading = Reading(uri, file, batch, rows)
        return reading.coordinates() if manifest is None else reading.whole(Manifest.of(manifest))

    def _look(
        self, uri: str, columns: Columns | None, read: Callable[[str, Finished], dict[str, Any]] | None = None
    ) -> dict[str, Any]:
        try:
            with open_file(uri) as stream:
                file = finished(uri, stream, columns)
                told = {"path": uri, **describe(file), "bytes": stream.seek(0, 2)}
                if read is not None:
                    told |= read(uri, file)
                return told if file.rows is not None else counted(told)
        except Exception as e:  # one file's trouble must not hide what the others hold
            return {"path": uri, "error": f"{type(e).__name__}: {e}"}


def describe(file: Finished) -> dict[str, Any]:
    """Returns what an open file says of itself. Raises ValueError for a file without Tidegate's metadata."""
    if file.rows is None:
        return {"rows": None, "partitions": [], "checksum": None, "kind": None}
    if "tidegate.rows" not in file.labels:
        raise ValueError("the footer does not say which Kafka ranges the rows come from")
    return {
        "rows": file.rows,
        "partitions": json.loads(file.labels["tidegate.rows"]),
        "checksum": int(file.labels["tidegate.checksum"]),
        "kind": file.labels["tidegate.kind"],
    }


def counted(told: dict[str, Any]) -> dict[str, Any]:
    """Reads the rows of a file without a footer. Raises ValueError where they say nothing."""
    if told.get("coordinates") is None and "read" in told:
        return told | {"rows": told["read"], "partitions": None}
    if told.get("coordinates") is None:
        raise ValueError("the file has no footer, and its rows were not read")
    found = sorted(told["coordinates"].items())
    partitions = [{"partition": p, "rows": n, "min_offset": low, "max_offset": high} for p, (n, low, high) in found]
    return told | {"rows": sum(n for _, (n, _, _) in found), "partitions": partitions}
