"""`make bench`: Kafka to partitioned files, side by side: CPU per record of whole process trees, the broker left out.

    .venv/bin/python -m bench.throughput [--records 2000000] [--runs 3] [--contestant name=command ...]

Every contender reads the same topic (seeded events of about 600 bytes, 8 partitions) and writes the same columns into
the same directories with the same codec. After each run its clean rows are compared by an order-free checksum: unequal
ones fail the whole benchmark. Repetitions are interleaved, so that a drifting machine hits all alike; *marginal* is
what a record costs once a process runs: (CPU of the topic - CPU of a small topic) / (records between them).

A contestant of your own is a command with KAFKA_BOOTSTRAP, TOPIC, OUT_DIR, WORK_DIR and CORES in its environment; it
writes Parquet files to OUT_DIR/date=*/hour=*/app=*/ and exits with 0.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import duckdb

from bench.load import fill
from bench.parts import TreeCpu, broker, circumstances, kafka_source_jars
from dev.stack.java import find_java
from dev.stack.places import Places

OURS = "tidegate"
SMALL = 20_000
_HIGH = ("id", "user_id", "session", "price", "url", "referrer", "_offset")
_CHECK = """
    select count(*), sum(hash(id, user_id, session, country, city, os, version, price, quantity, paid, url, referrer,
        note, device.model, device.memory, tags, app, _topic, _partition, _offset,
        epoch_ms(_kafka_ts))::hugeint)::varchar
    from read_parquet('{folder}/{below}date=2*/**/*.parquet', hive_partitioning=true, hive_types_autocast=false)"""


@dataclass(frozen=True)
class Contender:
    """`below`: where its date directories are in OUT_DIR."""

    name: str
    command: tuple[str, ...]
    env: dict[str, str]
    below: str = ""


@dataclass(frozen=True)
class Run:
    contender: str
    records: int
    cpu_s: float
    wall_s: float


def contenders(jars: list[Path], others: list[str]) -> list[Contender]:
    python, submit = sys.executable, str(Path(sys.executable).with_name("spark-submit"))
    here = Path(__file__).parent / "contenders"
    spark = (submit, "--master", f"local[{os.cpu_count()}]", "--jars", ",".join(map(str, jars)))
    quiet = ("--conf", "spark.log.level=ERROR", "--conf", "spark.ui.showConsoleProgress=false")
    best = [f"spark.hadoop.parquet.enable.dictionary#{name}=false" for name in _HIGH]
    best += ["spark.sql.maxConcurrentOutputFileWriters=64", "spark.ui.enabled=false"]
    tuned = [part for setting in best for part in ("--conf", setting)]
    tuned += ["--driver-memory", "3g", "--driver-java-options", "-XX:+UseParallelGC"]
    script, as_used = str(here / "spark_sql.py"), {"TUNED": "1"}
    found = [
        Contender(OURS, (python, "-m", "bench.contenders.tidegate_spark"), {"SPARK_SUBMIT": submit}, "data/"),
        Contender("tidegate without Spark", (python, "-m", "bench.contenders.tidegate_alone"), {}, "data/"),
        Contender("Spark batch", (*spark, *quiet, script), {"STYLE": "batch"}),
        Contender("Spark batch, best settings", (*spark, *quiet, *tuned, script), {"STYLE": "batch"} | as_used),
        Contender("Spark streaming, AvailableNow", (*spark, *quiet, script), {"STYLE": "streaming"}),
        Contender("Spark streaming, best settings", (*spark, *quiet, *tuned, script), {"STYLE": "streaming"} | as_used),
        Contender("DuckDB by hand", (python, "-m", "bench.contenders.duckdb_by_hand"), {}),
        Contender("orjson + pyarrow by hand", (python, "-m", "bench.contenders.by_hand"), {}),
    ]
    for other in others:
        name, _, command = other.partition("=")
        if not command:
            raise SystemExit(f"--contestant {other}: name=command is needed")
        found.append(Contender(name, tuple(shlex.split(command)), {}))
    return found


def run(contender: Contender, bootstrap: str, topic: str, records: int, work: Path) -> tuple[Run, tuple]:
    """One run from an empty directory; also the checksum of what it wrote."""
    shutil.rmtree(work, ignore_errors=True)
    out = work / "out"
    out.mkdir(parents=True)
    log = work / "log"
    env = os.environ | contender.env | {
        "KAFKA_BOOTSTRAP": bootstrap, "TOPIC": topic, "OUT_DIR": str(out), "WORK_DIR": str(work),
        "CORES": str(os.cpu_count()), "JAVA_HOME": str(find_java().home), "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(work / "local"), "PYTHONPATH": _python_path(),
    }  # fmt: skip
    with open(log, "wb") as sink, TreeCpu() as used:
        code = subprocess.call(contender.command, env=env, stdout=sink, stderr=sink, stdin=subprocess.DEVNULL)
    if code:
        tail = log.read_text(errors="replace").splitlines()[-15:]
        raise SystemExit("\n".join([f"{contender.name} ended with exit code {code}:", *tail]))
    with duckdb.connect() as db:
        db.execute("set TimeZone='UTC'")
        found = db.execute(_CHECK.format(folder=out, below=contender.below)).fetchone()
    assert found is not None
    return Run(contender.name, records, used.cpu_s, used.wall_s), found


def _python_path() -> str:
    root = Path(__file__).parents[1]
    own = [str(root), str(root / "plugins"), str(Places.of_checkout().own / "bench" / "packages")]
    return os.pathsep.join([*own, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))])


def compare(bootstrap: str, asked: argparse.Namespace, field: list[Contender], work: Path) -> list[Run]:
    """All runs, interleaved. Raises SystemExit when two contenders' clean rows differ."""
    topics = {
        n: fill(bootstrap, n, asked.partitions, asked.seed, print, asked.shuffled_keys) for n in (SMALL, asked.records)
    }
    runs, truth = [], {}
    for number in range(1, asked.runs + 1):
        for contender in field:
            for records, topic in topics.items():
                done, found = run(contender, bootstrap, topic, records, work)
                first, expected = truth.setdefault(records, (contender.name, found))
                if found != expected:
                    raise SystemExit(f"{contender.name} wrote {found}, {first} {expected}: not the same rows")
                runs.append(done)
            print(f"run {number}: {contender.name:32}{done.cpu_s:8.1f} CPU-s{done.wall_s:8.1f} s", flush=True)
    for records, (_, (rows, checksum)) in truth.items():
        print(f"{records:,} records: {rows:,} clean rows each, checksum {checksum[:16]}: equal for all contenders")
    return runs


