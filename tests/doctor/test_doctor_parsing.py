"""How long Airflow takes for the DAG file, compared with what Airflow allows for it."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import airflow_home  # noqa: F401  (before airflow)
import pytest
from airflow.configuration import conf
from airflow.dag_processing.manager import DagFileProcessorManager

from tests.doctor.test_doctor import KINDS, Setup, setup
from tidegate.adapters.parse_times import last_runtime
from tidegate.core.doctor.rules import ParseLimits

__all__ = ["setup"]  # a fixture
FILE = "/opt/airflow/dags/tidegate_pipelines.py"


# ---------------------------------------------------------------- Airflow's log


def stats(*rows: tuple[str, float | None, float | None]) -> str:
    """As Airflow itself writes them: file, for how long it is being parsed now, how long the last parse took."""
    now, told = datetime.now(UTC), list[str]()
    by_file = {file: (running, last) for file, running, last in rows}
    fake = SimpleNamespace(
        log=SimpleNamespace(info=told.append),
        get_last_runtime=lambda file: by_file[file][1],
        get_last_dag_count=lambda file: 44,
        get_last_error_count=lambda file: 0,
        get_pid=lambda file: None if by_file[file][0] is None else 4711,
        get_start_time=lambda file: (
            None if by_file[file][0] is None else datetime.fromtimestamp(now.timestamp() - by_file[file][0], UTC)
        ),
        get_last_finish_time=lambda file: now if by_file[file][1] is not None else None,
        get_last_num_of_db_queries=lambda file: 12,
    )
    DagFileProcessorManager._log_file_processing_stats(fake, list(by_file))  # type: ignore[arg-type]
    return f"[{now.isoformat()}] {{manager.py:1000}} INFO - {told[0]}\n"


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([(FILE, None, 12.34)], 12.34),
        ([(FILE, 3.0, 12.34), ("/opt/airflow/dags/other.py", None, 99.0)], 12.34),
        ([("/opt/airflow/dags/other.py", None, 99.0), (FILE, None, 0.5)], 0.5),
        ([(FILE, 3.0, None)], None),
        ([(FILE, None, None)], None),
        ([(f"{FILE}.py", None, 7.0), (f"/x{FILE}", None, 7.0)], None),
    ],
)
def test_the_last_parse_is_read_from_airflows_log(
    tmp_path: Path, rows: list[tuple[str, float | None, float | None]], expected: float | None
) -> None:
    log = tmp_path / "manager.log"
    log.write_text(stats((FILE, None, 77.0)) + stats(*rows))
    assert last_runtime(log, FILE) == (77.0 if expected is None else expected)
    log.write_text(stats(*rows))
    assert last_runtime(log, FILE) == expected


def test_a_long_log_is_read_from_its_end(tmp_path: Path) -> None:
    log = tmp_path / "manager.log"
    log.write_text(stats((FILE, None, 77.0)) + "x" * 2_000_000 + "\n" + stats((FILE, None, 3.0)))
    assert last_runtime(log, FILE) == 3.0
    log.write_text(stats((FILE, None, 77.0)) + "x" * 2_000_000 + "\n")
    assert last_runtime(log, FILE) is None


def test_no_log_or_an_old_one_says_nothing(tmp_path: Path) -> None:
    log = tmp_path / "manager.log"
    assert last_runtime(log, FILE) is None
    log.write_text(stats((FILE, None, 77.0)))
    os.utime(log, (time.time() - 3700, time.time() - 3700))
    assert last_runtime(log, FILE) is None
    assert last_runtime(tmp_path, FILE) is None


# ---------------------------------------------------------------- the command


def test_airflows_defaults_are_as_the_rule_says() -> None:
    limits = ParseLimits()
    defaults = {
        ("core", "dagbag_import_timeout"): limits.import_s,
        ("core", "dag_file_processor_timeout"): limits.file_s,
        ("scheduler", "stale_dag_threshold"): limits.stale_s,
        ("scheduler", "min_file_process_interval"): limits.interval_s,
    }
    assert {key: float(conf.get_default_value(*key)) for key in defaults} == defaults


def test_the_doctor_says_it(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    log = setup.folder / "airflow/logs/dag_processor_manager/dag_processor_manager.log"
    log.parent.mkdir(parents=True)
    log.write_text(stats((FILE, None, 21.0)))
    assert "parsing" not in setup.findings(code=0), "no DAG of these pipelines is in that file"
    for kind in KINDS:
        setup.sql("UPDATE dag SET fileloc = ? WHERE dag_id = ?", FILE, f"readings.{kind}")
    found = setup.wrong("parsing", "warning")
    assert found["what"].startswith("tidegate_pipelines.py takes 21 s to parse")
    monkeypatch.setenv("AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT", "90")
    (well,) = setup.findings(code=0)["parsing"]
    assert (well["level"], well["what"]) == ("ok", "tidegate_pipelines.py takes 21 s to parse")
    monkeypatch.setenv("AIRFLOW__SCHEDULER__STALE_DAG_THRESHOLD", "30")
    assert "stale_dag_threshold" in setup.wrong("parsing", "warning")["mend"]
    moved = log.rename(setup.folder / "elsewhere.log")
    monkeypatch.setenv("AIRFLOW__LOGGING__DAG_PROCESSOR_MANAGER_LOG_LOCATION", str(moved))
    assert "takes 21 s" in setup.wrong("parsing", "warning")["what"]


def test_dags_that_a_parse_that_was_ended_has_lost(setup: Setup) -> None:
    setup.sql("UPDATE dag SET fileloc = ?, is_active = 0", FILE)
    log = setup.folder / "airflow/logs/dag_processor_manager/dag_processor_manager.log"
    log.parent.mkdir(parents=True)
    log.write_text(stats((FILE, None, 51.2)))
    found = setup.findings(code=1)
    assert "Airflow ends it after 30 s" in next(f["what"] for f in found["parsing"] if f["level"] == "wrong")


def test_a_setting_that_is_no_number_is_airflows_trouble(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    setup.sql("UPDATE dag SET fileloc = ?", FILE)
    monkeypatch.setenv("AIRFLOW__SCHEDULER__STALE_DAG_THRESHOLD", "soon")
    (found,) = setup.findings(code=0)["parsing"]
    assert found["level"] == "ok"
