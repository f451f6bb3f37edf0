"""`make demo-mirror`: two shards of a table in a real MariaDB, Debezium, and their mirror, equal at the end."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from dev.demo.airflow_rest import Airflow
from dev.demo.commands import Commands
from dev.demo.mirror import connect, orders, scenes
from dev.demo.mirror.connect import Connect
from dev.demo.mirror.mariadb import MariaDB
from dev.demo.mirror.scenes import CHANGES, FIRST, MORE, World
from dev.demo.output import Output
from dev.demo.run import launcher_of, run
from dev.stack.environment import pipelines_in
from dev.stack.info import StackInfo
from dev.stack.places import Places
from dev.stack.ports import LOOPBACK, choose_ports
from dev.stack.stack import Stack
from tidegate.ledger import SqlLedger

SEED = 19
_PIPELINE = Path(__file__).with_name("orders.yaml")
_PARTS = ("kafka", "postgres", "airflow")


def _run(out: Output) -> int:
    root = Places.of_checkout().own / "demo-mirror"  # its own: the next run removes it
    pipelines = root / "pipelines"
    ports = choose_ports(("mariadb", "connect"), {})
    shop = {"conn_type": "mysql", "host": LOOPBACK, "port": ports["mariadb"], "login": "root"}
    rest = {"conn_type": "http", "host": LOOPBACK, "port": ports["connect"]}
    conns = {"AIRFLOW_CONN_SHOP": json.dumps(shop), "AIRFLOW_CONN_CONNECT": json.dumps(rest)}
    env = {**pipelines_in(pipelines), **conns}
    stack = Stack(root, _PARTS, env=env, progress=out.line)
    out.heading("Start Kafka, PostgreSQL, Airflow and MariaDB, without earlier data")
    stack.wipe()
    pipelines.mkdir(parents=True)
    (pipelines / "orders.yaml").write_text(_PIPELINE.read_text())
    with stack as info:
        world = _world(info, out, ports)
        try:
            _play(world)
        finally:
            world.ledger.close()
        out.heading("Stop everything; the data stays in .tidegate/demo-mirror until the next run")
    return out.verdict()


def _world(info: StackInfo, out: Output, ports: dict[str, int]) -> World:
    root = Path(info.root)
    launcher = launcher_of(root)
    database = MariaDB(root / "mariadb", ports["mariadb"], launcher)
    database.start()
    source = connect.mariadb(database.port, "shop", root / "connect" / "history", snapshot="no_data")
    source |= connect.to_one_topic(scenes.TOPIC, orders.TABLES)
    folder, bootstrap = root / "connect", info.kafka_bootstrap
    worker = Connect(folder, bootstrap, ports["connect"], {"orders": source}, launcher, scenes.PARTITIONS, 10_000)
    out.line(f"MariaDB ready; orders and their changes are made with seed {SEED}")
    return World(
        info=info,
        mariadb=database,
        connect=worker,
        shop=orders.Shop(SEED),
        ledger=SqlLedger(info.ledger_url, actor="demo"),
        airflow=Airflow(info.airflow_url, info.airflow_user, info.airflow_password),
        commands=Commands(launcher, info.env | {"PGPASSWORD": info.postgres_password}, root),
        out=out,
        pipelines=root / "pipelines",
        workdir=root / "lake" / "orders" / "_tidegate",
    )


def _play(world: World) -> None:
    out, half, most = world.out, CHANGES // 2, CHANGES * 3 // 4
    out.heading(f"{FIRST:,} orders in two tables, whose changes Debezium reads from now on; the pipeline's DAGs begin")
    scenes.begin(world)
    scenes.wait_for_airflow(world)
    scenes.unpause(world)

    out.heading(f"{CHANGES:,} changes while batches land, and while the orders of before are copied; ALTER TABLE")
    scenes.change(world, 0, CHANGES // 8)
    scenes.copy(world, CHANGES // 8, half)
    scenes.alter(world)
    scenes.change(world, half, most)
    scenes.kill_connect(world)
    scenes.change(world, most, CHANGES)
    scenes.finish(world, "the last one")

    out.heading("The new column: a batch stops, the YAML takes it up, the batch lands")
    scenes.take_up(world)
    scenes.drain(world)

    out.heading("Kill: a merge, after files are written and before it is committed")
    scenes.kill(world)

    out.heading("Another new column comes by itself: unknown_fields: evolve")
    scenes.evolve(world, CHANGES, CHANGES + MORE)
    scenes.copied(world)

    out.heading("Rows of one table change behind the log's back: compare, and put right")
    scenes.repair(world)
    scenes.audit(world)

    out.heading("Count: the mirror against the database")
    scenes.count(world)


if __name__ == "__main__":
    sys.exit(run("demo-mirror", _run))
