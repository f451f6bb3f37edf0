"""A table's pipeline in its surroundings: as DAGs, with its password in a private file, in Iceberg, as a Spark job."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import airflow_home
import pyarrow.parquet as pq
import pytest
from airflow.models.dagbag import DagBag

from tests.crash.lakehouse import install, live
from tests.databases.reading import series
from tests.databases.servers import Server
from tests.integration.submitting import by_submit
from tests.offline.test_life import balanced, ids
from tests.offline.worlds import COLUMNS, SHOP, YAML, TableWorld, window
from tests.source_suite import plan_for
from tidegate import wiring
from tidegate.core.base.connection import Connection
from tidegate.core.base.offsets import OffsetRange
from tidegate.core.files.failure import JobError
from tidegate.core.files.receipt import DATA
from tidegate.databases import kinds
from tidegate.kinds import dags_of, source_kind
from tidegate.spec.loader import load_text
from tidegate.workflow.look.explanation import explain


def test_a_table_has_the_dags_of_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__TIDEGATE__PIPELINES_FOLDER", str(tmp_path))
    yaml = YAML.format(source="chunk_rows: 3", columns=COLUMNS, location="file:///lake/readings")
    (tmp_path / "readings.yaml").write_text(yaml)
    dag_file = airflow_home.CHECKOUT / "dags/tidegate_pipelines.py"
    found = DagBag(dag_folder=str(dag_file), include_examples=False, read_dags_from_db=False)
    assert found.import_errors == {}
    dags = dags_of(load_text("/nowhere/readings.yaml", yaml, {}))
    assert sorted(found.dags) == sorted(f"readings.{kind}" for kind in dags)
    assert dags == ("ingest", "archive", "replay", "maintain")


def test_the_password_is_a_secret_of_jobs_and_in_no_plan(tmp_path: Path) -> None:
    world = TableWorld(tmp_path)
    world.fake.rows[1] = ("w", None)

    def lookup(conn_id: str) -> Connection:
        assert conn_id == "shop"
        return SHOP

    assert wiring.job_secrets(world.pipeline, lookup) == {"password": "sesame"}
    world.read(0)
    (plan,) = (tmp_path / "lake/readings/_tidegate/plans").iterdir()
    assert '"host": "db"' in plan.read_text() or '"host":"db"' in plan.read_text()
    assert "sesame" not in plan.read_text()
    world.close()


def test_jobs_that_read_files_alone_ask_no_database() -> None:
    """A replay's plan has no settings of the source."""
    reader = source_kind("database").reader(plan_for("shop.t"), {})
    assert reader.topic_id() is None
    with pytest.raises(JobError, match="rows of a table are read by its ingest runs only"):
        next(reader.read(OffsetRange("shop.t", 0, 0, 1)))
    reader.close()


def test_a_day_in_iceberg(tmp_path: Path) -> None:
    world = TableWorld(tmp_path)
    world.fake.rows = {key: (f"w{key}", None) for key in range(1, 8)}
    install(world)
    for day in (0, 1):
        world.read(day)
        assert world.publish(day).rows == 7 - day
        del world.fake.rows[7 - day]
    found: dict[int, list[int]] = {}
    for file in live(world, DATA):
        keys = pq.read_table(file.file_path.removeprefix("file://"), columns=["id"]).column("id").to_pylist()
        found.setdefault(file.partition[0] // 1000, []).extend(keys)
    assert {day: sorted(keys) for day, keys in found.items()} == {
        window(0).start_ms: [*range(1, 8)], window(1).start_ms: [*range(1, 7)],
    }  # fmt: skip
    balanced(world)
    world.close()


def in_iceberg(world: TableWorld) -> list[int]:
    places = [file.file_path.removeprefix("file://") for file in live(world, DATA)]
    return sorted(key for at in places for key in pq.read_table(at, columns=["id"]).column("id").to_pylist())


def test_a_day_in_iceberg_is_read_again_and_taken_back(tmp_path: Path) -> None:
    """A rollback there names the first reading's files where they lie."""
    world = TableWorld(tmp_path)
    world.fake.rows = {key: ("first", None) for key in range(1, 8)}
    install(world)
    world.read(0)
    world.publish(0)
    world.fake.rows = {key: ("second", None) for key in range(5, 9)}
    assert world.reread(0).rows == 4
    assert in_iceberg(world) == [5, 6, 7, 8]
    balanced(world)
    assert world.back(0, 1).rows == 7
    assert in_iceberg(world) == [*range(1, 8)]
    assert world.back(0, 2).rows == 4
    assert in_iceberg(world) == [5, 6, 7, 8]
    balanced(world)
    world.close()


def test_a_rebuild_of_a_published_day_takes_its_files(tmp_path: Path) -> None:
    """A replay reads no database: people who are told so look for rows of today in vain."""
    world = TableWorld(tmp_path)
    world.fake.rows = {key: ("first", None) for key in range(1, 8)}
    world.read(0)
    world.publish(0)
    ctx = world.context()
    found = explain(ctx, ctx.ledger.reads, window(0))  # type: ignore[attr-defined]
    assert found.next_step.startswith("nothing; to rebuild it from its files: airflow dags backfill ")
    world.close()


@pytest.fixture(params=["postgresql", "jdbc"])
def server(request: pytest.FixtureRequest) -> Server:
    found: Server = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def on_spark(tmp_path: Path, server: Server) -> Iterator[TableWorld]:
    """Jobs run by spark-submit, which gets the secrets as jobs do."""
    said: list[str] = []
    settings = kinds.for_workers(server.connection)
    secrets = {name: settings[name] for name in kinds.SECRETS if name in settings}
    launcher = by_submit(said.append, secrets=secrets)

    def wrap(name: str, port: Any) -> Any:
        return launcher if name == "launcher" else port

    world = TableWorld(tmp_path, "chunk_rows: 5000, tasks: 2", server=server, wrap=wrap)
    yield world
    world.close()


def test_spark_reads_a_table(on_spark: TableWorld, server: Server) -> None:
    server.run(
        "DROP TABLE IF EXISTS shop.t CASCADE",
        "CREATE TABLE shop.t (id BIGINT PRIMARY KEY, word VARCHAR(20), changed TIMESTAMP WITH TIME ZONE)",
        f"INSERT INTO shop.t SELECT n, 'w' || n, now() FROM {series(server, 1, 42_000)}",
    )
    on_spark.read(0)
    assert any("in 9 chunks" in line for line in on_spark.said)
    assert on_spark.publish(0).rows == 42_000
    assert ids(on_spark, 0) == [*range(1, 42_001)]
    balanced(on_spark)
