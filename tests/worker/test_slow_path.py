"""Messages that are decoded one by one are counted: by the decoders, in receipts, logs and measures."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from engine_fixtures import chunk_of, event, job_plan, pipeline, records, serving

from spark_jobs.engine.formats.json_decoder import JsonDecoder
from spark_jobs.engine.job import run_plan
from spark_jobs.engine.slowness import Slowness, together
from tests.world import World, record
from tidegate.core.base.plain import loads
from tidegate.core.files import slow_path
from tidegate.core.files.receipt import Receipt
from tidegate.core.files.slow_path import REASONS, Slow, told
from tidegate.core.restore.record import BatchRecord, unpack
from tidegate.core.spec.pipeline import Column, EventTime, Format
from tidegate.core.target.paths import RECEIPT
from tidegate.storage.local import LocalStorage
from tidegate.workflow.look.measures import measure_all

ROOT = Path(__file__).parents[2]
MINUTES = EventTime("$.t", "%Y-%m-%d %H:%M")


@pytest.mark.parametrize(
    ("reason", "columns", "time", "message"),
    [
        (slow_path.RARE, [("c", "int", "$.c")], None, '{"c":1,"z":-nan}'),
        (slow_path.DIRTY, [("c", "int", "$.c")], None, '{"c":1.5}'),
        (slow_path.DIRTY, [("c", "int", "$.c")], None, '{"c":1'),
        (slow_path.NUMBER, [("c", "double", "$.c")], None, '{"c":0.%s}' % ("1" * 900)),
        (slow_path.TIME, [("c", "int", "$.c")], MINUTES, '{"t":"2013-01-05  04:05"}'),
        (slow_path.TIME, [("c", "int", "$.c")], EventTime("$.t", "%Y-%m-%d %I %p"), '{"t":"2013-01-05 04 PM"}'),
        (slow_path.KEY, [("c", "int", "$.c")], None, '{"%s":1}' % (r"\u00e9" * 300)),
        (slow_path.UNKNOWN, [("c", "struct<a:int>", "$.c"), ("d", "int", "$.c.b")], None, '{"c":{"a":1,"b":2,"x":3}}'),
        (slow_path.TYPE, [("c", "map<double,int>", "$.c")], None, '{"c":{"1":2}}'),
    ],
)
def test_each_reason_is_counted_once(reason: str, columns: Any, time: EventTime | None, message: str) -> None:
    of = replace(
        pipeline("/nowhere"),
        columns=tuple(Column(name=name, type=kind, path=path) for name, kind, path in columns),
        event_time=time or EventTime(None),
        format=Format("json", "capture"),
        partition_by=("date",),
    )
    plain = b'{"t":"2013-01-05 04 AM"}' if time and "%p" in time.format else b'{"t":"2013-01-05 04:05"}'
    whole = reason == slow_path.TYPE or (time is not None and time is not MINUTES)  # of this pipeline all are slow
    decoded = JsonDecoder(of).decode(chunk_of([plain, message.encode(), plain]))
    assert bool(decoded.bad) == (reason == slow_path.DIRTY)
    assert decoded.slow.messages == {reason: 3 if whole else 1}
    assert decoded.slow.seconds > 0
    plainly = JsonDecoder(of).decode(chunk_of([plain, plain])).slow
    assert plainly.messages == ({reason: 2} if whole else {})
    rules = JsonDecoder(of, vectorised=False).decode(chunk_of([plain, message.encode()])).slow
    assert rules.messages == {slow_path.LIBRARY: 2}


def test_every_reason_is_explained_where_people_look() -> None:
    page = (ROOT / "docs/formats.md").read_text()
    for reason, meaning in REASONS.items():
        assert f"| `{reason}` | {meaning} |" in page
    with pytest.raises(AssertionError):
        Slowness().count("other")


def test_a_receipt_tells_of_them_and_is_as_ever_without(tmp_path: Path) -> None:
    def receipt(folder: str, values: list[bytes | None]) -> tuple[Receipt, dict]:
        plan = job_plan(pipeline(tmp_path / folder), [(0, 0, len(values)), (1, 0, len(values))])
        made = run_plan(plan, LocalStorage(), open_reader=serving({p: records(values) for p in (0, 1)}), tasks=2)
        text = (Path(plan.attempt_dir.removeprefix("file://")) / RECEIPT).read_text()
        assert loads(Receipt, text) == made
        return made, json.loads(text)

    odd = event()[:-1] + b',"z":nan}'
    made, plain = receipt("slow", [event(), odd, odd, b"no", None])
    assert made.slow == (Slow(slow_path.DIRTY, 4), Slow(slow_path.RARE, 4))
    assert plain["slow"] == [{"messages": 4, "reason": "dirty"}, {"messages": 4, "reason": "rare form"}]
    made, plain = receipt("plain", [event(), event()])
    assert (made.slow, made.slow_seconds) == ((), 0)
    assert not {"slow", "slow_seconds"} & plain.keys()


def test_what_is_told() -> None:
    slow = together([(Slow("time format", 12_000), Slow("dirty", 30)), (Slow("dirty", 4),)])
    assert told(slow, 400_000, 2.345) == (
        "12,034 of 400,000 messages (3.0 %) took the slow path: 12,000 time format, 34 dirty; about 2.3 CPU-seconds"
    )


def test_the_log_the_ledger_and_the_measures_know_a_batch(tmp_path: Path) -> None:
    world = World(tmp_path)
    try:
        world.produce(json.dumps(record("a", 0.1)).encode()[:-1] + b',"z":nan}', record("b", 0.2))
        world.ingest("r1")
        (line,) = [s for s in world.said if "slow path" in s]
        assert line.startswith("batch 1: 1 of 2 messages (50.0 %) took the slow path: 1 rare form; about ")
        ctx = world.context()

        def measured() -> dict:
            found = measure_all([world.pipeline], {}, ctx.ledger.reads, world.clock.now_ms())
            return {m.labels[1:]: m.value for m in found if m.name == "tidegate_slow_records"}

        assert measured() == {(("reason", "rare form"),): 1}
        sealed = next(e for e in ctx.ledger.reads.events(world.pipeline.name, 100, None) if e.what == "sealed")
        assert sealed.detail["slow"] == {"rare form": 1}
        kept = ctx.storage.read(ctx.layout.high_water_mark(1))
        manifest = unpack(BatchRecord, kept).manifest
        assert manifest is not None
        assert (manifest.slow, manifest.read_rows) == ((), 2)  # a release before this one can read it
        world.produce(record("c", 0.3))
        world.ingest("r2")
        assert measured() == {}
        assert len([s for s in world.said if "slow path" in s]) == 1
    finally:
        world.close()
