"""Events of one key in landed files of a mirror: asked by `tidegate where --key`.

A request, and its answer:

    {"key": [["column", "type", value], ...], "files": [["uri", ...], ...], "content": [["column", "type"], ...],
     "most": 1000}
    {"events": [{"partition", "offset", "batch_id", "commit", "row", "n", "operation", "digest", "file"}, ...],
     "count": 3, "unread": ""}

Each file has several places where it can be. Values are as `core.mirror.key_values` has them. Row groups whose
statistics leave the key out are skipped. `events` are the newest ones of `count`, the newest first.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.engine.identity import row_hashes
from spark_jobs.engine.sinks import Finished, finished
from spark_jobs.engine.types import arrow_type, filled, schema_of
from spark_jobs.handlers.places import open_first
from tidegate.core.base.hivetypes import parse
from tidegate.core.mirror.key_history import DELETE, Event, newest
from tidegate.core.spec.change_events import EVENT_COLUMNS
from tidegate.core.spec.pipeline import KAFKA_COLUMNS

_OP, _COMMIT, _ROW, _ = (name for name, _, _ in EVENT_COLUMNS)
_TOPIC, _PARTITION, _OFFSET, _KAFKA_TS, _BATCH = (name for name, _ in KAFKA_COLUMNS)
_HOW = {
    _PARTITION: "partition",
    _OFFSET: "offset",
    _BATCH: "batch_id",
    _COMMIT: "commit",
    _ROW: "row",
    _OP: "operation",
}


def answer(request: dict[str, Any]) -> dict[str, Any]:
    key = {name: _scalar(kind, value) for name, kind, value in request["key"]}
    kept: list[Event] = []
    count, unread = 0, ""
    for uris in request["files"]:
        try:
            uri, stream = open_first(uris)
            with stream:
                for some in _events(uri, finished(uri, stream), key, request["content"]):
                    count += len(some)
                    kept = newest((*kept, *some), request["most"])
        except Exception as e:  # other files have events, too
            unread = unread or f"{uris[0]}: {type(e).__name__}: {e}"
    return {"events": [dataclasses.asdict(e) for e in kept], "count": count, "unread": unread}


def _events(
    uri: str, file: Finished, key: dict[str, pa.Scalar], content: Sequence[Sequence[str]]
) -> Iterator[list[Event]]:
    """Those of each row group that has any."""
    names = file.schema.names
    missing = [n for n in (*key, *_HOW) if n not in names]
    if missing:
        raise ValueError(f"its rows have no {', '.join(missing)}")
    for group in range(file.groups()):
        if not _may_hold(file.spans(group), key):
            continue
        mask = _mask(file.group(group, list(key)), key)
        if pc.any(mask).as_py():
            wanted = {*_HOW, *(n for n, _ in content)}
            yield _told(uri, file.group(group, [n for n in names if n in wanted]).filter(mask), content)


def _may_hold(spans: Any, key: dict[str, pa.Scalar]) -> bool:
    for name, scalar in key.items():
        value, (low, high) = scalar.as_py(), spans.get(name, (None, None))
        # a format may tell bounds in another type than its rows have: such ones leave nothing out
        if type(low) is type(high) is type(value) and not low <= value <= high:
            return False
    return True


def _mask(rows: pa.Table, key: dict[str, pa.Scalar]) -> Any:
    mask = None
    for name, scalar in key.items():
        is_it = pc.fill_null(pc.equal(rows[name].cast(scalar.type), scalar), False)
        mask = is_it if mask is None else pc.and_(mask, is_it)
    return mask


def _told(uri: str, rows: pa.Table, content: Sequence[Sequence[str]]) -> list[Event]:
    """`N` is 0: an event. A delete says nothing but its key."""
    digests = row_hashes(_content(rows, content), {}).to_pylist()
    found = rows.select(list(_HOW)).rename_columns(list(_HOW.values())).to_pylist()
    return [
        Event(**row, n=0, digest=0 if row["operation"] == DELETE else digest, file=uri)
        for row, digest in zip(found, digests, strict=True)
    ]


def _content(rows: pa.Table, content: Sequence[Sequence[str]]) -> pa.Table:
    """In the table's types: a column that the file lacks is null, as a merge has it."""
    there = {name: rows[name] for name in rows.column_names}
    return filled(schema_of(tuple((name, kind) for name, kind in content)), there, len(rows))


def _scalar(kind: str, value: Any) -> pa.Scalar:
    wanted = arrow_type(parse(kind))
    if pa.types.is_timestamp(wanted):
        return pa.scalar(value, pa.int64()).cast(wanted)
    if pa.types.is_date(wanted):
        return pa.scalar(date.fromisoformat(value), wanted)
    if pa.types.is_binary(wanted):
        return pa.scalar(bytes.fromhex(value), wanted)
    if pa.types.is_decimal(wanted):
        return pa.scalar(Decimal(value), wanted)
    return pa.scalar(value, wanted)
