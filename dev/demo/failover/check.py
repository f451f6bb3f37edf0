"""Counts what has landed, by pyarrow alone, against the producers' own log: imports nothing of Tidegate.

python -I check.py <folder of landed batches> <file with the ids that were acknowledged, one a line>
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq


def main(landed: str, log: str) -> int:
    """0 only if each acknowledged record has landed exactly once."""
    rows: Counter[str] = Counter()
    for path in sorted(Path(landed).rglob("*.parquet")):
        rows.update(pq.read_table(path, columns=["id"])["id"].to_pylist())
    wanted = set(Path(log).read_text().split())
    missing, twice, others = wanted - rows.keys(), [i for i, n in rows.items() if n > 1], rows.keys() - wanted
    print(f"{len(wanted):,} records were acknowledged; {sum(rows.values()):,} rows have landed")
    for what, some in (("missing", missing), ("there twice", twice), ("never acknowledged", others)):
        print(f"{len(some):,} {what}" + (f", {sorted(some)[0]} for one" if some else ""))
    return 1 if missing or twice or others else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
