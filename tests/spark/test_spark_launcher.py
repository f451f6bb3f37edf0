"""Launchers, with a script in spark-submit's place: arguments, secrets, last words, and that a kill ends everything."""

from __future__ import annotations

import json
import os
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import airflow_home
import psutil
import pytest

from tests.world import make_pipeline
from tidegate.adapters.connections import ConnectionMissing
from tidegate.adapters.worker_code import land_application
from tidegate.airflow.launcher import AirflowSparkLauncher
from tidegate.core.base.errors import JobFailed
from tidegate.core.spec.pipeline import Pipeline
from tidegate.settings import Settings
from tidegate.spark.conf import LOCAL
from tidegate.spark.launcher import SECRETS_FILE, SubprocessLauncher

PLAN = "file:///lake/_tidegate/plans/12.3-abc.json"
SECRETS = {"sasl.password": "s3cret"}


@pytest.fixture
def spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Writes a spark-submit that notes its arguments, the file of --files and PYTHONPATH, then runs `body`."""
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[2]"}))

    def write(body: str = "") -> Path:
        binary = tmp_path / "spark-submit"
        binary.write_text(
            f"#!{sys.executable}\n"
            "import json, os, subprocess, sys, time\n"
            "files = sys.argv[sys.argv.index('--files') + 1] if '--files' in sys.argv else None\n"
            "seen = {'argv': sys.argv[1:], 'path': os.environ.get('PYTHONPATH'),\n"
            "        'secrets': files and open(files).read(), 'mode': files and os.stat(files).st_mode & 0o777,\n"
            "        'environ': dict(os.environ)}\n"
            f"json.dump(seen, open({str(tmp_path / 'seen.json')!r}, 'w'))\n"
            f"{body}\n"
        )
        binary.chmod(0o755)
        return binary

    return write


def seen(tmp_path: Path) -> dict:
    return json.loads((tmp_path / "seen.json").read_text())


def pipeline(**spark_conf: str) -> Pipeline:
    made = make_pipeline("file:///lake/readings")
    ingest = replace(made.ingest, spark_conn_id="spark_default", spark_conf=spark_conf)
    return replace(made, ingest=ingest)


def airflow_launcher(binary: Path, secrets: dict[str, str] | None = None, **spark_conf: str) -> AirflowSparkLauncher:
    settings = Settings(
        pipelines_folder=Path("/pipelines"), spark_binary=str(binary), spark_driver_java_options="-XX:+UseSerialGC"
    )
    return AirflowSparkLauncher(pipeline(**spark_conf), lambda: secrets or {}, settings)


def plain_launcher(binary: Path, secrets: dict[str, str] | None = None) -> SubprocessLauncher:
    return SubprocessLauncher(lambda line: None, str(binary), secrets=secrets)


LAUNCHERS = pytest.mark.parametrize("launcher", [airflow_launcher, plain_launcher])


@LAUNCHERS
def test_a_job_is_told_its_plan_and_can_import_tidegate(
    spark: Callable[[str], Path], tmp_path: Path, launcher: Callable
) -> None:
    launcher(spark()).run(PLAN)
    found = seen(tmp_path)
    assert found["argv"][-2:] == [str(land_application()), PLAN]
    assert found["argv"][found["argv"].index("--master") + 1] == "local[2]"
    assert "--files" not in found["argv"]
    path = found["path"].split(os.pathsep)
    assert (Path(path[0]) / "tidegate/core").is_dir()
    assert any((Path(p) / "spark_jobs/land.py").is_file() for p in path)


@LAUNCHERS
def test_secrets_travel_in_a_private_file_that_is_gone_afterwards(
    spark: Callable[[str], Path], tmp_path: Path, launcher: Callable, caplog: pytest.LogCaptureFixture
) -> None:
    launcher(spark(), SECRETS).run(PLAN)
    found = seen(tmp_path)
    file = Path(found["argv"][found["argv"].index("--files") + 1])
    assert file.name == SECRETS_FILE
    assert json.loads(found["secrets"]) == SECRETS
    assert found["mode"] == stat.S_IRUSR | stat.S_IWUSR
    assert not file.exists()
    assert not file.parent.exists()
    assert "s3cret" not in json.dumps([found["argv"], found["environ"]])
    assert "s3cret" not in caplog.text


def test_the_secrets_file_is_the_one_that_the_job_looks_for() -> None:
    from spark_jobs.engine import secrets

    assert secrets.FILE == SECRETS_FILE


@LAUNCHERS
def test_a_failed_job_fails_with_its_own_last_words(spark: Callable[[str], Path], launcher: Callable) -> None:
    binary = spark(
        "[print('noise', i) for i in range(100)]\n"
        "print('tidegate: partition 3, offset 17: field price: 1e999', file=sys.stderr)\n"
        "sys.exit(1)"
    )
    with pytest.raises(JobFailed) as caught:
        launcher(binary).run(PLAN)
    assert str(caught.value).splitlines()[-1].endswith("field price: 1e999")
    assert "noise 99" in str(caught.value)
    assert "noise 50" not in str(caught.value)
    assert caught.value.retry


def test_the_pipelines_spark_settings_win_over_ours(spark: Callable[[str], Path], tmp_path: Path) -> None:
    conf = {"spark.log.level": "INFO", "spark.ui.enabled": "true", "spark.driver.extraJavaOptions": "-Xss4m"}
    airflow_launcher(spark(), None, **conf).run(PLAN)
    assert settings(tmp_path) == LOCAL | {
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -Xss4m",
        "spark.log.level": "INFO",
        "spark.ui.enabled": "true",
    }


def settings(tmp_path: Path) -> dict[str, str]:
    argv = seen(tmp_path)["argv"]
    return dict(argv[i + 1].split("=", 1) for i, word in enumerate(argv) if word == "--conf")


def test_on_a_cluster_no_environment_becomes_arguments(
    spark: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = {"conn_type": "spark", "host": "spark://m:7077"}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(fields))
    airflow_launcher(spark()).run(PLAN)
    assert "PYTHONPATH" not in " ".join(seen(tmp_path)["argv"])
    assert settings(tmp_path) == {"spark.log.level": "WARN", "spark.driver.extraJavaOptions": "-XX:+UseSerialGC"}


def test_an_unknown_spark_connection_is_refused_not_taken_for_yarn(
    spark: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    airflow_home.make_database()
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT")
    with pytest.raises(ConnectionMissing, match="spark_default") as caught:
        airflow_launcher(spark()).run(PLAN)
    assert not caught.value.retry


@LAUNCHERS
def test_without_spark_submit_the_error_names_the_setting(launcher: Callable, spark: Callable[[str], Path]) -> None:
    spark()
    with pytest.raises(JobFailed, match="AIRFLOW__TIDEGATE__SPARK_BINARY") as caught:
        launcher(Path("/nowhere/spark-submit")).run(PLAN)
    assert not caught.value.retry


@LAUNCHERS
def test_a_kill_ends_the_jvm_and_the_driver_below_it(
    spark: Callable[[str], Path], tmp_path: Path, launcher: Callable
) -> None:
    """The hook's own kill leaves the driver, which could go on writing, though only into its own attempt."""
    driver = tmp_path / "driver.pid"
    binary = spark(
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)', sys.argv[-1]])\n"
        f"open({str(driver)!r} + '.tmp', 'w').write(str(child.pid))\n"
        f"os.rename({str(driver)!r} + '.tmp', {str(driver)!r})\n"
        "child.wait()"
    )
    job = launcher(binary)
    errors: list[BaseException] = []

    def run() -> None:
        try:
            job.run(PLAN)
        except BaseException as e:
            errors.append(e)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    deadline = time.monotonic() + 120
    while not driver.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process = psutil.Process(int(driver.read_text()))
    try:
        job.kill()
        thread.join(120)
        assert not thread.is_alive()
        psutil.wait_procs([process], timeout=120)
        assert not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    finally:
        if process.is_running():
            process.kill()
    assert len(errors) == 1
    assert isinstance(errors[0], JobFailed)


