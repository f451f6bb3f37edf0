"""`<pipeline>.deliver` on a real scheduler: by dataset event, cleared, backfilled, with the system down."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.operators import digest
from tests.operators.harness import Rig
from tests.operators.lane import KINDS, PER_BATCH, Lane
from tests.operators.lines import Line
from tests.operators.ways import REST, TASK

only_in_full = pytest.mark.skipif(os.environ.get("TIDEGATE_OPERATORS") != "all", reason="make test-operators")


@dataclass
class DeliverLane(Lane):
    """A lane whose hours go to a table of PostgreSQL, too, over a line of its own."""

    shop: Line = field(init=False, repr=False)

    kinds = (*KINDS, "deliver")

    @property
    def deliver(self) -> str:
        """DAG id."""
        return f"{self.name}.deliver"

    def connect(self) -> None:
        info = self.rig.info
        self.shop = Line(info.postgres_host, info.postgres_port)
        digest.change(info.ledger_url, "CREATE SCHEMA IF NOT EXISTS shop")
        self.rig._connection(
            f"shop_{self.name}", conn_type="postgres", host="127.0.0.1", port=self.shop.port,
            schema=info.ledger_url.rpartition("/")[2], login=info.postgres_user, password=info.postgres_password,
        )  # fmt: skip

    def disconnect(self) -> None:
        self.shop.close()

    def rows(self) -> dict[int, int]:
        """Number of rows there, by hour."""
        if self.rig.ledger("SELECT to_regclass(:t)", t=f"shop.{self.name}") == [(None,)]:
            return {}
        found = self.rig.ledger(f'SELECT "_window", count(DISTINCT id), count(*) FROM shop.{self.name} GROUP BY 1')
        assert all(distinct == count for _, distinct, count in found), found
        return {round((at - self.hour(0)).total_seconds() / 3600): count for at, _, count in found}

    def lose(self, hour: int) -> None:
        """Somebody deletes a row there."""
        statement = f'DELETE FROM shop.{self.name} WHERE "_window" = :at AND id = :id'
        digest.change(self.rig.info.ledger_url, statement, at=self.hour(hour), id=f"{hour}-0")

    def stands(self) -> list[tuple[Any, ...]]:
        """(generation, state, epoch) of each hour, by the ledger."""
        statement = "SELECT generation, state, epoch FROM deliveries WHERE pipeline = :p ORDER BY window_ms"
        return self.rig.ledger(statement, p=self.name)


def lanes(rig: Rig, name: str, batches: int) -> DeliverLane:
    topic = rig.topic(name, batches=batches)
    more = f"deliver: [{{kind: postgresql, name: shop, conn_id: shop_{name}, table: shop.{name}}}]"
    [lane] = rig.add(DeliverLane(name, topic, more=more))
    assert isinstance(lane, DeliverLane)
    return lane


def runs(rig: Rig, lane: DeliverLane, kind: str) -> list[str]:
    """Ids of its deliveries' runs of that type, the newest last."""
    statement = "SELECT run_id FROM dag_run WHERE dag_id = :d AND run_type = :k ORDER BY id"
    return [run_id for (run_id,) in rig.airflow(statement, d=lane.deliver, k=kind)]


def test_hours_are_delivered_as_they_are_published_cleared_and_backfilled(rig: Rig) -> None:
    lane = lanes(rig, "d_life", batches=4)
    lane.land(4)
    began = datetime.now(UTC)
    rig.api.pause(lane.deliver, False)
    rig.api.pause(lane.archive, False)
    whole = {hour: PER_BATCH for hour in range(3)}
    rig.eventually("three hours stand there", lambda: lane.rows() == whole)
    rig.eventually("an event of the table has a run", lambda: runs(rig, lane, "dataset_triggered"))
    rig.eventually("the ledger says so", lambda: lane.stands() == [(1, "STANDING", 1)] * 3)
    ticks = [datetime.fromisoformat(run_id.partition("__")[2]) for run_id in runs(rig, lane, "scheduled")]
    assert sum(tick < began for tick in ticks) <= 1, "the tick that unpausing makes; others became due meanwhile"

    lane.lose(1)
    rig.backfill(lane.deliver, lane.hour(1), lane.hour(1))
    assert lane.rows() == whole, "a backfill compares, and sends what differs"
    assert lane.stands() == [(1, "STANDING", 1), (1, "STANDING", 2), (1, "STANDING", 1)]

    for hour in range(3):
        lane.lose(hour)
    sent, attempt = first_success(rig, lane)
    rig.clear(REST, TASK, lane.deliver, sent, "shop")
    rig.wait_task(lane.deliver, sent, "shop", "success", after=attempt)
    assert lane.rows() == whole, "a cleared run compares what has been sent since it began"
    assert rig.audit(lane).balanced


def first_success(rig: Rig, lane: DeliverLane) -> tuple[str, int]:
    """The run that was the first to send something, and the number of its try."""
    statement = (
        "SELECT t.run_id, t.try_number FROM task_instance t JOIN dag_run r USING (dag_id, run_id) WHERE dag_id = :d"
        " AND t.state = 'success' AND run_type <> 'backfill' ORDER BY t.start_date"
    )
    return rig.airflow(statement, d=lane.deliver)[0]  # type: ignore[return-value]


@only_in_full
def test_a_system_that_is_down_holds_up_no_publication(rig: Rig) -> None:
    lane = lanes(rig, "d_down", batches=3)
    lane.shop.cut()
    lane.land(3)
    rig.api.pause(lane.deliver, False)
    rig.api.pause(lane.archive, False)
    for hour in range(2):
        rig.wait_run(lane.archive, lane.scheduled(hour), "success")
    rig.eventually("a delivery has failed", lambda: [s for _, s, _ in lane.stands()] != ["STANDING"] * 2)
    lane.shop.mend()
    rig.trigger(lane.deliver, "up_again")
    rig.wait_run(lane.deliver, "up_again", "success")
    assert lane.rows() == {0: PER_BATCH, 1: PER_BATCH}
