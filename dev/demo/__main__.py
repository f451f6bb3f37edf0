"""`make demo`: the main job on real parts, from Kafka to hours of a table, and what must hold at its end."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection
from pathlib import Path

from dev.demo import flights, scenes
from dev.demo.airflow_rest import Airflow
from dev.demo.commands import Commands
from dev.demo.output import Output
from dev.demo.run import launcher_of, run
from dev.demo.tables import HiveTables, IcebergTables, Tables
from dev.demo.world import DemoFailed, World, to_ms
from dev.stack.environment import pipelines_in
from dev.stack.info import StackInfo
from dev.stack.places import Places
from dev.stack.postgres import ICEBERG
from dev.stack.stack import USUAL_PARTS, Stack
from tidegate.ledger import SqlLedger
from tidegate.spec.loader import load_file

_MARK = "made-by-demo"
_PIPELINE = "flights.yaml"
_STORAGE: dict[str, tuple[str, ...]] = {"local": (), "hdfs": ("hdfs",), "s3": ("objects",)}
_STARTED = {"hdfs": "HDFS", "s3": "an object store (S3)"}
_TABLE = {"hive": "spark", "iceberg": "spark-iceberg"}
"""Kinds of tables, and the Hive endpoint by which they are read."""
_SINKS = {"hive": "  conn_id: hiveserver2_default\n", "iceberg": "  kind: iceberg\n  catalog_conn_id: iceberg_sql\n"}
_LOCATION = "location: ${TIDEGATE_LAKE_FS:-file://}${TIDEGATE_LAKE}/flights "
_IN_S3 = "object_store_conn_id: aws_default\n  location: ${TIDEGATE_LAKE_S3}/flights "


def _run(out: Output) -> int:
    places = Places.of_checkout()
    storage, kind = _wanted("STORAGE", _STORAGE), _wanted("TABLE", _TABLE)
    own = places.dags / "pipelines"
    pipelines = own if kind == "hive" else places.stack / "pipelines"
    if storage == "s3" and kind == "hive":
        raise DemoFailed("STORAGE=s3 needs TABLE=iceberg: Hive's tables need renames, which object stores do not have")
    parts = (*USUAL_PARTS, *_STORAGE[storage])
    stack = Stack(places.stack, parts, _TABLE[kind], env=pipelines_in(pipelines), progress=out.line)
    _refuse_to_destroy(stack, places.stack / _MARK)
    further = [_STARTED[storage]] if storage in _STARTED else []
    names = ", ".join(["Kafka", "PostgreSQL", *further, "Hive (Spark's Thrift server)"])
    out.heading(f"Start {names} and Airflow, without earlier data")
    try:
        stack.wipe()
    finally:  # also when interrupted half way: what is left is the demo's
        places.stack.mkdir(parents=True, exist_ok=True)
        (places.stack / _MARK).write_text("The data here is of `make demo`, which starts by removing it.\n")
    if kind != "hive":
        pipelines.mkdir()
        (pipelines / _PIPELINE).write_text(_of_kind(kind, storage, (own / _PIPELINE).read_text()))
    with stack as info:
        os.environ.update(_as_aws(info))
        world = _world(info, pipelines, kind, out)
        try:
            table = _table(world, _play(world))
        finally:
            world.ledger.close()
        out.heading("Stop the stack; its data stays in .tidegate")
    return _end(out, table, stack, pipelines)


def _as_aws(info: StackInfo) -> dict[str, str]:
    """What S3's usual clients read: the demo's own look at files, and the checker's; nothing for other storage."""
    if not info.objects_uri:
        return {}
    return {
        "AWS_ACCESS_KEY_ID": info.objects_key,
        "AWS_SECRET_ACCESS_KEY": info.objects_secret,
        "AWS_ENDPOINT_URL": info.objects_endpoint,
        "AWS_REGION": "us-east-1",
    }


def _wanted(name: str, choices: Collection[str]) -> str:
    """The place of the tables (STORAGE) or their kind (TABLE), as the environment says; the first is the default."""
    found = os.environ.get(name) or next(iter(choices))
    if found not in choices:
        raise DemoFailed(f"{name}={found}: there are {', '.join(choices)}")
    return found


def _of_kind(kind: str, storage: str, text: str) -> str:
    """The demo's pipeline into a table of another kind: all but the sink's first lines, and its place, stays."""
    changed = {_SINKS["hive"]: _SINKS[kind]} | ({_LOCATION: _IN_S3} if storage == "s3" else {})
    for old, new in changed.items():
        if text.count(old) != 1:
            raise DemoFailed(f"dags/pipelines/{_PIPELINE} must have {old.strip()!r} in its sink once")
        text = text.replace(old, new)
    return text


