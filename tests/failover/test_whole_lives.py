"""Random lives of a whole pipeline with two sites end with each record in one place; the run's seed repeats them."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.failover.whole_lives import Life
from tests.fuzz.test_lives import cheap_worlds

LIVES = int(os.environ.get("TIDEGATE_FAILOVER_LIVES", "2"))
STEPS = 40
__all__ = ["cheap_worlds"]


@pytest.mark.parametrize("number", range(LIVES))
def test_each_record_is_in_one_place(number: int, tmp_path: Path, rng: random.Random) -> None:
    life = Life(tmp_path, rng.randrange(2**32) + number)
    try:
        life.live(STEPS)
    finally:
        life.stage.close()
