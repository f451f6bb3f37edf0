"""Tidegate, an hour from topic to published: batches of BATCH records until the topic is read, then the first hour.

Everything runs in this process as it does in a task: the real ledger (SQLite), storage, Kafka client, worker code; the
merge in a child process, as beside the control plane. Hive's tables are kept in memory: what Hive does, Hive pays.
`told.json` in WORK_DIR says what each step cost and where the hour is.
"""

from __future__ import annotations

import json
import os
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.events import HOUR, START, pipeline
from spark_jobs.engine.job import run_plan
from tests.fakes.catalogue import FakeCatalogue
from tidegate.core.batch.jobs import loads_plan
from tidegate.core.spec.pipeline import IngestRun, Pipeline
from tidegate.core.target.port import Targets
from tidegate.core.window.states import WindowKey
from tidegate.ledger import SqlLedger
from tidegate.ledger.migrate import migrate
from tidegate.ledger.store import make_engine
from tidegate.sources.kafka.control import KafkaSource
from tidegate.spark.local_job import LocalLauncher
from tidegate.spec import fingerprint
from tidegate.storage.local import LocalStorage
from tidegate.targets.hive.kind import Hive
from tidegate.workflow.base.context import Context
from tidegate.workflow.batch import ingest
from tidegate.workflow.publish import archive


def cpu_s() -> float:
    """Of this process and of the children that it has waited for."""
    return time.process_time() + sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])


class Steps:
    """CPU seconds by step; what a step has others do is taken off it."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}
        self._inner = [0.0]

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        began = cpu_s()
        self._inner.append(0.0)
        try:
            yield
        finally:
            used = cpu_s() - began
            self.spent[name] = self.spent.get(name, 0.0) + used - self._inner.pop()
            self._inner[-1] += used


class Measured:
    """A launcher whose cost is a step of its own."""

    def __init__(self, steps: Steps, step: str, run: Callable[[str], Any]) -> None:
        self._steps, self._step, self._run = steps, step, run

    def run(self, plan_path: str) -> None:
        with self._steps.of(self._step):
            self._run(plan_path)


def in_this_process(path: str) -> None:
    storage = LocalStorage()
    run_plan(loads_plan(storage.read(path)), storage, tasks=int(os.environ["CORES"]))


class Hour:
    """A pipeline whose tables are `tables` and whose plans `worker` carries out."""

    def __init__(self, steps: Steps, made: Pipeline, tables: Targets, worker: Callable[[str], Any]) -> None:
        self._steps, self._tables = steps, tables
        work = Path(os.environ["WORK_DIR"])
        self._pipeline = replace(
            made,
            ingest=IngestRun(schedule=None, max_records=int(os.environ["BATCH"]), spark_conn_id="spark", spark_conf={}),
        )
        url = f"sqlite:///{work}/ledger.db"
        migrate(url)
        self._ledger = SqlLedger(make_engine(url), "bench", self.now_ms)
        self._version = self._ledger.pipelines.register(self._pipeline, fingerprint(self._pipeline))
        self._source = KafkaSource({"bootstrap.servers": os.environ["KAFKA_BOOTSTRAP"]}, "read_committed")
        self._work = Measured(steps, "worker", worker)
        self._merge = Measured(steps, "merge", LocalLauncher(print).run)

    def now_ms(self) -> int:
        return int(time.time() * 1000)

    def context(self) -> Context:
        """As a new task has it."""
        return Context(
            pipeline=self._pipeline,
            spec_version=self._version,
            ledger=self._ledger,
            source=self._source,
            storage=LocalStorage(),
            tables=self._tables,
            launcher=self._work,
            clock=self,
            local_launcher=self._merge,
        )

    def batches(self) -> int:
        for number in range(10**6):
            with self._steps.of("plan, seal, land"):
                planned = ingest.plan(self.context(), f"r{number}")
                if planned is None:
                    return number
                ingest.write(self.context(), f"r{number}")
                ingest.land(self.context(), f"r{number}")
        raise AssertionError

    def publish(self, number: int = 0) -> dict[str, Any]:
        """The hour of this number, from 0 on."""
        with self._steps.of("close, assemble, publish"):
            window = WindowKey(START + number * HOUR, START + (number + 1) * HOUR)
            archive.ready(self.context(), window)
            published = archive.publish(self.context(), window)
            archive.announced(self.context(), published)
            generation = self._ledger.windows.generation("bench", window, published.generation)
        return {"folder": generation.location.removeprefix("file://"), "files": len(generation.files)}


def main() -> None:
    steps = Steps()
    made = pipeline(os.environ["TOPIC"], f"file://{os.environ['OUT_DIR']}/events")
    hour = Hour(steps, made, Hive(FakeCatalogue()), in_this_process)
    start = cpu_s()
    told: dict[str, Any] = {"batches": hour.batches()}
    told |= hour.publish()
    told |= {"start": start, "steps": steps.spent}
    Path(os.environ["WORK_DIR"], "told.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main()
