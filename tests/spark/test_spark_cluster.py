"""Spark on YARN, standalone and Kubernetes: what a job is told there, what is refused, how it ends; by stand-ins."""

from __future__ import annotations

import base64
import json
import stat
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pyspark
import pytest
from engine_fixtures import job_plan

from spark_jobs import land
from spark_jobs import tasks as job_tasks
from spark_jobs.engine import job as engine_job
from spark_jobs.engine import secrets as engine_secrets
from spark_jobs.engine.job import cut
from tests.spark.test_spark_launcher import PLAN, SECRETS, airflow_launcher, seen, settings, spark  # noqa: F401
from tests.world import make_pipeline
from tidegate import wiring
from tidegate.airflow.launcher import AirflowSparkLauncher
from tidegate.core.base.connection import Connection
from tidegate.core.base.errors import JobFailed
from tidegate.core.base.plain import from_plain, to_plain
from tidegate.core.spec.pipeline import Pipeline
from tidegate.spark.conf import driver_conf, with_worker_archive
from tidegate.spark.connection import SparkConnection, impossible_jobs
from tidegate.spark.launcher import SECRETS_FILE

KEYTAB = b"\x05\x02keytab"
ARCHIVE = "hdfs:///apps/tidegate-worker-0.1.0.tar.gz"


def connect(monkeypatch: pytest.MonkeyPatch, host: str, **extra: str) -> None:
    fields = {"conn_type": "spark", "host": host, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(fields))


def pipeline(session: str = "per_batch", **spark_conf: str) -> Pipeline:
    made = make_pipeline("file:///lake/readings")
    ingest = replace(made.ingest, spark_conn_id="spark_default", spark_conf=spark_conf, spark_session=session)
    return replace(made, ingest=ingest)


class Command:
    """`tidegate replay` and the like: the launcher of the command line, with the connection's secrets."""

    def __init__(self, binary: Path, secrets: dict[str, str] | None = None, **spark_conf: str) -> None:
        self._binary, self._secrets, self._conf = binary, secrets, spark_conf

    def run(self, plan: str) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("AIRFLOW__TIDEGATE__SPARK_BINARY", str(self._binary))
            patch.setattr(wiring, "job_secrets", lambda *_: self._secrets or {})
            wiring.SparkByConnection(pipeline(**self._conf), lambda line: None).run(plan)


LAUNCHERS = pytest.mark.parametrize("launcher", [airflow_launcher, Command])


def after(argv: list[str], word: str) -> str | None:
    return argv[argv.index(word) + 1] if word in argv else None


# ---------------------------------------------------------------- what a job is told


@LAUNCHERS
def test_a_job_goes_where_its_connection_says(
    spark: Callable[[str], Path],  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    launcher: Callable,
) -> None:
    """The tasks' launcher and the command line's alike: deploy mode, queue, principal, keytab."""
    monkeypatch.setenv("AIRFLOW__TIDEGATE__SPARK_SESSION_FOLDER", str(tmp_path / "s"))
    keytab = base64.encodebytes(KEYTAB).decode()
    extra = {"deploy-mode": "cluster", "queue": "lake", "principal": "tide@EXAMPLE.NET", "keytab": keytab}
    connect(monkeypatch, "yarn", **extra)
    job = launcher(spark(f"print(open({str(tmp_path / 'kt')!r}, 'w').write('x'))"), SECRETS)
    if isinstance(job, AirflowSparkLauncher):
        job._settings = replace(job._settings, spark_session_folder=tmp_path / "s")
    job.run(PLAN)
    argv = seen(tmp_path)["argv"]
    assert after(argv, "--master") == "yarn"
    assert after(argv, "--deploy-mode") == "cluster"
    assert after(argv, "--queue") == "lake"
    assert after(argv, "--principal") == "tide@EXAMPLE.NET"
    path = Path(after(argv, "--keytab") or "")
    assert path.read_bytes() == KEYTAB
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert Path(after(argv, "--files") or "").name == SECRETS_FILE
    told = json.dumps([argv, settings(tmp_path)])
    assert "s3cret" not in told
    assert keytab.strip() not in told


