"""A mirror by days in real Hives: a partition shows the rows of its day and nothing that lies beside them."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from tests.mirror.days import YAML, DailyWorld, by_days, event
from tidegate.targets.daily.kind import Daily
from tidegate.targets.hive.catalogue import PyHiveCatalogue


@pytest.fixture(params=["hive_spark", "hive4"])
def catalogue(request: pytest.FixtureRequest) -> PyHiveCatalogue:
    info = request.getfixturevalue(request.param)
    return PyHiveCatalogue(info.hive_host, info.hive_port, request_timeout_s=300)


def test_each_day_shows_its_rows(catalogue: PyHiveCatalogue, tmp_path: Path) -> None:
    """Before and after a replay, which puts a day beside the table's directory; and a day without rows."""
    table = f"days_{uuid.uuid4().hex[:8]}.orders"
    yaml = YAML.replace("lake.readings", table)
    world = DailyWorld(tmp_path, yaml)
    world.tables = lambda _: Daily(catalogue)
    world.land(event(1, "a", 10, 1.1), event(2, "b", 11, 1.2), event(3, "c", 12, 1.3))
    world.land(event(1, "a2", 20, 2.1), event(3, None, 21, 2.2), event(9, "z", 99, 5.5))
    for n in range(3):
        world.publish(n)

    def shown() -> list[tuple[str, int, str]]:
        return sorted(catalogue.execute(f"SELECT `date`, id, word FROM {table}"))

    first, third = [("2013-01-06", 1, "a"), ("2013-01-06", 2, "b"), ("2013-01-06", 3, "c")], "2013-01-07"
    assert shown() == [*first, (third, 1, "a2"), (third, 2, "b")]
    world.pipeline = by_days(tmp_path, yaml.replace("name: word,", "name: word, from: $._source.file,"))
    assert world.replay_day(2).new
    assert shown() == [*first, (third, 1, "binlog.000001"), (third, 2, "b")]
