"""How long Airflow takes to parse a DAG file, by the log of its own parser; and what it allows for that."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from tidegate.core.doctor.findings import Finding
from tidegate.core.doctor.rules import DagFacts, ParseLimits, parsing
from tidegate.settings import airflow_home, airflow_setting

_TAIL = 1_000_000
_OLD_S = 3_600.0
_SECONDS = re.compile(r"\d+\.\d+s")
_KEYS = {
    "import_s": ("core", "dagbag_import_timeout"),
    "file_s": ("core", "dag_file_processor_timeout"),
    "stale_s": ("scheduler", "stale_dag_threshold"),
    "interval_s": ("scheduler", "min_file_process_interval"),
}


def parser_log() -> Path:
    """Where the scheduler, or a processor of DAG files that runs alone, tells how long each file took."""
    named = airflow_setting("logging", "dag_processor_manager_log_location")
    home = airflow_home()
    if not named:
        return home / "logs/dag_processor_manager/dag_processor_manager.log"
    return Path(named.replace("{AIRFLOW_HOME}", str(home))).expanduser()


def last_runtime(log: Path, file: str) -> float | None:
    """Seconds of the last whole parse of `file` that the log tells of. None if it tells of none, or nothing has been
    written there for an hour: another machine parses, or another log is written."""
    try:
        with open(log, "rb") as f:
            about = os.fstat(f.fileno())
            if time.time() - about.st_mtime > _OLD_S:
                return None
            f.seek(max(0, about.st_size - _TAIL))
            text = f.read().decode("utf-8", "replace")
    except OSError:
        return None
    found = None
    for line in text.splitlines():
        # file, process, seconds until now, DAGs, errors, seconds of the last parse, its end, queries: some are missing
        words = line.removeprefix(file).split()
        if line.startswith(f"{file} ") and len(words) > 2 and _SECONDS.fullmatch(words[-3]):
            found = float(words[-3][:-1])
    return found


def parse_limits() -> ParseLimits:
    """Settings as they are here; one that is no number has Airflow's default: Airflow itself does not start with it."""
    found = {}
    for name, key in _KEYS.items():
        try:
            found[name] = float(airflow_setting(*key) or "")
        except ValueError:
            continue
    return ParseLimits(**found)


def findings(pipelines: Iterable[str], dags: Mapping[str, DagFacts]) -> list[Finding]:
    """Findings for each file of these pipelines' DAGs, also of DAGs that Airflow took for removed; `dags`: by id."""
    mine = set(pipelines)
    files = {one.file for dag_id, one in dags.items() if one.file and dag_id.rpartition(".")[0] in mine}
    log, limits = parser_log(), parse_limits()
    return [found for file in sorted(files) for found in parsing(file, last_runtime(log, file), limits)]
