"""Scenes of the demo, one after the other."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path

from dev.demo import check, flights
from dev.demo.airflow_rest import AirflowRefused
from dev.demo.driver_kill import Killed, kill_next_driver
from dev.demo.world import (
    DemoFailed,
    HourState,
    World,
    hour_name,
    hour_state,
    utc,
    wait_until,
)
from tidegate.core.batch.states import LandedBatch

FIRST_HOUR, LAST_HOUR = utc(26, 16), utc(27, 15)  # published, both inclusive
CLOSED_AT = utc(27, 22)  # what is reported later than this, and departed in those hours, is late
HOURS = [FIRST_HOUR + timedelta(hours=n) for n in range(24)]
INTACT, BROKEN = utc(26, 20), utc(26, 21)
LEAST_BATCHES = 5
_AUDIT_LINES = 9  # its findings; before them it tells its progress
_INGEST_S, _BACKFILL_S, _RETRY_S = 900.0, 900.0, 300.0


def wait_for_airflow(world: World) -> None:
    """Until the scheduler has parsed the pipeline's DAGs."""
    world.wait_for(world.ingest_dag, world.archive_dag)


def produce(world: World, batch: Sequence[flights.Report]) -> None:
    """Send reports, say what they are."""
    flights.produce(world.info.kafka_bootstrap, batch)
    first, last = (datetime.fromtimestamp(r.reported_ms / 1000, FIRST_HOUR.tzinfo) for r in (batch[0], batch[-1]))
    world.out.line(f"{len(batch):,} flights reported {hour_name(first)} to {hour_name(last)} UTC, in that order")


def ingest(world: World, run_id: str) -> None:
    """Drain the topic by the ingest DAG: one batch a run, and a run that leaves a backlog triggers the next."""
    _start_ingest(world, run_id)
    _drain(world)
    world.airflow.pause(world.ingest_dag, True)


def _start_ingest(world: World, run_id: str) -> None:
    """Unpaused, the DAG also gets a run by its own schedule: whichever comes first takes the next batch."""
    world.airflow.trigger(world.ingest_dag, run_id)
    world.airflow.pause(world.ingest_dag, False)


def _drain(world: World) -> None:
    name, ends = world.pipeline.name, flights.end_offsets(world.info.kafka_bootstrap)

    def drained() -> bool:
        world.say_landed(name)
        if world.told == 0:
            return False
        view = world.ledger.batches.planning_view(name)
        return view.planned_ends == ends and view.open_batch is None and _idle(world)

    wait_until(drained, _INGEST_S, lambda: f"the topic was not drained; runs: {_unfinished(world)}")


def _idle(world: World) -> bool:
    runs = world.airflow.runs(world.ingest_dag)
    failed = [run for run, state in runs.items() if state == "failed"]
    if failed:
        raise DemoFailed(f"{world.ingest_dag} failed: {failed[0]}; its log lies below {world.info.root}/airflow/logs")
    return bool(runs) and all(state == "success" for state in runs.values())


def _unfinished(world: World) -> dict[str, str]:
    return {run: state for run, state in world.airflow.runs(world.ingest_dag).items() if state != "success"}


def publish(world: World) -> None:
    """The 24 hours, by the command that an operator types."""
    shown = 0

    def progress() -> None:
        nonlocal shown
        done = sum(world.published(hour) is not None for hour in HOURS)
        if done >= shown + 6:
            shown = done
            world.out.line(f"{done} of {len(HOURS)} hours published")

    backfill(world, FIRST_HOUR, LAST_HOUR, progress)
    found = [world.published(hour) for hour in HOURS]
    rows = sum(f.rows for one in found if one for f in one.files)
    first = all(one is not None and one.number == 1 for one in found)
    world.out.check(first, f"{sum(map(bool, found))} of {len(HOURS)} hours published, generation 1, {rows:,} rows")
    world.out.check(world.airflow.paused(world.archive_dag), f"{world.archive_dag} is paused, as it was")


def backfill(world: World, first: datetime, last: datetime, meanwhile=lambda: None) -> None:
    """`airflow dags backfill`, literally. Raises DemoFailed if it fails."""
    argv = ["airflow", "dags", "backfill", world.archive_dag, "-s", hour_name(first), "-e", hour_name(last)]
    world.out.line(f"$ {' '.join(argv)}")
    finished = world.commands.run("backfill", argv, _BACKFILL_S, meanwhile)
    if not finished.ok:
        raise DemoFailed(finished.failure)


def clear_intact(world: World) -> None:
    """Clearing the task of an hour that is as it should be changes nothing at all."""
    before = hour_state(world, INTACT)
    _say_hour(world, INTACT, before)
    clear(world, INTACT)
    after = hour_state(world, INTACT)
    _say_hour(world, INTACT, after)
    out = world.out
    out.check(after.generation == before.generation, f"generation {before.generation} -> {after.generation}")
    out.check(after.digest == before.digest, f"digest {before.digest[:16]} -> {after.digest[:16]}")
    same = after.files == before.files and after.partitions == before.partitions
    out.check(same, f"{len(before.files)} files: names, inodes, sizes and mtimes before = after")


