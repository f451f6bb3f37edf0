"""The life of a table in memory: read when it is due, window by window, each whole."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.offline.worlds import DAY, START, TableWorld, window
from tidegate.core.base.errors import NotReady

NOON = datetime.fromtimestamp(START / 1000, UTC) + timedelta(hours=12)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[TableWorld]:
    made = TableWorld(tmp_path)
    made.fake.rows = {key: (f"w{key}", NOON) for key in range(1, 11)}
    yield made
    made.close()


def test_a_day_is_one_reading(world: TableWorld) -> None:
    assert world.ingest("too early") is None
    assert "the window 2026-11-01T00:00Z is read at 2026-11-02T01:00Z" in world.said
    with pytest.raises(NotReady):
        world.publish(0)
    assert world.read(0) == 1
    assert world.publish(0).rows == 10
    assert world.rows(0, "id", "word") == sorted(((key, f"w{key}") for key in range(1, 11)), key=repr)
    del world.fake.rows[3]
    world.fake.rows[11] = ("new", None)
    assert world.ingest("nothing is due") is None
    assert world.read(1) == 2
    world.publish(1)
    assert sorted(id for (id,) in world.rows(1, "id")) == [1, 2, 4, 5, 6, 7, 8, 9, 10, 11]
    assert len(world.rows(0)) == 10
