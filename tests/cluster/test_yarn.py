"""Jobs on a real YARN, with a Kafka that asks for a password: both deploy modes, and whatever may die in them."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import psutil
import pytest

from dev.stack.info import StackInfo
from dev.stack.stack import Stack
from tests.cluster.conftest import ALL, Make
from tests.cluster.life import Held, Life, end_sessions_of, me, parents_named, until
from tidegate.core.base.errors import JobFailed, JobKilled
from tidegate.storage import HdfsStorage
from tidegate.workflow.batch import ingest

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not ALL, reason="make test-cluster")]

CLUSTER = {"host": "yarn", "extra": {"deploy-mode": "cluster"}}
CLIENT = {"host": "yarn", "extra": {"deploy-mode": "client", "queue": "default"}}


def applications(stack: StackInfo, tag: str = "") -> list[dict]:
    query = f"?applicationTags={tag}" if tag else ""
    with urllib.request.urlopen(f"{stack.yarn_url}/ws/v1/cluster/apps{query}", timeout=10) as page:
        return (json.load(page)["apps"] or {}).get("app") or []


def latest(stack: StackInfo) -> dict:
    return max(applications(stack), key=lambda a: a["id"])


def staged(stack: StackInfo) -> list[str]:
    """What applications have left in HDFS, secrets among it perhaps."""
    return [f.path for f in HdfsStorage().list_files(f"{stack.hdfs_uri}/user/{me()}/.sparkStaging") or ()]


def test_the_parts_listen_on_loopback_alone(cluster: StackInfo) -> None:
    found = Stack(Path(cluster.root)).status()
    assert found.ok
    (yarn,) = (part for part in found.parts if part.name == "yarn")
    daemons = [child for pid in yarn.pids for child in psutil.Process(pid).children(recursive=True)]
    listening = [c.laddr for p in daemons for c in p.net_connections() if c.status == psutil.CONN_LISTEN]
    assert len(listening) >= 8
    assert {address.ip.removeprefix("::ffff:") for address in listening} == {"127.0.0.1"}


@pytest.mark.parametrize(("spark", "command"), [(CLIENT, False), (CLUSTER, False), (CLUSTER, True)])
def test_a_password_reaches_driver_and_executors_and_nobody_else(
    cluster: StackInfo, bare: dict[str, str], make: Make, spark: dict, command: bool
) -> None:
    """Executors, and the driver in cluster mode, are a bare Python with the workers' archive; the table is on HDFS."""
    life = make(cluster, spark, bare, f"{cluster.hdfs_uri}/lake", task_records=1_000)
    life.produce(5_000)
    with life.watched():
        life.batch("run-1", command)
    assert len(life.tasks()) == 5, "by records, whatever executors there were"
    done = latest(cluster)
    assert (done["finalStatus"], done["queue"]) == ("SUCCEEDED", "root.default")
    assert [path for path in staged(cluster) if done["id"] in path] == []
    life.proven()


def test_a_killed_client_leaves_a_zombie_that_does_no_harm(cluster: StackInfo, make: Make, tmp_path: Path) -> None:
    """The driver lives on in its container, and ends its work after its successor has landed."""
    held = Held(tmp_path / "held", "receipt")
    life = make(cluster, CLUSTER, {}, held=held)
    life.produce(2_000)
    life.step(ingest.plan, "run-1")
    thread, errors, ctx = life.begin("run-1")
    driver = held.waits("driver", errors)
    client = jvm_of(life)
    client.kill()
    thread.join(120)
    assert [type(e) for e in errors] == [JobKilled]
    zombie = latest(cluster)
    assert (zombie["state"], driver.is_running()) == ("RUNNING", True)
    stale = ctx.ledger.batches.get(life.name, 1)
    life.step(ingest.write, "run-1")
    life.step(ingest.land, "run-1")
    landed = life.landed()
    assert landed.epoch == 2
    held.go()
    until(lambda: application(cluster, zombie["id"])["state"] == "FINISHED")
    assert application(cluster, zombie["id"])["finalStatus"] == "SUCCEEDED", "it never learned"
    receipt = tmp_path / "lake" / life.name / "_tidegate/tmp" / f"1.{stale.epoch}-{stale.nonce}" / "_receipt.json"
    assert receipt.exists()
    life.step(ingest.write, "run-1")
    assert life.landed() == landed
    ctx.ledger.close()
    life.proven()