@LAUNCHERS
@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_yarn_makes_one_attempt_under_a_tag_and_is_waited_for(
    spark: Callable[[str], Path],  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    launcher: Callable,
    mode: str,
) -> None:
    connect(monkeypatch, "yarn", **{"deploy-mode": mode})
    conf = {"spark.yarn.tags": "team-a", "spark.pyspark.python": "/opt/python3.11/bin/python3"}
    launcher(spark(), None, **conf).run(PLAN)
    found = settings(tmp_path)
    assert found["spark.yarn.maxAppAttempts"] == "1"
    assert found["spark.yarn.submit.waitAppCompletion"] == "true"
    mine, _, tag = found["spark.yarn.tags"].partition(",")
    assert (mine, tag[:9]) == ("team-a", "tidegate-")
    assert found.get("spark.pyspark.driver.python") == (sys.executable if mode == "client" else None)
    assert found["spark.pyspark.python"] == "/opt/python3.11/bin/python3"
    launcher(spark(), None, **conf).run(PLAN)
    assert settings(tmp_path)["spark.yarn.tags"] not in ("team-a", found["spark.yarn.tags"]), "each job has its own"


def test_what_a_pipeline_says_of_yarn_and_python_wins() -> None:
    own = {"spark.yarn.maxAppAttempts": "2", "spark.pyspark.python": "/a", "spark.pyspark.driver.python": "/b"}
    assert own.items() <= driver_conf(own, master="yarn").items()
    python = {"spark.pyspark.python": "/a"}
    assert "spark.pyspark.driver.python" not in driver_conf(python, master="local[2]")
    assert "spark.pyspark.driver.python" not in driver_conf({}, master="yarn")
    assert driver_conf(python, master="spark://m:7077")["spark.pyspark.driver.python"] == sys.executable


def test_yarn_unpacks_the_workers_archive_once_a_machine() -> None:
    """`spark.archives` has every executor of every batch unpack 400 MB."""
    found = with_worker_archive({"spark.yarn.dist.archives": "x.zip"}, ARCHIVE, "yarn")
    assert found["spark.yarn.dist.archives"] == f"{ARCHIVE}#tidegate_worker,x.zip"
    assert "spark.archives" not in found
    assert found["spark.executorEnv.PYTHONPATH"] == found["spark.yarn.appMasterEnv.PYTHONPATH"] == "tidegate_worker"
    assert with_worker_archive({}, ARCHIVE, "spark://m:7077")["spark.archives"] == f"{ARCHIVE}#tidegate_worker"


# ---------------------------------------------------------------- what is refused


@LAUNCHERS
@pytest.mark.parametrize(
    ("host", "extra", "conf", "said"),
    [
        ("spark://m:7077", {"deploy-mode": "cluster"}, {}, "no Python driver.*deploy mode of spark_default to client"),
        ("spark://m:7077", {}, {"spark.submit.deployMode": "cluster"}, "no Python driver"),
        ("yarn", {"deploy-mode": "cluster"}, {"spark.yarn.submit.waitAppCompletion": "false"}, "waitAppCompletion"),
        ("k8s://https://k:6443", {"deploy-mode": "cluster"}, {}, "upload in clear.*mount a Secret"),
    ],
)
def test_what_can_never_succeed_is_refused_before_anything_starts(
    spark: Callable[[str], Path],  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    launcher: Callable,
    host: str,
    extra: dict,
    conf: dict,
    said: str,
) -> None:
    monkeypatch.setattr("tidegate.airflow.launcher.spark_submit.kube_client", object(), raising=False)
    connect(monkeypatch, host, **extra)
    with pytest.raises(JobFailed, match=f"(?s){said}") as caught:
        launcher(spark(), SECRETS, **conf).run(PLAN)
    assert not caught.value.retry
    assert caught.value.advice
    assert not (tmp_path / "seen.json").exists()


