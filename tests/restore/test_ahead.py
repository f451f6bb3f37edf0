"""Whether storage or Kafka knows more than the ledger: nothing is missed, and no alarm is false (R10, R11)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.hooks import Died, Hook, Once, die
from tests.world import HOUR, World, record, window
from tidegate.core.base.errors import OtherPipeline, StorageAhead
from tidegate.workflow.base import preflight, records
from tidegate.workflow.batch import ingest
from tidegate.workflow.clean import duties
from tidegate.workflow.late import reopen
from tidegate.workflow.publish import archive, publication
from tidegate.workflow.replay import rollback
from tidegate.workflow.restore import adoption


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def landed_once(world: World) -> None:
    world.produce(record("a", 0.1))
    world.produce(record("b", 0.1), partition=1)
    world.ingest("r1")
    world.produce(record("c", 3.5))
    world.produce(record("d", 3.5), partition=1)


# ---------------------------------------------------------------- another run meanwhile


PLANS: dict[str, Callable[..., object]] = {
    "plan": lambda ctx: ingest.plan(ctx, "r3"),
    "close": lambda ctx: archive.publish(ctx, window(0)),
    "clean": duties.clean,
}


@pytest.mark.parametrize("task", PLANS)
def test_a_batch_that_another_run_lands_meanwhile_is_no_lost_commit(world: World, task: str) -> None:
    landed_once(world)
    ctx = world.context()
    other = Once(lambda: world.ingest("r2"))
    ctx.storage = Hook(ctx.storage, before={"exists": other})
    PLANS[task](ctx)
    assert ctx.ledger.pipelines.row("readings").next_batch_id == 3


def test_a_batch_that_another_run_lands_before_kafka_is_asked_is_no_lost_commit(world: World) -> None:
    landed_once(world)
    ctx = world.context()
    ctx.source = Hook(ctx.source, before={"remembered": Once(lambda: world.ingest("r2"))})
    assert ingest.plan(ctx, "r3") is None, "the other run has read everything"


def test_what_the_ledger_lost_is_found_behind_what_another_run_lands_meanwhile(world: World) -> None:
    """The alarm goes by what the ledger says when it is read again."""
    landed_once(world)
    ctx = world.context()
    following = world.folder / "lake/readings/_tidegate/hwm/3"

    def other() -> None:
        world.ingest("r2")
        following.write_bytes(b"")

    ctx.storage = Hook(ctx.storage, before={"exists": Once(other)})
    with pytest.raises(StorageAhead, match="next batch is 3"):
        ingest.plan(ctx, "r3")


def test_a_group_that_is_ahead_of_what_the_ledger_says_now_stays_an_alarm(world: World) -> None:
    landed_once(world)
    before = world.database.read_bytes()
    world.ingest("r2")
    world.close()
    world.database.write_bytes(before)
    ctx = world.context()
    view = ctx.ledger.batches.planning_view("readings")
    with pytest.raises(StorageAhead, match="Kafka's group tidegate-readings is at offset 2 of partition 0"):
        preflight.check_source(ctx, view)


def test_offsets_of_a_topic_that_was_replaced_meanwhile_are_no_alarm(world: World) -> None:
    landed_once(world)
    ctx = world.context()
    view = ctx.ledger.batches.planning_view("readings")
    topic = view.accepted_topic_id
    world.kafka.remember("tidegate-readings", "readings", {0: 99}, preflight.group_mark(ctx, topic or ""))
    accept = Once(lambda: world.context().ledger.pipelines.accept_topic("readings", topic, "another", "test"))
    ctx.source = Hook(ctx.source, after={"remembered": accept})
    preflight.check_source(ctx, view)


# ---------------------------------------------------------------- BUILT is lost, and the task comes back late


def publish_that_the_ledger_forgets(world: World, hour: int, *, moved: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record is written, the process dies before or after the rename, and a failover takes BUILT back."""
    ctx, kept = world.context(), list[bytes]()
    ctx.ledger.windows = Hook(
        ctx.ledger.windows, before={"built": lambda *_: kept.append(world.database.read_bytes()), "begin_swap": die}
    )
    with monkeypatch.context() as patched:
        if not moved:
            real = records.mark_generation

            def mark(*args: object) -> None:
                real(*args)  # type: ignore[arg-type]
                raise Died

            patched.setattr(publication.records, "mark_generation", mark)
        with pytest.raises(Died):
            archive.publish(ctx, window(hour))
    world.close()
    world.database.write_bytes(kept[0])


