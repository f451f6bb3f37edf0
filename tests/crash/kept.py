"""Data files that thousands of cases share, read once: a case has them under other names, the same inodes or bytes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from spark_jobs.engine.sinks import Columns, Finished, finished
from spark_jobs.handlers import footers
from spark_jobs.handlers.contents import Manifest, Reading, checksum
from tests.fakes.objects import MemoryObjects
from tidegate.adapters.footers import FooterProcess
from tidegate.core.base.storage import Storage
from tidegate.storage.local import LocalStorage


class Kept:
    """On disk by inode, time and length: a file that was written anew is another one. In memory by its bytes."""

    def __init__(self) -> None:
        self._files: dict[bytes | tuple[int, int, int], _File] = {}

    def file(self, store: Storage, uri: str) -> _File:
        if isinstance(store, MemoryObjects):
            key: bytes | tuple[int, int, int] = store.read(uri)
        else:
            found = Path(uri.removeprefix("file://")).stat()
            key = (found.st_ino, found.st_mtime_ns, found.st_size)
        if key not in self._files:
            if len(self._files) > 500:
                self._files.clear()
            with store.open_existing(uri) as opened:
                size = opened.seek(0, os.SEEK_END)
                opened.seek(0)
                self._files[key] = _File(finished(uri.rsplit("/", 1)[1], opened), size)
        return self._files[key]

    def rows(self, store: Storage, uri: str) -> list[tuple[int, int, Any]]:
        """(Kafka partition, offset, value)"""
        return self._columns(store, uri, ["_partition", "_offset", "value"])

    def coordinates(self, store: Storage, uri: str) -> list[tuple[int, int]]:
        """(Kafka partition, offset)"""
        return self._columns(store, uri, ["_partition", "_offset"])

    def _columns(self, store: Storage, uri: str, names: list[str]) -> list[Any]:
        return list(zip(*self.file(store, uri).table.select(names).to_pydict().values(), strict=True))


class _File:
    """As much of a Finished as the audit uses, and the footer's answer."""

    def __init__(self, file: Finished, size: int) -> None:
        self.schema = file.schema
        self.table = pa.Table.from_batches(file.batches(100_000), file.schema)
        self.told = footers.describe(file) | {"bytes": size}
        self.contents: dict[str, int] = {}

    def batches(self, _size: int, columns: list[str]) -> list[pa.RecordBatch]:
        return self.table.select(columns).to_batches()


KEPT = Kept()


class _Inspector(footers.Inspector):
    def __init__(self, store: Storage) -> None:
        super().__init__()
        self._store = store

    def read(
        self, uri: str, file: Any, batch: int | None, manifest: dict[str, Any] | None, rows: Any
    ) -> dict[str, Any]:
        told = Reading(uri, file, batch, rows).coordinates()
        if manifest is None:
            return told
        key = json.dumps(manifest)
        if key not in file.contents:
            file.contents[key] = checksum(file.table, Manifest.of(manifest))
        return told | {"content": file.contents[key], "read": len(file.table)}

    def _look(self, uri: str, columns: Columns | None, read: Any = None) -> dict[str, Any]:
        try:
            file = KEPT.file(self._store, uri)
            told = {"path": uri, **file.told}
            return told if read is None else told | read(uri, file)
        except Exception as e:
            return {"path": uri, "error": f"{type(e).__name__}: {e}"}


class InProcess(FooterProcess):
    """What the audit's child says, without the child; the words travel as JSON all the same."""

    def __init__(self, store: Storage | None = None) -> None:
        super().__init__()
        self._inspector = _Inspector(store or LocalStorage())

    def _ask(self, request: Any, answers: int) -> Iterator[dict[str, Any]]:
        found = list(self._inspector.answer(json.loads(json.dumps(request))))
        assert len(found) == answers
        return iter(json.loads(json.dumps(found)))
