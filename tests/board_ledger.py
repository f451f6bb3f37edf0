"""A ledger full of pipelines, written row by row without running anything: for the board's pages at their largest.

Deterministic; times are relative to `now_ms`. What is written is what the real thing leaves, as far as pages read it.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import insert
from sqlalchemy.engine import Engine

from tests.world import HOUR, make_pipeline
from tidegate.core.base.offsets import Interval
from tidegate.core.base.plain import dumps, to_plain
from tidegate.core.batch.totals import Sums, Totals
from tidegate.core.files.receipt import DirtySample, PartitionRows
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.tell.notices import Finding
from tidegate.core.window import readiness
from tidegate.core.window.due import ArchiveNote
from tidegate.core.window.lateness import Floor
from tidegate.core.window.states import WindowKey
from tidegate.ledger import schema

MINUTE = 60_000
SHOPS = (
    "orders",
    "clicks",
    "payments",
    "sensors",
    "flights",
    "readings",
    "inventory",
    "logins",
    "invoices",
    "shipments",
)
TROUBLES = ("", "", "", "", "", "", "", "refused", "blocked", "due", "late", "writing", "alarm", "", "", "", "closing")
"""What is the matter with the n-th pipeline; most are well."""


@dataclass(frozen=True)
class Sizes:
    """Of each pipeline: hourly windows, Kafka partitions, batches for one window, files of a generation."""

    windows: int = 100
    partitions: int = 4
    batches: int = 1
    files: int = 3


def pipeline_named(number: int, start_ms: int) -> Pipeline:
    """A name, a table, a zone."""
    name = f"{SHOPS[number % len(SHOPS)]}_{number:04d}"
    made = make_pipeline(f"file:///lake/{name}")
    windows = replace(made.windows, start_ms=start_ms, timezone="Europe/Berlin" if number % 7 == 3 else "UTC")
    partition_by = ("date", "hour", "site")
    sink = replace(made.sink, table=f"lake.{name}")
    return replace(made, name=name, windows=windows, partition_by=partition_by, sink=sink)


def rows(pipelines: Iterable[Pipeline], sizes: Sizes, now_ms: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """(table, row) of everything, pipeline by pipeline."""
    for number, one in enumerate(pipelines):
        yield from _of(one, TROUBLES[number % len(TROUBLES)], sizes, now_ms)


def _of(p: Pipeline, trouble: str, sizes: Sizes, now_ms: int) -> Iterator[tuple[str, dict[str, Any]]]:
    start, count = p.windows.start_ms, sizes.windows * sizes.batches
    each = 1000
    yield "pipelines", {"name": p.name, "version": 9, "next_batch_id": count + 2, "topic_id": "t1", "created_ms": start}
    yield "spec_versions", {
        "pipeline": p.name, "version": 1, "fingerprint": "0" * 64, "compiled": dumps(p), "created_ms": start,
    }  # fmt: skip
    for number in range(1, count + 2):
        yield from _batch(p, number, count, trouble, sizes, each, now_ms)
    open_windows = {"due": 3, "late": 1, "closing": 1}.get(trouble, 1)
    for index in range(sizes.windows - open_windows):
        yield from _window(p, index, trouble, sizes, each, now_ms)
    if trouble == "closing":
        yield "windows", _window_row(p, sizes.windows - 1, "CLOSING", count + 1)
    parts = (Interval(start, start + (sizes.windows - open_windows - 1) * HOUR),)
    ended = tuple(start + (sizes.windows - n) * HOUR for n in (3, 2)) if trouble == "due" else ()
    note = ArchiveNote(parts, False, ended, now_ms - 5 * MINUTE)
    yield "archive_notes", {"pipeline": p.name, "content": dumps(note)}
    done = count * each * sizes.partitions
    sums = Sums(
        offsets=done, read=done, data=done - count, late=count // 10, dirty=count - count // 10, bytes=done * 90
    )
    yield "totals", {"pipeline": p.name, "through_batch": count, "content": dumps(Totals(ingested=sums))}
    if trouble == "due":
        finding = dumps(Finding(kind="late_window", key="late", subject="", what="an hour is late"))
        yield "notices", {"pipeline": p.name, "key": "late", "content": finding, "first_ms": now_ms - HOUR}


def _batch(
    p: Pipeline, number: int, count: int, trouble: str, sizes: Sizes, each: int, now_ms: int
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The one above `count` is open where there is trouble with it, else there is none."""
    last = number > count
    state = {"refused": "WRITING", "blocked": "SEALED", "writing": "WRITING", "closing": "PLANNED"}.get(trouble)
    if last and state is None:
        return
    at = p.windows.start_ms + number * HOUR // sizes.batches + 30 * MINUTE
    at = min(at, now_ms - 5 * MINUTE) if last else at
    refused = (
        f"batch {number}: 1,204 of 4,000 records are dirty, over dirty.max_ratio 0.01; mostly value: 1e999 is no int "
        "(for example partition 2 offset 88121: <script>alert(1)</script>)"
    )
    yield "batches", {
        "pipeline": p.name, "batch_id": number, "state": state if last else "LANDED", "epoch": 2 if last else 1,
        "nonce": "abc", "revision": 1, "spec_version": 1, "rules_version": 1, "topic": p.source.topic, "topic_id": "t1",
        "clock_ms": at, "floor": dumps(Floor(p.windows.start_ms)), "records": each * sizes.partitions,
        "manifest_digest": None if last else "d" * 64, "receipt": None if last else _receipt(number),
        "side_moved": not last, "side_registered": not last,
        "refused": refused if last and trouble == "refused" else None,
        "refused_kind": "dirty_limit" if last and trouble == "refused" else None,
        "blocked": "landed/7 has other files than its manifest" if last and trouble == "blocked" else None,
        "planned_ms": at, "sealed_ms": None if last else at + MINUTE, "landed_ms": None if last else at + 2 * MINUTE,
        "cleaned_ms": None, "kind": "ingest", "began_ms": at, "released": None,
    }  # fmt: skip
    for part in range(sizes.partitions):
        low, high = (number - 1) * each, number * each
        fates = {"read": each, "data": each - 1, "late": int(number % 10 == 0), "dirty": int(number % 10 != 0)}
        fates |= {"filtered": 0, "dropped": 0, "rerouted": 0, "bytes": each * 90, "max_kafka_ms": at}
        yield "batch_ranges", {
            "pipeline": p.name, "batch_id": number, "partition": part, "start": low, "end": high,
            **({} if last else fates), "gaps": None if last else "[]",
        }  # fmt: skip
        yield "batch_partitions", {
            "pipeline": p.name, "batch_id": number, "partition": part, "planned_end": high, "log_start": 0,
            "last_stable_offset": high, "high_watermark": high + 20 * part, "drained": False,
            "max_event_ms": None if last else at - 5 * MINUTE - (2 * HOUR if part == 2 else 0), "advanced_ms": at,
            "open_transaction_since_ms": None, "timed_ms": at,
        }  # fmt: skip
    yield "events", _event(p, at, "batch planned", f"batch {number}", {"records": each * sizes.partitions})
    if not last:
        yield "events", _event(p, at + MINUTE, "batch sealed", f"batch {number}", {"epoch": 1})
        yield "events", _event(p, at + 2 * MINUTE, "batch landed", f"batch {number}", {})
        yield "run_bindings", {
            "pipeline": p.name, "run": f"{p.name}.ingest/scheduled__{number}", "batch_id": number,
        }  # fmt: skip
        yield from _shares(p, number, sizes, each)


