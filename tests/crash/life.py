"""One life of a pipeline that meets every step of both protocols, and every call that changes something."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.crash import lakehouse
from tests.crash.happenings import (
    ACCEPT,
    ADOPT,
    MEND_SPEC,
    RELEASE,
    REPAIR,
    another_system_counts,
    attempt_damaged,
    by_the_metastore,
    dirty_records,
    failed_over_twice,
    first_records,
    landed_and_forgotten,
    landing_damaged,
    late_records,
    ledger_restored,
    lose_a_file,
    merge_two,
    more_columns,
    nothing,
    odd_records,
    old_records,
    one_record,
    other_columns,
    other_sites,
    record_of_a_lost_history,
    records_of_hour_6,
    refused_again,
    swap_by_directory,
    ten_days_later,
    topic_recreated,
)
from tests.crash.scenario import Step, Task
from tests.world import World, make_pipeline, window
from tidegate.core.base.errors import Alarm, BatchRefused, JobFailed, ReplayRefused, StorageAhead
from tidegate.core.spec.pipeline import Reopening
from tidegate.core.window.states import WindowKey
from tidegate.workflow.base.context import Context, Published
from tidegate.workflow.batch import ingest
from tidegate.workflow.completeness import ask  # fmt: skip
from tidegate.workflow.dirty import redrive
from tidegate.workflow.late import reopen
from tidegate.workflow.maintain import reconcile
from tidegate.workflow.publish import archive
from tidegate.workflow.replay import rehearsal, replay, rollback

HIVE = "hive"


def beginning(folder: Path, wrap: Callable[[str, Any], Any], target: str = HIVE) -> World:
    """A pipeline that starts with what is produced from now on, and has another engine refreshed where it can."""
    spec = make_pipeline("s3://lake/readings" if target == lakehouse.IN_PLACE else f"file://{folder}/lake/readings")
    spec = replace(
        spec,
        source=replace(spec.source, start="latest"),
        archive=replace(spec.archive, on_publish=("REFRESH lake.readings",)),
        reopening=Reopening(age_ms=None),
    )
    world = World(folder, spec, wrap)
    return world if target == HIVE else lakehouse.install(world)


# ---------------------------------------------------------------- tasks


def plan(run: str) -> Task:
    return Task(f"plan {run}", lambda world: ingest.plan(world.context(), run))


def write(run: str) -> Task:
    return Task(f"write {run}", lambda world: ingest.write(world.context(), run))


def land(run: str) -> Task:
    return Task(f"land {run}", lambda world: ingest.land(world.context(), run))


def ready(hour: int) -> Task:
    return Task(f"ready {hour}", lambda world: archive.ready(world.context(), window(hour)))


def accept(hour: int) -> Task:
    return Task(f"accept {hour}", lambda world: _accept_count(world.context(), window(hour)))


def _accept_count(ctx: Context, key: WindowKey) -> None:
    answer, _ = ask.ask(ctx, key)
    if answer.accepted is None:
        ask.accept(ctx, key, answer, "not wanted")


def publish(hour: int) -> Task:
    return Task(f"publish {hour}", lambda world: _announce(world, archive.publish, window(hour)))


def rebuild(hour: int) -> Task:
    return Task(f"replay {hour}", lambda world: _announce(world, replay.replay, window(hour)))


def rebuild_together(*hours: int) -> Task:
    """One job for all of them; each is told of."""
    return Task(f"replay {hours}", lambda world: _rebuild_together(world, [window(h) for h in hours]))


def _rebuild_together(world: World, keys: list[WindowKey]) -> None:
    """Raises what the first window that is not well was refused for: the scenario tries again."""
    ctx = world.context()
    for outcome in replay.replay_range(ctx, keys):
        if not outcome.well:
            raise JobFailed(f"{outcome.what}: {outcome.why}")
        published = outcome.published
        if published is not None and published.new:
            world.events.append((published.window.start_ms, published.generation))
            archive.announced(ctx, published)


def try_out(hour: int) -> Task:
    return Task(f"dry run {hour}", lambda world: _try_out(world, window(hour)))


def _try_out(world: World, key: WindowKey) -> None:
    (found,) = rehearsal.rehearse(world.context(), [key])
    if found.what == rehearsal.FAILED:
        raise JobFailed(found.why)
    assert found.what == rehearsal.SAME, found


def take_up(hour: int) -> Task:
    return Task(f"reopen {hour}", lambda world: _announce(world, reopen.reopen, window(hour)))


def bring_back(hour: int) -> Task:
    return Task(f"rollback {hour}", lambda world: _announce(world, _to_the_first, window(hour)))


def _to_the_first(ctx: Context, key: WindowKey) -> Published:
    return rollback.rollback(ctx, key, 1, "not wanted")


def _announce(world: World, step: Callable[..., Published], key: WindowKey) -> None:
    """As the operators do: tell the world of what is new, then say so."""
    ctx = world.context()
    published = step(ctx, key)
    if published.new:
        world.events.append((published.window.start_ms, published.generation))
        archive.announced(ctx, published)


def plan_redrive(run: str) -> Task:
    return Task(f"plan {run}", lambda world: redrive.plan(world.context(), run))


def carry_out(run: str) -> Task:
    return Task(run, lambda world: redrive.carry_out(world.context(), run))


def give_up(batch_id: int) -> Task:
    def abandon(world: World) -> object:
        return reconcile.abandon(world.context(), batch_id, "not wanted", force=True)

    return Task(f"abandon {batch_id}", abandon)


STEPS = (
    Step("beginning", old_records, (plan("r1"), write("r1"), land("r1"))),
    Step("first ingest", first_records, (plan("r2"), write("r2"), land("r2"))),
    Step("archive", another_system_counts, (accept(0), ready(0), publish(0))),
    Step("ingest with late rows", late_records, (plan("r3"), write("r3"), land("r3"))),
    Step("archive with merging", merge_two, (publish(1),)),
    Step("replay with other columns", other_columns, (rebuild(0),)),
    Step("heal", lose_a_file, (publish(1),)),
    Step("unchanged replay", nothing, (rebuild(1), try_out(1))),
    Step("reopening", nothing, (take_up(0),)),
    Step("replay with other partitions", other_sites, (rebuild(0),)),
    Step("cleaning", ten_days_later, ()),
    Step(
        "refused batch",
        dirty_records,
        (plan("r4"), replace(write("r4"), refusal=(BatchRefused,), operator=MEND_SPEC), land("r4")),
    ),
    Step("swap by directory", swap_by_directory, (rebuild(1),)),
    Step("abandoned batch", one_record, (plan("r5"), give_up(5), write("r5"), land("r5"))),
    Step(
        "two runs, one batch",
        records_of_hour_6,
        (plan("r6"), plan("r6b"), write("r6"), write("r6b"), land("r6b"), land("r6")),
    ),
    Step("empty hour", nothing, (publish(4),)),
    Step("adoption", landed_and_forgotten, (plan("r7"), write("r7"), land("r7"))),
    Step("damaged attempt", attempt_damaged, (replace(land("r8"), refusal=(Alarm,), operator=REPAIR),)),
    Step("damaged landing", landing_damaged, (replace(publish(2), refusal=(Alarm,), operator=REPAIR),)),
    Step(
        "restored ledger",
        ledger_restored,
        (replace(plan("r9b"), refusal=(StorageAhead,), operator=ADOPT), write("r9b"), land("r9b")),
    ),
    Step(
        "forgotten plan",
        failed_over_twice,
        (
            replace(write("r11"), refusal=(StorageAhead,), operator=ADOPT),
            land("r11"),
            plan("r12"),
            write("r12"),
            land("r12"),
        ),
    ),
    Step("redrive", odd_records, (plan_redrive("redrive 1"), carry_out("redrive 1"))),
    Step("reopening by directory", nothing, (take_up(1),)),
    Step(
        "contradicting record",
        record_of_a_lost_history,
        (replace(publish(1), refusal=(StorageAhead,), operator=ADOPT),),
    ),
    Step("columns more, a range", more_columns, (rebuild_together(2, 3),)),
    Step("recreated topic", topic_recreated, (ACCEPT, plan("r13"), write("r13"), land("r13"))),
    Step("released batch", refused_again, (RELEASE, write("r14"), land("r14"))),
    Step("rollback at once", by_the_metastore, (bring_back(5),)),
    Step("refused replay", nothing, (replace(rebuild(0), refusal=(ReplayRefused,)),)),
)
