"""`tidegate doctor` beside a running Airflow: well when all is, and each thing that is taken away is found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.operators.harness import Lane, Rig

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def lane(rig: Rig) -> Lane:
    """With a batch landed, so that its table is there."""
    (made,) = rig.add(Lane("checked", rig.topic("checked", 1), retries=6))
    made.land(1)
    for dag_id in (made.ingest, made.archive, made.maintain):
        rig.api.pause(dag_id, False)
    return made


def doctor(rig: Rig, *words: str) -> tuple[int, list[dict[str, str]]]:
    """Exit code and findings, as a process with Airflow's environment."""
    path = os.pathsep.join([str(ROOT / "plugins"), str(ROOT)])
    command = [sys.executable, "-m", "tidegate.cli", "doctor", *words, "--json", "--timeout", "30"]
    env = {**rig.info.env, "PYTHONPATH": path}
    done = subprocess.run(command, env=env, cwd=rig.info.root, capture_output=True, text=True, timeout=300)
    assert done.stdout.count("\n") == 1, done.stdout + done.stderr
    return done.returncode, json.loads(done.stdout)["findings"]


def test_a_good_set_up_is_well(rig: Rig, lane: Lane) -> None:
    before = sorted(str(p) for p in lane.folder.rglob("*"))
    code, found = doctor(rig, lane.name)
    assert [f for f in found if f["level"] == "wrong"] == []
    assert code == 0
    well = {f["check"] for f in found if f["level"] == "ok"}
    assert {"scheduler", "triggerer", "pools", "dags", "ledger", "kafka", "hive", "storage", "clocks"} <= well
    assert sorted(str(p) for p in lane.folder.rglob("*")) == before, "the probe leaves nothing"


@pytest.fixture
def without(rig: Rig, lane: Lane) -> Iterator[None]:
    """A pool is gone, a DAG is paused, and neither Kafka nor Hive answers."""
    rig.api.call("DELETE", "/pools/tidegate_ingest")
    lane.kafka.cut()
    lane.hive.cut()
    rig.api.pause(lane.maintain, True)
    try:
        yield
    finally:
        lane.kafka.mend()
        lane.hive.mend()
        if "tidegate_ingest" not in {pool["name"] for pool in rig.api.call("GET", "/pools")["pools"]}:
            rig.api.call("POST", "/pools", {"name": "tidegate_ingest", "slots": 1})
        own = {"name": "tidegate_ingest", "slots": 32, "include_deferred": False}
        rig.api.call("PATCH", "/pools/tidegate_ingest", own)


def test_what_is_taken_away_is_found_and_a_pool_is_made(rig: Rig, lane: Lane, without: None) -> None:
    code, found = doctor(rig, lane.name)
    bad = [f for f in found if f["level"] in ("wrong", "warning")]
    assert {("pools", "wrong"), ("kafka", "wrong"), ("hive", "wrong"), ("dags", "warning")} <= {
        (f["check"], f["level"]) for f in bad
    }
    assert code == 1
    assert all(f["means"] and f["mend"] for f in bad)
    lane.kafka.mend()
    lane.hive.mend()
    code, found = doctor(rig, lane.name, "--fix")
    assert [f for f in found if f["level"] == "wrong"] == []
    assert rig.api.call("GET", "/pools/tidegate_ingest")["slots"] == 4