def test_a_killed_application_master_is_not_started_again(cluster: StackInfo, make: Make, tmp_path: Path) -> None:
    """A second attempt of YARN's own would find the first one's files and could only fail, minutes later."""
    held = Held(tmp_path / "held", "receipt")
    life = make(cluster, CLUSTER, {}, held=held)
    life.produce(2_000)
    life.step(ingest.plan, "run-1")
    thread, errors, ctx = life.begin("run-1")
    driver = held.waits("driver", errors)
    parents_named(driver, "ApplicationMaster").kill()
    thread.join(120)
    assert [type(e) for e in errors] == [JobKilled]
    ended = latest(cluster)
    assert (ended["state"], ended["finalStatus"]) == ("FAILED", "FAILED")
    with urllib.request.urlopen(f"{cluster.yarn_url}/ws/v1/cluster/apps/{ended['id']}/appattempts", timeout=10) as page:
        assert len(json.load(page)["appAttempts"]["appAttempt"]) == 1
    ctx.ledger.close()
    life.step(ingest.write, "run-1")
    life.step(ingest.land, "run-1")
    assert life.landed().epoch == 2
    life.proven()


def test_a_killed_executor_loses_its_files_and_no_rows(cluster: StackInfo, make: Make, tmp_path: Path) -> None:
    held = Held(tmp_path / "held", "files:3")
    life = make(cluster, CLIENT, {}, held=held, task_records=10_000)
    life.produce(40_000)
    life.step(ingest.plan, "run-1")
    thread, errors, ctx = life.begin("run-1")
    worker = held.waits("worker", errors)
    written = files_of_attempts(tmp_path)
    assert len(written) >= 2
    parents_named(worker, "CoarseGrainedExecutorBackend").kill()
    thread.join(240)
    assert errors == []
    ctx.ledger.close()
    life.step(ingest.land, "run-1")
    assert life.landed().epoch == 1, "Spark itself repeated the task"
    assert len(life.tasks()) == 4
    life.proven()


@pytest.mark.parametrize("spark", [CLIENT, CLUSTER])
def test_a_task_that_is_ended_ends_its_application(
    cluster: StackInfo, make: Make, tmp_path: Path, spark: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What Airflow does for a task that is marked, cleared or timed out; on a worker without Hadoop's commands."""
    held = Held(tmp_path / "held", "files:1")
    life = make(cluster, spark, {}, held=held)
    life.produce(2_000)
    life.step(ingest.plan, "run-1")
    thread, errors, ctx = life.begin("run-1")
    held.waits("worker", errors)
    running = latest(cluster)
    assert running["state"] == "RUNNING"
    ctx.launcher.kill()  # type: ignore[attr-defined]
    thread.join(120)
    assert [type(e) for e in errors] == [JobFailed]
    until(lambda: application(cluster, running["id"])["state"] in ("KILLED", "FINISHED", "FAILED"), 60)
    if spark is CLUSTER:
        assert application(cluster, running["id"])["state"] == "KILLED"
        assert [path for path in staged(cluster) if running["id"] in path] == [], "the secrets have gone with it"
    ctx.ledger.close()
    life.step(ingest.write, "run-1")
    life.step(ingest.land, "run-1")
    life.proven()


def test_a_warm_session_on_yarn_serves_plans_with_secrets(cluster: StackInfo, make: Make) -> None:
    """Executors never see the driver's file: the session has it for one plan, and it is private to this machine."""
    life = make(cluster, CLIENT, {}, spark_session="warm")
    with life.watched():
        for number in (1, 2):
            life.produce(1_000)
            life.batch(f"run-{number}")
    try:
        life.proven()
    finally:
        end_sessions_of(life)
    assert len({line for line in life.said if "the warm session is ready" in line}) <= 1


def application(stack: StackInfo, name: str) -> dict:
    return next(a for a in applications(stack) if a["id"] == name)


def jvm_of(life: Life) -> psutil.Process:
    """The spark-submit of this life."""
    return next(
        p for p in psutil.Process().children(recursive=True)
        if "org.apache.spark.deploy.SparkSubmit" in p.cmdline() and any(life.name in word for word in p.cmdline())
    )  # fmt: skip


def files_of_attempts(folder: Path) -> list[Path]:
    return [p for p in (folder / "lake").rglob("_tidegate/tmp/*/data/**/*") if p.is_file() and p.stat().st_size]
