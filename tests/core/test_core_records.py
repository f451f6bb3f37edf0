"""What storage keeps of the ledger: records come back whole or not at all."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from typing import Any

import pytest
from core_values import HOUR, PIPELINE, T0

from tidegate.core.batch.states import Plan
from tidegate.core.replay.rollback import Origin
from tidegate.core.restore import ahead, record
from tidegate.core.spec.pipeline import Notify
from tidegate.core.window.lateness import Floor
from tidegate.core.window.states import WindowKey

# ---------------------------------------------------------------- records

PLAN = Plan(
    pipeline="flights",
    batch_id=7,
    revision=1,
    spec_version=3,
    rules_version=1,
    topic="flights",
    topic_id="id",
    clock_ms=T0,
    floor=Floor(0),
    partitions=(),
)


def test_records_come_back_whole_or_not_at_all() -> None:
    one = record.BatchRecord(PLAN, PIPELINE, "f", None, "by hand")
    packed = record.pack(one)
    assert record.unpack(record.BatchRecord, packed) == one
    assert record.pack(replace(one)) == packed
    assert packed[4:8] == bytes(4), "no time of packing: equal records give equal bytes whenever it was"
    for spoilt in (b"", b"x", packed[:-9], packed[:30], gzip.compress(b"{}"), gzip.compress(b"[1]"), packed + b"x"):
        with pytest.raises(ValueError, match="BatchRecord|Expecting|not a"):
            record.unpack(record.BatchRecord, spoilt)


def generation_record(**more: Any) -> record.GenerationRecord:
    key = WindowKey(T0, T0 + HOUR)
    return record.GenerationRecord(
        pipeline="flights",
        window=key,
        number=1,
        epoch=1,
        kind="archive",
        batches=(1,),
        directory="d",
        location="l",
        files=(),
        digest="x",
        **more,
    )


@pytest.mark.parametrize(
    ("one", "path"),
    [
        (record.BatchRecord(PLAN, replace(PIPELINE, notify=Notify(callback="a.b:c")), "f"), ("spec", "notify")),
        (
            record.BatchRecord(PLAN, replace(PIPELINE, sink=replace(PIPELINE.sink, metastore_conn_id="m")), "f"),
            ("spec", "sink", "metastore_conn_id"),
        ),
        (generation_record(origin=Origin(1, "why")), ("origin",)),
        (generation_record(decoders=(record.Decoder("f", PIPELINE),)), ("decoders",)),
    ],
)
def test_a_field_that_the_release_before_does_not_know_is_there_only_where_it_says_something(
    one: Any, path: tuple[str, ...]
) -> None:
    assert record.unpack(type(one), record.pack(one)) == one
    content = json.loads(gzip.decompress(record.pack(one)))
    for name in path:
        content = content[name]
    assert content
    plain = json.loads(gzip.decompress(record.pack(record.BatchRecord(PLAN, PIPELINE, "f"))))
    assert "notify" not in plain["spec"]
    assert "metastore_conn_id" not in plain["spec"]["sink"]
    assert {"manifest", "abandoned"} <= plain.keys(), "nothing else is left out"
    plain = json.loads(gzip.decompress(record.pack(generation_record())))
    assert {"origin", "decoders"}.isdisjoint(plain)
    assert {"certificate", "late"} <= plain.keys()


def test_plans_of_two_ledgers() -> None:
    assert ahead.same_plan(PLAN, replace(PLAN, spec_version=9))
    assert not ahead.same_plan(PLAN, replace(PLAN, revision=2, spec_version=9))