def _refuse_to_destroy(stack: Stack, mark: Path) -> None:
    """The demo starts from clean data, but only its own: a user's trial in the same place is not touched."""
    if stack.status().info is not None:
        raise DemoFailed("a stack is up; end it first: .venv/bin/tidegate stack down")
    if (mark.parent / "stack.json").exists() and not mark.exists():
        raise DemoFailed(
            f"{mark.parent} holds the data of a trial of yours, and the demo starts from clean data; "
            "if you no longer need it: .venv/bin/tidegate stack wipe"
        )


def _world(info: StackInfo, pipelines: Path, kind: str, out: Output) -> World:
    root = Path(info.root)
    launcher = launcher_of(root)
    pipeline = load_file(pipelines / _PIPELINE, info.env)
    asked: tuple[str, ...] = ("--hive", f"{info.hive_host}:{info.hive_port}")
    if kind == "iceberg":
        tables: Tables = IcebergTables(pipeline, info.iceberg_sql_url)
        server = f"{info.postgres_user}@{info.postgres_host}:{info.postgres_port}"
        asked += ("--iceberg", f"postgresql://{server}/{ICEBERG}")
    else:
        tables = HiveTables(pipeline, info.hive_host, info.hive_port)
    return World(
        info=info,
        pipeline=pipeline,
        ledger=SqlLedger(info.ledger_url, actor="demo"),
        tables=tables,
        asked=asked,
        airflow=Airflow(info.airflow_url, info.airflow_user, info.airflow_password),
        commands=Commands(launcher, info.env | {"PGPASSWORD": info.postgres_password} | _as_aws(info), root),
        out=out,
    )


def _play(world: World) -> dict:
    out = world.out
    told = flights.reports(flights.read_january())
    early = [r for r in told if r.reported_ms <= to_ms(scenes.CLOSED_AT)]
    out.heading(f"Produce the first {len(early):,} of January's {len(told):,} flights to Kafka")
    flights.ensure_topic(world.info.kafka_bootstrap)
    scenes.produce(world, early)
    scenes.wait_for_airflow(world)

    out.heading(f"Ingest them by the DAG {world.ingest_dag}")
    scenes.ingest(world, "demo_first")

    out.heading("Publish 24 hours")
    scenes.publish(world)

    out.heading("Clear: an intact hour")
    scenes.clear_intact(world)

    out.heading("Clear: an hour that lost a file and a partition")
    scenes.clear_broken(world)

    out.heading("Kill: a Spark driver, after a data file is closed and before the receipt")
    scenes.produce(world, told[len(early) :])
    scenes.kill(world)
    batches = world.ledger.batches.planning_view(world.pipeline.name).next_batch_id - 1
    out.check(batches > scenes.LEAST_BATCHES, f"January came in {batches} batches")
    scenes.audit(world)

    out.heading("Count: the table against the CSV")
    return scenes.count(world)


def _table(world: World, numbers: dict) -> list[str]:
    """The hours and the balance, by the checker's numbers; the generations are the ledger's."""
    lines = ["window (UTC)        generation   rows   late  carriers  files"]
    for hour, line in zip(scenes.HOURS, numbers.get("hours", []), strict=False):
        published = world.published(hour)
        generation = published.number if published else "-"
        counts = f"{line['rows']:>5}  {line['late']:>5}  {line['carriers']:>8}  {line['files']:>5}"
        lines.append(f"{line['hour']}:00    {generation:>10}  {counts}")
    rows = numbers.get("rows", {})
    terms = " + ".join(f"{kind} {n:,}" for kind, n in rows.items())
    return [*lines, f"balance: {terms} = {sum(rows.values()):,} of {flights.JANUARY_FLIGHTS:,} produced"]


def _end(out: Output, table: list[str], stack: Stack, pipelines: Path) -> int:
    code = out.verdict(table)
    out.write("\nThis very stack again, with its data and Airflow's UI (it prints the address and the password):")
    words = [".venv/bin/tidegate stack up"]
    if "hdfs" in stack.parts:
        words.append("--hdfs")
    if stack.hive != "spark":
        words.append(f"--hive {stack.hive} --pipelines {os.path.relpath(pipelines)}")
    out.write(f"    {' '.join(words)}")
    return code


if __name__ == "__main__":
    sys.exit(run("demo", _run))
