"""How long the board's pages take on the server with many pipelines and windows.

    .venv/bin/python -m bench.board [--pipelines 1000] [--windows 100] [--runs 15] [--sqlite] [--keep FOLDER]

A PostgreSQL ledger is filled (or SQLite), a YAML written for every pipeline, and each page is asked for through
Airflow's own application in this process: what is measured is a request from its route to its last byte, with Airflow's
login, permissions and layout in it; Airflow's database is SQLite. The first request of a page is shown apart: it loads
what later ones have.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT), str(ROOT / "plugins")]

import board_app  # noqa: E402 (first of all that knows Airflow: it sets its home)

from tests import board_ledger  # noqa: E402
from tidegate.core.base.instants import iso  # noqa: E402
from tidegate.core.spec.pipeline import Pipeline  # noqa: E402
from tidegate.ledger.migrate import migrate  # noqa: E402
from tidegate.ledger.store import make_engine  # noqa: E402

BUDGET_MS = 300
YAML = """version: 1
name: {name}
owner: bench
source: {{conn_id: kafka, topic: {topic}}}
format: {{type: json}}
columns:
  - {{name: id, type: string}}
  - {{name: site, type: string}}
  - {{name: value, type: int}}
event_time: {{from: $.at, format: epoch_ms}}
windows: {{size: 1h, timezone: {zone}, start: {start}, watermark_delay: 1h, idle: follow}}
partition_by: [date, hour, site]
sink: {{conn_id: hive, table: {table}, location: "{location}"}}
"""


def main() -> int:
    """Exit code 1 if the median of a page is over the budget."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pipelines", type=int, default=1000)
    parser.add_argument("--windows", type=int, default=100, help="of each pipeline")
    parser.add_argument("--partitions", type=int, default=4, help="Kafka partitions of each pipeline")
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--sqlite", action="store_true")
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="tidegate-bench-board-") as folder,
        _ledger(arguments.sqlite, folder) as url,
    ):
        migrate(url)
        engine = make_engine(url)
        sizes = board_ledger.Sizes(windows=arguments.windows, partitions=arguments.partitions)
        began = time.monotonic()
        made = board_ledger.fill(engine, arguments.pipelines, sizes, int(time.time() * 1000))
        if engine.dialect.name == "postgresql":
            with engine.connect() as c:
                c.exec_driver_sql("ANALYZE")
        print(f"{len(made):,} pipelines, {len(made) * arguments.windows:,} windows in {time.monotonic() - began:.0f} s")
        return _measure(url, made, Path(folder), arguments.runs, board_ledger.HOUR * arguments.windows // 2)


@contextmanager
def _ledger(sqlite: bool, folder: str) -> Iterator[str]:
    if sqlite:
        yield f"sqlite:///{folder}/ledger.db"
        return
    from dev.stack.stack import Stack

    stack = Stack(Path(folder) / "stack", parts=("postgres",), progress=lambda line: None)
    try:
        yield stack.up().ledger_url
    finally:
        stack.down()


def _measure(url: str, made: list[Pipeline], folder: Path, runs: int, back_ms: int) -> int:
    pipelines = folder / "pipelines"
    pipelines.mkdir()
    for one in made:
        start, sink = iso(one.windows.start_ms), one.sink
        text = YAML.format(
            name=one.name, topic=one.source.topic, zone=one.windows.timezone, start=start, table=sink.table,
            location=sink.location,
        )  # fmt: skip
        (pipelines / f"{one.name}.yaml").write_text(text)
    os.environ["AIRFLOW_CONN_TIDEGATE_LEDGER"] = url.replace("+psycopg2", "")
    os.environ["AIRFLOW__TIDEGATE__PIPELINES_FOLDER"] = str(pipelines)
    client = board_app.client("Op")
    name, at = made[11].name, made[11].windows.start_ms + back_ms
    pages = {
        "pipelines": "/tidegate/",
        "pipelines, page 10": "/tidegate/?page=10",
        "pipelines, search": "/tidegate/?q=orders",
        "those that wait": "/tidegate/?show=attention",
        "a pipeline": f"/tidegate/{name}",
        "a window": f"/tidegate/{name}/window/{iso(at)}",
        "a batch": f"/tidegate/{name}/batch/40",
        "events": f"/tidegate/{name}/events",
        "where": f"/tidegate/{name}/where?partition=1&offset=5003",
    }
    print(
        f"\n{'page':24}{'first':>10}{'median':>10}{'worst':>10}{'CPU':>10}{'kB':>8}   ms; CPU: this process's, median"
    )
    backends = _backends(client)
    slow = 0
    for title, path in pages.items():
        before = _cpu_ms(backends)
        asked = [_ask(client, path) for _ in range(runs + 1)]
        of_database = (_cpu_ms(backends) - before) / len(asked)
        took, used = ([one[n] for one in asked] for n in (0, 1))
        median = statistics.median(took[1:])
        slow += median > BUDGET_MS
        told = (took[0], median, max(took[1:]), statistics.median(used[1:]), of_database)
        print(f"{title:24}" + "".join(f"{ms:10.0f}" for ms in told) + f"{asked[0][2] / 1000:8.0f}")
    return 1 if slow else 0


def _backends(client: object) -> list[int]:
    """The database's processes for this one; it is asked for pages one after another, so by one or two of them."""
    _ask(client, "/tidegate/")
    from tidegate.board import views

    engine = views.reach.ledger().store.engine
    if engine.dialect.name != "postgresql":
        return []
    with engine.connect() as c:
        own = "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
        return [row.pid for row in c.exec_driver_sql(own)]


def _cpu_ms(pids: list[int]) -> float:
    tick = 1000 / os.sysconf("SC_CLK_TCK")
    words = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
    return sum((int(w[11]) + int(w[12])) * tick for w in words)


def _ask(client: object, path: str) -> tuple[float, float, int]:
    """(ms by the wall clock, ms of CPU, bytes)."""
    began, used = time.perf_counter(), time.process_time()
    answer = client.get(path)  # type: ignore[attr-defined]
    took, cpu = (time.perf_counter() - began) * 1000, (time.process_time() - used) * 1000
    if answer.status_code != 200:
        raise SystemExit(f"{path}: {answer.status_code}")
    return took, cpu, len(answer.data)


if __name__ == "__main__":
    raise SystemExit(main())
