"""A sample of the pairs of faults; `make test-faults` runs them all."""

from __future__ import annotations

import random

from tests.crash.pairs import run
from tests.crash.pool import Pool

CHAINS, PER_STEP = 2, 3


def test_a_second_fault_heals_too(pool: Pool, rng: random.Random) -> None:
    tally = run(pool, rng.randrange(2**32), CHAINS, PER_STEP)
    print(tally.text())
    assert tally.wrong == [], tally.text()
    assert tally.met.total() >= CHAINS * PER_STEP