def test_a_warm_session_is_asked_for_with_the_connections_own_command(
    spark: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stand-in ends at once: what counts is what it was told."""
    sessions = tempfile.mkdtemp(prefix="tg")  # names of sockets are short
    monkeypatch.setenv("AIRFLOW__TIDEGATE__SPARK_SESSION_FOLDER", sessions)
    job = airflow_launcher(spark("print('no Spark here')"), SECRETS, **{"spark.executor.memory": "2g"})
    job._pipeline = replace(job._pipeline, ingest=replace(job._pipeline.ingest, spark_session="warm"))
    with pytest.raises(JobFailed, match="no Spark here"):
        job.run(PLAN)
    argv = seen(tmp_path)["argv"]
    assert argv[argv.index("--master") + 1] == "local[2]"
    assert settings(tmp_path)["spark.executor.memory"] == "2g"
    assert argv[-6] == str(land_application().with_name("serve.py"))
    assert argv[-5].startswith(sessions)
    assert PLAN not in argv
    assert "--files" not in argv
    assert "s3cret" not in json.dumps(seen(tmp_path))


def test_no_warm_session_with_a_driver_on_the_cluster(
    spark: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    extra = {"deploy-mode": "cluster"}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "yarn", "extra": extra}))
    job = airflow_launcher(spark())
    job._pipeline = replace(job._pipeline, ingest=replace(job._pipeline.ingest, spark_session="warm"))
    with pytest.raises(JobFailed, match="per_batch") as caught:
        job.run(PLAN)
    assert not caught.value.retry
