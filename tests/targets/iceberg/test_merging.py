"""Manifests stay few, and no commit rewrites many."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.target_suite import ROWS, Lab
from tests.targets.iceberg.lab import make, sqlite
from tests.world import record, window
from tidegate.targets.iceberg import merging
from tidegate.targets.iceberg.live import look, unit_of
from tidegate.targets.iceberg.merging import MOST_ENTRIES, MOST_MERGED, SLACK, chosen, fewest

# ---------------------------------------------------------------- the decision


def test_nothing_is_merged_before_there_are_many() -> None:
    assert not chosen([])
    assert not chosen([1] * (SLACK + 1))
    assert not chosen([MOST_ENTRIES] * 10_000)
    assert not chosen([MOST_ENTRIES - 1, 2] * 1_000), "no two neighbours fit into one"
    assert chosen([1] * (SLACK + 2)) == range(SLACK + 2)


def test_small_ones_come_first() -> None:
    sizes = [500] * 8 + [3] * SLACK + [1] * 10
    assert chosen(sizes) == range(8 + SLACK, len(sizes))


def test_the_fewest() -> None:
    assert fewest([]) == 0
    assert fewest([MOST_ENTRIES]) == 1
    assert fewest([MOST_ENTRIES * 3, 1, MOST_ENTRIES - 1]) == 2
    assert fewest([0, 0]) == 1


def _sizes(kind: str, rng: random.Random) -> Iterator[int]:
    fixed = {"ones": 1, "hundreds": 100, "more than half": MOST_ENTRIES // 2 + 1, "too many": MOST_ENTRIES + 1}
    while True:
        yield fixed[kind] if kind in fixed else min(20_000, int(rng.paretovariate(0.7)))


@pytest.mark.parametrize("kind", ["ones", "hundreds", "more than half", "too many", "any"])
@pytest.mark.parametrize("order", ["in order", "anywhere"])
def test_many_commits(kind: str, order: str) -> None:
    """Whatever comes wherever: manifests are few, a merge is small, and in order nothing is rewritten often."""
    rng = random.Random(f"{kind} {order}")
    new = _sizes(kind, rng)
    have: list[int] = []
    rewritten = brought = 0
    for _ in range(1_500):
        have.insert(len(have) if order == "in order" else rng.randint(0, len(have)), next(new))
        brought += have[-1] if order == "in order" else 0
        run = chosen(have)
        merged = sum(have[n] for n in run)
        assert merged <= MOST_ENTRIES
        assert len(run) != 1
        assert len(run) <= MOST_MERGED
        rewritten += merged
        if run:
            have[run.start : run.stop] = [merged]
        assert len(have) <= fewest(have) + SLACK
        assert fewest(have) <= 2 * sum(have) // MOST_ENTRIES + 1
    assert order == "anywhere" or rewritten <= 12 * brought


# ---------------------------------------------------------------- in a table


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    found = make(tmp_path, sqlite(tmp_path))
    yield found
    found.world.close()


def _manifests(lab: Lab) -> list[tuple[set[int], str]]:
    """Units and path of each, in order."""
    table: Any = lab.world.context().target
    now = table.catalogue.load(table.name)
    seen = look(now.metadata, now.io, None)
    found = [({unit_of(now.metadata, f) for f in one.files}, one.manifest.manifest_path) for one in seen.found]
    return sorted(found, key=lambda one: min(one[0]))


def test_hours_stay_in_order_and_a_replay_touches_its_own(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "SLACK", 8)
    monkeypatch.setattr(merging, "MOST_ENTRIES", 4)
    world = lab.world
    world.produce(*(record(f"h{h}", h + 0.5) for h in range(1, 30)), record("end", 34.5))
    world.produce(record("end", 34.5), partition=1)
    world.ingest("r2")
    for hour in range(30):
        world.archive(hour // 2 + hour % 2 * 15)  # old hours, while new ones come
    all_of_them = ROWS + Counter({(0, 4 + h): 1 for h in range(29)}) + Counter({(1, 0): 1})
    assert lab.rows() == all_of_them
    before = _manifests(lab)
    assert 8 <= len(before) <= 18
    opened = [sum(min(units) <= unit <= max(units) for units, _ in before) for units, _ in before for unit in units]
    assert sum(opened) <= 2 * len(opened), "a look at an hour opens two of them at most, on average"
    lab.other_columns()
    monkeypatch.setattr(merging, "SLACK", 100)
    world.replay(8)
    assert lab.rows() == all_of_them
    [holder] = [path for units, path in before if window(8).start_ms * 1000 in units]
    assert {path for _, path in before} - {path for _, path in _manifests(lab)} == {holder}
