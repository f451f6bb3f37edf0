"""The engine against the oracle, over mutated messages of every row of docs/types.md.

python -m tests.value_rules.differential --count 1000000
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from random import SystemRandom

from spark_jobs.engine import native
from tests.value_rules.comparison import Outcome, compare
from tests.value_rules.families import FAMILIES

LEAST = 1_000
"""Mutated messages of each row in a full run."""


@dataclass(frozen=True)
class Job:
    format_name: str
    row: str
    count: int
    whole: int
    seed: str


def jobs(count: int, whole: int, seed: str, least: int = LEAST, only: str = "") -> list[Job]:
    """`count` mutated messages shared over all rows, at least `least` each; `whole` per row to files and back."""
    rows = [(name, row) for name, family in FAMILIES.items() for row in family.seeds() if row.startswith(only)]
    each = max(least, -(-count // max(len(rows), 1)))
    return [Job(name, row, each, whole, seed) for name, row in rows]


def run(wanted: Sequence[Job], processes: int) -> Iterator[tuple[Job, Outcome]]:
    if processes == 1:
        yield from ((job, _run(job)) for job in wanted)
        return
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:  # a test's process has threads
        yield from zip(wanted, pool.map(_run, wanted), strict=True)


def _run(job: Job) -> Outcome:
    try:
        return compare(job.format_name, job.row, job.count, job.whole, job.seed)
    except Exception:  # of the oracle or of a whole job: the other rows go on
        return Outcome(job.row, wrong=[f"{job.row}: {traceback.format_exc()}"])


def report(results: Sequence[tuple[Job, Outcome]]) -> str:
    """Counts by format and category."""
    lines = []
    for name in FAMILIES:
        mine = [outcome for job, outcome in results if job.format_name == name]
        counts: Counter[str] = sum((o.counts for o in mine), Counter())
        if not mine:
            continue
        least, mutated = min(o.mutated for o in mine), sum(o.mutated for o in mine)
        compared, whole = sum(o.compared for o in mine), sum(o.whole for o in mine)
        lines.append(f"{name}: {len(mine)} rows, {mutated} mutated messages (at least {least} each)")
        lines.append(f"  compared: {compared} answers of decoders, {whole} records read back from files")
        lines += [f"  {category:28} {number:>10}" for category, number in counts.most_common()]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--count", type=int, default=1_000_000, help="mutated messages in all")
    parser.add_argument("--whole", type=int, default=100, help="messages of each spec of a row to files and back")
    parser.add_argument("--least", type=int, default=LEAST, help="mutated messages of each row")
    parser.add_argument("--rows", default="", help="only rows whose id begins with this")
    parser.add_argument("--processes", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--seed", default=str(SystemRandom().randrange(10**9)))
    options = parser.parse_args()
    started = time.monotonic()
    print(f"seed {options.seed}; JSON library: {native.why_not() or 'there'}", flush=True)
    wrong, results = 0, []
    wanted = jobs(options.count, options.whole, options.seed, options.least, options.rows)
    for job, outcome in run(wanted, options.processes):
        results.append((job, outcome))
        wrong += len(outcome.wrong)
        for text in outcome.wrong[:5]:
            print(text, flush=True)
    print(report(results))
    print(f"{wrong} disagreements, seed {options.seed}, {time.monotonic() - started:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
