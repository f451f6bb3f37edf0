"""Who starts first on a running scheduler: tiny tasks of many pipelines in pools with few slots.

Their order is Airflow's record of when each task was queued for the executor."""

from __future__ import annotations

import os

import pytest

from tests.operators.harness import Lane, Rig
from tests.operators.test_backfill_literal import Command, published
from tidegate.spec.loader import load_file

only_in_full = pytest.mark.skipif(os.environ.get("TIDEGATE_OPERATORS") != "all", reason="make test-operators")
INGEST, ARCHIVE = "fair_ingest", "fair_archive"
MONTH = 30 * 24
INGESTS, SLOTS = 50, 2


class Sharer(Lane):
    """A pipeline of this test's own pools."""

    def yaml(self) -> str:
        """With the pools."""
        text = super().yaml().replace("ingest:\n", f"ingest:\n  pool: {INGEST}\n", 1)
        return text.replace("archive: {", f"archive: {{pool: {ARCHIVE}, ", 1)


@pytest.fixture(scope="module")
def pools(rig: Rig) -> None:
    """Both of them."""
    for name in (INGEST, ARCHIVE):
        rig.api.call("POST", "/pools", {"name": name, "slots": SLOTS, "include_deferred": False})


def slots(rig: Rig, pool: str, number: int) -> None:
    """Change how many it has."""
    rig.api.call("PATCH", f"/pools/{pool}", {"name": pool, "slots": number, "include_deferred": False})


def in_state(rig: Rig, dag_id: str, state: str) -> int:
    """How many tasks of these DAGs (a pattern)."""
    asked = "SELECT count(*) FROM task_instance WHERE dag_id LIKE :d AND state = :s"
    return rig.airflow(asked, d=dag_id, s=state)[0][0]


def order(rig: Rig, dag_id: str) -> list[tuple[str, str, str]]:
    """DAG, run and task, as they were queued."""
    asked = "SELECT dag_id, run_id, task_id FROM task_instance WHERE dag_id LIKE :d AND queued_dttm IS NOT NULL"
    return [tuple(row) for row in rig.airflow(f"{asked} ORDER BY queued_dttm, priority_weight DESC", d=dag_id)]  # type: ignore[misc]


@only_in_full
def test_fifty_ingests_do_not_starve_an_archive(rig: Rig, pools: None) -> None:
    """All are due at once and have two slots; a window is published while most of them wait."""
    topic, nothing = rig.topic("fair", 2), rig.topic("fair_empty", 0)
    many = [Sharer(f"fi_{n:02}", nothing, schedule="0 0 * * *") for n in range(INGESTS)]
    archiving, *ingesting = rig.add(Sharer("fair_one", topic), *many)
    archiving.land(2)
    slots(rig, INGEST, 0)
    rig.change("UPDATE dag SET is_paused = false WHERE dag_id LIKE 'fi\\___.ingest'")
    rig.eventually("all are due", lambda: in_state(rig, "fi\\___.ingest", "scheduled") == INGESTS)
    slots(rig, INGEST, SLOTS)
    rig.api.pause(archiving.archive, False)
    rig.wait_run(archiving.archive, archiving.scheduled(0), "success")
    found = order(rig, "f%")
    shown = found.index((archiving.archive, archiving.scheduled(0), "publish"))
    ahead = sum(dag_id.startswith("fi_") for dag_id, _, _ in found[:shown])
    assert ahead < INGESTS / 2, found
    slots(rig, INGEST, 8)
    rig.eventually("all ingests have ended", lambda: in_state(rig, "fi\\___.ingest", "skipped") == INGESTS * 3)
    rig.remove(*(lane.name for lane in ingesting))


@only_in_full
def test_a_month_does_not_starve_today(rig: Rig, pools: None) -> None:
    """One pipeline catches up with a month, another has today's windows, one slot is for both: today's go first, and of
    the month what has begun is finished before more is begun."""
    topic = rig.topic("fair_month", 2)
    month, today = rig.add(
        Sharer("fair_month", topic, max_active_runs=16, first=-MONTH), Sharer("fair_today", topic, max_active_runs=4)
    )
    month.land(2)
    today.land(2)
    slots(rig, ARCHIVE, 0)
    rig.api.pause(month.archive, False)
    rig.eventually("the month waits", lambda: in_state(rig, month.archive, "scheduled") == 16)
    rig.api.pause(today.archive, False)
    rig.eventually("today waits", lambda: in_state(rig, today.archive, "scheduled") == 4)
    slots(rig, ARCHIVE, 1)
    rig.wait_run(today.archive, today.scheduled(0), "success")
    rig.eventually("three of the month are published", lambda: len(published(rig, month)) >= 3)
    rig.api.pause(month.archive, True)

    every = [row for row in order(rig, "fair\\_%.archive") if row[0] in (month.archive, today.archive)]
    assert [dag_id for dag_id, _, _ in every[:5]] == [today.archive] * 5, every[:12]
    mine = [(run_id, task_id) for dag_id, run_id, task_id in every if dag_id == month.archive]
    looked = [run_id for run_id, task_id in mine if task_id == "ready"]
    assert looked == sorted(looked), "oldest first"
    for n, run_id in enumerate(looked[:-2]):
        assert mine.index((run_id, "publish")) < mine.index((looked[n + 2], "ready")), mine
    slots(rig, ARCHIVE, SLOTS)
    rig.remove(month.name)


@only_in_full
def test_a_backfill_of_a_month_leaves_today_its_room(rig: Rig, pools: None) -> None:
    """`airflow dags backfill` of the same DAG, ended when the next hour of the schedule is published."""
    topic = rig.topic("fair_fill", 3)
    [lane] = rig.add(Sharer("fair_fill", topic, max_active_runs=4))
    lane.land(2)
    rig.api.pause(lane.archive, False)
    rig.wait_run(lane.archive, lane.scheduled(0), "success")
    lane.first = -MONTH  # windows.start may move back by whole windows
    path = rig.dags / "pipelines" / f"{lane.name}.yaml"
    path.write_text(lane.yaml())
    lane.spec = load_file(path, rig.info.env)
    command = Command(rig, lane.archive, lane, -MONTH, -1)
    rig.eventually("the month has begun", lambda: len(published(rig, lane)) >= 3 or not command.lives)
    assert command.lives, command.text()[-4000:]
    before = len(published(rig, lane))
    lane.land(1)
    rig.wait_run(lane.archive, lane.scheduled(1), "success")
    assert command.lives, "it has not come to its end meanwhile"
    assert len(published(rig, lane)) - before < 10, "the hour did not wait for the month"
    command.interrupt()
    assert command.ended().code == 1
    overlaps = (
        "SELECT count(*) FROM task_instance a JOIN task_instance b ON a.dag_id = b.dag_id AND a.run_id < b.run_id"
        " AND a.start_date < b.end_date AND b.start_date < a.end_date"
        " WHERE a.dag_id = :d AND a.run_id LIKE 'backfill%' AND b.run_id LIKE 'backfill%'"
    )
    assert rig.airflow(overlaps, d=lane.archive) == [(0,)], "half of two slots is one"
    rig.check_settled(lane)
