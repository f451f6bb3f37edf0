"""How long `tidegate where` takes on a long past: 20,000 batches and 200,000 files in the ledger, real files for one.

    python -m bench.where_time FOLDER [--batches 20000] [--runs 5] [--ledger URL] [--keep]

Times are of the whole command, start of the interpreter included; offsets are chosen from a fixed seed. `--ledger` is
a SQLAlchemy URL of an empty PostgreSQL database; without it the ledger is SQLite.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url

from bench.big_pipeline import Big, Shape

FILES, OFFSETS, PARTITIONS = 10, 10_000, 2


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a folder that does not exist; it is deleted at the end")
    parser.add_argument("--batches", type=int, default=20_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--ledger")
    parser.add_argument("--keep", action="store_true", help="leave the folder where it is")
    options = parser.parse_args()
    shape = Shape(options.batches, OFFSETS, FILES, PARTITIONS, advance=0.02)
    big = Big(options.folder, shape, files=False)
    started = time.monotonic()
    big.make(options.ledger)
    print(f"made {options.batches:,} batches, {options.batches * FILES:,} files in {time.monotonic() - started:.0f} s")
    if options.ledger:
        with create_engine(options.ledger, isolation_level="AUTOCOMMIT").connect() as c:
            c.execute(text("ANALYZE"))
    chance, seconds, cpu = random.Random(7), [], []
    newest = options.batches * OFFSETS // PARTITIONS
    for offset in (0, newest - 1, newest, *(chance.randrange(newest) for _ in range(options.runs))):
        taken, used, said = ask(big, offset, connection(options.ledger))
        seconds.append(taken)
        cpu.append(used)
        print(f"  offset {offset:,}: {taken:.2f} s, {used:.2f} CPU s: {said}")
    print(
        f"median {statistics.median(seconds):.2f} s, {statistics.median(cpu):.2f} CPU s; largest {max(seconds):.2f} s"
    )
    if not options.keep:
        shutil.rmtree(options.folder)
    return 0


def connection(ledger: str | None) -> str | None:
    """An Airflow connection of the database, as its URI."""
    if ledger is None:
        return None
    url = make_url(ledger)
    host, extra = url.host or "", ""
    if not host:  # a Unix socket is told by the query
        host, extra = quote(str(url.query.get("host", "")), safe=""), ""
    login = f"{quote(url.username or '', safe='')}:{quote(url.password or '', safe='')}@" if url.username else ""
    return f"postgres://{login}{host}{f':{url.port}' if url.port else ''}/{url.database}{extra}"


def ask(big: Big, offset: int, url: str | None) -> tuple[float, float, str]:
    """(seconds, CPU seconds with its child, what it said). The files are not there: it answers by the ledger."""
    words = [sys.executable, "-m", "tidegate.cli", "where", "big", "1", str(offset), "--json"]
    started, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(words, env=big.environment(url), cwd=big.folder, capture_output=True, text=True)
    taken, after = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if not done.stdout:
        raise SystemExit(done.stderr)
    return taken, used, json.loads(done.stdout)["fates"][0]["words"][:100]


if __name__ == "__main__":
    sys.exit(main())
