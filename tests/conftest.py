"""Fixtures for every test; the random seed of a run is printed and can be given back with TIDEGATE_TEST_SEED."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # so that the fixtures' module is found whatever the import mode

pytest_plugins = ["stack_fixtures"]

SEED = int(os.environ.get("TIDEGATE_TEST_SEED", random.SystemRandom().randrange(2**32)))


def pytest_report_header() -> str:
    """Shown at the top of every run."""
    return f"seed: TIDEGATE_TEST_SEED={SEED}"


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> random.Random:
    """Random numbers that depend on the run's seed and on the test's name only, not on the order of tests."""
    return random.Random(f"{SEED}:{request.node.nodeid}")
