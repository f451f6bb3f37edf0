"""The metastore of the soak: one file, changed whole under a lock, so that its user may be killed at any instant."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pickle
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from tests.fakes.catalogue import FakeCatalogue
from tidegate.core.base.errors import CatalogueError
from tidegate.core.base.partition_values import PartitionValues
from tidegate.targets.hive.ports import TableDef

_PATIENCE_S = 10.0
T = TypeVar("T")


class FileCatalogue:
    """Implements `targets.hive.ports.Catalogue`. A statement is done when the file is replaced, or it never was.

    Who is stopped while holding the lock makes the others fail with a definite answer: nothing was changed."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def keeping_sessions(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def ensure_table(self, table: TableDef) -> None:
        self._change(lambda c: c.ensure_table(table))

    def evolve_table(self, table: TableDef) -> list[str]:
        return self._change(lambda c: c.evolve_table(table))

    def partitions(self, table: str, prefix: PartitionValues = ()) -> dict[PartitionValues, str]:
        return self._load().partitions(table, prefix)

    def examine(
        self, table: str, prefix: PartitionValues = ()
    ) -> tuple[dict[PartitionValues, str], dict[PartitionValues, str]]:
        return self._load().examine(table, prefix)

    def check_table(self, table: TableDef) -> None:
        self._load().check_table(table)

    def add_partitions(self, table: str, locations: dict[PartitionValues, str]) -> None:
        self._change(lambda c: c.add_partitions(table, locations))

    def set_location(self, table: str, values: PartitionValues, location: str) -> None:
        self._change(lambda c: c.set_location(table, values, location))

    def drop_partitions(self, table: str, values: list[PartitionValues]) -> None:
        self._change(lambda c: c.drop_partitions(table, values))

    def execute(self, statement: str) -> list[tuple]:
        return self._load().execute(statement)

    def _load(self) -> FakeCatalogue:
        catalogue = FakeCatalogue()
        try:
            catalogue._tables = pickle.loads(self._path.read_bytes())
        except FileNotFoundError:
            pass
        return catalogue

    def _change(self, change: Callable[[FakeCatalogue], T]) -> T:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _take(lock)
            catalogue = self._load()
            result = change(catalogue)
            fresh = self._path.with_suffix(f".{os.getpid()}")
            fresh.write_bytes(pickle.dumps(catalogue._tables))
            fresh.replace(self._path)
            return result
        finally:
            os.close(lock)


def _take(lock: int) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise CatalogueError("the catalogue is locked by somebody who does not go on: not executed") from None
            time.sleep(0.02)
