"""`<pipeline>.apply` on a real scheduler: killed, cleared, paused, twice at once; each event counts once.

`make test` plays one life, `make test-operators` all.
"""

from __future__ import annotations

import os
import re

import pytest

from dev.stack.places import Places
from tests.operators.harness import Rig
from tests.operators.mirrors import event, lanes
from tests.operators.ways import CLI, REST, TASK, UI

only_in_full = pytest.mark.skipif(os.environ.get("TIDEGATE_OPERATORS") != "all", reason="make test-operators")


def test_a_merge_is_killed_before_its_commit_and_cleared_after_it(rig: Rig) -> None:
    [lane] = lanes(rig, "m_kill")
    lane.batch(event(1, "a", 10), event(2, "b", 11))
    run_id = lane.held()
    attempt = rig.task(lane.apply, run_id, "apply")[1]
    lane.process(run_id).kill()
    rig.eventually(
        "the try is over", lambda: rig.task(lane.apply, run_id, "apply")[0] != "running" or lane.catalogue.waiting > 1
    )
    assert lane.rows() == {}
    lane.catalogue.release()
    rig.wait_task(lane.apply, run_id, "apply", "success", after=attempt)
    assert lane.rows() == {1: "a", 2: "b"}
    assert [state for *_, state in lane.tries()] == ["OVERTAKEN", "APPLIED"]

    attempt = rig.task(lane.apply, run_id, "apply")[1]
    rig.clear(REST, TASK, lane.apply, run_id, "apply")
    rig.wait_task(lane.apply, run_id, "apply", "success", after=attempt)
    assert len(lane.tries()) == 2, "what is merged is left alone"
    assert lane.rows() == {1: "a", 2: "b"}
    rig.check_settled(lane)


@only_in_full
def test_a_refused_merge_is_cleared(rig: Rig) -> None:
    """It is refused again, without a job, until a person has decided."""
    [lane] = lanes(rig, "m_refused")
    lane.batch(event(1, "a", 10), event(1, "b", 10))
    rig.api.pause(lane.apply, False)
    run_id = lane.run_id()
    rig.wait_run(lane.apply, run_id, "failed")
    attempt = rig.task(lane.apply, run_id, "apply")[1]
    rig.clear(UI, TASK, lane.apply, run_id, "apply")
    rig.wait_task(lane.apply, run_id, "apply", "failed", after=attempt)
    assert lane.tries() == [(1, 1, "REFUSED")]
    lane.merge("both are right")
    rig.clear(CLI, TASK, lane.apply, run_id, "apply")
    rig.wait_run(lane.apply, run_id, "success")
    assert lane.rows().keys() == {1}
    assert lane.tries() == [(1, 1, "REFUSED"), (1, 1, "APPLIED")]
    rig.check_settled(lane)


@only_in_full
def test_a_running_merge_is_cleared(rig: Rig) -> None:
    [lane] = lanes(rig, "m_running")
    lane.batch(event(1, "a", 10))
    run_id = lane.held()
    attempt, process = rig.task(lane.apply, run_id, "apply")[1], lane.process(run_id)
    rig.clear(CLI, TASK, lane.apply, run_id, "apply")
    rig.eventually("the try is over", lambda: not process.is_running())  # until then it could still end well
    lane.catalogue.release()
    rig.wait_task(lane.apply, run_id, "apply", "success", after=attempt)
    assert lane.rows() == {1: "a"}
    assert [state for *_, state in lane.tries()][-1] == "APPLIED"
    rig.check_settled(lane)


@only_in_full
def test_a_merge_that_waited_takes_all_that_has_landed(rig: Rig) -> None:
    """Paused, batches go on landing."""
    [lane] = lanes(rig, "m_paused")
    for n in range(3):
        lane.batch(event(1, f"a{n}", 10 + n))
    rig.api.pause(lane.apply, False)
    rig.wait_run(lane.apply, lane.run_id(), "success")
    assert [(first, last, state) for first, last, state in lane.tries()] == [(1, 3, "APPLIED")]
    rig.api.pause(lane.apply, True)
    lane.batch(event(1, "later", 20))
    assert lane.rows() == {1: "a2"}
    rig.check_settled(lane)


@only_in_full
def test_a_backfill_is_refused_in_one_line(rig: Rig) -> None:
    [lane] = lanes(rig, "m_backfill")
    lane.batch(event(1, "a", 10))
    with pytest.raises(AssertionError, match="m_backfill has no windows, so there is nothing to backfill"):
        rig.backfill(lane.apply, lane.hour(0), lane.hour(1))
    assert rig.airflow("SELECT run_id FROM dag_run WHERE dag_id = :d", d=lane.apply) == []
    assert lane.tries() == []
    rig.check_settled(lane)


@only_in_full
def test_two_merges_at_once(rig: Rig) -> None:
    """A run stands before its commit. Another run waits for it; `tidegate apply` does not, and is the first."""
    [lane] = lanes(rig, "m_two")
    lane.batch(event(1, "a", 10), event(2, "b", 11))
    run_id = lane.held()
    rig.trigger(lane.apply, "second")
    assert lane.merge().merges == 1
    assert rig.run(lane.apply, "second") == "queued"
    lane.catalogue.release()
    rig.wait_run(lane.apply, run_id, "success")
    rig.wait_run(lane.apply, "second", "success")
    assert lane.rows() == {1: "a", 2: "b"}
    assert sorted(state for *_, state in lane.tries()) == ["APPLIED", "OVERTAKEN"]
    rig.check_settled(lane)


@only_in_full
def test_a_purge_and_a_cut_are_killed_before_their_commits(rig: Rig) -> None:
    """Old tombstones go, `sink.buckets` doubles, and merges go on, each event once."""
    [lane] = lanes(rig, "m_upkeep", tombstones="1h")
    lane.batch(*(event(n, "a", 10 + n) for n in range(1, 6)))
    lane.batch(event(2, None, 20), event(3, None, 21), event(4, "b", 22))
    lane.batch(event(5, None, 30), event(1, "c", 31))
    assert (lane.merge().merges, lane.standing().tombstones) == (1, 3), "nothing is old enough yet"
    lane.age(2, hours=3)

    lane.killed(lane.held())
    now = lane.standing()
    assert (now.rows, now.tombstones, now.purged, now.inserted) == (2, 1, 2, 5)
    assert lane.rows() == {1: "c", 4: "b"}

    lane.cut(4)
    lane.batch(event(2, "back", 40), event(6, "new", 41))
    lane.killed(lane.held("cut"))
    rig.wait_run(lane.apply, "cut", "success")
    now = lane.standing()
    assert (now.buckets, now.upto, now.events) == (4, 4, 12)
    assert (now.rows, now.tombstones, now.purged, now.inserted) == (4, 1, 2, 7)
    assert lane.rows() == {1: "c", 2: "back", 4: "b", 6: "new"}
    assert {state for *_, state in lane.tries()} <= {"APPLIED", "OVERTAKEN"}
    assert lane.recomputed() == []
    rig.check_settled(lane)


def test_the_page_says_what_clear_does_to_a_merge() -> None:
    text = (Places.of_checkout().checkout / "docs/operating-airflow.md").read_text()
    assert re.findall(r"^\| apply \| apply \| (\w+) \| .+ \|$", text, re.MULTILINE) == [
        "succeeded",
        "failed",
        "running",
    ]
