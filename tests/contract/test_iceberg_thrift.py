"""Tables of ours in Iceberg, read through PyHive: a Thrift server of Spark's with Iceberg's own classes."""

from __future__ import annotations

import os
import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from dev.stack.info import StackInfo
from tests.contract.storage_places import access_to
from tests.targets.iceberg.by_pyhive import Reader, reading
from tests.world import World, make_pipeline, record
from tidegate.core.spec.pipeline import Column
from tidegate.storage import ObjectStorage

PAGE = (Path(__file__).parents[2] / "docs/iceberg.md").read_text()
TABLE, HOUR_5 = "iceberg.lake.readings", "2026-01-01 05:00"


def told(reader: Reader, hour: int) -> list[tuple[str, str]]:
    """Generation and rows, by the page's statement."""
    asked = PAGE.split("```sql spark\n")[1].split("```")[0].strip().rstrip(";")
    return reader.sql(asked.replace(TABLE, "{t}").replace(HOUR_5, f"2013-01-05 0{hour}:00"))


def printed(reader: Reader, at: StackInfo, hour: int, capsys: pytest.CaptureFixture[str]) -> str:
    """By the page's program."""
    program = PAGE.split("```python pyhive\n")[1].split("```")[0]
    for said, meant in (("10000", str(at.hive_port)), (TABLE, reader.table), (HOUR_5, f"2013-01-05 0{hour}:00")):
        assert said in program
        program = program.replace(said, meant)
    capsys.readouterr()
    exec(program, {})
    return capsys.readouterr().out.strip()


def test_pyhive_reads_each_generation_of_an_hour(
    hive_spark: StackInfo, postgres: StackInfo, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = World(tmp_path)
    with reading(world, postgres, hive_spark) as reader:
        world.produce(record("a", 0.1), record("b", 0.2, "città"), record("next", 2.1), record("later", 4.5))
        world.produce(record("later", 4.5), partition=1)
        world.ingest("r1")
        world.archive(0)
        assert reader.by_hour() == [("00", "a", 1), ("00", "città", 1)]
        assert (told(reader, 0), told(reader, 1)) == ([("1", "2")], [])

        world.archive(1)
        world.archive(2)
        assert reader.by_hour() == [("00", "a", 1), ("00", "città", 1), ("02", "a", 1)]
        assert told(reader, 1) == [("1", "0")], "an empty hour is told, too"
        assert [printed(reader, hive_spark, hour, capsys) for hour in (0, 1)] == ["[(2,)]", "[(0,)]"]

        id_, site, value = world.pipeline.columns
        more = Column(name="tiny", type="tinyint", path="$.value")
        world.change_spec(columns=(id_, site, replace(value, path="$.other"), more))
        assert world.replay(0).generation == 2
        assert told(reader, 0) == [("2", "2")]
        shown = reader.sql("SELECT id, value, tiny FROM {t} ORDER BY id")
        assert shown == [("a", None, 1), ("b", None, 1), ("next", 1, None)]
        assert reader.sql("SELECT _topic, _kafka_partition, _offset FROM {t} WHERE id = 'b'") == [("readings", 0, 1)]


@pytest.mark.skipif(os.environ.get("TIDEGATE_NIGHTLY") != "all", reason="make test-nightly")
def test_pyhive_reads_tables_in_an_object_store(
    hive_on_objects: StackInfo, postgres: StackInfo, objects: StackInfo, tmp_path: Path
) -> None:
    """Spark by Iceberg's own client of S3, from one snapshot to the next."""
    location, storage = f"{objects.objects_uri}/{uuid.uuid4().hex}/readings", ObjectStorage(access_to(objects))
    world = World(tmp_path, make_pipeline(location))
    world.store = storage
    with reading(world, postgres, hive_on_objects, storage) as reader:
        world.produce(record("a", 0.1), record("b", 0.2, "città"), record("next", 2.1), record("later", 4.5))
        world.produce(record("later", 4.5), partition=1)
        world.ingest("r1")
        world.archive(0)
        assert reader.by_hour() == [("00", "a", 1), ("00", "città", 1)]
        world.archive(1)
        world.archive(2)
        id_, site, value = world.pipeline.columns
        world.change_spec(columns=(id_, site, replace(value, path="$.other")))
        assert world.replay(0).generation == 2
        assert (told(reader, 0), told(reader, 1)) == ([("2", "2")], [("1", "0")])
        assert reader.sql("SELECT id, value FROM {t} ORDER BY id") == [("a", None), ("b", None), ("next", 1)]
    storage.delete(location)
