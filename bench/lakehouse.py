"""Kafka to an Iceberg table by hours, side by side: CPU of a record and of a published hour, the broker left out.

    .venv/bin/python -m bench.lakehouse [--records 600000 1800000] [--hours 2 12] [--runs 3] [--only NAME ...]

Tidegate with a spark-submit for each batch and with a warm session, Spark Structured Streaming (AvailableNow), and
Apache Iceberg's sink in Kafka Connect take the same topics into tables of one kind of catalogue (SQL, on SQLite), on
this disk, with the same columns and codec. Rows are compared by an order-free checksum: unequal ones fail the whole
run.

Each contender takes three topics, interleaved with the others: few records, many records, and many records in many
hours. Tidegate and Spark have one batch for each hour; Connect commits by the clock (`--interval`, for the third topic
the second one). From CPU = start + records x a + commits x b, with the commits that were counted in each run, come *a*,
what a record costs, and *b*, what an hour costs beside its records: of Tidegate a batch with its publication, of Spark
a micro-batch with its commit, of Connect a commit. An hour of so many records is b + records x a of what runs
already; with its own start, of a job for each hour. Nobody's small files are compacted but Tidegate's, which merges
them. What Airflow does is not in it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from confluent_kafka.admin import NewTopic

from bench.events import APPS
from bench.hour import Shape, fill, values
from bench.lake import CATALOG, TABLE, Standing, create, standing
from bench.parts import LOCKS, TreeCpu, broker, circumstances, kafka_source_jars
from dev.stack.jars import ensure_jars
from dev.stack.java import find_java
from dev.stack.places import Places
from dev.stack.topics import create_topic

SUBMIT, WARM, SPARK, CONNECT = (
    "tidegate",
    "tidegate, warm session",
    "Spark streaming, best settings",
    "Kafka Connect, Iceberg's sink",
)
OURS = (SUBMIT, WARM)
MEASURES: dict[str, Callable[[float, float, float], float]] = {
    "CPU us/record": lambda record, hour, start: record * 1e6,
    "CPU ms/hour": lambda record, hour, start: hour * 1e3,
    "CPU s at the start": lambda record, hour, start: start,
    "CPU s of an hour: 10,000 records": lambda record, hour, start: hour + record * 10_000,
    "CPU s of an hour: 100,000 records": lambda record, hour, start: hour + record * 100_000,
    "CPU s of an hour: 1 million": lambda record, hour, start: hour + record * 1_000_000,
    "its own start too, 100,000": lambda record, hour, start: start + hour + record * 100_000,
}
"""From CPU-seconds of a record, of an hour without its records, and of the start."""


@dataclass(frozen=True)
class Contender:
    name: str
    command: tuple[str, ...]
    env: dict[str, str]

    @property
    def ours(self) -> bool:
        return self.name in OURS


@dataclass(frozen=True)
class Topic:
    """`clean`: records that are JSON, `later` ones than the last hour left out."""

    name: str
    shape: Shape
    clean: int
    interval_ms: int


@dataclass(frozen=True, kw_only=True)
class Run:
    contender: str
    records: int
    hours: int
    commits: int
    files: int
    cpu_s: float
    wall_s: float


def contenders(only: list[str]) -> list[Contender]:
    python, submit = sys.executable, str(Path(sys.executable).with_name("spark-submit"))
    tidegate = (python, "-m", "bench.contenders.tidegate_lakehouse")
    found = [
        Contender(SUBMIT, tidegate, {"WORKER": "submit"}),
        Contender(WARM, tidegate, {"WORKER": "warm"}),
        Contender(SPARK, (submit, *_spark_options(), _script("spark_lakehouse.py")), {}),
        Contender(CONNECT, (python, _script("connect_lakehouse.py")), {}),
    ]
    return [c for c in found if not only or c.name in only]


def _script(name: str) -> str:
    return str(Path(__file__).parent / "contenders" / name)


def _spark_options() -> list[str]:
    jars = [*kafka_source_jars(), *sorted(ensure_jars("iceberg-spark", Places.of_checkout()).glob("*.jar"))]
    catalogue = f"spark.sql.catalog.{CATALOG}"
    conf = {
        "spark.log.level": "ERROR", "spark.ui.showConsoleProgress": "false", "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC", "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.minBatchesToRetain": "2", "spark.sql.streaming.numRecentProgressUpdates": "1000",
        catalogue: "org.apache.iceberg.spark.SparkCatalog", f"{catalogue}.type": "jdbc",
    }  # fmt: skip
    settings = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    options = ["--master", f"local[{os.cpu_count()}]", "--jars", ",".join(map(str, jars)), *settings]
    return [*options, "--driver-memory", "3g", "--driver-java-options", "-XX:+UseParallelGC"]


def environment(contender: Contender, topic: Topic, bootstrap: str, work: Path) -> dict[str, str]:
    places, root = Places.of_checkout(), Path(__file__).parents[1]
    shape = topic.shape
    return os.environ | contender.env | {
        "KAFKA_BOOTSTRAP": bootstrap, "TOPIC": topic.name, "OUT_DIR": str(work / "out"), "WORK_DIR": str(work),
        "CATALOGUE": str(work / "catalogue.db"), "CATALOG": CATALOG, "TABLE": TABLE,
        "BATCH": str(shape.records + shape.partitions), "HOURS": str(shape.hours), "CORES": str(os.cpu_count()),
        "ROWS": str(topic.clean + shape.partitions), "INTERVAL_MS": str(topic.interval_ms),
        "CONTROL": f"control-{uuid.uuid4().hex[:12]}", "PLUGINS": str(work / "plugins"),
        "WORKER_JARS": str(ensure_jars("connect-worker", places, locks=LOCKS)),
        "SPARK_SUBMIT": str(Path(sys.executable).with_name("spark-submit")), "JAVA_HOME": str(find_java().home),
        "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(work / "local"),
        "PYTHONPATH": os.pathsep.join(map(str, (root, root / "plugins"))),
    }  # fmt: skip


def run(contender: Contender, topic: Topic, bootstrap: str, work: Path) -> tuple[Run, Standing]:
    """One run from an empty directory, and what it left in the table."""
    shutil.rmtree(work, ignore_errors=True)
    (work / "out").mkdir(parents=True)
    env = environment(contender, topic, bootstrap, work)
    command = list(contender.command)
    if not contender.ours:
        create(work / "catalogue.db", f"file://{work}/out/events")
    if contender.name == CONNECT:
        create_topic({"bootstrap.servers": bootstrap}, NewTopic(env["CONTROL"], 1, 1))
        (work / "plugins").mkdir()
        (work / "plugins" / "iceberg").symlink_to(ensure_jars("iceberg-connect", Places.of_checkout(), locks=LOCKS))
    if contender.name == SPARK:
        told = {"uri": f"jdbc:sqlite:{env['CATALOGUE']}", "warehouse": f"file://{work}/out"}
        command[-1:-1] = [w for k, v in told.items() for w in ("--conf", f"spark.sql.catalog.{CATALOG}.{k}={v}")]
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # compiled code is kept wherever Tidegate is installed
    log = work / "log"
    with open(log, "wb") as sink, TreeCpu() as used:
        ended = subprocess.call(command, env=env, stdout=sink, stderr=sink, stdin=subprocess.DEVNULL)
    if ended:
        tail = log.read_text(errors="replace").splitlines()[-15:]
        raise SystemExit("\n".join([f"{contender.name} ended with exit code {ended}:", *tail]))
    left = standing(work / "catalogue.db", topic.shape.hours, contender.ours)
    done = Run(
        contender=contender.name, records=topic.shape.total, hours=topic.shape.hours, commits=left.commits,
        files=left.files, cpu_s=used.cpu_s, wall_s=used.wall_s,
    )  # fmt: skip
    return done, left


def topics(bootstrap: str, asked: argparse.Namespace) -> list[Topic]:
    """Few records, many records, many records in many hours."""
    few, many = asked.records
    found = []
    (usual, more), (long, short) = asked.hours, asked.interval
    for records, hours, seconds in ((few, usual, long), (many, usual, long), (many, more, short)):
        shape = Shape(records // hours, hours, len(APPS), asked.partitions, hours)
        clean = sum(one.endswith(b"}") for one in values(shape, asked.seed)) - shape.partitions
        found.append(Topic(fill(bootstrap, shape, asked.seed), shape, clean, int(seconds * 1000)))
    return found


def compare(asked: argparse.Namespace, work: Path) -> list[Run]:
    """All runs, interleaved. Raises SystemExit when two contenders' rows differ, or are not the topic's."""
    done: list[Run] = []
    with broker(work / "broker") as info:
        taken, truth = topics(info.kafka_bootstrap, asked), dict[str, str]()
        for number in range(1, asked.runs + 1):
            for contender in contenders(asked.only):
                for topic in taken:
                    one, left = run(contender, topic, info.kafka_bootstrap, work / "run")
                    expected = truth.setdefault(topic.name, left.checksum)
                    if left.rows != topic.clean or left.checksum != expected:
                        told = f"{left.rows:,} rows ({left.checksum}), expected are {topic.clean:,} ({expected})"
                        raise SystemExit(f"{contender.name} left {told}")
                    done.append(one)
                    print(f"run {number}: {line(one)}", flush=True)
    for topic in taken:
        told = f"{topic.shape.total:,} records in {topic.shape.hours} hours: {topic.clean:,} clean rows each"
        print(f"{told}, checksum {truth[topic.name][:16]}: equal for all contenders")
    return done


def line(one: Run) -> str:
    what = f"{one.records:>9,} in {one.hours:2} hours, {one.commits:2} commits, {one.files:3} files"
    return f"{one.contender:32}{what}{one.cpu_s:8.1f} CPU-s{one.wall_s:8.1f} s"


def solve(few: Run, many: Run, hourly: Run) -> tuple[float, float, float]:
    """CPU-seconds of a record, of a commit, and of the start: what fits the three runs.

    Raises ValueError where they cannot be told apart."""
    rows = [(one.records - few.records, one.commits - few.commits, one.cpu_s - few.cpu_s) for one in (many, hourly)]
    (r1, c1, s1), (r2, c2, s2) = rows
    if (area := r1 * c2 - r2 * c1) == 0:
        raise ValueError(f"{few.contender}: {few.commits}, {many.commits} and {hourly.commits} commits tell no costs")
    record, commit = (s1 * c2 - s2 * c1) / area, (r1 * s2 - r2 * s1) / area
    return record, commit, few.cpu_s - record * few.records - commit * few.commits


def summary(runs: list[Run]) -> dict[str, dict[str, list[float]]]:
    """Per contender each of MEASURES as [min, median, max]."""
    told = {}
    for name in dict.fromkeys(r.contender for r in runs):
        mine = [r for r in runs if r.contender == name]
        solved = [solve(*mine[n : n + 3]) for n in range(0, len(mine), 3)]
        told[name] = {measure: _spread([told_by(*one) for one in solved]) for measure, told_by in MEASURES.items()}
    return told


def _spread(found: list[float]) -> list[float]:
    return [round(v, 3) for v in (min(found), statistics.median(found), max(found))]


def table(told: dict[str, dict[str, list[float]]]) -> str:
    """Each measure of each contender, and how it stands to each of Tidegate's."""
    lines = []
    for measure in MEASURES:
        bases = [name for name in OURS if name in told]
        heads = "".join(f"{f'to {name}':>27}" for name in bases)
        lines.append(f"{measure:34}{'min':>9}{'median':>9}{'max':>9}{heads}")
        for name, figures in told.items():
            low, middle, high = figures[measure]
            ratios = "".join(f"{middle / told[base][measure][1]:27.2f}" for base in bases)
            lines.append(f"{name:34}{low:9.2f}{middle:9.2f}{high:9.2f}{ratios}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, nargs=2, default=[600_000, 1_800_000], metavar=("FEW", "MANY"))
    parser.add_argument("--hours", type=int, nargs=2, default=[2, 12], metavar=("FEW", "MANY"))
    parser.add_argument("--interval", type=float, nargs=2, default=[20, 1], metavar=("LONG", "SHORT"),
                        help="seconds between two commits of Connect")  # fmt: skip
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="leave the others out")
    parser.add_argument("--out", default="", help="folder of lakehouse.json")
    parser.add_argument("--work", default="", help="folder for what contenders write")
    asked = parser.parse_args()
    out = Path(asked.out or Places.of_checkout().own / "bench")
    work = Path(asked.work or Places.of_checkout().own / "bench" / "lakehouse")
    out.mkdir(parents=True, exist_ok=True)
    before = circumstances()
    try:
        done = compare(asked, work)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    told = summary(done)
    print(f"{table(told)}\nbefore: {before}\nafter: {circumstances()}")
    document = {"circumstances": [before, circumstances()], "summary": told, "runs": [asdict(r) for r in done]}
    (out / "lakehouse.json").write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
