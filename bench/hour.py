"""What an hour costs from topic to published, in the batches that a pipeline has: CPU of whole trees, broker left out.

    .venv/bin/python -m bench.hour [--records 10000] [--batches 12] [--directories 31] [--runs 3]
                                   [--beside NAME=CHECKOUT ...] [--spark] [--out FOLDER]

Each contender takes the same topic in so many batches of so many records and publishes the hour that they make:
planning, reading, writing, sealing, landing, closing, assembling with the merge of small files, publishing. Spark does
it by Structured Streaming and a compaction that leaves one file in each directory. The hour's rows are compared by an
order-free checksum: unequal ones fail the whole run. `--beside` runs another checkout's code in the same run: only
interleaved pairs can be compared on a machine that others use.

`us/record` is the whole tree's CPU without the process's start (imports, the ledger's tables, Spark's session), over
the records of the topic; with the start it is in the last column. What Airflow and Hive do is in neither.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import duckdb
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from bench.events import APPS, HOUR, START, event
from bench.parts import TreeCpu, broker, circumstances, kafka_source_jars
from dev.stack.java import find_java
from dev.stack.places import Places
from dev.stack.topics import create_topic

OURS, SPARK = "tidegate", "Spark streaming + compaction"
DISTINCT = 40_000
_CHECK = """
    select count(*), sum(hash(id, user_id, session, country, city, os, version, price, quantity, paid, url, referrer,
        note, device.model, device.memory, tags, app, _topic, _partition, _offset,
        epoch_ms(_kafka_ts))::hugeint)::varchar
    from read_parquet('{folder}/**/*.parquet', hive_partitioning=true, hive_types_autocast=false)"""


@dataclass(frozen=True)
class Shape:
    """`records` of one batch; the topic's event times go through so many `hours`."""

    records: int
    batches: int
    directories: int
    partitions: int
    hours: int = 1

    @property
    def total(self) -> int:
        """Beside these each Kafka partition has one record of a later hour, which lets the hour be closed."""
        return self.records * self.batches

    @property
    def apps(self) -> list[str]:
        return APPS if self.directories == len(APPS) else [f"app-{i:04d}" for i in range(self.directories)]


@dataclass(frozen=True, kw_only=True)
class Run:
    contender: str
    shape: Shape
    cpu_s: float
    start_s: float
    wall_s: float
    files: int
    batches: int
    steps: dict[str, float]

    @property
    def us(self) -> float:
        return (self.cpu_s - self.start_s) / self.shape.total * 1e6


def values(shape: Shape, seed: int) -> Iterator[bytes]:
    """Events whose times go through the hours in the order of the topic, then one of two hours later for each Kafka
    partition."""
    rng = random.Random(seed)
    made = [event(rng, i, shape.apps) for i in range(min(DISTINCT, shape.total))]
    cut = made[0].index(b'"at": ') + 6
    for number in range(shape.total):
        one = made[number % len(made)]
        yield b"%b%d%b" % (one[:cut], START + number * shape.hours * HOUR // shape.total, one[cut + 13 :])
    whole = next(one for one in made if one.endswith(b"}"))
    for _ in range(shape.partitions):
        yield b"%b%d%b" % (whole[:cut], START + (shape.hours + 2) * HOUR, whole[cut + 13 :])


def fill(bootstrap: str, shape: Shape, seed: int) -> str:
    name = f"hour-{shape.records}-{shape.batches}-{shape.directories}-{shape.partitions}-{shape.hours}"
    config = {"retention.ms": "-1", "message.timestamp.type": "CreateTime"}
    create_topic({"bootstrap.servers": bootstrap}, NewTopic(name, shape.partitions, 1, config=config))
    child = multiprocessing.get_context("spawn").Process(target=_produce, args=(bootstrap, name, shape, seed))
    child.start()
    child.join()
    if child.exitcode:
        raise SystemExit("not every record was acknowledged")
    return name


def _produce(bootstrap: str, topic: str, shape: Shape, seed: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "acks": "all", "enable.idempotence": True})
    for number, value in enumerate(values(shape, seed)):
        while True:
            try:
                producer.produce(topic, value, str(number).encode(), number % shape.partitions, timestamp=START)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(120):
        raise SystemExit(1)


def commands(asked: argparse.Namespace) -> dict[str, tuple[list[str], Path]]:
    """By name: the command and the checkout whose code it runs."""
    here = Path(__file__).resolve().parents[1]
    checkouts = {OURS: here}
    for other in asked.beside:
        name, _, folder = other.partition("=")
        checkouts[name] = Path(folder).resolve()
    script = Path("bench", "contenders", "tidegate_hour.py")
    found = {name: ([sys.executable, str(folder / script)], folder) for name, folder in checkouts.items()}
    if asked.spark:
        submit = str(Path(sys.executable).with_name("spark-submit"))
        conf = ["spark.log.level=ERROR", "spark.ui.showConsoleProgress=false", "spark.ui.enabled=false"]
        conf += ["spark.sql.shuffle.partitions=2", "spark.sql.streaming.numRecentProgressUpdates=1000"]
        command = [submit, "--master", f"local[{os.cpu_count()}]", "--jars", ",".join(map(str, kafka_source_jars()))]
        command += [word for setting in conf for word in ("--conf", setting)]
        found[SPARK] = ([*command, "--driver-memory", "3g", str(here / "bench/contenders/spark_hour.py")], here)
    return found


