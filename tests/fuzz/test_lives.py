"""Random lives end with every record in exactly one place; TIDEGATE_TEST_SEED makes them happen again.

`make test` takes two, `make test-nightly` twenty."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import world
from tests.fuzz.lives import Life
from tests.mutants.quick import quick

LIVES = int(os.environ.get("TIDEGATE_FUZZ_EXAMPLES", "20" if os.environ.get("TIDEGATE_NIGHTLY") == "all" else "2"))
STEPS = 16


@pytest.fixture(autouse=True)
def cheap_worlds() -> Iterator[None]:
    before = os.fsync, world.make_engine  # type: ignore[attr-defined]
    quick()
    yield
    os.fsync, world.make_engine = before  # type: ignore[attr-defined]


def test_random_lives_end_well(tmp_path: Path, rng: random.Random) -> None:
    for number in range(LIVES):
        folder = tmp_path / str(number)
        folder.mkdir()
        life = Life(folder, rng.randrange(2**32))
        try:
            life.live(STEPS)
        finally:
            life.stage.close()
