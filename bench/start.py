"""What one small batch costs from nothing, and in a warm session, beside a plain spark-submit job that does the same.

    .venv/bin/python -m bench.start [--records 10000] [--runs 5] [--batches 5] [--only NAME] [--out FOLDER]
    .venv/bin/python -m bench.start --runs 1 --batches 200 --only tidegate      # does a session's memory grow?

All read the same topic (seeded events of about 600 bytes, 8 partitions) and write the same columns into the same 31
directories. *Plain* is stock Spark's Kafka source, from_json and partitionBy with its defaults; *plain, same flags* has
the settings that Tidegate gives a local driver. Repetitions are interleaved. Wall and CPU seconds are of the whole
process tree, from the call of spark-submit (or of the session) until it has returned; the broker and the calling task
are left out. The clean rows of each run are compared.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import duckdb
import psutil

from bench.load import fill
from bench.parts import TreeCpu, broker, circumstances, kafka_source_jars
from dev.stack.java import find_java
from dev.stack.places import Places
from dev.stack.spark import recommended_conf
from tidegate.core.batch.jobs import dumps_plan
from tidegate.core.batch.launcher import Launcher
from tidegate.spark.launcher import SubprocessLauncher, local_environment, submit_command
from tidegate.spark.warm_session import WarmLauncher, end_sessions

PLAIN, FLAGS, COLD, FIRST, WARM = (
    "plain",
    "plain, same flags",
    "tidegate",
    "tidegate, first of a session",
    "tidegate, warm",
)
_ROLES = (
    ("starting the JVM", r"launcher\.Main|find_spark_home|^bash"),
    ("JVM", r"deploy\.SparkSubmit"),
    ("Python daemon and workers", r"-m (spark_jobs|pyspark)\.daemon"),
    ("Python driver", r"(land|serve|spark_sql)\.py"),
)
_CHECK = """
    select count(*), sum(hash(id, user_id, price, url, device.model, tags, app, _partition, _offset)::hugeint)::varchar
    from read_parquet('{folder}/date=2*/**/*.parquet', hive_partitioning=true, hive_types_autocast=false)"""


@dataclass(frozen=True)
class Run:
    contender: str
    wall_s: float
    cpu_s: float
    peak_rss_mb: float
    cpu_by_role: dict[str, float]


class Machine:
    """Where the contenders run: one topic, one folder that is emptied before each run."""

    def __init__(self, bootstrap: str, topic: str, work: Path) -> None:
        self.out, self.work = work / "out", work
        self._submit = str(Path(sys.executable).with_name("spark-submit"))
        self._conf = recommended_conf(Places.of_checkout())
        # Tidegate's launchers add to this process's environment, as they do in a task
        os.environ |= {
            "KAFKA_BOOTSTRAP": bootstrap, "TOPIC": topic, "OUT_DIR": str(self.out), "WORK_DIR": str(work),
            "JAVA_HOME": str(find_java().home), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(work / "local"), "STYLE": "batch",
        }  # fmt: skip
        self._sessions = Path(tempfile.mkdtemp(prefix="tidegate-bench-"))  # sockets have short paths only
        self._session: tuple[int, ...] = ()

    def plain(self, conf: dict[str, str]) -> Callable[[], TreeCpu]:
        """Stock Spark."""
        settings = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
        jars = ",".join(map(str, kafka_source_jars()))
        script = str(Path(__file__).with_name("contenders") / "spark_sql.py")
        command = [self._submit, "--master", "local[2]", "--jars", jars, *settings, script]

        def run() -> TreeCpu:
            env = os.environ | local_environment() if conf else os.environ
            with open(self.work / "log", "wb") as log, TreeCpu() as used:
                subprocess.run(command, check=True, env=env, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
            return used

        return run

    def plain_flags(self) -> Callable[[], TreeCpu]:
        return self.plain(self._conf)

    def cold(self) -> TreeCpu:
        """A job of its own."""
        launcher = SubprocessLauncher(self._note, self._submit, "local[2]", self._conf)
        return self._measured(launcher, ())

    def warm(self) -> TreeCpu:
        """The next batch of the session; the first one starts it."""
        submit = submit_command(self._submit, "local[2]", self._conf)
        launcher = WarmLauncher(self._note, submit, _NoJobs(), self._sessions, local_environment())
        used = self._measured(launcher, tuple(_tree(self._session)))
        self._session = tuple(launcher._pids)
        return used

    def first(self) -> TreeCpu:
        """Of a session that does not run yet. It is nobody's child: its CPU time is asked of its processes."""
        end_sessions(self._sessions)
        self._session = ()
        used = self.warm()
        used.started = sum(sum(p.cpu_times()[:2]) for p in map(psutil.Process, _tree(self._session)))  # type: ignore[attr-defined]
        return used

    def check(self) -> tuple:
        """Rows and their order-free checksum."""
        with duckdb.connect() as db:
            data = self.out / "data"
            return db.execute(_CHECK.format(folder=data if data.exists() else self.out)).fetchone() or ()

    def empty(self) -> None:
        shutil.rmtree(self.out, ignore_errors=True)
        self.out.mkdir(parents=True)

    def close(self) -> None:
        end_sessions(self._sessions)
        shutil.rmtree(self._sessions, ignore_errors=True)

    def _measured(self, launcher: Launcher, pids: tuple[int, ...]) -> TreeCpu:
        from bench.contenders.tidegate_plan import plan

        path = self.work / "plan.json"
        path.write_text(dumps_plan(plan()))
        with TreeCpu(*pids) as used:
            launcher.run(f"file://{path}")
        return used

    def _note(self, line: str) -> None:
        with open(self.work / "log", "a") as log:
            log.write(f"{line}\n")


