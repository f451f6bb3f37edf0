"""Messages through a whole job, into files, and back: what lies where, by (partition, offset)."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from spark_jobs.engine.job import run_plan
from tests.engine_fixtures import all_rows, job_plan, serving
from tests.value_rules.oracle_json import PlainSpec, Refused, Row
from tests.value_rules.oracle_values import kind_of
from tests.value_rules.plain_values import plain
from tidegate.core.files.receipt import DATA, DIRTY, LATE
from tidegate.core.spec.pipeline import Pipeline
from tidegate.storage import LocalStorage

Place = tuple[int, int]
"""(partition, offset)"""


def land(
    compiled: Callable[[PlainSpec, str], Pipeline], spec: PlainSpec, topic: dict[Place, bytes | None]
) -> dict[Place, Row | Refused]:
    """Raises AssertionError if a dirty row does not hold its message's bytes, or a place is there twice."""
    with tempfile.TemporaryDirectory(prefix="tidegate-types-") as directory:
        pipeline = compiled(spec, directory)
        pipeline = replace(pipeline, event_time=replace(pipeline.event_time, future="accept"))
        records: dict[int, list[tuple[int, bytes | None]]] = {}
        for (partition, offset), message in sorted(topic.items(), key=lambda item: item[0]):
            records.setdefault(partition, []).append((offset, message))
        plan = job_plan(pipeline, [(p, 0, len(found)) for p, found in records.items()])
        receipt = run_plan(plan, LocalStorage(), open_reader=serving(records, size=97))
        assert sum(r.read for r in receipt.ranges) == len(topic)
        found: dict[Place, Row | Refused] = {}
        for kind in (DATA, LATE, DIRTY):
            for row in all_rows(plan, receipt, kind):
                place = row["_partition"], row["_offset"]
                assert place not in found, f"{place} is there twice"
                found[place] = _dirty(row, topic[place]) if kind == DIRTY else _row(spec, row)
        return found


def _dirty(row: dict[str, Any], message: bytes | None) -> Refused:
    assert row["raw_value"] == message, f"dirty row of {message!r} holds {row['raw_value']!r}"
    return Refused(row["reason"], row["field"])


def _row(spec: PlainSpec, row: dict[str, Any]) -> Row:
    values = {c.name: plain(row[c.name], kind_of(c.type)) for c in spec.columns}
    extra = dict(row["_extra"]) if spec.unknown == "capture" else {}
    return Row(values, None, extra)
