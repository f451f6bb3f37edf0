"""What makes way at another cluster stays for queries under way, and goes then."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.deliver.cluster_lab import Around, ClusterLab, more_columns
from tidegate.core.base.errors import (
    CatalogueError,
)


@pytest.fixture
def lab(tmp_path: Path) -> ClusterLab:
    return ClusterLab(tmp_path)


def test_replaced_files_stay_for_queries_under_way_and_go_then(lab: ClusterLab) -> None:
    lab.hours(2)
    lab.deliver()
    old = lab.files()
    more_columns(lab)
    lab.world.replay(0)
    lab.deliver()
    assert all(path.exists() for path in old)
    assert [name.partition("-")[0].split(".", 1)[1] for name in lab.names("replaced")] == ["20130105T000000Z.2.2"]
    lab.world.clock.advance(86_400_001)
    lab.deliver()
    assert not any(path.exists() for path in old)
    assert lab.names("replaced") == []
    assert len(lab.names("generations/20130105T000000Z")) == len(lab.names("delivered/20130105T000000Z")) == 1
    assert lab.copied() == lab.own()
    assert lab.verify(0, 1) == ["unchanged", "unchanged"]


def test_what_readers_still_meet_does_not_go(tmp_path: Path) -> None:
    """A later try has left its record, and came to no end."""

    def down(do: Callable[[], Any]) -> Any:
        raise CatalogueError("connection refused")

    around = Around()
    lab = ClusterLab(tmp_path, wrap_far=around)
    lab.hours(1)
    lab.deliver()
    more_columns(lab)
    lab.world.replay(0)
    around.changes["set_location"] = down
    assert lab.deliver() == ["failed"]
    assert len(lab.names("replaced")) == 1
    lab.world.clock.advance(10 * 86_400_000)
    with lab.context() as ctx:
        lab.system().sweep(lambda found: ctx.ledger.deliveries.needed("readings", "shop", found))
    assert lab.ids() == ["0-0", "0-1"]


def test_what_has_just_made_way_stays_though_others_did_before(lab: ClusterLab) -> None:
    lab.hours(1)
    lab.deliver()
    more_columns(lab)
    lab.world.replay(0)
    lab.deliver()
    middle = lab.files()
    lab.world.clock.advance(86_400_001)
    more_columns(lab, "y")
    lab.world.replay(0)
    lab.deliver()
    assert all(path.exists() for path in middle)
    lab.world.clock.advance(86_400_001)
    lab.deliver()
    assert not any(path.exists() for path in middle)
    assert lab.names("replaced") == []
    assert lab.copied() == lab.own()


def test_an_hour_that_is_not_replaced_is_left_alone(lab: ClusterLab) -> None:
    lab.hours(1)
    lab.deliver()
    lab.verify(0, why="again")  # another try, the same place
    lab.world.clock.advance(10 * 86_400_000)
    lab.deliver()
    assert lab.ids() == ["0-0", "0-1"]
    assert lab.states() == ["STANDING 1.2"]
