"""What Parquet files hold, from their footers and, with `--coordinates`, from their rows: a child process of an audit.

Standard input: a JSON list of URIs. Standard output: one JSON object per file, in that order:

    {"path", "rows", "bytes", "kind", "checksum", "partitions": [{"partition", "rows", "min_offset", "max_offset"}]}

and with `--coordinates` also `"intervals": {partition: [[start, end), ...]}`, the sorted offset intervals of the rows,
`"duplicates": [[partition, offset], ...]`, the first coordinates that the file holds more than once, and
`"duplicate_rows"`, how many rows repeat one. A file that cannot be read gives {"path", "error"}; the others go on.
Memory holds one batch of rows and the intervals.
"""

from __future__ import annotations

import json
import sys
from bisect import bisect_right
from typing import Any, BinaryIO, TextIO

import pyarrow.parquet as pq

from tidegate.adapters.storage.local import local_path
from tidegate.core.offsets import Interval, union

BATCH_ROWS = 65_536
MAX_DUPLICATES = 100


def main(arguments: list[str], source: TextIO = sys.stdin, sink: TextIO = sys.stdout) -> int:
    if arguments not in ([], ["--coordinates"]):
        print("usage: footers.py [--coordinates] < list-of-paths.json", file=sys.stderr)
        return 2
    for path in json.load(source):
        print(json.dumps(_describe(path, coordinates=bool(arguments))), file=sink, flush=True)
    return 0


def _describe(path: str, *, coordinates: bool) -> dict[str, Any]:
    try:
        with open(local_path(path), "rb") as file:
            return {"path": path, **describe(file, coordinates=coordinates)}
    except Exception as e:  # one file's trouble must not hide what the others hold
        return {"path": path, "error": f"{type(e).__name__}: {e}"}


def describe(file: BinaryIO, *, coordinates: bool) -> dict[str, Any]:
    """What one open Parquet file holds. Raises ValueError for a file without Tidegate's metadata."""
    parquet = pq.ParquetFile(file)
    labels = {key.decode(): value.decode() for key, value in (parquet.metadata.metadata or {}).items()}
    if "tidegate.rows" not in labels:
        raise ValueError("the footer does not say which Kafka ranges the rows come from")
    told: dict[str, Any] = {
        "rows": parquet.metadata.num_rows,
        "bytes": file.seek(0, 2),
        "partitions": json.loads(labels["tidegate.rows"]),
        "checksum": int(labels["tidegate.checksum"]),
        "kind": labels["tidegate.kind"],
    }
    if coordinates:
        found = _Coordinates()
        for batch in parquet.iter_batches(BATCH_ROWS, columns=["_partition", "_offset"]):
            found.add(batch.column(0).to_pylist(), batch.column(1).to_pylist())
        told |= found.told()
    return told


class _Coordinates:
    """Offsets of each Kafka partition as disjoint, sorted intervals; rows usually come in order."""

    def __init__(self) -> None:
        self._found: dict[int, list[Interval]] = {}
        self._duplicates: list[tuple[int, int]] = []
        self._repeated = 0

    def add(self, partitions: list[int], offsets: list[int]) -> None:
        new: dict[int, list[int]] = {}
        for partition, offset in zip(partitions, offsets, strict=True):
            new.setdefault(partition, []).append(offset)
        for partition, found in new.items():
            self._merge(partition, sorted(found))

    def _merge(self, partition: int, offsets: list[int]) -> None:
        known = self._found.setdefault(partition, [])
        runs: list[Interval] = []
        before = None
        for offset in offsets:
            if offset == before or _holds(known, offset):
                self._repeated += 1
                if len(self._duplicates) < MAX_DUPLICATES:
                    self._duplicates.append((partition, offset))
            elif runs and runs[-1].end == offset:
                runs[-1] = Interval(runs[-1].start, offset + 1)
            else:
                runs.append(Interval(offset, offset + 1))
            before = offset
        if runs:
            at = bisect_right(known, runs[0].start, key=lambda i: i.start)
            known[max(at - 1, 0) :] = union([*known[max(at - 1, 0) :], *runs])

    def told(self) -> dict[str, Any]:
        intervals = {str(p): [[i.start, i.end] for i in runs] for p, runs in sorted(self._found.items())}
        return {"intervals": intervals, "duplicates": self._duplicates, "duplicate_rows": self._repeated}


def _holds(intervals: list[Interval], offset: int) -> bool:
    at = bisect_right(intervals, offset, key=lambda i: i.start) - 1
    return at >= 0 and offset in intervals[at]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
