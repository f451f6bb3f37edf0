"""A landed file that is lost before its hour is published: the hour comes from Kafka, or from what is left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.audit.audits import in_process
from tests.clean.cleanings import days_later, other_columns
from tests.hooks import Died, Hook, Once, die
from tests.ledger_loss import lived
from tests.world import HOUR, TOPIC, World, record, window
from tidegate.core.base.errors import Alarm, SourceUnavailable
from tidegate.workflow.audit.audit import Depth, audit
from tidegate.workflow.look.explanation import explain
from tidegate.workflow.publish import archive


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


ROWS = [(0, 0), (0, 1), (0, 2), (1, 0)]
"""Coordinates of hour 0."""


def landed(world: World) -> None:
    """Hour 0 has rows of batches 1 and 2, and may be closed."""
    world.produce(record("a", 0.1), record("b", 0.2, "b"))
    world.produce(record("c", 0.1), partition=1)
    world.ingest("r1")
    world.produce(record("d", 0.3, "b"), record("x", 5.0))
    world.produce(record("y", 5.0), partition=1)
    world.ingest("r2")


def file_of(world: World, batch: int, site: str = "b") -> Path:
    return next((world.folder / f"lake/readings/_tidegate/landed/{batch}/data/date=2013-01-05/hour=00").rglob(
        f"site={site}/*"
    ))  # fmt: skip


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def problems(world: World) -> list[str]:
    ctx = world.context()
    report = audit(ctx, ctx.ledger.reads, in_process, Depth(True, True))
    world.close()
    return [p.what for p in report.problems]


def everything_is_published(world: World) -> None:
    world.produce(record("z", 9.0))
    world.produce(record("z", 9.0), partition=1)
    world.ingest("r3")
    world.archive(5)


def whole(world: World, generation: int = 1) -> None:
    assert world.by_window()["00"] == ROWS
    assert problems(world) == []
    assert world.context().ledger.windows.get("readings", window(0)).current == generation


@pytest.mark.parametrize("spoil", [Path.unlink, cut], ids=["lost", "cut off"])
def test_the_hour_is_rebuilt_from_kafka_and_everything_goes_on(world: World, spoil: Callable[[Path], None]) -> None:
    landed(world)
    spoil(file_of(world, 1))
    published = world.archive(0)
    assert (published.generation, published.new, published.rows) == (1, True, 4)
    assert "rebuilding 2013-01-05T00:00Z from Kafka" in " ".join(world.said)
    generation = world.context().ledger.windows.generation("readings", window(0), 1)
    assert (generation.kind, generation.batches) == ("heal", (1, 2))
    whole(world)
    ctx = world.context()
    assert "(heal)" in str(explain(ctx, ctx.ledger.reads, window(0)))  # type: ignore[attr-defined]
    assert world.archive(0).note == "verified"
    everything_is_published(world)
    cleaned = days_later(world, 30)
    assert sorted(p.name for p in (world.folder / "lake/readings/_tidegate/landed").iterdir()) == ["3"]
    assert not [line for line in cleaned.lines() if "not ours" in line]
    assert list((world.folder / "lake/readings/_tidegate/publish").iterdir()) == []
    min((world.folder / "lake/readings/date=2013-01-05/hour=00/site=a").glob("*.parquet")).unlink()
    world.archive(0)
    whole(world, 2)


def test_rows_are_decoded_by_todays_columns_and_leave_nothing_behind(world: World) -> None:
    """Its content is no more that of the landed files, which the cleaner takes all the same."""
    landed(world)
    other_columns(world, "other")
    file_of(world, 1).unlink()
    world.archive(0)
    ctx = world.context()
    generation = ctx.ledger.windows.generation("readings", window(0), 1)
    assert generation.spec_version == ctx.spec_version  # type: ignore[union-attr]
    whole(world)
    everything_is_published(world)
    days_later(world, 30)
    assert sorted(p.name for p in (world.folder / "lake/readings/_tidegate/landed").iterdir()) == ["3"]


def test_what_kafka_lost_comes_from_landed_files_that_are_whole(world: World) -> None:
    landed(world)
    file_of(world, 2).unlink()
    world.kafka.trim(TOPIC, 0, 2)
    world.kafka.trim(TOPIC, 1, 1)
    assert world.archive(0).rows == 4
    assert "3 rows came from the files in force" in " ".join(world.said)
    whole(world)


@pytest.mark.parametrize(
    "settings", [{"format": "text", "compression": "gzip"}, {}], ids=["text", "without Kafka columns"]
)
def test_landed_files_of_other_forms(world: World, settings: dict[str, str]) -> None:
    """Rows that do not carry their offsets cannot be told apart: all come from one place."""
    world.change_spec(kafka_columns=bool(settings), sink=replace(world.pipeline.sink, **settings))
    landed(world)
    path = file_of(world, 2)
    kept = path.read_bytes()
    path.unlink()
    world.kafka.trim(TOPIC, 0, 1)
    if settings:
        assert world.archive(0).rows == 4
        return
    with pytest.raises(Alarm, match="is not what its manifest says"):
        world.archive(0)
    path.write_bytes(kept)
    assert world.archive(0).rows == 4


def test_what_neither_has_is_an_alarm_until_the_file_is_restored(world: World) -> None:
    landed(world)
    path = file_of(world, 1)
    kept = path.read_bytes()
    path.unlink()
    world.kafka.trim(TOPIC, 0, 2)
    with pytest.raises(Alarm) as caught:
        world.archive(0)
    text = str(caught.value)
    assert not caught.value.retry
    assert str(path) in text, "which file"
    assert "it is not rebuilt either: 2013-01-05T00:00Z: batch 1: partition 0 offsets [0, 2) have passed" in text
    assert "restore them from a backup of the filesystem, then `tidegate repair`" in text
    world.close()
    blocks = world.context().ledger.pipelines.blocks("readings")
    assert [(b.subject, path.name in b.reason) for b in blocks] == [("window 20130105T000000Z", True)]
    generation = world.context().ledger.windows.generation("readings", window(0), 1)
    assert (generation.kind, generation.state) == ("archive", "BUILDING")
    path.write_bytes(kept)
    assert world.archive(0).rows == 4
    assert world.context().ledger.windows.generation("readings", window(0), 1).kind == "archive"
    assert world.context().ledger.pipelines.blocks("readings") == []
    whole(world)


def test_a_silent_kafka_is_asked_again_without_an_alarm(world: World) -> None:
    landed(world)
    file_of(world, 1).unlink()
    ctx = world.context()

    def silent(*_: object) -> None:
        raise SourceUnavailable("no broker answers")

    ctx.source = Hook(ctx.source, before={"look": silent})
    with pytest.raises(SourceUnavailable):
        archive.publish(ctx, window(0))
    assert ctx.ledger.pipelines.blocks("readings") == []
    world.close()
    world.archive(0)
    whole(world)


def test_a_rebuild_that_gives_other_rows_publishes_nothing(world: World) -> None:
    landed(world)
    file_of(world, 1).unlink()
    world.kafka.compact(TOPIC, 0, 1)
    world.kafka.put_back(TOPIC, 0, 1, b'{"id": "b", "site": "b", "at": 1357369200000, "value": 1}')  # another hour
    with pytest.raises(Alarm, match=r"batch 1, partition 0 owes 2 rows, the topic gives 1"):
        world.archive(0)
    world.close()
    assert world.by_window() == {}


def test_a_task_that_overtakes_the_rebuild_finishes_it(world: World) -> None:
    """A zombie that comes back from its Spark job publishes nothing (R3)."""
    landed(world)
    file_of(world, 1).unlink()
    ctx = world.context()
    ctx.launcher = Hook(ctx.launcher, after={"run": Once(lambda *_: world.archive(0))})
    published = archive.publish(ctx, window(0))
    assert (published.generation, published.rows) == (1, 4)
    world.close()
    whole(world)


SITES = (
    ("windows", "take", 1), ("windows", "take", 2), ("windows", "built", 1), ("windows", "begin_swap", 1),
    ("windows", "publish", 1), ("launcher", "run", 1), ("storage", "rename_no_replace", 2),
    ("storage", "rename_no_replace", 5), ("catalogue", "add_partitions", 1),
)  # fmt: skip


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_death_at_any_step_is_healed_by_the_next_try(tmp_path: Path, after: bool) -> None:
    with lived(tmp_path, lambda w: (landed(w), file_of(w, 1).unlink())[0]) as past:
        for port, method, n in SITES:
            world = past.again()
            step = {method: Once(die, at=n)}
            world.wrap = lambda name, real, p=port, s=step: (
                Hook(real, **{"after" if after else "before": s}) if name == p else real
            )
            with pytest.raises(Died):
                world.archive(0)
            world.close()
            world.wrap = lambda _, real: real
            world.clock.advance(HOUR)
            world.archive(0)
            assert world.by_window()["00"] == ROWS, (port, method, n)
            world.close()


def test_a_ledger_that_lost_any_of_its_commits_takes_the_rebuilt_hour_back(tmp_path: Path) -> None:
    def history(world: World) -> None:
        landed(world)
        file_of(world, 1).unlink()
        world.archive(0)

    def follow(world: World) -> None:
        world.archive(0)
        assert world.by_window()["00"] == ROWS
        assert problems(world) == []

    with lived(tmp_path, history, {"windows": {"finish_close", "take", "built", "begin_swap", "publish"}}) as past:
        assert [n.split(".")[1] for n in past.names].count("take") == 2
        past.holds_from(range(len(past.names)), follow)
