"""`tidegate doctor`: whether Airflow has enough time to parse the pipelines' DAG file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from tidegate.core.doctor.rules import DagFacts, parsing

if TYPE_CHECKING:
    from tidegate.core.doctor.findings import Finding


def findings(pipelines: Iterable[str], dags: Mapping[str, DagFacts]) -> list[Finding]:
    """Findings for each file of these pipelines' DAGs, also of DAGs that Airflow took for removed; `dags`: by id."""
    from tidegate.adapters.parse_times import last_runtime, parse_limits, parser_log

    mine = set(pipelines)
    files = {one.file for dag_id, one in dags.items() if one.file and dag_id.rpartition(".")[0] in mine}
    log, limits = parser_log(), parse_limits()
    return [found for file in sorted(files) for found in parsing(file, last_runtime(log, file), limits)]
