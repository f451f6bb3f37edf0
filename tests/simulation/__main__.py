"""Lives by seeds until so many windows have been published, and what they were like.

    python -m tests.simulation [--windows 10000] [--seeds 3] [--seed TEXT] [--jobs 2] [--life SEED]
    python -m tests.simulation --planted [NAME ...] [--by-promise]

`--life` lives one life again, by the seed that a failure names; `--planted` looks for planted wrong rules instead.
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import count

from tests.simulation import planted, report
from tests.simulation.life import Lived, live


def lives_of(seed: str, windows: int, jobs: int) -> Iterator[Lived]:
    """Of one seed, in order, until `windows` have been published; the rest of what was begun is left out."""
    done = 0
    with ProcessPoolExecutor(jobs) as pool:
        for first in count(0, 4 * jobs):
            for lived in pool.map(live, [f"{seed}:{i}" for i in range(first, first + 4 * jobs)]):
                yield lived
                done += lived.tally.closes
                if done >= windows:
                    return


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--windows", type=int, default=10_000, help="to be published for each seed")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--seed", help="the first seed; drawn if it is not given")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--life", help="one life again")
    parser.add_argument("--planted", nargs="*", help="these planted wrong rules, or all")
    parser.add_argument("--by-promise", action="store_true", help="found by what becomes of records alone")
    options = parser.parse_args()
    seed = options.seed or str(random.SystemRandom().randrange(2**32))
    if options.life:
        return _show([live(options.life)], 0)
    if options.planted is not None:
        return _hunt(options.planted or list(planted.BUGS), seed, options.jobs, options.by_promise)
    wrong = 0
    for n in range(options.seeds):
        name, began = seed if n == 0 else f"{seed}.{n}", _cpu()
        print(f"\nseed {name} (again: make simulate ARGS='--seeds 1 --seed {name}')\n", flush=True)
        lived = list(lives_of(name, options.windows, options.jobs))
        wrong += _show(lived, _cpu() - began)
    return int(wrong > 0)


def _cpu() -> float:
    """Seconds of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def _show(lived: list[Lived], seconds: float) -> int:
    print(report.text(lived, seconds), flush=True)
    failed = [one for one in lived if one.wrong is not None]
    for one in failed:
        print(f"\nVIOLATED in life {one.seed} (make simulate ARGS='--life {one.seed}'): {one.wrong}\n{one.setting}")
    return len(failed)


def _hunt(bugs: list[str], seed: str, jobs: int, by_promise: bool) -> int:
    print(f"seed {seed}\n{'planted':<52}{'lives':>6}{'windows':>9}{'records':>9}  found by", flush=True)
    missed = 0
    for found in planted.hunt(bugs, seed, jobs, by_promise):
        missed += found.name is None if by_promise else not found.is_right
        what = found.name or "NOT FOUND"
        print(f"{found.bug:<52}{found.lives:>6}{found.windows:>9,}{found.records:>9,}  {what}", flush=True)
        if found.name and not found.is_right and not by_promise:
            print(f"    expected: {planted.BUGS[found.bug].violates}; {found.detail}")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
