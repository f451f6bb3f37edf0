"""From YAML files to DAGs: what is built, what breaks what, and what it costs."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

import airflow_home
import pytest
from airflow.models.dagbag import DagBag
from airflow.serialization.serialized_objects import SerializedDAG
from airflow.utils import dag_parsing_context

from tidegate.airflow import factory
from tidegate.airflow.timetable import BackfillOnlyTimetable, WindowTimetable
from tidegate.core.base.instants import MINUTE_MS

FIXTURES = airflow_home.CHECKOUT / "tests/fixtures/pipelines"
DAG_FILE = airflow_home.CHECKOUT / "dags/tidegate_pipelines.py"
KINDS = ("archive", "ingest", "maintain", "replay")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pipelines folder with the tram pipeline."""
    monkeypatch.setenv("AIRFLOW__TIDEGATE__PIPELINES_FOLDER", str(tmp_path))
    monkeypatch.setenv("TIDEGATE_LAKE", "/lake")
    shutil.copy(FIXTURES / "tram_positions.yaml", tmp_path)
    return tmp_path


def parse_for(monkeypatch: pytest.MonkeyPatch, dag_id: str) -> None:
    """As a task of that DAG does; Airflow's own context manager never takes the variable away again."""
    monkeypatch.setenv(dag_parsing_context._AIRFLOW_PARSING_CONTEXT_DAG_ID, dag_id)


def bag() -> DagBag:
    return DagBag(str(DAG_FILE), include_examples=False, safe_mode=True)


def add_copies(folder: Path, count: int) -> None:
    text = (FIXTURES / "tram_positions.yaml").read_text()
    for i in range(count):
        (folder / f"p{i:03}.yaml").write_text(text.replace("tram_positions", f"p{i:03}"))


def test_a_yaml_becomes_four_dags_with_tasks_that_an_operator_understands(folder: Path) -> None:
    found = bag()
    assert found.import_errors == {}
    assert sorted(found.dags) == [f"tram_positions.{kind}" for kind in KINDS]
    tasks = {dag_id.split(".")[1]: [t.task_id for t in dag.topological_sort()] for dag_id, dag in found.dags.items()}
    assert tasks == {
        "ingest": ["plan", "write", "land"],
        "archive": ["ready", "publish"],
        "replay": ["replay"],
        "maintain": ["maintain", "catch_up"],
    }


def test_a_wrong_expression_is_its_pipelines_import_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_CACHE", str(folder / "cache"))
    path = folder / "tram_positions.yaml"
    text = path.read_text()
    (folder / "right.yaml").write_text(text.replace("tram_positions", "right") + "\nwhere: 1 < 2\n")
    path.write_text(text + "\nwhere: random() < 0.5\n")
    line = path.read_text().splitlines().index("where: random() < 0.5") + 1
    for _ in range(2):  # asked, then remembered
        found = bag()
        assert sorted(found.dags) == [f"right.{kind}" for kind in KINDS]
        ((_, error),) = found.import_errors.items()
        assert f"tram_positions.yaml:{line}: where: random() is not available in expressions" in error
    assert len(list((folder / "cache/expressions").iterdir())) == 2


def test_schedules(folder: Path) -> None:
    dags = bag().dags
    ingest, archive = dags["tram_positions.ingest"], dags["tram_positions.archive"]
    assert (ingest.catchup, ingest.max_active_runs) == (False, 1)
    assert ingest.timetable.summary == "*/2 * * * *"
    assert archive.catchup
    assert type(archive.timetable) is WindowTimetable
    assert archive.timetable.serialize()["size_ms"] == 15 * MINUTE_MS
    assert archive.start_date.isoformat() == "2024-10-25T22:00:00+00:00"
    assert archive.max_active_runs > 1
    assert type(dags["tram_positions.replay"].timetable) is BackfillOnlyTimetable
    assert not dags["tram_positions.replay"].catchup
    assert not dags["tram_positions.maintain"].catchup


