"""Holds a keyed table against what its landed batches make, or a day of one against what its events make of the day
before, which is the plan's base: asked by a deep audit. Requests, and their answers:

    {"plan": "...", "buckets": [number, ...]}             an apply's; forgets whatever was asked before. {}
    {"events": [["batch", "uri", rows, bytes, n], ...]}      takes up their events. {"unread": why they cannot be read}
    {"bucket": [number, [["uri", rows, bytes], ...]]}     `core.mirror.comparison.Compared`, plain; with
      "below": [commit, row, n]                           compared with rows of the source, whose smallest LOW it is
    {"greatest": ["uri", ...]}                            [commit, row, n] of their events; null: one is not there.
                                                          It needs no plan
    {"within": [TableKeys, plain, ...]}                   these keys alone are read of the source, or summed. {}
    {"sums": [number, [["uri", rows, bytes], ...]]}       checksums of the bucket's rows by the parts of those keys:
                                                          `core.copy.checksums.Sums`, plain

Events wait in the plan's directory, cut by bucket, so that memory does not grow with the table. Who asks empties it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.engine.failures import from_exception, said
from spark_jobs.engine.mirror.base import read_base
from spark_jobs.engine.mirror.checksums import summed
from spark_jobs.engine.mirror.compare import against_source, compare, newest
from spark_jobs.engine.mirror.events import Handed, hand_over
from spark_jobs.engine.mirror.numbers import mask_of
from spark_jobs.engine.mirror.positions import greatest
from spark_jobs.engine.mirror.purge import without_older
from spark_jobs.engine.mirror.shape import Shape
from spark_jobs.storage import open_storage
from tidegate.core.base.plain import from_plain, to_plain
from tidegate.core.batch.jobs import ApplyPlan, loads_plan
from tidegate.core.copy.checksums import Sums, TableKeys
from tidegate.core.mirror.comparison import Compared
from tidegate.core.mirror.jobs import BaseFile, Bucket, EventFile, Position
from tidegate.core.mirror.parts import holds


def handler() -> Callable[[Any], dict[str, Any]]:
    pa.set_cpu_count(1)
    return Comparison().answer


class Comparison:
    """One conversation: the plan that it is about, and the events so far."""

    def __init__(self) -> None:
        self._plan: ApplyPlan | None = None
        self._handed: list[Handed] = []
        self._buckets = frozenset[int]()
        self._within: tuple[TableKeys, ...] = ()

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        if "plan" in request:
            return self._begin(request["plan"], request["buckets"])
        if "greatest" in request:
            return {"position": greatest(open_storage, request["greatest"])}
        assert self._plan is not None, "a plan comes first"
        if "events" in request:
            return {"unread": self._take_up(self._plan, [EventFile(*f) for f in request["events"]])}
        if "within" in request:
            self._within = tuple(from_plain(TableKeys, one) for one in request["within"])
            return {}
        if "sums" in request:
            return _plain(self._summed(self._plan, _bucket(*request["sums"])))
        bucket = _bucket(*request["bucket"])
        below = request.get("below")
        return _plain(self._compared(self._plan, bucket, None if below is None else tuple(below)))

    def _begin(self, text: str, buckets: list[int]) -> dict[str, Any]:
        plan = loads_plan(text)
        assert isinstance(plan, ApplyPlan)
        self._plan, self._handed, self._buckets, self._within = plan, [], frozenset(buckets), ()
        return {}

    def _take_up(self, plan: ApplyPlan, files: list[EventFile]) -> str:
        try:
            self._handed.append(hand_over(plan, open_storage, files, f"{len(self._handed):06d}", self._buckets))
        except Exception as e:  # the audit has more to say than this
            return said(from_exception(e))
        return ""

    def _compared(self, plan: ApplyPlan, bucket: Bucket, below: Position | None) -> Compared:
        number, ids = bucket.number, dict(plan.fields)
        before = next((b for b in plan.base if b.number == number), None)
        try:
            shape = _shape(plan, bucket)
            held = _held(plan, shape, bucket)
        except Exception as e:  # other buckets can be read
            return Compared(bucket=number, unread=said(from_exception(e)))
        try:
            base = read_base(shape, ids, open_storage, before, plan.buckets)
            made = newest(shape, open_storage, self._handed, number, base)
            if plan.sweep:
                made = without_older(shape, made, plan)
            if below is not None:
                return against_source(shape, number, made, held, below, self._within)
            return compare(shape, number, made, held, shape.purged_below(made))
        except Exception as e:
            return Compared(bucket=number, unmade=said(from_exception(e)))

    def _summed(self, plan: ApplyPlan, bucket: Bucket) -> Sums:
        assert self._within, "keys come first"
        try:
            shape = Shape(plan)
            return summed(shape, _held(plan, shape, bucket), self._within)
        except Exception as e:  # who asks has more to say than this
            return Sums(unread=said(from_exception(e)))


def _bucket(number: int, files: list[list[Any]]) -> Bucket:
    return Bucket(number, tuple(BaseFile(*f) for f in files))


def _plain(answer: Compared | Sums) -> dict[str, Any]:
    plain = to_plain(answer)
    assert isinstance(plain, dict)
    return plain


def _held(plan: ApplyPlan, shape: Shape, bucket: Bucket) -> pa.Table:
    """What the table has of the bucket, of the keys that the plan is about."""
    rows = read_base(shape, dict(plan.fields), open_storage, bucket, plan.buckets)
    if plan.part is None:
        return rows
    return rows.filter(mask_of(holds(plan.part, shape.key_values(rows, plan.part))))


def _shape(plan: ApplyPlan, bucket: Bucket) -> Shape:
    """Of a day in the columns that its files have: the spec may have others by now, or have some of them back, and what
    the day did not ask of the day before is no difference."""
    if not plan.whole or not bucket.files:
        return Shape(plan)
    there: set[str] = set()
    for file in bucket.files:
        with open_storage(file.uri).open_existing(file.uri) as stream:
            there |= set(pq.read_schema(stream).names)
    return Shape(replace(plan, columns=tuple(c for c in plan.columns if c.name in there)))
