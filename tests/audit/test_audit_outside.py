"""What the audit says of the catalogue and the broker."""

from __future__ import annotations

from tests.audit.audits import built, look, world
from tests.world import TOPIC, World, record
from tidegate.core.base.errors import CatalogueError

__all__ = ["built", "world"]  # fixtures


# ---------------------------------------------------------------- catalogue and broker


def test_a_dropped_and_a_moved_partition_are_found(world: World) -> None:
    first, second, *_ = world.catalogue.partitions("lake.readings")
    world.catalogue.drop_partitions("lake.readings", [first])
    world.catalogue.set_location("lake.readings", second, "file:///elsewhere")
    words = [p.what for p in look(world).problems]
    assert any("is not in the catalogue" in w for w in words)
    assert any("is at file:///elsewhere, should be at" in w for w in words)
    assert look(world, catalogue=False).balanced


def test_a_partition_of_nobody_is_found(world: World) -> None:
    values = (("date", "2013-01-05"), ("hour", "07"), ("site", "a"))
    world.catalogue.add_partitions("lake.readings", {values: "file:///elsewhere"})
    assert [p.subject for p in look(world).problems] == ["catalogue"]


def test_a_lost_late_partition_is_found(world: World) -> None:
    (values,) = world.catalogue.partitions("lake.readings__late")
    world.catalogue.drop_partitions("lake.readings__late", [values])
    assert any("lake.readings__late partition _batch=2/" in p.what for p in look(world).problems)


class Silent:
    """An endpoint that does not answer."""

    def __getattr__(self, name: str):
        def refuse(*_: object):
            raise CatalogueError("Hive at x:1 cannot be reached")

        return refuse


class WithoutTable(Silent):
    def execute(self, statement: str) -> list[tuple]:
        return []


def test_a_silent_catalogue_is_a_note_and_a_missing_table_a_problem(world: World) -> None:
    world.catalogue = Silent()
    report = look(world)
    assert report.balanced
    assert report.partitions_in_catalogue is None
    assert report.notes == ("the catalogue was not checked: Hive at x:1 cannot be reached",)
    world.catalogue = WithoutTable()
    report = look(world)
    assert {p.subject for p in report.problems} == {"catalogue"}
    assert report.notes[0] == "not compared until that is fixed: 3 partitions of lake.readings"


def test_a_silent_broker_is_a_note(world: World) -> None:
    world.kafka.unavailable = True
    report = look(world)
    assert report.balanced
    assert report.produced is None
    assert "Connection refused" in report.notes[0]


def test_what_is_not_ingested_yet_is_told(world: World) -> None:
    world.produce(record("new", 3.6), record("newer", 3.7))
    report = look(world)
    assert report.balanced
    assert report.produced is not None
    assert (report.produced.offsets, report.produced.not_planned) == (10, 2)


def test_a_topic_that_lost_its_end_is_found(world: World) -> None:
    world.kafka._log(TOPIC, 1).end = 1
    assert any("the topic ends at 1" in p.what for p in look(world).problems)