def test_the_spec_decides_owner_pools_and_retries(folder: Path) -> None:
    dags = bag().dags
    for dag in dags.values():
        assert {t.owner for t in dag.tasks} == {"mobility"}
        assert {"tidegate", "tram_positions", "transit"} <= set(dag.tags)
    assert {t.pool for t in dags["tram_positions.ingest"].tasks} == {"tidegate_ingest"}
    assert {t.pool for t in dags["tram_positions.archive"].tasks} == {"tidegate_archive"}
    assert {t.retries for t in dags["tram_positions.ingest"].tasks} == {6}


def test_every_dag_explains_itself(folder: Path) -> None:
    for dag_id, dag in bag().dags.items():
        doc = dag.doc_md or ""
        assert "from: $.vehicle.id" in doc, dag_id  # the spec, as its owner wrote it
        assert "transit.tram_positions" in doc
        assert "docs/runbook.md#" in doc
        assert all(f"`{task.task_id}`" in doc for task in dag.tasks)
        assert "Clear" in doc
        assert all(task.doc_md for task in dag.tasks)


def test_dags_survive_serialisation_and_ask_the_scheduler_for_no_callbacks(folder: Path) -> None:
    airflow_home.make_database()  # where Airflow looks up what a dataset alias stands for
    for dag in bag().dags.values():
        data = SerializedDAG.to_dict(dag)
        SerializedDAG.validate_schema(data)
        again = SerializedDAG.from_dict(data)
        assert type(again.timetable) is type(dag.timetable)
        # a callback request would make the DAG processor parse the whole folder after every run
        assert not again.has_on_success_callback
        assert not again.has_on_failure_callback
        assert dag.on_success_callback is not None
        assert dag.on_failure_callback is not None
        # `dags backfill` works on a copy of this object
        assert dag.partial_subset([t.task_id for t in dag.tasks]).on_success_callback is not None


def test_a_broken_yaml_breaks_its_own_pipeline_alone(folder: Path) -> None:
    text = (folder / "tram_positions.yaml").read_text()
    (folder / "broken.yaml").write_text(text.replace("tram_positions", "broken").replace("size: 15m", "sise: 15m"))
    (folder / "worse.yaml").write_text("name: [")
    found = bag()
    assert sorted(found.dags) == [f"tram_positions.{kind}" for kind in KINDS]
    # an error under the file's own name would stop every DAG of the file
    assert sorted(found.import_errors) == [f"{DAG_FILE}:broken.yaml", f"{DAG_FILE}:worse.yaml"]
    line = next(i for i, row in enumerate(text.splitlines(), 1) if "size: 15m" in row)
    error = found.import_errors[f"{DAG_FILE}:broken.yaml"]
    assert f"broken.yaml:{line}" in error
    assert "windows" in error
    assert "sise" in error


def test_what_airflow_refuses_of_one_pipeline_breaks_that_one_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_copies(folder, 1)
    archive = factory._KINDS["archive"]

    def refuse(pipeline, *rest):
        if pipeline.name == "p000":
            raise ValueError("pool name is too long")
        return archive(pipeline, *rest)

    monkeypatch.setitem(factory._KINDS, "archive", refuse)
    found = bag()
    assert sorted(found.dags) == [f"tram_positions.{kind}" for kind in KINDS]
    assert list(found.import_errors) == [f"{DAG_FILE}:p000.yaml"]
    assert "pool name is too long" in found.import_errors[f"{DAG_FILE}:p000.yaml"]


def test_without_a_pipelines_folder_the_file_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AIRFLOW__TIDEGATE__PIPELINES_FOLDER", str(tmp_path / "none"))
    found = bag()
    assert found.dags == {}
    assert "no such pipelines folder" in found.import_errors[str(DAG_FILE)]


