"""Airflow as an operator uses it: its REST API and its command line, on an embedded stack."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from dev.stack.info import StackInfo

T = TypeVar("T")


@dataclass(frozen=True)
class AirflowApi:
    """What the tests do with a running Airflow; every wait polls a condition until a deadline."""

    info: StackInfo

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """One request to the stable API. Raises HTTPError."""
        login = base64.b64encode(f"{self.info.airflow_user}:{self.info.airflow_password}".encode()).decode()
        # a content type without content is a bad request
        content = {} if body is None else {"Content-Type": "application/json"}
        request = urllib.request.Request(
            f"{self.info.airflow_url}/api/v1{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            # a content type without content is a bad request
            headers={"Authorization": f"Basic {login}"} | content,
        )
        try:
            with urllib.request.urlopen(request, timeout=180) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            error.add_note(f"{method} {path}: {error.read().decode(errors='replace')}")
            raise
        return json.loads(text) if text else None

    def delete_run(self, dag_id: str, run_id: str) -> None:
        """Remove a run with its tasks."""
        self.call("DELETE", f"/dags/{dag_id}/dagRuns/{urllib.parse.quote(run_id)}")

    def fail_run(self, dag_id: str, run_id: str) -> None:
        """What "mark state as failed" does: running tasks are ended."""
        self.call("PATCH", f"/dags/{dag_id}/dagRuns/{urllib.parse.quote(run_id)}", {"state": "failed"})

    def pause(self, dag_id: str, paused: bool) -> None:
        """Pause or unpause a DAG."""
        self.call("PATCH", f"/dags/{dag_id}?update_mask=is_paused", {"is_paused": paused})

    def runs(self, dag_id: str) -> dict[str, dict[str, Any]]:
        """Runs by id."""
        found = self.call("GET", f"/dags/{dag_id}/dagRuns?limit=100")["dag_runs"]
        return {run["dag_run_id"]: run for run in found}

    def task(self, dag_id: str, run_id: str, task_id: str) -> dict[str, Any]:
        """A task instance."""
        return self.call("GET", f"/dags/{dag_id}/dagRuns/{urllib.parse.quote(run_id)}/taskInstances/{task_id}")

    def log(self, dag_id: str, run_id: str, task_id: str, attempt: int) -> str:
        """What a task said, from where Airflow writes it."""
        folder = Path(self.info.root) / "airflow/logs" / f"dag_id={dag_id}" / f"run_id={run_id}" / f"task_id={task_id}"
        return (folder / f"attempt={attempt}.log").read_text()

    def clear(self, dag_id: str, run_id: str, task_id: str) -> None:
        """What the button Clear does."""
        self.call(
            "POST",
            f"/dags/{dag_id}/clearTaskInstances",
            {
                "dry_run": False,
                "reset_dag_runs": True,
                "only_failed": False,
                "dag_run_id": run_id,
                "task_ids": [task_id],
            },
        )

    def command(self, *words: str, timeout_s: float = 900) -> str:
        """`airflow ...`; its output. Fails the test with it when the exit code isn't 0."""
        process = subprocess.Popen(
            ["airflow", *words],
            env=self.info.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=timeout_s)
        finally:
            if process.poll() is None:  # interrupted: a backfill's executor would outlive it
                os.killpg(process.pid, signal.SIGKILL)
        assert process.returncode == 0, output[-4000:]
        return output


def eventually(what: str, look: Callable[[], T], timeout_s: float = 600.0) -> T:
    """The first true value of `look`. Fails after the deadline with the last one."""
    deadline = time.monotonic() + timeout_s
    while True:
        found = look()
        if found:
            return found
        assert time.monotonic() < deadline, f"{what}: still {found!r} after {timeout_s:.0f} s"
        time.sleep(0.5)
