"""A short life on the whole product (`tests/world.py`), beside the same life in memory: they decide alike.

So what the simulation shows of the core by the thousand holds for the ledger, the workflow and the worker's engine."""

from __future__ import annotations

import json
import os
import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests import world
from tests.fakes.clock import FakeClock
from tests.fakes.kafka import Record as KafkaRecord
from tests.mutants.quick import quick
from tests.simulation.calendar import HOUR
from tests.simulation.course import Course
from tests.simulation.generator import World
from tests.simulation.oracle import Oracle
from tests.simulation.pipelines import TOPIC, calendar_of
from tests.simulation.settings import Setting, draw
from tests.simulation.topic import BAD
from tests.simulation.verdicts import DATA, DIRTY, LATE, REROUTED
from tidegate.core.base.errors import NotReady
from tidegate.core.batch.states import Plan
from tidegate.core.spec.pipeline import Merge
from tidegate.core.window.cut import time_values, window_end
from tidegate.core.window.states import WindowKey
from tidegate.workflow.batch import ingest
from tidegate.workflow.publish import archive

Life = tuple[Setting, random.Random, World, Oracle]


@pytest.fixture(autouse=True)
def cheap_worlds() -> Iterator[None]:
    before = os.fsync, world.make_engine  # type: ignore[attr-defined]
    quick()
    yield
    os.fsync, world.make_engine = before  # type: ignore[attr-defined]


class Both(Course):
    """Whatever the course decides, the product is asked too, at the same moment."""

    def __init__(self, setting: Setting, rng: random.Random, generated: World, oracle: Oracle, folder: Path) -> None:
        super().__init__(setting, rng, generated, oracle)
        made = world.make_pipeline(f"file://{folder}/lake/readings")
        mine = self.pipeline
        self.pipeline = replace(
            made,
            source=replace(mine.source, topic=TOPIC),
            event_time=mine.event_time,
            windows=mine.windows,
            late_policy=mine.late_policy,
            ingest=replace(made.ingest, max_records=mine.ingest.max_records),
            archive=replace(made.archive, merge=Merge(None)),
        )
        self.product = world.World(folder, self.pipeline)
        self.product.kafka.create(TOPIC, setting.partitions)
        self.places: dict[str, list[tuple[int, int]]] = defaultdict(list)
        self.by_window: dict[int, list[tuple[int, int]]] = defaultdict(list)

    # ------------------------------------------------------------ the product's side

    def _ask(self, clock_ms: int, what: Any, *of: Any) -> Any:
        """A step of the workflow in a process of its own, on the topic as it is now."""
        self.product.clock = FakeClock(clock_ms)
        self._mirror()
        ctx = self.product.context()
        try:
            return what(ctx, *of)
        finally:
            self.product.close()

    def _mirror(self) -> None:
        topic, kafka = self.world.topic, self.product.kafka
        kafka.add_partitions(TOPIC, len(topic.logs))
        for p, log in topic.logs.items():
            fake = kafka._log(TOPIC, p)
            fake.records = [
                KafkaRecord(o, r.at, None, _message(r.event, r.kind))
                for o, r in enumerate(log.records)
                if r is not None
            ]
            fake.end, fake.start = log.ends, log.begins
            fake.open_since = topic.readable(p) if topic.holds_back(p) else None

    # ------------------------------------------------------------ decisions

    def _find_nothing(self, now: int) -> None:
        super()._find_nothing(now)
        assert self._ask(now, ingest.plan, f"nothing at {now}") is None, "the product has found something to plan"

    def _commit(self, plan: Plan) -> None:
        batch_id = self._ask(plan.clock_ms, ingest.plan, f"run {plan.batch_id}")
        real = self._ask(plan.clock_ms, lambda ctx: ctx.ledger.batches.get(ctx.name, batch_id).plan)
        pinned = {"topic_id": plan.topic_id, "spec_version": 1}
        assert replace(real, **pinned) == plan
        super()._commit(plan)

    def _land(self, plan: Plan) -> None:
        super()._land(plan)
        for p, offset, place, window in self._fates:
            self.places[place].append((p, offset))
            if place in (DATA, REROUTED) and window is not None:
                self.by_window[window].append((p, offset))
        self._ask(plan.clock_ms, ingest.write, f"run {plan.batch_id}")
        self._ask(plan.clock_ms, ingest.land, f"run {plan.batch_id}")
        assert self._ask(plan.clock_ms, lambda ctx: ctx.ledger.windows.facts(ctx.name)) == self.ledger.facts

    def _close(self, start: int) -> bool:
        is_ready = self._ask(self.world.now, archive.ready, self._key(start)).ready
        closes = super()._close(start)
        assert closes == is_ready, start
        return closes

    def _finish_close(self, start: int) -> None:
        super()._finish_close(start)
        try:
            published = self._ask(self.world.now, archive.publish, self._key(start))
        except NotReady:
            published = None
        assert (published is not None) == (start in self.ledger.closed), start
        if published is not None:
            get = self._ask(self.world.now, lambda ctx: ctx.ledger.windows.generation(ctx.name, self._key(start), 1))
            assert tuple(get.batches) == self.ledger.closed[start]

    def _key(self, start: int) -> WindowKey:
        return WindowKey(start, window_end(start, self.pipeline.windows))

    # ------------------------------------------------------------ what readers see

    def check_tables(self) -> None:
        zone, seen = self.pipeline.windows.timezone, defaultdict(list)
        for values, location in self.product.partitions("lake.readings").items():
            seen[tuple(v for v in values if v[0] != "site")] += self.product.rows_at(location)
        wanted = {
            time_values(start, ("date", "hour"), zone): sorted(self.by_window[start])
            for start in self.ledger.closed
            if self.by_window[start]
        }
        assert {k: sorted(v) for k, v in seen.items()} == wanted
        for kind in (LATE, DIRTY):
            assert self.product.table(f"__{kind}") == sorted(self.places[kind]), kind


