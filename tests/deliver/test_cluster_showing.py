"""Tries at another cluster that come late, are overtaken, or get no answer: readers never meet an older one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.engine.delivered import DeliveredRows
from tests.deliver.cluster_lab import Around, ClusterLab, more_columns, send, take
from tidegate.core.base.errors import (
    CatalogueUnsure,
    DeliveryAhead,
    DeliveryRefused,
    DeliveryUnsure,
    LostComparison,
    OutcomeUnknown,
)
from tidegate.core.deliver.sender import Generation
from tidegate.core.deliver.states import Delivered
from tidegate.targets.cluster.copying import Copying, Pace
from tidegate.workflow.base.context import REQUEST_TTL_MS


@pytest.fixture
def lab(tmp_path: Path) -> ClusterLab:
    return ClusterLab(tmp_path)


def test_an_older_try_that_comes_late_is_refused(lab: ClusterLab) -> None:
    lab.hours(1)
    old, new = take(lab), take(lab)
    send(lab, new)
    with pytest.raises(DeliveryAhead) as caught:
        send(lab, old, holds=True)
    assert (caught.value.generation, caught.value.epoch) == (1, 2)


def test_who_does_not_hold_any_more_shows_nothing(lab: ClusterLab) -> None:
    lab.hours(1)
    tried = take(lab)
    with pytest.raises(LostComparison):
        send(lab, tried, holds=False)
    assert lab.locations() == []
    assert lab.deliver() == ["delivered"]


def test_an_older_generation_that_wakes_up_in_its_request_does_not_come_back(tmp_path: Path) -> None:
    """It stood still after it had asked the ledger; until its request cannot live any more nobody changes the hour."""
    late: list[Callable[[], Any]] = []

    def later(do: Callable[[], Any]) -> Any:
        late.append(do)
        raise CatalogueUnsure("no answer")

    around = Around(add_partitions=later)
    lab = ClusterLab(tmp_path, wrap_far=around)
    lab.hours(1)
    with pytest.raises(DeliveryUnsure):
        send(lab, take(lab))
    more_columns(lab)
    lab.world.replay(0)
    assert lab.deliver() == ["failed"]
    assert lab.locations() == []
    lab.world.clock.advance(REQUEST_TTL_MS // 2)
    assert lab.deliver() == ["failed"]
    late.pop()()  # executed as late as it can be
    assert lab.ids() == ["0-0", "0-1"]
    lab.world.clock.advance(REQUEST_TTL_MS)
    assert lab.deliver() == ["delivered"]
    assert lab.copied() == lab.own()
    assert all("x" in row for row in lab.rows())


def test_a_try_that_is_overtaken_between_its_copy_and_its_request(tmp_path: Path) -> None:
    around = Around()
    lab = ClusterLab(tmp_path, wrap_far=around)
    lab.hours(1)
    old = take(lab)

    def meanwhile(do: Callable[[], Any]) -> Any:
        do()
        more_columns(lab)
        lab.world.replay(0)
        assert lab.deliver() == ["delivered"]

    around.changes["rename_no_replace"] = meanwhile
    with pytest.raises(LostComparison):
        send(lab, old)
    assert lab.copied() == lab.own()
    assert lab.states() == ["STANDING 2.2"]
    assert lab.verify(0) == ["unchanged"]


def test_files_that_a_later_try_took_are_missed_before_anything_is_shown(tmp_path: Path) -> None:
    around = Around()
    lab = ClusterLab(tmp_path, wrap_far=around)
    lab.hours(1)
    old = take(lab)

    def meanwhile(do: Callable[[], Any]) -> Any:
        """Right before its rename another try of the same generation takes the files, and fails."""
        row, generation = take(lab)
        system = lab.system()
        rows = _rows(lab, row, generation)
        attempt = row.attempt(2)
        staging = system._layout.copied(attempt.staging)
        for file in rows.files[:1]:
            system._one(Copying(lab.storage, rows, Pace(None)), file, staging, system._earlier(attempt))
        return do()

    around.changes["rename_no_replace"] = meanwhile
    with pytest.raises(DeliveryRefused, match="is not whole"):
        send(lab, old, holds=True)
    assert lab.locations() == []
    assert lab.deliver() == ["delivered"]
    assert lab.copied() == lab.own()


def _rows(lab: ClusterLab, row: Delivered, generation: Generation) -> Any:
    return DeliveredRows(
        lab.opened().table.columns, row.window_ms, generation.files, generation.columns, lab.storage.open_existing
    )


def test_a_rename_without_an_answer_is_looked_at(tmp_path: Path) -> None:
    def lost(do: Callable[[], Any]) -> Any:
        do()
        raise OutcomeUnknown("no answer")

    lab = ClusterLab(tmp_path, wrap_far=Around(rename_no_replace=lost))
    lab.hours(1)
    assert lab.deliver() == ["delivered"]
    assert lab.copied() == lab.own()


def test_a_ledger_that_was_restored_goes_on_above_what_it_finds(lab: ClusterLab) -> None:
    lab.hours(1)
    lab.world.close()
    before = lab.world.database.read_bytes()
    lab.deliver()
    lab.verify(0, why="twice")
    lab.world.database.write_bytes(before)
    assert lab.deliver() == ["delivered"]
    assert lab.states() == ["STANDING 1.3"]
    assert lab.verify(0) == ["unchanged"]
