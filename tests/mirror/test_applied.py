"""How the control plane runs the job of a merge, and what it believes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.hooks import Hook
from tests.mirror.files import OnDisk
from tests.mirror.histories import Event
from tests.world import World
from tidegate.core.base.errors import AttemptSpoilt, BatchRefused, JobFailed
from tidegate.core.batch.jobs import ApplyPlan
from tidegate.core.batch.refusal import RefusalKind
from tidegate.spark.local_job import LocalLauncher
from tidegate.workflow.base.context import Context
from tidegate.workflow.base.jobs import applied


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def event(key: int, commit: int, word: str = "a") -> Event:
    return Event((key,), (commit, 0, 0), "u", (word, 1), 1, 0, commit)


def plan_of(tmp_path: Path, *events: Event) -> ApplyPlan:
    mirror = OnDisk(tmp_path)
    files = mirror.land(1, events)
    return mirror.plan([replace(f, bytes=1_000) for f in files], 1, 1)


def in_a_child(world: World) -> Context:
    """Spark would fail."""
    ctx = world.context()
    ctx.local_launcher = LocalLauncher(world.said.append)
    ctx.launcher = Hook(ctx.launcher, before={"run": _fails})  # type: ignore[assignment]
    return ctx


def _fails(*args: object) -> None:
    raise JobFailed("Spark is down")


def path_of(tmp_path: Path) -> str:
    return f"file://{tmp_path}/plans/apply.json"


def test_a_small_merge_runs_in_a_child_process(world: World, tmp_path: Path) -> None:
    plan = plan_of(tmp_path, event(1, 10), event(2, 11))
    receipt = applied(in_a_child(world), plan, path_of(tmp_path))
    assert (receipt.attempt, receipt.events) == (plan.attempt, ((1, 2),))
    assert any("merged 2 events: 2 inserted" in line for line in world.said)


def test_a_large_merge_is_a_spark_job(world: World, tmp_path: Path) -> None:
    plan = plan_of(tmp_path, event(1, 10))
    large = replace(plan, events=tuple(replace(f, bytes=10**9) for f in plan.events))
    with pytest.raises(JobFailed, match="Spark is down"):
        applied(in_a_child(world), large, path_of(tmp_path))


def test_a_conflict_is_refused_by_its_kind(world: World, tmp_path: Path) -> None:
    plan = plan_of(tmp_path, event(1, 10), event(1, 10, "b"))
    with pytest.raises(BatchRefused, match="two contents of one key at one position: k0=1") as refused:
        applied(in_a_child(world), plan, path_of(tmp_path))
    assert refused.value.kind == RefusalKind.CONFLICT


def test_a_file_that_is_shorter_than_its_receipt_is_not_believed(world: World, tmp_path: Path) -> None:
    plan, ctx = plan_of(tmp_path, event(1, 10)), in_a_child(world)
    applied(ctx, plan, path_of(tmp_path))
    (file,) = Path(plan.attempt_dir.removeprefix("file://")).glob("bucket-*/*.parquet")
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(AttemptSpoilt, match="does not add up: bucket-"):
        applied(ctx, plan, path_of(tmp_path))
