"""Late rows through PyHive, Spark 3.5 and Hive 4: in the late table, or in the hour that they were sent to."""

from __future__ import annotations

import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from tests.world import World, make_pipeline, record
from tidegate.core.spec.pipeline import Column
from tidegate.core.window.lateness import REROUTE
from tidegate.targets.hive.catalogue import PyHiveCatalogue


@pytest.fixture(params=["hive_spark", "hive4"])
def catalogue(request: pytest.FixtureRequest) -> PyHiveCatalogue:
    info = request.getfixturevalue(request.param)
    return PyHiveCatalogue(info.hive_host, info.hive_port, request_timeout_s=300)


def test_a_select_gives_the_late_rows(catalogue: PyHiveCatalogue, tmp_path: Path) -> None:
    spec = make_pipeline(f"file://{tmp_path}/lake/readings")
    table = f"late_{uuid.uuid4().hex[:8]}.readings"
    columns = (
        *spec.columns,
        Column(name="at", type="bigint", path="$.at"),
        Column(name="tags", type="array<string>", path="$.tags"),
    )
    world = World(tmp_path, replace(spec, columns=columns, sink=replace(spec.sink, table=table)))
    world.catalogue = catalogue  # type: ignore[assignment]
    world.produce(record("a0", 0.1), record("b0", 1.2))
    world.produce(record("d0", 3.5), partition=1)
    world.ingest("r1")
    world.archive(0)
    tagged = record("late b", 0.75, "b", 7) | {"tags": ["x", "y"]}
    world.produce(record("late a", 0.5, "a", 5), tagged, record("before", -2.0, "ü"))
    world.ingest("r2")
    names = "`_batch`, `date`, `hour`, `id`, `site`, `value`, `tags`, `_offset`"
    found = catalogue.execute(f"SELECT {names} FROM {table}__late")
    assert sorted((*row[:6], row[7]) for row in found) == [
        ("2", "2013-01-04", "22", "before", "ü", 1, 4),
        ("2", "2013-01-05", "00", "late a", "a", 5, 2),
        ("2", "2013-01-05", "00", "late b", "b", 7, 3),
    ]
    (tags,) = (row[6] for row in found if row[3] == "late b")
    assert "x" in tags
    hour = catalogue.execute(f"SELECT `id` FROM {table}__late WHERE `date` = '2013-01-05' AND `hour` = '00'")
    assert sorted(hour) == [("late a",), ("late b",)]
    one, other = (f"SELECT `_offset` FROM {name} WHERE `hour` = '00'" for name in (table, f"{table}__late"))
    assert catalogue.execute(f"SELECT count(*) FROM ({one} UNION ALL {other}) AS both_tables") == [(3,)]
    world.change_spec(late_policy=REROUTE)
    world.produce(record("rerouted", 0.6, "c", 6))
    world.ingest("r3")
    world.archive(1)
    rows = catalogue.execute(f"SELECT `hour`, `site`, `id`, `at` FROM {table} WHERE `hour` = '01'")
    at = [record(name, hour)["at"] for name, hour in (("b0", 1.2), ("rerouted", 0.6))]
    assert sorted(rows) == [("01", "a", "b0", at[0]), ("01", "c", "rerouted", at[1])]
    assert catalogue.execute(f"SELECT count(*) FROM {table}__late") == [(3,)]
    world.close()
