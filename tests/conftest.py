"""Fixtures for every test; the random seed of a run is printed and can be given back with TIDEGATE_TEST_SEED."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import psutil
import pytest

sys.path.insert(0, str(Path(__file__).parent))  # so that the fixtures' module is found whatever the import mode

pytest_plugins = ["stack_fixtures"]

# in the environment, so that all workers of one run have the same
SEED = int(os.environ.setdefault("TIDEGATE_TEST_SEED", str(random.SystemRandom().randrange(2**32))))
WORKERS, WORKER_GB = 2, 8
"""Each worker may run a broker, a database, two Hives, a NameNode and an Airflow of its own."""


def pytest_xdist_auto_num_workers() -> int:
    """For `-n auto`: two, or all tests in one process where memory is short."""
    free_gb = psutil.virtual_memory().available / 1e9
    return WORKERS if (os.cpu_count() or 1) >= WORKERS and free_gb > WORKERS * WORKER_GB else 0


def pytest_report_header() -> str:
    """Shown at the top of every run."""
    return f"seed: TIDEGATE_TEST_SEED={SEED}"


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> random.Random:
    """Random numbers that depend on the run's seed and on the test's name only, not on the order of tests."""
    return random.Random(f"{SEED}:{request.node.nodeid}")
