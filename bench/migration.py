"""How long a migration holds the ledger's tables: a big ledger is migrated beside readers and writers.

    python -m bench.migration --rows 1000000 [--late 0.05]

starts a PostgreSQL of its own, fills the big tables at the revision before with so many rows each, and says how long
the migration took and how long the slowest read and write of a task waited meanwhile (s).
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import threading
import time
from pathlib import Path

import sqlalchemy as sa

from dev.stack.stack import Stack
from tidegate.ledger.migrate import migrate, revisions
from tidegate.ledger.store import HEAD, make_engine

_TEXT = "repeat('x', 300)"
_FILL = (
    "INSERT INTO batches (pipeline, batch_id, state, epoch, nonce, revision, spec_version, rules_version, topic, "
    "topic_id, clock_ms, floor, records, receipt, side_moved, side_registered, planned_ms) "
    f"SELECT p, n, 'LANDED', 1, md5(p), 1, 1, 2, 't', 'id', n, '-', 1000, {_TEXT}, true, true, n FROM made",
    "INSERT INTO batch_window_totals (pipeline, window_ms, batch_id, kind, partition, rows, min_offset, max_offset) "
    "SELECT p, n / 1000, n, CASE WHEN random() < :late THEN 'late' ELSE 'data' END, n % 12, 10, n, n FROM made",
    "INSERT INTO windows (pipeline, start_ms, end_ms, state, closing_batch, closed_ms) "
    "SELECT p, n, n, 'CLOSED', n, n FROM made",
    "INSERT INTO generations "
    "(pipeline, window_ms, number, state, epoch, nonce, kind, directory, location, rows, digest) "
    f"SELECT p, n, 1, 'CURRENT', 1, md5(p), 'archive', {_TEXT}, {_TEXT}, 10, md5(p) FROM made",
    "INSERT INTO events (at_ms, pipeline, actor, what, subject, detail) "
    f"SELECT n, p, 'airflow', 'landed', 'batch ' || n, {_TEXT} FROM made",
)
_MADE = "CREATE TEMPORARY TABLE made ON COMMIT DROP AS SELECT n, 'p' || n % 100 AS p FROM generate_series(1, :rows) n"
_READ = "SELECT count(*) FROM batches WHERE pipeline = 'p1' AND batch_id = 1"
_WRITES = {
    "batches": "UPDATE batches SET records = records WHERE pipeline = 'p1' AND batch_id = 1",
    "batch_window_totals": "UPDATE batch_window_totals SET rows = rows WHERE pipeline = 'p1' AND batch_id = 1",
    "windows": "UPDATE windows SET state = state WHERE pipeline = 'p1' AND start_ms = 1",
    "generations": "UPDATE generations SET state = state WHERE pipeline = 'p1' AND window_ms = 1",
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--late", type=float, default=0.05)
    told = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="tidegate-bench-"))
    stack = Stack(folder, parts=("postgres",))
    try:
        url = stack.up().ledger_url
        measure(url, told.rows, told.late)
    finally:
        stack.down()
        shutil.rmtree(folder, ignore_errors=True)


def measure(url: str, rows: int, late: float) -> None:
    engine = make_engine(url)
    migrate(engine, revisions()[-2:][0])
    with engine.begin() as c:
        for statement in (_MADE, *_FILL):
            given = {"rows": rows} if ":rows" in statement else {"late": late} if ":late" in statement else {}
            c.execute(sa.text(statement), given)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as c:
        c.exec_driver_sql("VACUUM ANALYZE")
    slowest: dict[str, float] = {}
    stop = threading.Event()
    tasks = [threading.Thread(target=_again, args=(url, "read batches", _READ, slowest, stop))]
    tasks += [threading.Thread(target=_again, args=(url, f"write {t}", s, slowest, stop)) for t, s in _WRITES.items()]
    for task in tasks:
        task.start()
    time.sleep(2)
    before = dict(slowest)
    slowest.clear()
    began = time.monotonic()
    migrate(engine)
    took = time.monotonic() - began
    stop.set()
    for task in tasks:
        task.join()
    engine.dispose()
    print(f"{rows:,} rows in each of {len(_FILL)} tables, {late:.0%} of the totals late: to {HEAD} in {took:.1f} s")
    for name, waited in sorted(slowest.items()):
        print(f"  {name}: slowest {waited:.2f} s (before: {before.get(name, 0):.2f} s)")


def _again(url: str, name: str, statement: str, slowest: dict[str, float], stop: threading.Event) -> None:
    engine = sa.create_engine(url)
    while not stop.is_set():
        began = time.monotonic()
        with engine.begin() as c:
            c.exec_driver_sql(statement)
        slowest[name] = max(slowest.get(name, 0.0), time.monotonic() - began)
        time.sleep(0.01)
    engine.dispose()


if __name__ == "__main__":
    main()