@pytest.mark.parametrize("moved", [False, True], ids=["before the rename", "after it"])
def test_a_record_of_days_ago_is_found_however_much_was_published_since(
    world: World, moved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    landed_once(world)
    world.ingest("r2")
    publish_that_the_ledger_forgets(world, 0, moved=moved, monkeypatch=monkeypatch)
    world.clock.advance(72 * HOUR)
    world.archive(1)
    world.clock.advance(30 * HOUR)
    published = world.archive(0)
    assert (published.generation, published.rows) == (1, 2)
    assert "its record is adopted" in " ".join(world.said)
    assert world.by_window() == {"00": [(0, 0), (1, 0)]}
    assert adoption.survey(world.context()).nothing


def test_the_record_of_a_later_generation_is_found_after_days_too(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    landed_once(world)
    world.ingest("r2")
    world.archive(0)
    world.clock.advance(50 * HOUR)
    min((world.folder / "lake/readings/date=2013-01-05/hour=00").rglob("*.parquet")).unlink()
    publish_that_the_ledger_forgets(world, 0, moved=True, monkeypatch=monkeypatch)
    world.clock.advance(72 * HOUR)
    world.archive(1)
    world.clock.advance(30 * HOUR)
    published = world.archive(0)
    assert (published.generation, published.rows) == (2, 2)
    assert "its record is adopted" in " ".join(world.said)


def test_a_publication_by_a_host_whose_clock_is_days_ahead_hides_no_record(world: World) -> None:
    landed_once(world)
    world.ingest("r2")
    world.clock.advance(240 * HOUR)
    world.archive(0)
    world.clock.advance(-240 * HOUR)
    before = world.database.read_bytes()
    world.archive(1)
    world.close()
    world.database.write_bytes(before)
    with pytest.raises(StorageAhead, match="publications that the ledger does not know"):
        preflight.check_publications(world.context())


# ---------------------------------------------------------------- a pipeline under another name


def renamed(world: World) -> None:
    world.change_spec(name="renamed")


COMMANDS: dict[str, Callable[[World], object]] = {
    "ingest": lambda w: w.ingest("r3"),
    "publish": lambda w: w.archive(0),
    "replay": lambda w: w.replay(0),
    "reopen": lambda w: reopen.reopen(w.context(), window(0), "test"),
    "rollback": lambda w: rollback.rollback(w.context(), window(0), None, "test"),
    "clean": lambda w: duties.clean(w.context()),
    "adopt": lambda w: adoption.adopt(w.context(), adoption.survey(w.context()), "test"),
}


@pytest.mark.parametrize("ledger", ["the same", "a new one"])
def test_a_renamed_pipeline_is_told_so_by_every_command_and_goes_on_under_its_name(world: World, ledger: str) -> None:
    landed_once(world)
    world.ingest("r2")
    world.archive(0)
    world.close()
    if ledger == "a new one":
        fresh = World(made(world.folder / "fresh"))
        world.database.write_bytes(fresh.database.read_bytes())
        fresh.close()
        world.registered.clear()
    files, old = world.files(), world.pipeline
    renamed(world)
    for name, command in COMMANDS.items():
        with pytest.raises(OtherPipeline) as caught:
            command(world)
        assert not caught.value.retry, name
        assert "belongs to pipeline readings" in str(caught.value), name
        assert "rename its file to readings.yaml and write `name: readings` in it again" in str(caught.value), name
    specs = world.context().ledger.specs
    assert specs.pipelines() == (["readings", "renamed"] if ledger == "the same" else ["renamed"]), "nothing is adopted"
    assert world.files() == files
    world.close()
    world.pipeline = old
    if ledger == "a new one":
        ctx = world.context()
        adoption.adopt(ctx, adoption.survey(ctx), "its name is back")
    world.produce(record("e", 9.0))
    world.produce(record("f", 9.0), partition=1)
    world.ingest("r4")
    world.archive(3)
    assert world.by_window() == {"00": [(0, 0), (1, 0)], "03": [(0, 1), (1, 1)]}


def made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_a_renamed_pipeline_whose_publications_alone_are_found(world: World) -> None:
    """Whoever asks about publications first hears the same."""
    landed_once(world)
    world.ingest("r2")
    world.archive(0)
    renamed(world)
    with pytest.raises(OtherPipeline, match=r"hwm/published/2013-01-09/20130105T000000Z\.1\.1 is its record"):
        preflight.check_publications(world.context())
