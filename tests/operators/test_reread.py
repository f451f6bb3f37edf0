"""A published window of a table without a log is read again on a real scheduler, each reading by spark-submit: by a
run's conf, cleared, and by a person's click on the board.

`make test-operators` plays it; `make test` does not.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import pytest
from pyhive import hive

from tests import board_site
from tests.operators import digest
from tests.operators.harness import Lane, Rig
from tests.operators.test_board_outcome import PERSON, confirm, op, words  # noqa: F401
from tests.operators.ways import REST, TASK
from tidegate.core.base.instants import iso

pytestmark = pytest.mark.skipif(os.environ.get("TIDEGATE_OPERATORS") != "all", reason="make test-operators")
FIRST = 10
"""Hours before this one are never read; it is the one that is read again."""
WHY = "its owner has loaded it again"


@dataclass
class TableLane(Lane):
    """Its source is a table of PostgreSQL, in the ledger's database; each window is the whole table."""

    first: int = FIRST
    session: str = "per_batch"

    def connect(self) -> None:
        info = self.rig.info
        self.change(
            "CREATE SCHEMA IF NOT EXISTS shop", f"CREATE TABLE shop.{self.name} (id INT PRIMARY KEY, word TEXT)"
        )
        self.rig._connection(
            f"shop_{self.name}", conn_type="postgres", host=info.postgres_host, port=info.postgres_port,
            schema=info.ledger_url.rpartition("/")[2], login=info.postgres_user, password=info.postgres_password,
        )  # fmt: skip

    def change(self, *statements: str) -> None:
        for one in statements:
            digest.change(self.rig.info.ledger_url, one)

    def fill(self, low: int, high: int, word: str) -> None:
        """The table has these rows from now on, and no others."""
        self.change(
            f"DELETE FROM shop.{self.name}",
            f"INSERT INTO shop.{self.name} SELECT n, '{word}' FROM generate_series({low}, {high}) n",
        )

    def yaml(self) -> str:
        return f"""
version: 1
name: {self.name}
owner: operators
source: {{kind: database, conn_id: shop_{self.name}, table: shop.{self.name}, chunk_rows: 4}}
columns:
  - {{name: id, type: int, nullable: false}}
  - {{name: word, type: string}}
windows: {{size: 1h, timezone: UTC, start: "{self.hour(self.first).isoformat()}", watermark_delay: 1m}}
partition_by: [date, hour]
sink: {{conn_id: hive_{self.name}, table: lake.{self.name}, location: "file://{self.rig.lake / self.name}"}}
ingest: {{schedule: null, retries: 0, spark: {{session: {self.session}}}}}
archive: {{retries: 0}}
"""

    def rows(self) -> list[tuple[int, str]]:
        """As readers of the hour's partition see them, through PyHive."""
        info, hour = self.rig.info, self.hour(FIRST)
        with hive.connect(info.hive_host, info.hive_port, username="tests", auth="NONE") as made, made.cursor() as c:
            where = f"date = '{hour:%Y-%m-%d}' AND hour = '{hour:%H}'"
            c.execute(f"SELECT id, word FROM lake.{self.name} WHERE {where}")
            found: list[tuple[int, str]] = c.fetchall()
        return sorted(found)

    def generations(self) -> list[tuple[Any, ...]]:
        """(number, kind, state) of the hour's."""
        statement = "SELECT number, kind, state FROM generations WHERE pipeline = :p AND window_ms = :w ORDER BY number"
        return self.rig.ledger(statement, p=self.name, w=self.window(FIRST).start_ms)


def address(lane: TableLane) -> str:
    return f"/tidegate/{lane.name}/window/{iso(lane.window(FIRST).start_ms)}"


def read_by_submit(rig: Rig, lane: TableLane) -> None:
    """The hour's first reading and its publication, by the scheduler alone."""
    lane.fill(1, 10, "first")
    rig.api.pause(lane.ingest, False)
    rig.trigger(lane.ingest, "reading")
    rig.wait_run(lane.ingest, "reading", "success")
    rig.api.pause(lane.archive, False)
    rig.wait_run(lane.archive, lane.scheduled(FIRST), "success")
    assert lane.rows() == [(n, "first") for n in range(1, 11)]
    rig.api.pause(lane.replay, False)


def ask(rig: Rig, lane: TableLane, run_id: str, **more: str) -> None:
    """A run of the replay DAG that asks for a second reading of the hour."""
    conf = {"do": "reread", "window": iso(lane.window(FIRST).start_ms)} | more
    rig.api.call("POST", f"/dags/{lane.replay}/dagRuns", {"dag_run_id": run_id, "conf": conf})


def test_an_hour_is_read_again_by_a_runs_conf(rig: Rig) -> None:
    lane = TableLane("t_conf", "none")
    rig.add(lane)
    read_by_submit(rig, lane)

    ask(rig, lane, "no_reason")
    rig.wait_run(lane.replay, "no_reason", "failed")
    assert "a second reading needs a reason" in rig.story(lane.replay, "no_reason")
    lane.fill(5, 10, "second")
    ask(rig, lane, "again", why=WHY)
    rig.wait_run(lane.replay, "again", "success")
    assert lane.rows() == [(n, "second") for n in range(5, 11)]
    assert lane.generations() == [(1, "archive", "RETIRED"), (2, "reread", "CURRENT")]
    assert "another snapshot; the first had 10 rows" in rig.story(lane.replay, "again")

    # the same content is no new generation; another one is
    attempt = rig.task(lane.replay, "again", "replay")[1]
    rig.clear(REST, TASK, lane.replay, "again", "replay")
    rig.wait_task(lane.replay, "again", "replay", "success", after=attempt)
    assert [g for g in lane.generations() if g[2] == "CURRENT"] == [(2, "reread", "CURRENT")]
    rig.check_settled(lane)


@pytest.mark.skipif(board_site.chromium() is None, reason="there is no Chromium: apt-get install chromium")
def test_an_hour_is_read_again_by_a_click_on_the_board(rig: Rig, op: Any) -> None:  # noqa: F811
    lane = TableLane("t_board", "none")
    rig.add(lane)
    read_by_submit(rig, lane)
    lane.fill(5, 10, "second")
    op.goto(address(lane))
    op.get_by_role("link", name="Read the table again…").click()
    op.wait_for_url("**/act/reread?*")
    assert "The table is read as it is now: another snapshot" in words(op)
    run = confirm(op, "Read again", WHY)
    rig.wait_run(lane.replay, run, "success")
    assert lane.rows() == [(n, "second") for n in range(5, 11)]
    op.goto(address(lane))
    assert op.locator(".tg-row-current").inner_text().split()[:2] == ["2", "CURRENT"]
    told = op.get_by_role("region", name="Events").inner_text()
    assert WHY in told
    assert PERSON in told
    rig.check_settled(lane)
