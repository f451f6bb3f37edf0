"""Random histories, merged in random cuts, against an oracle; wrong rules are found by the same lives."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest

from spark_jobs.engine.failures import JobError
from tests.mirror.histories import draw
from tests.mirror.lives import Wrong, live
from tests.mirror.planted import BUGS
from tests.mutants.planting import ROOT, Planted

LIVES, ALL_LIVES = 60, 10_000
MOST_LIVES = 200


def test_lives_of_a_mirror(rng: random.Random) -> None:
    seed = rng.randrange(2**32)
    for n in range(LIVES):
        live(f"{seed}:{n}")


@pytest.mark.skipif(os.environ.get("TIDEGATE_NIGHTLY") != "all", reason="make test-nightly")
def test_many_lives_of_a_mirror(rng: random.Random) -> None:
    first, share = rng.randrange(2**32), ALL_LIVES // 2
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda n: _lived(first + n * share, share), range(2)))
    assert done == [(0, "")] * 2


def _lived(first: int, count: int) -> tuple[int, str]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "plugins"), str(ROOT)])}
    command = [sys.executable, "-m", "tests.mirror.lives", str(first), str(count)]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    return done.returncode, done.stderr[-2000:]


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_order_is_found(name: str) -> None:
    with Planted(BUGS[name]) as planted:
        for n in range(MOST_LIVES):
            try:
                live(f"planted:{n}")
            except (Wrong, JobError, AssertionError):
                assert planted.never_called() == []
                return
    raise AssertionError(f"{MOST_LIVES} lives have not noticed it")


def test_histories_are_worth_living(rng: random.Random) -> None:
    """Each has what makes an order matter often enough."""
    met = Counter[str]()
    for n in range(300):
        history = draw(random.Random(f"{rng.random()}:{n}"))
        events = [e for batch in history.batches for e in batch]
        by_key = {(e.key, e.position, e.deleted) for e in events}
        met["repeats"] += len(by_key) < len(events)
        met["a delete beside an upsert"] += len({(k, p) for k, p, _ in by_key}) < len(by_key)
        met["stale"] += any(a.key == b.key and a.position > b.position for a, b in pairwise(events))
        met["an empty batch"] += not all(history.batches)
        met["a floor"] += any(f is not None for f in history.floors)
    assert min(met[what] for what in met) > 20, met
    assert len(met) == 5


def test_the_oracle_knows_nothing_of_the_product() -> None:
    code = (
        "import sys, tests.mirror.oracle, tests.mirror.histories\n"
        "print([m for m in sys.modules if m.split('.')[0] in ('tidegate', 'spark_jobs', 'pyarrow')])"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "plugins"), str(ROOT)])}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr
