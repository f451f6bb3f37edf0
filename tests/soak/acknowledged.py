"""The producer's acknowledgement log: one line `partition first last` for a run of acknowledged offsets."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

Runs = dict[int, list[tuple[int, int]]]
"""Kafka partition -> runs of acknowledged offsets, both ends inclusive."""


class AckLog:
    """Appended to by the producer alone; a run is on the disk's way when `flush` returns."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = open(path, "a")  # noqa: SIM115 - closed with its process
        self._runs: Runs = defaultdict(list)

    def add(self, partition: int, offset: int) -> None:
        runs = self._runs[partition]
        if runs and runs[-1][1] == offset - 1:
            runs[-1] = (runs[-1][0], offset)
        else:
            runs.append((offset, offset))

    def flush(self) -> None:
        for partition, runs in self._runs.items():
            for first, last in runs:
                self._file.write(f"{partition} {first} {last}\n")
        self._runs.clear()
        self._file.flush()


def read(path: Path) -> Runs:
    """What was acknowledged; a line that a killed producer left half written does not count."""
    found: Runs = defaultdict(list)
    if not path.exists():
        return found
    for line in path.read_text().splitlines(keepends=True):
        words = line.split()
        if line.endswith("\n") and len(words) == 3:
            partition, first, last = map(int, words)
            found[partition].append((first, last))
    return found


def count(runs: Runs) -> int:
    return sum(last - first + 1 for many in runs.values() for first, last in many)
