"""The DAGs of a mirror by days are those of windows, a run for each day."""

from __future__ import annotations

from pathlib import Path

import airflow_home
import pytest
from airflow.models.dagbag import DagBag

from tests.mirror.days import YAML


def test_a_mirror_by_days_has_runs_of_days(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__TIDEGATE__PIPELINES_FOLDER", str(tmp_path))
    (tmp_path / "readings.yaml").write_text(YAML.format(location="file:///lake/readings"))
    dag_file = airflow_home.CHECKOUT / "dags/tidegate_pipelines.py"
    bag = DagBag(dag_folder=str(dag_file), include_examples=False, read_dags_from_db=False)
    assert bag.import_errors == {}
    assert sorted(bag.dags) == [f"readings.{dag}" for dag in ("archive", "ingest", "maintain", "replay")]
    assert "publish" in bag.dags["readings.archive"].task_ids