def _receipt(number: int) -> str:
    """Only what pages read of it."""
    raw = json.dumps({"value": "<script>alert(1)</script>", "site": "a\u202eb"}, ensure_ascii=False)
    sample = DirtySample(1, (number - 1) * 1000 + 7, "1e999 is no int", "value", raw)
    return json.dumps({"samples": [to_plain(sample)]})


def _shares(p: Pipeline, number: int, sizes: Sizes, each: int) -> Iterator[tuple[str, dict[str, Any]]]:
    window = p.windows.start_ms + (number - 1) // sizes.batches * HOUR
    for part in range(sizes.partitions):
        share = {"pipeline": p.name, "window_ms": window, "batch_id": number, "partition": part, "rerouted": 0}
        low, high = (number - 1) * each, number * each - 1
        yield "batch_window_totals", {**share, "kind": "data", "rows": each - 1, "min_offset": low, "max_offset": high}
        if number % 10 == 0:
            before = {**share, "window_ms": window - HOUR, "kind": "late", "rows": 1}
            yield "batch_window_totals", {**before, "min_offset": high, "max_offset": high}


def _window_row(p: Pipeline, index: int, state: str, closing: int, blocked: str | None = None) -> dict[str, Any]:
    at = p.windows.start_ms + index * HOUR
    closed = at + 3 * HOUR if state == "CLOSED" else None
    row = {"pipeline": p.name, "start_ms": at, "end_ms": at + HOUR, "state": state, "closing_batch": closing}
    return row | {"closed_ms": closed, "blocked": blocked}