def clear_broken(world: World) -> None:
    """A deleted file and a dropped partition come back: the file from Kafka, as generation 2."""
    before = hour_state(world, BROKEN)
    _say_hour(world, BROKEN, before)
    names = sorted(before.partitions)
    lost_file = before.partitions[names[0]][0]
    lost_file.unlink()
    world.out.line(f"$ rm {lost_file}")
    world.out.line(f"> {world.tables.drop(BROKEN, names[1])}")
    broken = hour_state(world, BROKEN)
    out = world.out
    hurt = len(broken.partitions) == len(before.partitions) - 1 and len(broken.files) < len(before.files)
    out.check(hurt, f"damaged: {len(broken.partitions)} of {len(names)} partitions are left, {len(broken.files)} files")
    clear(world, BROKEN)
    after = hour_state(world, BROKEN)
    _say_hour(world, BROKEN, after)
    out.check(set(after.partitions) == set(before.partitions), f"{names[1]} is in the catalogue again")
    out.check(after.generation == 2, f"generation {before.generation} -> {after.generation}, rebuilt from Kafka")
    same = (after.rows, after.digest) == (before.rows, before.digest)
    out.check(same, f"the same content: {after.rows} rows, digest {after.digest[:16]}")


def clear(world: World, hour: datetime) -> None:
    """Clear `publish` as the UI does. The DAG is paused, so the scheduler leaves the cleared task to a backfill."""
    logical = hour.strftime("%Y-%m-%dT%H:%M:%S+00:00")
    try:
        run_id, run_type = world.airflow.run_at(world.archive_dag, logical)
        world.airflow.clear(world.archive_dag, run_id, ["publish"])
    except AirflowRefused as e:
        raise DemoFailed(str(e)) from None
    world.out.line(f"cleared publish of {run_id} (run type {run_type}) by Airflow's REST API")
    tries = world.airflow.tasks(world.archive_dag, run_id)["publish"].tries
    backfill(world, hour, hour)
    task = world.airflow.tasks(world.archive_dag, run_id)["publish"]
    world.out.check(
        task.state == "success" and task.tries > tries, f"publish ran again: try {task.tries}, {task.state}"
    )


def _say_hour(world: World, hour: datetime, state: HourState) -> None:
    world.out.line(
        f"{hour_name(hour)}: generation {state.generation}, {state.rows} rows, {len(state.partitions)} partitions, "
        f"{len(state.files)} files, digest {state.digest[:16]}"
    )


def kill(world: World) -> None:
    """A driver dies after a data file is closed and before the receipt; Airflow's retry heals it."""
    with ThreadPoolExecutor(1) as pool:
        dying = pool.submit(kill_next_driver, world.workdir, _RETRY_S)
        _start_ingest(world, "demo_killed")
        killed = dying.result()
    out = world.out
    out.line(f"killed process {killed.pid}, the Spark driver of attempt {killed.attempt.name}; it left behind, in")
    out.line(f"  {killed.attempt}:")
    out.line(f"  {len(killed.files):,} files, {killed.bytes:,} bytes; {len(killed.closed):,} closed, for example")
    for name in killed.closed[:3]:
        out.line(f"  {name}")
    out.check(bool(killed.closed), "a data file was closed, and there is no receipt")
    _drain(world)
    world.airflow.pause(world.ingest_dag, True)
    _check_healed(world, killed)


def _check_healed(world: World, killed: Killed) -> None:
    batch_id, _, epoch = killed.attempt.name.partition("-")[0].partition(".")
    batch = world.ledger.batches.get(world.pipeline.name, int(batch_id))
    now = batch.epoch if isinstance(batch, LandedBatch) else None
    world.out.check(now == int(epoch) + 1, f"batch {batch_id}: epoch {epoch} -> {now}, {batch.state}")
    left = [f for f in killed.files if (killed.attempt / f).exists()]
    world.out.line(f"of the dead attempt's files {len(left):,} are still in its own directory; none is data")


def audit(world: World) -> None:
    """`tidegate audit`: ledger and files agree."""
    finished = world.tidegate("audit", world.pipeline.name, "--deep", last=_AUDIT_LINES)
    world.out.check(finished.ok, "the audit says balanced")


def _copied(world: World) -> list[str]:
    location = world.pipeline.sink.location
    if location.startswith("file:"):
        return []
    return ["--copy", location, "--into", str(Path(world.info.root) / "check-copy")]


def _waiting(world: World) -> list[str]:
    """Where the files lie that wait for their hours."""
    if world.pipeline.sink.location.startswith("s3:"):
        return ["--recorded", str(world.workdir)]  # nothing moves there
    return ["--landed", str(world.workdir / "landed")]


def count(world: World) -> dict:
    """The independent checker. Returns its numbers."""
    numbers = Path(world.info.root) / "check.json"
    ends = flights.end_offsets(world.info.kafka_bootstrap)
    words = [
        "--csv", str(flights.csv_archive()),
        *world.asked, "--table", world.pipeline.sink.table,
        *_waiting(world), "--from", hour_name(FIRST_HOUR), "--to", hour_name(LAST_HOUR),
        "--closed-at", hour_name(CLOSED_AT), "--end-offsets", ",".join(str(ends[p]) for p in sorted(ends)),
        "--json", str(numbers), *_copied(world),
    ]  # fmt: skip
    confirmed = world.confirmed(check, words, "csv, duckdb, pyhive, pyiceberg")
    world.out.check(confirmed, "the independent checker confirms it")
    return json.loads(numbers.read_text()) if numbers.exists() else {}
