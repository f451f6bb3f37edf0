"""Airflow's stable REST API, as far as the demo uses it: what an operator's clicks in the UI do."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from typing import Any

_TIMEOUT_S = 30.0


class AirflowRefused(Exception):
    """The API answered with an error."""


@dataclass(frozen=True)
class Task:
    """One task of one run; `state` is None while nothing has been decided."""

    task_id: str
    state: str | None
    tries: int


@dataclass(frozen=True)
class Airflow:
    """A web server that takes basic authentication."""

    url: str
    user: str
    password: str

    def has_dag(self, dag_id: str) -> bool:
        """Whether the scheduler has parsed it."""
        try:
            self._call("GET", f"dags/{dag_id}")
        except AirflowRefused:
            return False
        return True

    def import_errors(self) -> list[str]:
        return [
            f"{e['filename']}: {e['stack_trace'].strip()}" for e in self._call("GET", "importErrors")["import_errors"]
        ]

    def pause(self, dag_id: str, paused: bool) -> None:
        self._call("PATCH", f"dags/{dag_id}?update_mask=is_paused", {"is_paused": paused})

    def paused(self, dag_id: str) -> bool:
        return self._call("GET", f"dags/{dag_id}")["is_paused"]

    def trigger(self, dag_id: str, run_id: str) -> None:
        self._call("POST", f"dags/{dag_id}/dagRuns", {"dag_run_id": run_id, "conf": {}})

    def runs(self, dag_id: str) -> dict[str, str]:
        """run id -> state, oldest first (the last hundred)."""
        found = self._call("GET", f"dags/{dag_id}/dagRuns?order_by=-start_date&limit=100")["dag_runs"]
        return {run["dag_run_id"]: run["state"] for run in reversed(found)}

    def run_at(self, dag_id: str, logical_date: str) -> tuple[str, str]:
        """(run id, run type) of the run with this logical date (ISO 8601). Raises AirflowRefused if there is none."""
        day = urllib.parse.quote(logical_date)
        found = self._call("GET", f"dags/{dag_id}/dagRuns?execution_date_gte={day}&execution_date_lte={day}")[
            "dag_runs"
        ]
        if not found:
            raise AirflowRefused(f"{dag_id} has no run of {logical_date}")
        return found[0]["dag_run_id"], found[0]["run_type"]

    def tasks(self, dag_id: str, run_id: str) -> dict[str, Task]:
        run = urllib.parse.quote(run_id)
        found = self._call("GET", f"dags/{dag_id}/dagRuns/{run}/taskInstances")["task_instances"]
        return {t["task_id"]: Task(t["task_id"], t["state"], t["try_number"]) for t in found}

    def clear(self, dag_id: str, run_id: str, task_ids: list[str]) -> None:
        """The UI's Clear, of these tasks of one run."""
        asked = {"dry_run": False, "dag_run_id": run_id, "task_ids": task_ids, "only_failed": False}
        self._call("POST", f"dags/{dag_id}/clearTaskInstances", asked | {"reset_dag_runs": True})

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        token = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        request = urllib.request.Request(
            f"{self.url}/api/v1/{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Basic {token}", "Content-Type": "application/json"},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise AirflowRefused(
                f"{method} {path}: {error.code} {error.read().decode(errors='replace')[:300]}"
            ) from None
