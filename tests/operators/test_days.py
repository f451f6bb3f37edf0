"""A mirror by days on a real scheduler: a day is published, cleared, filled and replayed as an hour is.

`make test-operators` plays it; `make test` does not.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyhive import hive

from tests.mirror.worlds import event
from tests.operators.harness import Lane, Rig
from tests.operators.mirrors import process, send, topic
from tests.operators.ways import CLI, REST, TASK
from tidegate.core.base.instants import DAY_MS
from tidegate.core.window.states import WindowKey

DAY = timedelta(days=1)
FIRST = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - 3 * DAY
pytestmark = pytest.mark.skipif(os.environ.get("TIDEGATE_OPERATORS") != "all", reason="make test-operators")


class DayLane(Lane):
    """A mirror by days; its windows, which the harness calls hours, are days from `FIRST` on."""

    def hour(self, n: int) -> datetime:
        return FIRST + n * DAY

    def window(self, n: int) -> WindowKey:
        start = int(self.hour(n).timestamp() * 1000)
        return WindowKey(start, start + DAY_MS)

    def yaml(self) -> str:
        return f"""
version: 1
name: {self.name}
owner: operators
source: {{conn_id: kafka_{self.name}, topic: {self.topic}}}
format: {{type: debezium}}
columns:
  - {{name: id, type: bigint, nullable: false}}
  - {{name: word, type: string}}
windows: {{start: "{FIRST:%Y-%m-%dT%H:%M:%S}", timezone: UTC, watermark_delay: 1h, idle: follow}}
sink:
  {{kind: mirror, store: hive_daily, conn_id: hive_{self.name}, table: lake.{self.name},
    location: "file://{self.rig.lake / self.name}", key: [id], buckets: 2}}
ingest: {{retries: 0, spark: {{session: {self.session}}}}}
archive: {{retries: 0, max_active_runs: 4}}
"""

    def event(self, key: int, word: str | None, commit: int, day: float) -> tuple[bytes, bytes]:
        """Committed so many days after `FIRST`."""
        return event(key, word, commit, ms=int((FIRST + day * DAY).timestamp() * 1000))

    def rows(self, n: int) -> dict[int, str]:
        """As readers of the day's partition see them, through PyHive."""
        info = self.rig.info
        with hive.connect(info.hive_host, info.hive_port, username="tests", auth="NONE") as made, made.cursor() as c:
            c.execute(f"SELECT id, word FROM lake.{self.name} WHERE date = '{self.hour(n):%Y-%m-%d}'")
            found: list[tuple[int, str]] = c.fetchall()
        assert len({key for key, _ in found}) == len(found), "a key has two rows"
        return dict(found)

    def generations(self) -> list[tuple[Any, ...]]:
        """(window, number, state) of all days; windows by their start, ms UTC."""
        return self.rig.ledger(
            "SELECT window_ms, number, state FROM generations WHERE pipeline = :p ORDER BY 1, 2", p=self.name
        )


def test_days_follow_each_other_whatever_operators_do(rig: Rig) -> None:
    lane = DayLane("m_days", topic(rig, "m_days"))
    rig.add(lane)
    send(lane, lane.event(1, "a", 10, 0.2), lane.event(2, "b", 11, 0.3), lane.event(2, None, 12, 1.2))
    lane.land(1)

    # a publication is killed before its answer, and cleared
    lane.hive.hold(b"ADD")
    rig.api.pause(lane.archive, False)
    first, second = lane.scheduled(0), lane.scheduled(1)
    rig.wait_task(lane.archive, first, "publish", "running")
    rig.eventually("its request hangs", lambda: lane.hive.waiting)
    process(rig, lane.archive, first, "publish").kill()
    lane.hive.release()
    rig.wait_run(lane.archive, first, "failed")
    attempt = rig.task(lane.archive, first, "publish")[1]
    rig.clear(REST, TASK, lane.archive, first, "publish")
    rig.wait_task(lane.archive, first, "publish", "success", after=attempt)
    assert lane.rows(0) == {1: "a", 2: "b"}
    send(lane, lane.event(3, "c", 13, 1.5), lane.event(1, "z", 14, 2.3))
    lane.land(1)
    rig.wait_run(lane.archive, second, "success")
    assert lane.rows(1) == {1: "a", 3: "c"}

    # what stands is left alone: by Clear, by a backfill, by a replay of the same
    before = lane.generations()
    attempt = rig.task(lane.archive, second, "publish")[1]
    rig.clear(CLI, TASK, lane.archive, second, "publish")
    rig.wait_task(lane.archive, second, "publish", "success", after=attempt)
    rig.backfill(lane.archive, lane.hour(0), lane.hour(1))
    assert lane.generations() == before
    rig.api.pause(lane.replay, False)
    rig.trigger(lane.replay, "again", lane.hour(1))
    rig.wait_run(lane.replay, "again", "success")
    assert lane.rows(0) == {1: "a", 2: "b"}
    assert lane.rows(1) == {1: "a", 3: "c"}
    assert [state for *_, state in lane.generations()].count("CURRENT") == 2
    rig.check_settled(lane)
