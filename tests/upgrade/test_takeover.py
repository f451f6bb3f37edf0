"""0.1.0 dies at calls that change something; its ledger is migrated, and this code goes on. TIDEGATE_FAULTS=all takes
all of them (about 950), else those after which a batch, a window or a generation is in another state."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.matrix import quick
from tests.upgrade import release
from tests.upgrade.takeover import Life

FAULTS = os.environ.get("TIDEGATE_FAULTS", "some")


@pytest.fixture(scope="module")
def life(old_checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Life]:
    place = tmp_path_factory.mktemp("life")
    release.run(old_checkout, "old_life.py", place, FAULTS, os.environ["TIDEGATE_TEST_SEED"])
    with quick():
        yield Life(place)


def test_every_state_is_among_them(life: Life) -> None:
    """What 0.1.0 can leave behind, by its ledgers."""
    queries = {
        "SELECT kind, state FROM batches": {
            ("ingest", "PLANNED"), ("ingest", "WRITING"), ("ingest", "SEALED"), ("ingest", "LANDED"),
            ("ingest", "ABANDONED"), ("redrive", "PLANNED"), ("redrive", "SEALED"), ("redrive", "LANDED"),
        },
        "SELECT state FROM windows": {("CLOSING",), ("CLOSED",)},
        "SELECT kind, state FROM generations": {
            ("archive", "BUILT"), ("archive", "SWAPPING"), ("archive", "CURRENT"), ("archive", "RETIRED"),
            ("replay", "BUILDING"), ("replay", "BUILT"), ("replay", "SWAPPING"), ("replay", "CURRENT"),
            ("heal", "BUILDING"), ("heal", "BUILT"), ("heal", "SWAPPING"), ("heal", "CURRENT"),
            ("reopen", "BUILDING"), ("reopen", "BUILT"), ("reopen", "SWAPPING"), ("reopen", "CURRENT"),
            ("rollback", "BUILDING"), ("rollback", "BUILT"), ("rollback", "SWAPPING"), ("rollback", "CURRENT"),
        },
        "SELECT 'refused' FROM batches WHERE refused IS NOT NULL": {("refused",)},
        "SELECT 'blocked' FROM batches WHERE blocked IS NOT NULL": {("blocked",)},
        "SELECT 'blocked' FROM windows WHERE blocked IS NOT NULL": {("blocked",)},
        "SELECT version_num FROM alembic_version": {(release.REVISION,)},
    }  # fmt: skip
    for query, wanted in queries.items():
        found = {row for case in life.cases for row in life.ledger(case).execute(query)}
        assert wanted <= found, (query, wanted - found)


def test_this_code_ends_what_0_1_0_began(life: Life, rng: random.Random) -> None:
    """Half of the cases, drawn by the run's seed."""
    cases = life.cases if FAULTS == "all" else rng.sample(life.cases, len(life.cases) // 2)
    failures = [wrong for case in cases if (wrong := life.failure(case)) is not None]
    assert failures == []
    assert len(life.cases) >= 35