class _NoJobs:
    def run(self, plan_path: str) -> None:
        raise RuntimeError("the warm session was busy")


def _tree(pids: tuple[int, ...]) -> Iterator[int]:
    seen: dict[int, None] = {}
    for pid in pids:
        process = psutil.Process(pid)
        seen |= dict.fromkeys(p.pid for p in (process, *process.children(recursive=True)))
    yield from seen


def _role(command: str) -> str:
    return next((role for role, pattern in _ROLES if re.search(pattern, command)), "other")


def measure(machine: Machine, name: str, contender: Callable[[], TreeCpu]) -> tuple[Run, tuple]:
    """One run from an empty directory, and what it wrote."""
    machine.empty()
    used = contender()
    roles: dict[str, float] = {}
    for process in used.processes:
        role = _role(process.command)
        roles[role] = round(roles.get(role, 0.0) + process.cpu_s, 2)
    cpu = getattr(used, "started", used.cpu_s)
    return Run(name, round(used.wall_s, 2), round(cpu, 2), round(used.peak_rss / 1e6), roles), machine.check()


def compare(machine: Machine, runs: int, batches: int, only: str) -> list[Run]:
    """Interleaved; each repetition starts a new session for `batches` warm ones. Raises SystemExit on unequal rows."""
    field = {
        PLAIN: machine.plain({}), FLAGS: machine.plain_flags(), COLD: machine.cold, FIRST: machine.first,
        WARM: machine.warm,
    }  # fmt: skip
    field = {name: contender for name, contender in field.items() if name.startswith(only)}
    done, truth = [], None
    for number in range(1, runs + 1):
        for name, contender in field.items():
            for _ in range(batches if name == WARM else 1):
                run, rows = measure(machine, name, contender)
                truth = truth or rows
                if rows != truth:
                    raise SystemExit(f"{name} wrote {rows}, {PLAIN} {truth}: not the same rows")
                done.append(run)
            print(f"run {number}: {name:30}{run.wall_s:8.2f} s wall{run.cpu_s:8.2f} CPU-s", flush=True)
    print(memory([r.peak_rss_mb for r in done if r.contender == WARM][-batches:]))
    print(f"{truth[0]:,} clean rows each, checksum {truth[1][:16]}: equal for all" if truth else "")
    return done


def memory(warm: list[float]) -> str:
    """Of one session, batch by batch: what its processes had resident at most."""
    if not warm:
        return "no warm session"
    tenth = max(1, len(warm) // 10)
    first, last = statistics.median(warm[:tenth]), statistics.median(warm[-tenth:])
    return (
        f"memory of the last session, MB: {first:,.0f} in the first {tenth} of {len(warm)} batches, {last:,.0f} in "
        f"the last {tenth}, at most {max(warm):,.0f}; pages that its workers share count for each"
    )


def summary(runs: list[Run]) -> dict[str, dict]:
    """Per contender [min, median, max] of wall and CPU seconds, and the medians of CPU by role."""
    told = {}
    for name in dict.fromkeys(r.contender for r in runs):
        mine = [r for r in runs if r.contender == name]
        roles = {role for r in mine for role in r.cpu_by_role}
        told[name] = {
            "wall s": _spread([r.wall_s for r in mine]),
            "CPU s": _spread([r.cpu_s for r in mine]),
            "peak RSS MB": _spread([r.peak_rss_mb for r in mine]),
            "CPU s by role": {
                role: statistics.median(r.cpu_by_role.get(role, 0.0) for r in mine) for role in sorted(roles)
            },
        }
    return told


def _spread(values: list[float]) -> list[float]:
    return [round(v, 2) for v in (min(values), statistics.median(values), max(values))]


def table(told: dict[str, dict]) -> str:
    base = next(iter(told.values()))  # plain, unless it was left out
    heads = f"{'wall s: min':>12}{'median':>8}{'max':>8}{'ratio':>7}{'CPU s':>8}{'ratio':>7}{'MB':>7}"
    lines = [f"{'one batch':32}{heads}"]
    for name, figures in told.items():
        low, middle, high = figures["wall s"]
        cpu = figures["CPU s"][1]
        lines.append(
            f"{name:32}{low:12.2f}{middle:8.2f}{high:8.2f}{middle / base['wall s'][1]:7.2f}"
            f"{cpu:8.2f}{cpu / base['CPU s'][1]:7.2f}{figures['peak RSS MB'][1]:7.0f}"
        )
    return "\n".join(lines)


@contextmanager
def _machine(asked: argparse.Namespace) -> Iterator[Machine]:
    work = Path(asked.work or Places.of_checkout().own / "bench" / "start")
    try:
        with broker(work / "broker") as info:
            topic = fill(info.kafka_bootstrap, asked.records, asked.partitions, asked.seed, print)
            machine = Machine(info.kafka_bootstrap, topic, work)
            try:
                yield machine
            finally:
                machine.close()
    finally:
        shutil.rmtree(work, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--batches", type=int, default=5, help="warm ones in each repetition")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="contenders whose name begins so: plain, tidegate")
    parser.add_argument("--out", default="", help="folder of start.json")
    parser.add_argument("--work", default="", help="folder for what contenders write")
    asked = parser.parse_args()
    out = Path(asked.out or Places.of_checkout().own / "bench")
    out.mkdir(parents=True, exist_ok=True)
    with _machine(asked) as machine:
        runs = compare(machine, asked.runs, asked.batches, asked.only)
    told = summary(runs)
    print(table(told))
    print(circumstances())
    numbers = {"records": asked.records, "partitions": asked.partitions, "seed": asked.seed, "cores": os.cpu_count()}
    document = numbers | {"circumstances": circumstances()} | {"summary": told, "runs": [asdict(r) for r in runs]}
    (out / "start.json").write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
