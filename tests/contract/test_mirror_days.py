"""A mirror by days in real Hives: a partition shows the rows of its day and nothing that lies beside them."""

from __future__ import annotations

import uuid
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from tests.copies.days import COPYING, LAST, CopiedDays
from tests.fakes.clock import FakeClock
from tests.mirror.avro_events import AvroEvents, decimal
from tests.mirror.days import DAY, YAML, DailyWorld, by_days, event
from tests.world import T0
from tidegate.core.base.errors import BatchRefused
from tidegate.core.base.plain import loads
from tidegate.core.daily.day import Day
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


def test_days_begin_with_a_copy_and_purge_their_tombstones(catalogue: PyHiveCatalogue, tmp_path: Path) -> None:
    table = f"days_{uuid.uuid4().hex[:8]}.orders"
    yaml = COPYING.replace("lake.readings", table).replace("buckets: 3", "buckets: 3, tombstones: 1d")
    world = CopiedDays(tmp_path, yaml)
    world.tables = lambda _: Daily(catalogue)
    world.clock, source = FakeClock(T0), world.source_table
    source.rows = {key: f"old {key}" for key in range(1, 6)}
    source.set(2, "first event")
    world.deliver()
    world.read()
    source.at_day = 0.5
    source.set(3, None)
    source.set(4, "on the first day")
    world.deliver()
    world.clock.advance(DAY + DAY // 10)
    world.until(1.1)
    for n in range(5):
        world.publish(n)
        world.clock.advance(DAY)
        world.until(n + 2.1)

    def shown(n: int) -> dict[int, str]:
        where = f"`date` = '2013-01-{5 + n:02d}' AND id <> {LAST}"
        return dict(catalogue.execute(f"SELECT id, word FROM {table} WHERE {where}"))

    wanted = {1: "old 1", 2: "first event", 4: "on the first day", 5: "old 5"}
    assert [shown(n) for n in range(5)] == [wanted] * 5
    days = {path: loads(Day, path.read_text()) for path in sorted(tmp_path.glob("lake/readings/date=*/_day.json"))}
    assert [day.tombstones for day in days.values()] == [1, 1, 1, 1, 0]


def test_a_decimal_grows(catalogue: PyHiveCatalogue, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """HiveServer2 reads the days of before by the wider type. Spark's server changes no type: the batch stops."""
    table, events = f"days_{uuid.uuid4().hex[:8]}.orders", AvroEvents()
    columns = '  - {{name: total, type: "decimal(6,2)"}}\nwindows:'
    world = DailyWorld(tmp_path, YAML.replace("lake.readings", table).replace("windows:", columns))
    world.tables = lambda _: Daily(catalogue)
    narrow = {"id": "long", "word": "string", "total": decimal(6)}
    wide = {**narrow, "total": decimal(20)}
    first = events.told(narrow, 10, T0, id=1, word="a", total=Decimal("-12.50"))
    second = events.told(wide, 20, T0 + DAY, id=2, word="b", total=Decimal("123456789012345678.25"))
    last = events.told(wide, 30, T0 + 4 * DAY, id=3, word="c", total=Decimal(1))
    again = events.told(narrow, 11, T0 + DAY + DAY // 8, id=1, word="a", total=Decimal("-12.50"))
    world.pipeline = replace(world.pipeline, format=events.format())
    world.land(first, again)
    world.publish(0)
    if request.node.callspec.params["catalogue"] == "hive_spark":
        with pytest.raises(BatchRefused, match="the table cannot take its column") as refused:
            world.land(second)
        assert "HiveServer2" in refused.value.advice
        assert "unknown_fields to ignore" in refused.value.advice
        return
    world.land(second, last)
    world.land(last, partition=1)
    world.publish(1)
    shown = sorted(catalogue.execute(f"SELECT `date`, id, total FROM {table}"))
    assert [(one[0], one[1], str(one[2]).rstrip("0")) for one in shown] == [
        ("2013-01-05", 1, "-12.5"), ("2013-01-06", 1, "-12.5"), ("2013-01-06", 2, "123456789012345678.25"),
    ]  # fmt: skip
