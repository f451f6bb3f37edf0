"""COPY as an iterator. The driver pushes rows into a file; here they are asked for, and no more than two parts wait."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator
from typing import TYPE_CHECKING

import psycopg2

from tidegate.databases.sql import BATCH_BYTES, BATCH_ROWS

if TYPE_CHECKING:
    from psycopg2.extensions import connection

_END_S = 30.0


class _Stopped(Exception):
    """Nobody wants more rows."""


class _Parts:
    """The file that the driver writes to: each call is one row, with its line's end."""

    def __init__(self) -> None:
        self.waiting: queue.Queue[list[bytes] | BaseException | None] = queue.Queue(maxsize=1)
        self.stopped = False
        self._rows: list[bytes] = []
        self._bytes = 0

    def write(self, row: bytes) -> None:
        self._rows.append(row)
        self._bytes += len(row)
        if len(self._rows) >= BATCH_ROWS or self._bytes >= BATCH_BYTES:
            self.flush()

    def flush(self) -> None:
        if self._rows:
            self.put(self._rows)
            self._rows, self._bytes = [], 0

    def put(self, part: list[bytes] | BaseException | None) -> None:
        while not self.stopped:
            try:
                return self.waiting.put(part, timeout=0.5)
            except queue.Full:
                continue
        raise _Stopped


def copied(found: connection, statement: str) -> Generator[list[bytes], None, None]:
    """Rows, in parts. An iterator that is closed early cancels the statement."""
    parts = _Parts()
    thread = threading.Thread(target=_copy, args=(found, statement, parts), name="copy", daemon=True)
    thread.start()
    ended = False
    try:
        while (part := parts.waiting.get()) is not None:
            if isinstance(part, BaseException):
                ended = True
                raise part
            yield part
        ended = True
    finally:
        parts.stopped = True
        if not ended:
            _cancel(found)
        thread.join(_END_S)


def _copy(found: connection, statement: str, parts: _Parts) -> None:
    try:
        with found.cursor() as cursor:
            cursor.copy_expert(statement, parts)
        parts.flush()
        parts.put(None)
    except _Stopped:
        return
    except BaseException as error:
        try:
            parts.put(error)
        except _Stopped:
            return


def _cancel(found: connection) -> None:
    try:
        found.cancel()
    except psycopg2.Error:
        return
