"""Single rows of files by their Kafka coordinates: asked by `tidegate where`.

A request, and its answer:

    {"row": [partition, offset, batch], "files": [["uri", ...], ...], "event": ["column", "format"] or null,
     "columns": [[["name", "type"], ...] or null, ...]}
    {"found": null or {"file", "uri", "kafka_ms", "event_ms", "reason", "field", "raw"}, "unread": ""}

Each file has several places where it can be. They are looked into one after the other until the row is found; row
groups whose statistics leave it out are skipped. `columns` says what each file holds, null where it says it itself.

`spark_jobs/handlers/key_events.py` answers a request with a `key`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.engine.sinks import Columns, Finished, finished
from spark_jobs.handlers import key_events
from spark_jobs.handlers.places import open_file, open_first, shown

_COORDINATES = ("_partition", "_offset", "_batch_id")
_DIRTY = ("reason", "field", "raw_value")
KEPT_ROWS = 4_000_000
"""Rows whose coordinates stay in memory for the next lookups."""


def handler() -> Callable[[Any], dict[str, Any]]:
    rows = Rows()
    return lambda request: key_events.answer(request) if "key" in request else rows.answer(request)


class Rows:
    """Remembers the files that it read last: their places and coordinates."""

    def __init__(self) -> None:
        self._files: OrderedDict[tuple[str, ...], _File] = OrderedDict()

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        partition, offset, batch = request["row"]
        unread = ""
        for number, (uris, columns) in enumerate(zip(request["files"], request["columns"], strict=True)):
            try:
                found = self._file(tuple(uris), columns).find(partition, offset, batch, request["event"])
            except Exception as e:  # another file may have the row
                self._files.pop(tuple(uris), None)
                unread = unread or f"{uris[0]}: {type(e).__name__}: {e}"
                continue
            if found is not None:
                return {"found": {"file": number, **found}, "unread": ""}
        return {"found": None, "unread": unread}

    def _file(self, uris: tuple[str, ...], columns: Columns | None) -> _File:
        if uris not in self._files:
            while self._files and sum(f.rows for f in self._files.values()) > KEPT_ROWS:
                self._files.popitem(last=False)
            self._files[uris] = _File(uris, columns)
        self._files.move_to_end(uris)
        return self._files[uris]


class _File:
    def __init__(self, uris: Sequence[str], columns: Columns | None) -> None:
        self.uri, stream = open_first(uris)
        self._columns = columns
        with stream:
            file = self._opened(stream)
            self.rows = file.rows or 0
            self._names = file.schema.names
            self._spans = [file.spans(group) for group in range(file.groups())]
        self._groups: dict[tuple[int, tuple[str, ...]], pa.Table] = {}

    def find(self, partition: int, offset: int, batch: int, event: list[str] | None) -> dict[str, Any] | None:
        names = self._names
        columns = tuple(name for name in _COORDINATES if name in names)
        if not {"_partition", "_offset"} <= set(columns):
            raise ValueError("its rows have no Kafka columns")
        for group in range(len(self._spans)):
            if not self._may_hold(group, {"_partition": partition, "_offset": offset}):
                continue
            table = self._read(group, columns)
            mask = pc.and_(pc.equal(table["_offset"], offset), pc.equal(table["_partition"], partition))
            if "_batch_id" in columns:
                mask = pc.and_(mask, pc.equal(table["_batch_id"], batch))
            at = pc.index(mask, True).as_py()
            if at >= 0:
                return {"uri": self.uri, **self._stamped(group, at, names), **self._told(group, at, names, event)}
        return None

    def _may_hold(self, group: int, wanted: dict[str, int]) -> bool:
        spans = self._spans[group]
        return all(spans[n][0] <= value <= spans[n][1] for n, value in wanted.items() if n in spans)

    def _read(self, group: int, columns: tuple[str, ...]) -> pa.Table:
        key = (group, columns)
        if key not in self._groups:
            with open_file(self.uri) as stream:
                self._groups[key] = self._opened(stream).group(group, columns)
            self.rows = max(self.rows, len(self._groups[key]))
        return self._groups[key]

    def _opened(self, stream: BinaryIO) -> Finished:
        return finished(self.uri, stream, self._columns)

    def _stamped(self, group: int, at: int, names: list[str]) -> dict[str, int | None]:
        if "_kafka_ts" not in names:
            return {}
        return {"kafka_ms": _event_ms(self._read(group, ("_kafka_ts",)).column(0)[at], "timestamp")}

    def _told(self, group: int, at: int, names: list[str], event: list[str] | None) -> dict[str, Any]:
        if "reason" in names and "raw_value" in names:
            row = self._read(group, _DIRTY).slice(at, 1).to_pylist()[0]
            return {"reason": row["reason"] or "", "field": row["field"] or "", "raw": shown(row["raw_value"])}
        if event is None or event[0] not in names:
            return {}
        value = self._read(group, (event[0],)).column(0)[at]
        return {"event_ms": _event_ms(value, event[1])}


def _event_ms(value: pa.Scalar, form: str) -> int | None:
    """Event time; None where the column no longer holds what it was made of."""
    if form == "timestamp":
        return None if value.as_py() is None else value.cast(pa.int64()).as_py() // 1000
    from spark_jobs.engine.event_time import event_ms
    from spark_jobs.engine.strict import JsonInt, Unfit

    plain = value.as_py()
    try:
        return event_ms(JsonInt(plain) if isinstance(plain, int) else plain, form)
    except Unfit:
        return None
