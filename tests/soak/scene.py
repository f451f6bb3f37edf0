"""One pipeline and the places of its parts: what every process of the soak is told, as a file."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from json import dumps, loads
from pathlib import Path
from typing import Any

from dev.stack.java import find_java
from dev.stack.places import Places
from dev.stack.ports import LOOPBACK
from dev.stack.spark import recommended_conf
from tests.hooks import Hook
from tests.soak.catalogue import FileCatalogue
from tidegate.adapters.clock import SystemClock
from tidegate.core.batch.launcher import Launcher
from tidegate.core.spec.pipeline import (
    ArchiveRun,
    Cleaning,
    Column,
    DirtyLimits,
    EventTime,
    Format,
    IngestRun,
    Pipeline,
    Sink,
    Source,
    Windows,
)
from tidegate.core.window.states import WindowKey
from tidegate.ledger import SqlLedger
from tidegate.sources.kafka.control import KafkaSource
from tidegate.spark.launcher import SubprocessLauncher
from tidegate.spec import fingerprint
from tidegate.storage.local import LocalStorage
from tidegate.targets.hive.kind import Hive
from tidegate.workflow.base.context import Context

HOUR = 3_600_000
T0 = 1_357_344_000_000  # 2013-01-05T00:00:00Z
NAME = "readings"
SITES = ("north", "south", "west")
_KEPT_MS = 45_000
"""So that the cleaner is at work all the time, beside whoever has just died or still lives."""
Say = Callable[[str], None]


@dataclass(frozen=True)
class Scene:
    """`step_ms`: event time between two records of a Kafka partition. `engine`: `spark`, or `here` (no Spark).

    `request_ttl_ms` must exceed how long the killer keeps a process stopped: a client that is stopped between its
    intent and its statement is not what the intent's deadline covers."""

    root: str
    bootstrap: str
    ledger_url: str
    partitions: int = 2
    max_records: int = 100_000
    step_ms: int = 72
    topic: str = "readings"
    engine: str = "spark"
    request_ttl_ms: int = 60_000

    @classmethod
    def load(cls, path: Path) -> Scene:
        return cls(**loads(path.read_text()))

    def save(self) -> Path:
        path = Path(self.root) / "scene.json"
        fresh = path.with_suffix(".new")
        fresh.write_text(dumps(asdict(self), indent=1))
        fresh.replace(path)
        return path

    @property
    def pipeline(self) -> Pipeline:
        location = f"file://{self.root}/lake/{NAME}"
        return Pipeline(
            name=NAME,
            owner="soak",
            tags=(),
            source=Source(conn_id="kafka", topic=self.topic),
            format=Format(),
            columns=(
                Column(name="id", type="string", path="$.id", nullable=False),
                Column(name="site", type="string", path="$.site"),
                Column(name="value", type="int", path="$.value"),
            ),
            event_time=EventTime("$.at"),
            windows=Windows(size_ms=HOUR, timezone="UTC", start_ms=T0, watermark_delay_ms=HOUR // 4, idle="follow"),
            partition_by=("date", "hour", "site"),
            sink=Sink(conn_id="hive", table="lake.readings", location=location, workdir=f"{location}/_tidegate"),
            ingest=IngestRun(schedule=None, max_records=self.max_records, spark_conn_id="spark", spark_conf={}),
            archive=ArchiveRun(sla_ms=1_800_000),
            dirty=DirtyLimits(None, None),
            clean=Cleaning(_KEPT_MS, _KEPT_MS, _KEPT_MS, None),
        )

    @property
    def workdir(self) -> Path:
        return Path(self.root) / "lake" / NAME / "_tidegate"

    def catalogue(self) -> FileCatalogue:
        return FileCatalogue(Path(self.root) / "metastore.pickle")

    def source(self) -> KafkaSource:
        settings = {"bootstrap.servers": self.bootstrap}
        return KafkaSource(settings, self.pipeline.source.isolation, client_id=f"tidegate-{NAME}")

    def context(self, say: Say, actor: str, hooks: dict[str, dict[str, Any]] | None = None) -> Context:
        """A process's own context, real ports throughout. `hooks`: port name -> arguments of tests.hooks.Hook."""

        def wrap(name: str, port: Any) -> Any:
            return Hook(port, **hooks[name]) if hooks and name in hooks else port

        ledger = SqlLedger(self.ledger_url, actor)
        return Context(
            pipeline=self.pipeline,
            spec_version=ledger.pipelines.register(self.pipeline, fingerprint(self.pipeline)),
            ledger=_Ledger(ledger, wrap),  # type: ignore[arg-type]
            source=wrap("source", self.source()),
            storage=wrap("storage", LocalStorage()),
            tables=Hive(wrap("catalogue", self.catalogue())),
            launcher=wrap("launcher", self.launcher(say)),
            clock=SystemClock(),
            say=say,
            request_ttl_ms=self.request_ttl_ms,
        )

    def launcher(self, say: Say, extra_env: dict[str, str] | None = None) -> Launcher:
        if self.engine == "here":
            return _Here()
        env = {
            "JAVA_HOME": str(find_java().home),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": LOOPBACK,
            "SPARK_LOCAL_DIRS": f"{self.root}/spark",
        }
        conf = recommended_conf(Places.of_checkout()) | {"spark.log.level": "WARN"}
        binary = str(Path(sys.executable).with_name("spark-submit"))
        return SubprocessLauncher(say, binary, "local[2]", conf, env | (extra_env or {}))


class _Here:
    """The engine in the task's own process, on the real broker: for kills at which no Spark runs."""

    def run(self, plan_path: str) -> None:
        from spark_jobs.engine.failures import JobError
        from spark_jobs.engine.job import run_plan
        from tidegate.core.base.errors import JobFailed
        from tidegate.core.batch.jobs import loads_plan

        storage = LocalStorage()
        try:
            run_plan(loads_plan(storage.read(plan_path)), storage)
        except JobError as e:
            raise JobFailed(str(e)) from e


class _Ledger:
    """The ledger with its ports wrapped; what is not a port passes through."""

    def __init__(self, ledger: SqlLedger, wrap: Callable[[str, Any], Any]) -> None:
        self._ledger = ledger
        self.pipelines = ledger.pipelines
        self.batches = wrap("batches", ledger.batches)
        self.windows = wrap("windows", ledger.windows)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)


def window(start_ms: int) -> WindowKey:
    return WindowKey(start_ms, start_ms + HOUR)


def python_path() -> str:
    """For PYTHONPATH: the checkout that this module is part of, whatever is installed."""
    root = Path(__file__).parents[2]
    return os.pathsep.join([str(root / "plugins"), str(root)])
