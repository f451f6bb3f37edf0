"""Airflow in the stack: an operator's way in works, tasks see the parts, and nothing of a running task stays."""

from __future__ import annotations

import base64
import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from dev.stack.airflow import POOLS
from dev.stack.info import StackInfo
from dev.stack.processes import RUN_MARK, sweep
from dev.stack.stack import Stack
from dev.stack.state import State

_DAG = '''
"""An airflow dag for the test: one task looks around, one stays, with a child in a session of its own."""
import subprocess, time
from pathlib import Path

import pendulum
from airflow.decorators import dag, task
from airflow.hooks.base import BaseHook

FOLDER = Path(__file__).parent

@dag(schedule=None, start_date=pendulum.datetime(2024, 1, 1), is_paused_upon_creation=False)
def around():
    @task(pool="tidegate_ingest")
    def look():
        ledger = BaseHook.get_connection("tidegate_ledger")
        kafka = BaseHook.get_connection("kafka_default").extra_dejson["bootstrap.servers"]
        spark = BaseHook.get_connection("spark_default").host
        (FOLDER / "seen").write_text(f"{ledger.conn_type} {ledger.port} {kafka} {spark}")

    @task
    def stay():
        subprocess.Popen(["sleep", "600"], start_new_session=True)
        (FOLDER / "staying").touch()
        time.sleep(600)

    look() >> stay()

around()
'''


class Rest:
    """Airflow's REST API with the stack's user and password."""

    def __init__(self, info: StackInfo) -> None:
        self._base = f"{info.airflow_url}/api/v1"
        login = base64.b64encode(f"{info.airflow_user}:{info.airflow_password}".encode()).decode()
        self._headers = {"Authorization": f"Basic {login}", "Content-Type": "application/json"}

    def get(self, path: str) -> dict:
        """A GET's answer."""
        return self._call(urllib.request.Request(f"{self._base}/{path}", headers=self._headers))

    def post(self, path: str, body: dict) -> dict:
        """A POST's answer."""
        data = json.dumps(body).encode()
        return self._call(urllib.request.Request(f"{self._base}/{path}", data, self._headers))

    @staticmethod
    def _call(request: urllib.request.Request) -> dict:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """A stack's folder; what a failed test leaves running is ended."""
    yield tmp_path / "stack"
    sweep(State.load(tmp_path / "stack").run_id or "none")


def wait_for(path: Path, timeout_s: float = 600.0) -> None:
    """Until a task has left its mark."""
    deadline = time.monotonic() + timeout_s
    while not path.exists():
        if time.monotonic() > deadline:
            pytest.fail(f"no {path.name} after {timeout_s:.0f} s")
        time.sleep(0.2)


def test_tasks_run_see_the_parts_and_end_with_the_stack(root: Path, tmp_path: Path) -> None:
    dags, plugins = tmp_path / "dags", tmp_path / "plugins"
    plugins.mkdir()
    dags.mkdir()
    (dags / "around.py").write_text(_DAG)
    with Stack(root, ("kafka", "postgres", "airflow"), dags_folder=dags, plugins_folder=plugins) as info:
        with pytest.raises(urllib.error.HTTPError, match="401|403"):
            urllib.request.urlopen(f"{info.airflow_url}/api/v1/dags", timeout=60)
        rest = Rest(info)
        pools = {pool["name"]: pool["slots"] for pool in rest.get("pools")["pools"]}
        assert {name: slots for name, (slots, _) in POOLS.items()}.items() <= pools.items()
        deadline = time.monotonic() + 600
        while not rest.get("dags")["dags"]:
            assert time.monotonic() < deadline, rest.get("importErrors")
            time.sleep(0.5)
        rest.post("dags/around/dagRuns", {})
        wait_for(dags / "staying")
        expected = f"postgres {info.postgres_port} {info.kafka_bootstrap} local[2]"
        assert (dags / "seen").read_text() == expected
        mark = f"{RUN_MARK}={State.load(root).run_id}".encode()
    left = [path.parent.name for path in Path("/proc").glob("[0-9]*/environ") if mark in _bytes(path)]
    assert left == []


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