def summary(runs: list[Run], records: int) -> dict[str, dict[str, list[float]]]:
    """Per contender, each as [min, median, max]: CPU us a record with start-up, marginal, and of start-up the CPU-s."""
    told = {}
    for name in dict.fromkeys(r.contender for r in runs):
        large = [r for r in runs if r.contender == name and r.records == records]
        small = [r for r in runs if r.contender == name and r.records == SMALL]
        marginal = [(a.cpu_s - b.cpu_s) / (records - SMALL) * 1e6 for a, b in zip(large, small, strict=True)]
        told[name] = {
            "marginal CPU us/record": _spread(marginal),
            "CPU us/record with start-up": _spread([r.cpu_s / records * 1e6 for r in large]),
            "CPU-s of the small topic": _spread([r.cpu_s for r in small]),
            "wall s": _spread([r.wall_s for r in large]),
        }
    return told


def _spread(values: list[float]) -> list[float]:
    return [round(v, 3) for v in (min(values), statistics.median(values), max(values))]


def table(told: dict[str, dict[str, list[float]]]) -> str:
    measure = "marginal CPU us/record"
    base = told[OURS][measure][1] if OURS in told else None
    lines = [f"{'CPU us/record, marginal':34}{'min':>8}{'median':>8}{'max':>8}{'ratio':>8}{'with start-up':>15}"]
    for name, figures in told.items():
        low, middle, high = figures[measure]
        ratio = f"{middle / base:8.2f}" if base else f"{'-':>8}"
        whole = figures["CPU us/record with start-up"][1]
        lines.append(f"{name:34}{low:8.2f}{middle:8.2f}{high:8.2f}{ratio}{whole:15.2f}")
    return "\n".join(lines)


def meeting(told: dict[str, dict[str, list[float]]]) -> str:
    """From how many records on Tidegate, with its start-up, takes less CPU than each contender with its own."""
    lines = ["with start-up Tidegate takes less than ..."]
    for name, figures in told.items():
        if OURS in told and name != OURS:
            slope = figures["marginal CPU us/record"][1] - told[OURS]["marginal CPU us/record"][1]
            small = told[OURS]["CPU-s of the small topic"][1] - figures["CPU-s of the small topic"][1]
            at = SMALL + small / slope * 1e6 if slope > 0 else None
            words = "never" if at is None else "always" if at <= 0 else f"from {at:,.0f} records on"
            lines.append(f"  {name:34}{words}")
    return "\n".join(lines)


@contextmanager
def _work(asked: argparse.Namespace) -> Iterator[Path]:
    folder = Path(asked.work or Places.of_checkout().own / "bench" / "work")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shuffled-keys", action="store_true", help="each event has its keys in an order of its own")
    parser.add_argument("--contestant", action="append", default=[], metavar="NAME=COMMAND")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="leave the others out")
    parser.add_argument("--out", default="", help="folder of throughput.json and throughput.svg")
    parser.add_argument("--work", default="", help="folder for what contenders write")
    asked = parser.parse_args()
    field = contenders(kafka_source_jars(), asked.contestant)
    field = [c for c in field if not asked.only or c.name in asked.only]
    out = Path(asked.out or Places.of_checkout().own / "bench")
    out.mkdir(parents=True, exist_ok=True)
    with _work(asked) as work, broker(work / "broker") as info:
        runs = compare(info.kafka_bootstrap, asked, field, work / "run")
    told = summary(runs, asked.records)
    print(table(told))
    print(meeting(told))
    print(circumstances())
    document = {"records": asked.records, "partitions": asked.partitions, "seed": asked.seed, "cores": os.cpu_count(),
                "shuffled keys": asked.shuffled_keys, "circumstances": circumstances()}  # fmt: skip
    (out / "throughput.json").write_text(
        json.dumps(document | {"summary": told, "runs": [asdict(r) for r in runs]}, indent=1) + "\n"
    )
    plot = [sys.executable, "-m", "bench.plot", str(out / "throughput.json"), str(out / "throughput.svg")]
    subprocess.run(plot, env=os.environ | {"PYTHONPATH": _python_path()}, check=True)
    print(f"written: {out}/throughput.json, {out}/throughput.svg")


if __name__ == "__main__":
    main()
