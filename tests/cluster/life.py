"""One pipeline whose jobs run on a cluster: a topic behind a password, a table, a ledger, and who looks for leaks."""

from __future__ import annotations

import functools
import getpass
import json
import logging
import os
import re
import shutil
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psutil
import pyarrow.parquet as pq
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from dev.stack.info import StackInfo
from dev.stack.java import find_java
from dev.stack.kafka import SASL_USER
from dev.stack.ports import LOOPBACK
from dev.stack.spark import spark_home
from dev.stack.topics import create_topic
from tests.hooks import catalogue_of, use_catalogue
from tests.soak.catalogue import FileCatalogue
from tidegate.adapters.connections import resolve
from tidegate.adapters.footers import FooterProcess
from tidegate.airflow.launcher import AirflowSparkLauncher
from tidegate.core.batch.launcher import Launcher
from tidegate.core.batch.states import LandedBatch
from tidegate.core.files.receipt import DATA
from tidegate.core.spec.pipeline import (
    ArchiveRun,
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
from tidegate.ledger.migrate import migrate
from tidegate.settings import load
from tidegate.spark.warm_session import end_sessions
from tidegate.storage import for_uri
from tidegate.wiring import SparkByConnection, context_for, job_secrets
from tidegate.workflow.audit.audit import Depth, audit
from tidegate.workflow.base.context import Context
from tidegate.workflow.batch import ingest
from tidegate.workflow.publish import archive

HOUR, T0 = 3_600_000, 1_357_344_000_000  # 2013-01-05T00:00:00Z
WAIT_S = 240.0
PARTITIONS = 2
USER = {"sasl.mechanism": "PLAIN", "security.protocol": "SASL_PLAINTEXT", "sasl.username": SASL_USER}
_QUICK = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
SMALL = {
    "spark.driver.extraJavaOptions": _QUICK, "spark.executor.extraJavaOptions": _QUICK,
    "spark.executor.memory": "512m", "spark.driver.memory": "512m", "spark.executor.instances": "2",
    "spark.executor.cores": "1", "spark.ui.enabled": "false", "spark.executor.memoryOverhead": "512m",
    # what a machine alone needs: its name may resolve to anything
    "spark.executorEnv.SPARK_LOCAL_IP": LOOPBACK,
}  # fmt: skip
CLIENT = {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
ON_YARN = {"spark.yarn.jars": f"local:{spark_home()}/jars/*"}
"""The jars lie on every machine of this cluster; else each job brings 340 MB of them."""


class Life:
    """`spark` is the connection, `conf` the pipeline's settings of Spark; `lake` the URI below which the table lies."""

    def __init__(
        self, folder: Path, stack: StackInfo, spark: dict, conf: Mapping[str, str], lake: str, **ingest_run: object
    ) -> None:
        self.folder, self.stack, self.said = folder, stack, []
        self.name = f"life_{uuid.uuid4().hex[:8]}"
        location = f"{lake}/{self.name}"
        run = IngestRun(
            schedule=None, max_records=10_000_000, spark_conn_id="spark_cluster", spark_conf=dict(conf), **ingest_run
        )  # type: ignore[arg-type]
        self.pipeline = Pipeline(
            name=self.name,
            owner="tests",
            tags=(),
            source=Source(conn_id="kafka_cluster", topic=self.name),
            format=Format(),
            columns=(
                Column(name="id", type="bigint", path="$.id", nullable=False),
                Column(name="site", type="string", path="$.site"),
            ),
            event_time=EventTime("$.at"),
            windows=Windows(size_ms=HOUR, timezone="UTC", start_ms=T0, watermark_delay_ms=HOUR // 4, idle="follow"),
            partition_by=("date", "hour", "site"),
            sink=Sink(
                conn_id="hive_cluster",
                table=f"lake.{self.name}",
                location=location,
                workdir=f"{location}/_tidegate",
                target_file_size=65_536,
            ),
            ingest=run,
            archive=ArchiveRun(sla_ms=1_800_000),
            dirty=DirtyLimits(None, None),
        )
        self._kafka = {"bootstrap.servers": stack.kafka_sasl_bootstrap, **USER, "sasl.password": stack.kafka_password}
        ledger = f"sqlite:///{folder}/ledger.db"
        migrate(ledger)
        create_topic({"bootstrap.servers": stack.kafka_bootstrap}, NewTopic(self.name, PARTITIONS, 1))
        self.produced: Counter[tuple[int, int]] = Counter()
        self.env = {
            "AIRFLOW_CONN_KAFKA_CLUSTER": json.dumps({"conn_type": "kafka", "extra": self._kafka}),
            "AIRFLOW_CONN_SPARK_CLUSTER": json.dumps({"conn_type": "spark", **spark}),
            "AIRFLOW_CONN_HIVE_CLUSTER": "hiveserver2://x@127.0.0.1:1/default",
            "AIRFLOW_CONN_TIDEGATE_LEDGER": ledger,
            "AIRFLOW__TIDEGATE__SPARK_BINARY": str(Path(sys.executable).with_name("spark-submit")),
            "AIRFLOW__TIDEGATE__SPARK_SESSION_FOLDER": str(folder / "s"),
            "JAVA_HOME": str(find_java().home),
            "SPARK_LOCAL_IP": LOOPBACK,
            "SPARK_LOCAL_DIRS": str(folder / "spark"),
            "SPARK_HOME": str(spark_home()),
        }
        if stack.yarn_url:
            self.env["HADOOP_CONF_DIR"] = stack.env["HADOOP_CONF_DIR"]

    # ------------------------------------------------------------ what happens

    def produce(self, records: int) -> None:
        """Into the first hour; the last record of each Kafka partition lies two hours later and closes it."""
        producer = Producer(
            {"bootstrap.servers": self.stack.kafka_bootstrap, "linger.ms": 20, "compression.type": "lz4"}
        )

        def delivered(error: object, message: object) -> None:
            assert error is None
            if message.key() is None:  # type: ignore[attr-defined]
                self.produced[message.partition(), message.offset()] += 1  # type: ignore[attr-defined]

        for i in range(records):
            closing = i >= records - PARTITIONS
            at = T0 + (2 * HOUR if closing else i * HOUR // records)
            value = json.dumps({"id": i, "site": f"s{i % 5}", "at": at, "rest": "x" * 50}).encode()
            producer.produce(self.name, value, b"closing" if closing else None, i % PARTITIONS, delivered)
            producer.poll(0)
            while len(producer) > 50_000:
                producer.poll(0.05)
        producer.flush()

    def context(self, command: bool = False) -> Context:
        """A new task's process, in effect; `command`: with the command line's launcher."""
        launcher: Launcher = SparkByConnection(self.pipeline, self.say, resolve)
        if not command:
            launcher = AirflowSparkLauncher(
                self.pipeline, functools.partial(job_secrets, self.pipeline, resolve), load()
            )
        ctx = context_for(self.pipeline, self.say, launcher, "test", resolve)
        use_catalogue(ctx, FileCatalogue(self.folder / "metastore.pickle"))
        return ctx

    def say(self, line: str) -> None:
        self.said.append(line)

    def batch(self, run: str, command: bool = False) -> LandedBatch:
        """Plan, write, land."""
        for step in (ingest.plan, ingest.write, ingest.land):
            ctx = self.context(command)
            step(ctx, run)
            ctx.ledger.close()
        return self.landed()

    def step(self, step: Callable[[Context, str], object], run: str) -> None:
        ctx = self.context()
        try:
            step(ctx, run)
        finally:
            ctx.ledger.close()

    def begin(self, run: str) -> tuple[threading.Thread, list[BaseException], Context]:
        """The write task in a thread."""
        ctx, errors = self.context(), []

        def write() -> None:
            try:
                ingest.write(ctx, run)
            except BaseException as e:
                errors.append(e)

        thread = threading.Thread(target=write, daemon=True)
        thread.start()
        return thread, errors, ctx

    def landed(self, batch: int = 1) -> LandedBatch:
        ctx = self.context()
        found = ctx.ledger.batches.get(self.name, batch)
        ctx.ledger.close()
        assert isinstance(found, LandedBatch)
        return found

    def tasks(self) -> set[str]:
        """Numbers of the Spark tasks that wrote the first batch's rows."""
        ctx = self.context()
        files = ctx.ledger.batches.manifest_files(self.name, 1, DATA)
        ctx.ledger.close()
        return {re.search(r"part-(\d+)-", f.path)[1] for f in files}  # type: ignore[index]

    # ------------------------------------------------------------ what must be true

    def proven(self) -> None:
        """Publish the hour; every record of it is in the table once, and the audit balances."""
        ctx = self.context()
        archive.publish(ctx, WindowKey(T0, T0 + HOUR))
        found: Counter[tuple[int, int]] = Counter()
        for location in catalogue_of(ctx).partitions(self.pipeline.sink.table).values():
            for file in ctx.storage.list_files(location) or ():
                if not file.path.startswith(("_", ".")):
                    with for_uri(location).open_existing(f"{location}/{file.path}") as content:
                        read = pq.ParquetFile(content).read(["_partition", "_offset"]).to_pydict()
                    found.update(zip(read["_partition"], read["_offset"], strict=True))
        assert found == self.produced
        report = audit(ctx, ctx.ledger.reads, FooterProcess(), Depth())
        ctx.ledger.close()
        assert report.problems == ()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """The password is in no argument of any process meanwhile, and in no log or setting afterwards."""
        leaks, over = [], threading.Event()
        records: list[str] = []
        handler = logging.Handler()
        handler.emit = lambda record: records.append(record.getMessage())  # type: ignore[method-assign]
        thread = threading.Thread(target=self._look, args=(leaks, over), daemon=True)
        thread.start()
        logging.getLogger().addHandler(handler)
        try:
            yield
        finally:
            logging.getLogger().removeHandler(handler)
            over.set()
            thread.join()
        assert leaks == []
        told = "\n".join([*records, *self.said])
        assert self.stack.kafka_password not in told
        assert find(Path(self.stack.root) / "yarn" / "userlogs", self.stack.kafka_password) == []
        assert find(Path(self.stack.root) / "logs", self.stack.kafka_password) == []

    def _look(self, leaks: list[str], over: threading.Event) -> None:
        while not over.wait(0.5):
            for place in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    said = place.read_bytes()
                except OSError:
                    continue
                if self.stack.kafka_password.encode() in said:
                    leaks.append(said.decode(errors="replace"))


class Held:
    """A folder by which a process of a job waits; see held.py."""

    def __init__(self, folder: Path, at: str) -> None:
        folder.mkdir()
        shutil.copy(Path(__file__).with_name("held.py"), folder / "sitecustomize.py")
        self.folder = folder
        self.env = {"TIDEGATE_HELD": str(folder), "TIDEGATE_HELD_AT": at, "PYTHONPATH": str(folder)}

    def waits(self, kind: str, errors: list[BaseException]) -> psutil.Process:
        until(lambda: (self.folder / f"{kind}.waiting").exists() or errors)
        assert not errors, errors
        return psutil.Process(int((self.folder / f"{kind}.waiting").read_text()))

    def go(self) -> None:
        (self.folder / "go").touch()


def find(folder: Path, word: str) -> list[str]:
    """Files below a folder with the word in them."""
    found = []
    for path in folder.rglob("*"):
        if path.is_file() and word.encode() in path.read_bytes():
            found.append(str(path))
    return found


def until(look: Callable[[], object], seconds: float = WAIT_S) -> object:
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def parents_named(process: psutil.Process, words: str) -> psutil.Process:
    """The nearest ancestor whose command line has the words."""
    return next(p for p in process.parents() if words in " ".join(p.cmdline()))


def me() -> str:
    return os.environ.get("HADOOP_USER_NAME") or getpass.getuser()


def end_sessions_of(life: Life) -> None:
    """The warm session of this life, and whatever it started."""
    assert end_sessions(life.folder / "s") == 1
    until(lambda: not [p for p in psutil.process_iter() if str(life.folder / "s") in _command(p)], 60)


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline()) if process.status() != psutil.STATUS_ZOMBIE else ""
    except psutil.Error:
        return ""