def test_the_doctor_names_connections_that_no_job_can_use() -> None:
    standalone = Connection(
        conn_id="spark_default", conn_type="spark", host="spark://m:7077", extra={"deploy-mode": "cluster"}
    )
    two = [pipeline(), replace(pipeline(), name="other")]
    (found,) = impossible_jobs(two, {"spark_default": standalone})
    assert "no Python driver" in found.what
    assert "deploy mode" in found.mend
    assert (
        impossible_jobs(two, {"spark_default": Connection(conn_id="spark_default", conn_type="spark", host="yarn")})
        == []
    )
    assert impossible_jobs(two, {}) == []


def test_kubernetes_without_its_provider_is_a_clear_refusal(
    spark: Callable[[str], Path],  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connect(monkeypatch, "k8s://https://k:6443")
    monkeypatch.delattr("tidegate.airflow.launcher.spark_submit.kube_client", raising=False)
    with pytest.raises(JobFailed, match="pip install apache-airflow-providers-cncf-kubernetes") as caught:
        airflow_launcher(spark()).run(PLAN)
    assert not caught.value.retry


def test_no_warm_session_where_the_settings_say_cluster(
    spark: Callable[[str], Path],  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connect(monkeypatch, "yarn")
    job = airflow_launcher(spark(), None, **{"spark.submit.deployMode": "cluster"})
    job._pipeline = replace(job._pipeline, ingest=replace(job._pipeline.ingest, spark_session="warm"))
    with pytest.raises(JobFailed, match="per_batch") as caught:
        job.run(PLAN)
    assert not caught.value.retry


def test_a_broken_keytab_is_refused_and_not_quoted(tmp_path: Path) -> None:
    connection = SparkConnection(conn_id="s", master="yarn", keytab="not base64!")
    with pytest.raises(JobFailed, match="not base64") as caught:
        connection.options(tmp_path / "s")
    assert "not base64!" not in str(caught.value)
    assert "not base64!" not in repr(connection)


# ---------------------------------------------------------------- secrets reach the driver


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes this process look like a driver, with these settings, whose context has carried no file."""
    monkeypatch.delenv(engine_secrets.VARIABLE, raising=False)
    monkeypatch.setattr(engine_secrets, "_given", None)
    (tmp_path / "userFiles").mkdir()

    def be(**conf: str) -> None:
        found = {f"spark.{key.replace('_', '.')}": value for key, value in conf.items()}
        context = SimpleNamespace(getConf=lambda: found)
        pyspark = SimpleNamespace(
            SparkContext=SimpleNamespace(_active_spark_context=context),
            SparkFiles=SimpleNamespace(get=lambda name: str(tmp_path / "userFiles" / name)),
        )
        monkeypatch.setitem(sys.modules, "pyspark", pyspark)

    return be


def secrets_at(folder: Path, password: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / SECRETS_FILE
    path.write_text(json.dumps({"sasl.password": password}))
    return path


def test_a_driver_on_yarn_finds_the_secrets_in_both_modes(
    driver: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--files` becomes spark.yarn.dist.files there, which SparkContext never adds to its own."""
    sent = secrets_at(tmp_path / "sent by", "of the client")
    secrets_at(tmp_path / "container", "of the container")
    monkeypatch.chdir(tmp_path / "container")
    another = sent.with_name(f"{SECRETS_FILE}.bak")
    another.write_text("{}")
    files = f"{another.as_uri()},{sent.as_uri()}"
    driver(submit_deployMode="client", yarn_dist_files=files)
    assert engine_secrets.client_secrets() == {"sasl.password": "of the client"}, "not what lies about here"
    driver(submit_deployMode="cluster", yarn_dist_files=files)
    assert engine_secrets.client_secrets() == {"sasl.password": "of the container"}
    driver(submit_deployMode="client")
    assert engine_secrets.client_secrets() == {}
    secrets_at(tmp_path / "userFiles", "carried")
    driver(submit_deployMode="client")
    assert engine_secrets.client_secrets() == {"sasl.password": "carried"}


def test_a_warm_session_hands_secrets_to_executors_by_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The path is the driver's: another machine has no such file."""
    path = secrets_at(tmp_path / "driver", "s3cret")
    monkeypatch.setattr(engine_secrets, "_given", None)
    found: list[dict[str, str]] = []

    class Tasks:
        """An executor: the file has gone, and what an earlier plan left is still there."""

        master, defaultParallelism = "yarn", 2

        def parallelize(self, tasks: list, count: int) -> Tasks:
            self.tasks = tasks
            return self

        def map(self, function: Callable) -> Tasks:
            path.unlink(missing_ok=True)
            engine_secrets.use({"sasl.password": "of an earlier plan"})
            self.done = [function(task) for task in self.tasks]
            return self

        def collect(self) -> list:
            return self.done

        def accumulator(self, zero: tuple, param: object) -> object:
            return SimpleNamespace(value=zero)

        def getConf(self) -> dict:
            return {}

        def setJobGroup(self, *group: object) -> None: ...

        def setLocalProperty(self, *group: object) -> None: ...

    context = SimpleNamespace(taskAttemptId=lambda: 0, attemptNumber=lambda: 0)
    monkeypatch.setattr(pyspark, "TaskContext", SimpleNamespace(get=lambda: context))
    monkeypatch.setattr(job_tasks.FailedAttempts, "tell", lambda self: None)

    def run_plan(plan: object, storage: object, run_tasks: Callable, **_: object) -> object:
        run_tasks(lambda task, attempt: found.append(engine_secrets.client_secrets()), [0])
        return SimpleNamespace(read_rows=0, rows=0, files=())

    monkeypatch.setattr(engine_job, "run_plan", run_plan)
    plan = job_plan(pipeline(), [])
    land.carry_out(plan, None, Tasks(), None, str(path))  # type: ignore[arg-type]
    land.carry_out(plan, None, Tasks(), None, "")  # type: ignore[arg-type]
    assert found == [{"sasl.password": "s3cret"}, {}]


# ---------------------------------------------------------------- tasks are cut by records


def test_on_a_cluster_tasks_depend_on_the_plan_alone() -> None:
    spec = pipeline()
    full = job_plan(spec, [(p, 0, 1_250_000) for p in range(4)])
    assert len(cut(full, None)) == 10
    assert sorted(sum(p.range.count for p in t.pieces) for t in cut(full, None)) == [500_000] * 10
    assert len(cut(job_plan(spec, [(0, 0, 499_999)]), None)) == 1
    assert len(cut(job_plan(spec, [(0, 0, 500_001)]), None)) == 2
    assert len(cut(full, 2)) == 2, "a local master has the cores that it has"
    one = job_plan(spec, [(0, 0, 0)])
    assert cut(one, None) == cut(one, 2) == []


@pytest.mark.parametrize("tasks", [None, 2])
def test_a_pipeline_may_say_how_much_a_task_reads(tasks: int | None) -> None:
    spec = pipeline()
    for records, expected in ((1_000_000, 1), (100_000, 10), (20_000, 50)):
        said = replace(spec, ingest=replace(spec.ingest, task_records=records))
        assert len(cut(job_plan(said, [(0, 0, 600_000), (1, 0, 400_000)]), tasks)) == expected


def test_a_spec_that_is_silent_about_tasks_is_written_as_before() -> None:
    """Plans and records of recovery go to hosts of the release before, too."""
    spec = pipeline()
    written = to_plain(spec)
    assert "task_records" not in written["ingest"]
    assert from_plain(Pipeline, written) == spec
    said = replace(spec, ingest=replace(spec.ingest, task_records=7))
    assert to_plain(said)["ingest"]["task_records"] == 7
