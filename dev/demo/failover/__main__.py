"""`make demo-failover`: the first site is killed in the middle of a batch, the second takes over, and gives back."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from dev.demo.airflow_rest import Airflow
from dev.demo.commands import Commands
from dev.demo.failover import scenes
from dev.demo.failover.scenes import World
from dev.demo.failover.sites import Producers, Site
from dev.demo.output import Output
from dev.demo.run import launcher_of, run
from dev.stack.environment import pipelines_in
from dev.stack.places import Places
from dev.stack.ports import choose_ports
from dev.stack.stack import Stack
from tidegate.ledger import SqlLedger

_PIPELINE = Path(__file__).with_name("shipments.yaml")


def _run(out: Output) -> int:
    root = Places.of_checkout().own / "demo-failover"  # its own: the next run removes it
    pipelines = root / "pipelines"
    ports = choose_ports(("oslo", "bergen"), {})
    oslo, bergen = (Site(name, root / name, ports[name], out.line) for name in ("oslo", "bergen"))
    storage = root / "storage-bergen"
    catalogue = {"conn_type": "sqlite", "host": str(storage / "catalogue.db")}
    conns = {
        "AIRFLOW_CONN_KAFKA_OSLO": oslo.connection,
        "AIRFLOW_CONN_KAFKA_BERGEN": bergen.connection,
        "AIRFLOW_CONN_ICEBERG_BERGEN": json.dumps(catalogue),
        "TIDEGATE_BERGEN": str(storage),
    }
    stack = Stack(root, ("postgres", "airflow"), env={**pipelines_in(pipelines), **conns}, progress=out.line)
    out.heading("Start a broker in Oslo and one in Bergen, PostgreSQL and Airflow, without earlier data")
    stack.wipe()
    pipelines.mkdir(parents=True)
    storage.mkdir()
    (pipelines / "shipments.yaml").write_text(_PIPELINE.read_text())
    with stack as info:
        launcher = launcher_of(root)
        world = World(
            oslo=oslo,
            bergen=bergen,
            producers=Producers(),
            ledger=SqlLedger(info.ledger_url, actor="demo"),
            airflow=Airflow(info.airflow_url, info.airflow_user, info.airflow_password),
            commands=Commands(launcher, info.env, root),
            out=out,
            root=root,
        )
        try:
            for site in (oslo, bergen):
                site.start()
                site.create_topic()
            _play(world)
        finally:
            world.ledger.close()
            for site in (oslo, bergen):
                site.stop()
        out.heading("Stop everything; the data stays in .tidegate/demo-failover until the next run")
    return out.verdict()


def _play(world: World) -> None:
    out = world.out
    out.heading("Oslo is active: records land, and a copier brings them to Bergen")
    scenes.begin(world)

    out.heading("Oslo is killed in the middle of a batch, before all records have crossed")
    scenes.kill(world)

    out.heading("Bergen takes over")
    scenes.fail_over(world)

    out.heading("Oslo returns: its end is noted, Bergen's records are copied back, Oslo is active again")
    scenes.fail_back(world)

    out.heading("Count: what has landed against the producers' own log")
    scenes.count(world)

    out.heading("The table's files are in Bergen, too: published hours are copied to its storage, and Oslo's is lost")
    scenes.lose_storage(world)


if __name__ == "__main__":
    sys.exit(run("demo-failover", _run))
