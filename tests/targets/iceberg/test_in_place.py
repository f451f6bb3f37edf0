"""Lives on a store without renames: the record is the landing, and files stay where they were written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.clean.cleanings import days_later
from tests.dirty.redrives import NEVER, mend, odd, redriven
from tests.late.reopenings import reopened
from tests.targets.iceberg.in_place import Lake, make
from tests.world import record


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    return make(tmp_path, monkeypatch)


def test_a_life_without_a_rename(lake: Lake) -> None:
    """Merge, late rows, reopening, dirty rows, redrive, replay with other columns; cleaned for weeks."""
    world = lake.world
    world.produce(record("a0", 0.1), record("a1", 0.5, "b"), record("a2", 0.5, "beyond"), record("c0", 1.5))
    world.ingest("r1")
    world.produce(record("a3", 0.2), record("a4", 0.2), odd("a5", 0.5), NEVER)
    world.produce(record("d0", 3.5), partition=1)
    world.ingest("r2")
    world.archive(0)
    assert lake.rows().total() == 5
    assert lake.rows("dirty").total() == 2
    world.produce(record("late 1", 0.2), record("late 2", 0.3, "new"), record("fine", 2.6))
    world.ingest("r3")
    assert lake.rows("late").total() == 2
    reopened(world)
    assert (lake.rows().total(), lake.rows("late").total()) == (7, 0)
    mend(world)
    assert redriven(world) is not None
    lake.balanced()
    world.archive(1)
    value = replace(world.pipeline.columns[2], path="$.other")
    world.change_spec(columns=(*world.pipeline.columns[:2], value))
    world.replay(0)
    lake.balanced()

    shown = lake.rows()
    assert set(shown.values()) == {1}
    for days in (40, 80, 120):
        cleaned = days_later(world, days)
        assert cleaned.kept == ()
        assert lake.rows() == shown
        lake.balanced()
    below = {f.path.split("/")[0] for f in lake.objects.list_files(world.pipeline.sink.workdir) or []}
    assert below == {"tmp", "generations", "hwm", "reopened", "redriven", "late", "dirty"}