def _message(event: int | None, kind: str) -> bytes:
    if kind == BAD:
        return b"no json"
    return json.dumps({"id": "x", "site": "a", "value": 1} | ({} if event is None else {"at": event})).encode()


@pytest.mark.parametrize(("idle", "late"), [("clock", "side"), ("follow", "reroute")])
def test_the_product_decides_as_the_course_does(tmp_path: Path, rng: random.Random, idle: str, late: str) -> None:
    life = _life_that_closes_windows(rng, idle, late)
    both = Both(*life(), tmp_path)
    both.live()
    both.check_tables()
    assert both.ledger.closed


def _life_that_closes_windows(rng: random.Random, idle: str, late: str) -> Callable[[], Life]:
    """In ten windows an outage of a day may begin early, and then no time ever comes: such lives are drawn again. Drawn
    in memory, where one is a matter of milliseconds."""
    for _ in range(50):
        life = partial(_life, rng.randrange(2**32), idle, late)
        course = Course(*life())
        course.live()
        if course.ledger.closed:
            return life
    raise AssertionError("no life closes a window")


def _life(seed: int, idle: str, late: str) -> Life:
    drawn = draw(random.Random(seed), HOUR)
    setting = replace(
        drawn,
        windows=10,
        idle=idle,
        on_silence="close",
        max_lag=None,
        late=late,
        tick=HOUR // 2,
        retention=1000 * HOUR,
        history=min(drawn.history, 3 * HOUR),
        silence=HOUR,
        on_data_loss="record",
        max_age=None,
        max_records=max(drawn.max_records, 20),
        added=tuple(drawn.start + 4 * HOUR for _ in drawn.added),
        transactions=True,
        apart=0,
        weather=frozenset({*drawn.weather, "slow", "outages", "resends"} - {"bad records", "year ahead"}),
    )
    generated = World(setting, random.Random(f"{seed} world"))
    oracle = Oracle(setting, generated.topic, calendar_of(setting))
    return setting, random.Random(f"{seed} course"), generated, oracle
