"""Both protocols from end to end in one process: what a user sees after each step, and after each step done twice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.world import HOUR, TOPIC, World, record, window
from tidegate.core.base.errors import BatchRefused, DataLoss, NotReady, ReplayRefused, StorageAhead, TopicRecreated
from tidegate.core.spec.pipeline import Column, DirtyLimits
from tidegate.workflow.batch import ingest
from tidegate.workflow.publish import archive


@pytest.fixture
def world(tmp_path: Path):
    made = World(tmp_path)
    yield made
    made.close()


def two_hours(world: World) -> None:
    """Rows for hours 0 to 2; the watermark (delay one hour) then stands at 02:30."""
    world.produce(record("a0", 0.1), record("a1", 0.5, "b"), record("b0", 1.2), b"not json")
    world.produce(record("c0", 2.0), record("d0", 3.5), partition=1)


def test_records_become_published_hours(world: World) -> None:
    two_hours(world)
    assert world.ingest("r1") == 1
    first = world.archive(0)
    assert (first.generation, first.new, first.rows) == (1, True, 2)
    world.archive(1)
    assert world.by_window() == {"00": [(0, 0), (0, 1)], "01": [(0, 2)]}
    assert world.table("__dirty") == [(0, 3)]
    sites = {dict(v)["site"] for v in world.catalogue.partitions("lake.readings")}
    assert sites == {"a", "b"}
    assert first.location.endswith("/date=2013-01-05/hour=00")
    assert world.kafka.groups["tidegate-readings", TOPIC] == {0: 4, 1: 2}


def test_nothing_new_plans_nothing(world: World) -> None:
    two_hours(world)
    world.ingest("r1")
    assert world.ingest("r2") is None
    assert "no new records" in world.said


def test_a_cleared_run_verifies_its_own_batch_and_never_plans_another(world: World) -> None:
    two_hours(world)
    world.ingest("r1")
    world.produce(record("e", 3.6))
    assert world.ingest("r1") == 1
    assert world.ingest("r2") == 2


def test_an_hour_that_is_not_ready_says_who_blocks_it(world: World) -> None:
    two_hours(world)
    with pytest.raises(NotReady, match="no batch has landed yet"):
        world.archive(0)
    world.ingest("r1")
    with pytest.raises(NotReady, match=r"partition 0: last event 2013-01-05T03:30Z|partition 0"):
        world.archive(2)
    assert world.context().ledger.windows.get("readings", window(2)).state == "OPEN"


def test_rows_for_a_closed_hour_go_to_the_late_table(world: World) -> None:
    two_hours(world)
    world.ingest("r1")
    world.archive(0)
    world.produce(record("late", 0.7), record("fine", 1.9))
    world.ingest("r2")
    world.archive(1)
    assert world.table("__late") == [(0, 4)]
    assert world.by_window() == {"00": [(0, 0), (0, 1)], "01": [(0, 2), (0, 5)]}


def test_an_hour_without_rows_is_published_too(world: World) -> None:
    world.produce(record("x", 5), partition=0)
    world.ingest("r1")
    published = world.archive(2)
    assert (published.new, published.rows) == (True, 0)
    assert (world.folder / "lake/readings/date=2013-01-05/hour=02/_SUCCESS").exists()
    assert world.catalogue.partitions("lake.readings") == {}


def test_an_hour_without_rows_has_a_partition_when_the_table_has_no_dynamic_columns(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.change_spec(partition_by=("date", "hour"))
    world.produce(record("x", 5))
    world.ingest("r1")
    world.archive(2)
    assert len(world.catalogue.partitions("lake.readings")) == 1


def test_clear_on_an_intact_hour_changes_nothing(world: World) -> None:
    two_hours(world)
    world.ingest("r1")
    before = world.archive(0)
    files = world.files()
    again = world.archive(0)
    assert world.files() == files
    assert (again.generation, again.new, again.digest) == (1, False, before.digest)


def test_clear_mends_a_lost_partition_and_rebuilds_a_lost_file(world: World) -> None:
    two_hours(world)
    world.ingest("r1")
    world.archive(0)
    before = world.table()
    lost = next(v for v in world.catalogue.partitions("lake.readings") if dict(v)["site"] == "b")
    world.catalogue.drop_partitions("lake.readings", [lost])
    assert world.archive(0).generation == 1
    assert world.table() == before
    next((world.folder / "lake/readings/date=2013-01-05/hour=00/site=a").glob("*.parquet")).unlink()
    healed = world.archive(0)
    assert (healed.generation, healed.new) == (2, True)
    assert world.table() == before
    assert "/_tidegate/generations/" in healed.location
    assert world.archive(0).new is False


def test_replay_of_unchanged_content_publishes_nothing(world: World) -> None:
    two_hours(world)
    world.ingest("r1")
    world.archive(0)
    files = {k: v for k, v in world.files().items() if "_tidegate" not in k}
    assert (world.replay(0).new, world.replay(0).generation) == (False, 1)
    assert {k: v for k, v in world.files().items() if "_tidegate" not in k} == files
    assert any("unchanged" in line for line in world.said)


def test_replay_with_todays_columns_publishes_the_next_generation(world: World) -> None:
    two_hours(world)
    world.ingest("r1")
    world.archive(0)
    before = world.table()
    id_, site, _ = world.pipeline.columns
    world.change_spec(columns=(id_, site, Column(name="value", type="int", path="$.other")))
    replayed = world.replay(0)
    assert (replayed.generation, replayed.new, replayed.rows) == (2, True, 2)
    assert world.table() == before


def test_replay_is_refused_when_kafka_has_forgotten_what_must_be_decoded(world: World) -> None:
    two_hours(world)
    world.ingest("r1")
    world.archive(0)
    id_, site, _ = world.pipeline.columns
    world.change_spec(columns=(id_, site, Column(name="value", type="int", path="$.other")))
    world.kafka.trim(TOPIC, 0, 1)
    with pytest.raises(ReplayRefused, match="retention"):
        world.replay(0)
    assert world.table() == [(0, 0), (0, 1)]


def test_too_many_dirty_records_refuse_the_batch_and_keep_the_offsets(world: World) -> None:
    world.change_spec(dirty=DirtyLimits(max_count=1, max_ratio=None))
    world.produce(b"x", b"y", record("a", 0.1))
    with pytest.raises(BatchRefused, match="2 of 3 records are dirty"):
        world.ingest("r1")
    with pytest.raises(BatchRefused):
        world.ingest("r1")
    world.change_spec(dirty=DirtyLimits(max_count=5, max_ratio=None))
    assert world.ingest("r1") == 1
    assert world.table("__dirty") == [(0, 0), (0, 1)]


def test_gaps_are_refused_unless_the_spec_allows_them(world: World) -> None:
    world.produce(record("a", 0.1))
    world.kafka.skip(TOPIC, 0, 2)
    world.produce(record("b", 0.2))
    with pytest.raises(BatchRefused, match=r"offsets \[1, 3\).*gaps: allow"):
        world.ingest("r1")
    world.change_spec(source=replace(world.pipeline.source, gaps="allow"))
    world.ingest("r1")
    assert [len(i) for i in world.context().ledger.batches.gaps("readings", 1)[0]] == [2]


def test_an_open_transaction_holds_the_window_until_an_empty_batch_has_seen_its_end(world: World) -> None:
    world.change_spec(source=replace(world.pipeline.source, gaps="allow"))
    world.produce(record("a", 0.1), record("b", 4.0))
    world.kafka.begin(TOPIC, 1)
    world.produce(record("undecided", 0.2), partition=1)
    world.ingest("r1")
    with pytest.raises(NotReady, match="partition 1: an open transaction holds it since"):
        world.archive(0)
    assert world.ingest("r2") is None, "nothing to read, and the watermark stays where it is"
    world.kafka.abort(TOPIC, 1)
    assert world.ingest("r3") == 2
    assert world.archive(0).rows == 1


def test_records_that_kafka_dropped_before_they_were_read_are_an_error_with_numbers(world: World) -> None:
    two_hours(world)
    world.ingest("r1")
    world.produce(*[record(str(i), 3.6) for i in range(5)])
    world.kafka.trim(TOPIC, 0, 7)
    with pytest.raises(DataLoss, match=r"partition 0: offsets \[4, 7\)"):
        world.ingest("r2")
    world.change_spec(source=replace(world.pipeline.source, on_data_loss="record"))
    assert world.ingest("r2") == 2


def test_a_recreated_topic_stops_the_pipeline_until_an_operator_accepts_it(world: World) -> None:
    two_hours(world)
    world.ingest("r1")
    world.kafka.create(TOPIC, 2)
    world.produce(record("new", 3.7))
    with pytest.raises(TopicRecreated, match=r"id-2.*id-1"):
        world.ingest("r2")
    world.context().ledger.pipelines.accept_topic("readings", "id-1", "id-2", "recreated on purpose")
    assert world.ingest("r2") == 2


def test_r6_a_topic_recreated_while_it_was_read_is_not_sealed(world: World) -> None:
    two_hours(world)
    ctx = world.context()
    ingest.plan(ctx, "r1")
    real = world.context()
    real.launcher = _Then(real.launcher, lambda: world.kafka.create(TOPIC, 2))
    with pytest.raises(TopicRecreated):
        ingest.write(real, "r1")


class _Then:
    def __init__(self, launcher, after) -> None:
        self._launcher, self._after = launcher, after

    def run(self, plan_path: str) -> None:
        self._launcher.run(plan_path)
        self._after()


def test_r11_a_ledger_restored_from_yesterday_is_refused(world: World) -> None:
    two_hours(world)
    yesterday = world.database.read_bytes()
    world.ingest("r1")
    world.close()
    world.database.write_bytes(yesterday)
    with pytest.raises(StorageAhead, match="next batch is 1"):
        world.ingest("r1")


def test_r11_a_landed_batch_that_the_ledger_forgot_to_seal_is_adopted(world: World) -> None:
    two_hours(world)
    ingest.plan(world.context(), "r1")
    world.close()
    planned = world.database.read_bytes()
    ingest.write(world.context(), "r1")
    ingest.land(world.context(), "r1")
    world.close()
    world.database.write_bytes(planned)
    world.ingest("r1")
    world.archive(0)
    assert world.table() == [(0, 0), (0, 1)]
    assert any("adopted" in line for line in world.said)


def test_r5_a_close_between_gathering_and_planning_makes_the_plan_gather_again(world: World) -> None:
    two_hours(world)
    world.ingest("r1")
    world.produce(record("late", 0.9))
    ctx = world.context()
    source = ctx.source

    class ClosesMeanwhile:
        traits, remembered = source.traits, source.remembered

        def look(self, topic: str):
            ctx.source = source
            world.archive(0)
            return source.look(topic)

    ctx.source = ClosesMeanwhile()  # type: ignore[assignment]
    ingest.plan(ctx, "r2")
    batch = world.context().ledger.batches.get("readings", 2)
    assert batch.plan.floor.is_late(window(0).start_ms, window(0).end_ms)


def test_closing_waits_for_batches_that_were_planned_before(world: World) -> None:
    two_hours(world)
    world.ingest("r1")
    world.produce(record("not late", 0.9))
    ingest.plan(world.context(), "r2")
    with pytest.raises(NotReady, match="batch 2 was planned before and must land"):
        world.archive(0)
    world.ingest("r2")
    assert world.archive(0).rows == 3


def test_ready_keeps_its_answer_once_the_window_is_closed(world: World) -> None:
    two_hours(world)
    world.ingest("r1")
    assert archive.ready(world.context(), window(0)).ready
    world.archive(0)
    assert archive.ready(world.context(), window(0)).ready
    assert not archive.ready(world.context(), window(5)).ready


def test_windows_before_the_start_are_published_empty(world: World) -> None:
    world.change_spec(windows=replace(world.pipeline.windows, start_ms=world.pipeline.windows.start_ms + 2 * HOUR))
    two_hours(world)
    world.ingest("r1")
    assert world.archive(0).rows == 0
    assert world.table("__late") == [(0, 0), (0, 1), (0, 2)]