def run(name: str, command: list[str], code: Path, bootstrap: str, topic: str, shape: Shape, work: Path) -> Run:
    """One run from an empty directory."""
    shutil.rmtree(work, ignore_errors=True)
    out, log = work / "out", work / "log"
    out.mkdir(parents=True)
    packages = Places.of_checkout().own / "bench" / "packages"
    env = os.environ | {
        "KAFKA_BOOTSTRAP": bootstrap, "TOPIC": topic, "OUT_DIR": str(out), "WORK_DIR": str(work),
        "BATCH": str(shape.records), "CORES": str(os.cpu_count()), "JAVA_HOME": str(find_java().home),
        "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(work / "local"),
        "PYTHONPATH": os.pathsep.join(map(str, (code, code / "plugins", packages))),
    }  # fmt: skip
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # compiled code is kept wherever Tidegate is installed
    with open(log, "wb") as sink, TreeCpu() as used:
        ended = subprocess.call(command, env=env, stdout=sink, stderr=sink, stdin=subprocess.DEVNULL)
    if ended:
        tail = log.read_text(errors="replace").splitlines()[-15:]
        raise SystemExit("\n".join([f"{name} ended with exit code {ended}:", *tail]))
    told: dict[str, Any] = json.loads((work / "told.json").read_text())
    return Run(
        contender=name,
        shape=shape,
        cpu_s=used.cpu_s,
        start_s=told["start"],
        wall_s=used.wall_s,
        files=told["files"],
        batches=told["batches"],
        steps=told["steps"],
    )


def content(work: Path) -> tuple:
    """Rows of the hour and their order-free checksum."""
    folder = json.loads((work / "told.json").read_text())["folder"]
    with duckdb.connect() as db:
        db.execute("set TimeZone='UTC'")
        return db.execute(_CHECK.format(folder=folder)).fetchone() or ()


def compare(asked: argparse.Namespace, work: Path) -> list[Run]:
    """All runs, interleaved. Raises SystemExit when two contenders' hours differ."""
    shapes = [Shape(r, asked.batches, d, asked.partitions) for r in asked.records for d in asked.directories]
    done = []
    with broker(work / "broker") as info:
        for shape in shapes:
            topic, truth = fill(info.kafka_bootstrap, shape, asked.seed), None
            for number in range(1, asked.runs + 1):
                for name, (command, code) in commands(asked).items():
                    one = run(name, command, code, info.kafka_bootstrap, topic, shape, work / "run")
                    rows = content(work / "run")
                    if truth not in (None, rows):
                        raise SystemExit(f"{name} published {rows}, others {truth}: not the same rows")
                    truth = rows
                    done.append(one)
                    print(f"run {number}: {line(name, [one])}", flush=True)
    return done


def line(name: str, runs: list[Run]) -> str:
    """Medians."""
    shape = runs[0].shape
    steps = {step: statistics.median(r.steps[step] for r in runs) / shape.total * 1e6 for step in runs[0].steps}
    words = ", ".join(f"{step} {us:.2f}" for step, us in steps.items())
    us, whole = (
        statistics.median(found) for found in zip(*((r.us, r.cpu_s / shape.total * 1e6) for r in runs), strict=True)
    )
    return (
        f"{shape.records:>9,} x {shape.batches} in {shape.directories:>5,} {name:30}{us:8.2f} us/record "
        f"({words}), {runs[0].files:,} files; {whole:.2f} with start-up"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, nargs="+", default=[10_000], help="of one batch; several are shapes")
    parser.add_argument("--batches", type=int, default=12)
    parser.add_argument("--directories", type=int, nargs="+", default=[31])
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--beside", action="append", default=[], metavar="NAME=CHECKOUT")
    parser.add_argument("--spark", action="store_true", help="Structured Streaming and a compaction beside it")
    parser.add_argument("--out", default="", help="folder of hour.json")
    parser.add_argument("--work", default="", help="folder for what contenders write")
    asked = parser.parse_args()
    out = Path(asked.out or Places.of_checkout().own / "bench")
    work = Path(asked.work or Places.of_checkout().own / "bench" / "hour")
    out.mkdir(parents=True, exist_ok=True)
    try:
        done = compare(asked, work)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print(f"\n{circumstances()}")
    for shape in dict.fromkeys(r.shape for r in done):
        for name in dict.fromkeys(r.contender for r in done):
            print(line(name, [r for r in done if (r.contender, r.shape) == (name, shape)]))
    (out / "hour.json").write_text(json.dumps([asdict(r) for r in done], indent=1) + "\n")


if __name__ == "__main__":
    main()