def test_a_task_parses_its_own_dag_and_no_other(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_copies(folder, 3)
    (folder / "broken.yaml").write_text("name: [")
    parse_for(monkeypatch, "p001.archive")
    found = bag()
    assert list(found.dags) == ["p001.archive"]
    assert found.import_errors == {}


@pytest.mark.parametrize("dag_id", ["tram_positions.nothing", "somebody_elses", "gone.ingest", "..ingest"])
def test_a_dag_that_is_not_ours_is_not_built(folder: Path, monkeypatch: pytest.MonkeyPatch, dag_id: str) -> None:
    parse_for(monkeypatch, dag_id)
    assert factory.build_dags() == {}


def test_with_200_pipelines_a_task_still_parses_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cpu_s() -> float:
        """Of this thread: what others do on the machine is hardly in it, nor a run in which memory was tidied up."""
        taken = []
        for _ in range(3):
            began = time.thread_time()
            built.append(list(factory.build_dags()))
            taken.append(time.thread_time() - began)
        return min(taken)

    built: list[list[str]] = []
    add_copies(folder, 200)
    began = time.thread_time()
    assert len(factory.build_dags()) == 804
    for_all_s = time.thread_time() - began
    parse_for(monkeypatch, "p100.ingest")
    seconds = cpu_s()
    assert built == [["p100.ingest"]] * 3
    assert seconds < for_all_s / 20


def test_parsing_opens_nothing_but_the_yamls(folder: Path) -> None:
    program = f"""
import sys, os
opened = []
sys.addaudithook(lambda event, args: opened.append((event, str(args[0]))) if event in recorded else None)
recorded = ()
from tidegate.airflow import factory
from tidegate.settings import load
factory.build_dags()  # lazy imports of the standard library's zones and the like
recorded = ("open", "socket.connect", "subprocess.Popen", "sqlite3.connect")
factory.build_dags()
recorded = ()
heavy = [m for m in ("pyarrow", "duckdb", "confluent_kafka", "pyhive", "pyspark", "hdfs_native") if m in sys.modules]
tasks_own = ("workflow", "ledger", "core.ledger", "core.look", "core.mirror", "core.copy", "core.failover")
heavy += [m for m in sys.modules if m.startswith(tuple("tidegate." + name for name in tasks_own))]
ours = ({str(folder)!r}, os.environ["AIRFLOW_HOME"] + "/airflow.cfg")
foreign = [o for o in opened if not o[1].startswith(ours) and "site-packages" not in o[1]]
print("RESULT", heavy, foreign, len(opened))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    result = next(line for line in done.stdout.splitlines() if line.startswith("RESULT"))
    assert result.startswith("RESULT [] [] "), result
    assert not result.endswith(" 0")


def test_the_plugin_imports_little_and_is_registered_once() -> None:
    program = """
import sys
import airflow.plugins_manager, airflow.timetables.base, pendulum  # what every Airflow process has anyway
before = set(sys.modules)
import tidegate_plugin
new = set(sys.modules) - before
heavy = ("tidegate.workflow", "tidegate.spec", "tidegate.adapters")
heavy = sorted(m for m in new if m.startswith(heavy) or not m.startswith("tidegate"))
airflow.plugins_manager.ensure_plugins_loaded()
airflow.plugins_manager.initialize_timetables_plugins()
ours = [p for p in airflow.plugins_manager.plugins if p.name == "tidegate"]
schedules = sum("tidegate" in t for t in airflow.plugins_manager.timetable_classes)
print("RESULT", len(new) < 40, heavy, len(ours), schedules,
      [e for e in airflow.plugins_manager.import_errors], any(p.listeners for p in ours))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    # two timetables, each by its name of 0.1.0 too, and that of deliveries
    assert "RESULT True [] 1 5 [] False" in done.stdout, done.stdout + done.stderr[-2000:]


@pytest.mark.parametrize("syntax", ["regexp", "glob"])
def test_airflow_executes_no_file_of_the_package(syntax: str) -> None:
    from airflow.utils.file import find_path_from_directory

    found = find_path_from_directory(airflow_home.CHECKOUT / "plugins", ".airflowignore", syntax)
    python = [Path(p).name for p in found if p.endswith(".py")]
    assert python == ["tidegate_plugin.py"]


def test_the_example_pipelines_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__TIDEGATE__PIPELINES_FOLDER", str(airflow_home.CHECKOUT / "dags/pipelines"))
    found = bag()
    assert found.import_errors == {}
    assert "flights.archive" in found.dags