def _window(
    p: Pipeline, index: int, trouble: str, sizes: Sizes, each: int, now_ms: int
) -> Iterator[tuple[str, dict[str, Any]]]:
    at, closing = p.windows.start_ms + index * HOUR, (index + 2) * sizes.batches
    blocked = "publish/x holds files that its manifest does not know" if trouble == "alarm" and index == 40 else None
    yield "windows", _window_row(p, index, "CLOSED", closing, blocked)
    kinds = ["archive"]
    if index % 23 == 11:
        kinds.append("replay")
    if index % 31 == 8:
        kinds.append("reopen")
    if index % 61 == 20:
        kinds.append("rollback")
    total = (each - 1) * sizes.partitions * sizes.batches
    for number, kind in enumerate(kinds, 1):
        newest = number == len(kinds)
        weight = 0 if index % 37 == 30 else total * (40 + (index * 7) % 24 * 3) // 110
        yield "generations", {
            "pipeline": p.name, "window_ms": at, "number": number, "state": "CURRENT" if newest else "RETIRED",
            "epoch": 1, "nonce": "n", "kind": kind, "directory": f"{p.sink.workdir}/publish/x",
            "location": f"{p.sink.location}/date=x/hour=y", "rows": weight, "digest": f"{index:064x}",
            "built_ms": at + 3 * HOUR, "published_ms": at + 3 * HOUR + MINUTE, "announced_ms": at + 3 * HOUR + MINUTE,
            "retired_ms": None if newest else at + 9 * HOUR, "cleaned_ms": None, "began_ms": at + 3 * HOUR,
            "origin": None,
        }  # fmt: skip
        for batch in range(index * sizes.batches + 1, (index + 1) * sizes.batches + 1):
            yield "generation_batches", {
                "pipeline": p.name, "window_ms": at, "number": number, "batch_id": batch, "kind": "data",
                "cleared": False,
            }  # fmt: skip
        for file in range(sizes.files):
            yield "generation_files", {
                "pipeline": p.name, "window_ms": at, "number": number, "path": f"site=s{file}/{number}-{file}.parquet",
                "kind": "data", "partition_values": "[]", "rows": total // sizes.files, "bytes": 1_234_567,
                "min_event_ms": at, "max_event_ms": at + HOUR - 1, "checksum": "1",
                "partitions": dumps((PartitionRows(0, 1, 0, 0),)),
            }  # fmt: skip
    subject = f"window {_id(at)}"
    yield "events", _event(p, at + 3 * HOUR, "window closing", subject, {"closing_batch": closing})
    yield "events", _event(p, at + 3 * HOUR + MINUTE, "generation published", subject, {"generation": 1})
    reason, decided = "watermark has passed the window's end", at + 3 * HOUR
    passed = readiness.Certificate(
        pipeline=p.name,
        window=WindowKey(at, at + HOUR),
        ready=True,
        reason=reason,
        decided_ms=decided,
        batch_id=closing,
        watermark_ms=at + HOUR,
        partitions=(),
        blockers=(),
    )
    yield "certificates", {
        "pipeline": p.name, "window_ms": at, "ready": True, "content": dumps(passed), "decided_ms": at + 3 * HOUR,
    }  # fmt: skip


def _id(at: int) -> str:
    from tidegate.core.window.cut import window_id

    return window_id(at)


def _event(p: Pipeline, at: int, what: str, subject: str, detail: Any) -> dict[str, Any]:
    return {
        "at_ms": at, "pipeline": p.name, "actor": f"airflow {p.name}.ingest/scheduled__x/land try 1", "what": what,
        "subject": subject, "detail": dumps(detail),
    }  # fmt: skip


# ---------------------------------------------------------------- writing


def write(engine: Engine, found: Iterable[tuple[str, dict[str, Any]]], chunk: int = 50_000) -> int:
    """How many rows. By COPY where the database has it."""
    count, waiting = 0, []
    for item in found:
        waiting.append(item)
        if len(waiting) == chunk:
            count += _write(engine, waiting)
            waiting = []
    return count + _write(engine, waiting)


def _write(engine: Engine, items: list[tuple[str, dict[str, Any]]]) -> int:
    tables: dict[str, list[dict[str, Any]]] = {}
    for table, row in items:
        tables.setdefault(table, []).append(row)
    with engine.begin() as c:
        for name, found in tables.items():
            table = schema.metadata.tables[name]
            columns = [x.name for x in table.c if x.name in found[0] or any(x.name in row for row in found)]
            if c.dialect.name == "postgresql":
                _copy(c, name, columns, found)
            else:
                c.execute(insert(table), [{x: row.get(x) for x in columns} for row in found])
    return len(items)


def _copy(c: Any, table: str, columns: list[str], found: list[dict[str, Any]]) -> None:
    text = io.StringIO()
    writer = csv.writer(text)
    for row in found:
        writer.writerow([r"\N" if row.get(x) is None else row[x] for x in columns])
    text.seek(0)
    names = ", ".join(f'"{x}"' for x in columns)
    with c.connection.cursor() as cursor:
        cursor.copy_expert(f"COPY {table} ({names}) FROM STDIN WITH (FORMAT csv, NULL '\\N')", text)


def fill(engine: Engine, count: int, sizes: Sizes, now_ms: int) -> list[Pipeline]:
    """`count` pipelines whose newest window began two hours ago."""
    start = now_ms // HOUR * HOUR - (sizes.windows + 1) * HOUR
    made = [pipeline_named(number, start) for number in range(count)]
    write(engine, rows(made, sizes, now_ms))
    return made
