"""Dataset events: one for each generation in force, with what a consumer should know, whoever published it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import airflow_home
import pytest
from sqlalchemy import create_engine, insert, select

from tests.world import HOUR, World, record, window
from tidegate.airflow import datasets
from tidegate.core.base.errors import LostComparison
from tidegate.core.base.instants import iso
from tidegate.core.spec.pipeline import Completeness
from tidegate.core.tell import announcement as rules
from tidegate.core.window.answer import Comparison
from tidegate.ledger import schema
from tidegate.workflow.late import reopen
from tidegate.workflow.publish import archive
from tidegate.workflow.tell import announcements


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def airflow(world: World) -> Any:
    """Airflow's own database, which knows the pipeline's dataset and nothing of it."""
    airflow_home.make_database()
    from airflow.models.dataset import DatasetDagRunQueue, DatasetEvent, DatasetModel
    from airflow.utils.session import create_session

    uri = datasets.dataset_of(world.pipeline).uri
    with create_session() as session:
        for model in (DatasetEvent, DatasetDagRunQueue, DatasetModel):
            session.query(model).delete()
        session.add(DatasetModel(uri=uri))

    def events() -> list[dict[str, Any]]:
        with create_session() as session:
            found = session.query(DatasetEvent).order_by(DatasetEvent.id).all()
            return [dict(event.extra, source=event.source_task_id) for event in found]

    return events


TI = SimpleNamespace(task_id="publish", dag_id="readings.archive", run_id="r", map_index=-1)


def hours(world: World, *names: str) -> None:
    """Two hours with a row of each name, and time that has gone on."""
    for hour in (0, 1):
        for i, name in enumerate(names):
            world.produce(record(f"{name}{hour}", hour + 0.5, site=name, value=i), partition=i % 2)
    for partition in (0, 1):
        world.produce(record("later", 9), partition=partition)
    world.ingest("r1")


def published(world: World, hour: int = 0) -> Any:
    ctx = world.context()
    return ctx, archive.publish(ctx, window(hour))


def announce(ctx: Any, number: int = 1, hour: int = 0) -> str:
    notice = announcements.notice(ctx, window(hour), number)
    assert notice is not None
    return datasets.announce(ctx, notice, TI)


def test_an_event_carries_what_a_consumer_should_know(world: World, airflow: Any) -> None:
    hours(world, "a", "b", "c")
    ctx, done = published(world)
    assert "event of generation 1" in announce(ctx)
    (extra,) = airflow()
    assert extra == {
        "pipeline": "readings",
        "table": "lake.readings",
        "window": "20130105T000000Z",
        "window_start": "2013-01-05T00:00:00+00:00",
        "window_end": "2013-01-05T01:00:00+00:00",
        "partition": "date=2013-01-05/hour=00",
        "generation": 1,
        "kind": "archive",
        "rows": 3,
        "files": 3,
        "partitions": 3,
        "digest": done.digest,
        "location": done.location,
        "published_at": "2013-01-09T04:00:00+00:00",
        "first_batch": 1,
        "last_batch": 1,
        "batches": 1,
        "late_rows": 0,
        "late_rows_taken_up": 0,
        "rerouted_rows": 0,
        "watermark": "2013-01-05T08:00:00+00:00",
        "ready_reason": f"watermark {iso(window(8).start_ms)} has passed the window's end {iso(window(1).start_ms)}",
        "decided_at": "2013-01-09T04:00:00+00:00",
        "warning": None,
        "source": "publish",
    }


def test_an_event_of_a_thousand_partitions_is_as_short_as_any(world: World) -> None:
    hours(world, "a")
    ctx, done = published(world)
    engine = create_engine(f"sqlite:///{world.database}")
    files = schema.generation_files
    with engine.begin() as c:
        first = dict(c.execute(select(files)).mappings().one())
        more = [first | {"path": f"{i}", "partition_values": f"{'x' * 200}{i}"} for i in range(999)]
        c.execute(insert(files), more)
    engine.dispose()
    notice = announcements.notice(ctx, window(0), 1)
    assert notice is not None
    extra = rules.extra(world.pipeline, notice)
    assert (extra["partitions"], extra["files"], extra["rows"]) == (1000, 1000, done.rows)
    assert len(json.dumps(extra)) < 2000
    assert json.loads(json.dumps(extra)) == extra
    assert notice.certificate is not None
    endless = replace(notice, certificate=replace(notice.certificate, reason="partition 7 " * 10_000))
    assert len(json.dumps(rules.extra(world.pipeline, endless))) < 4000


def test_windows_without_rows_are_told_of_each_by_itself(world: World, airflow: Any) -> None:
    """Though their content is the same."""
    world.produce(record("later", 9))
    world.produce(record("later", 9), partition=1)
    world.ingest("r1")
    for hour in (0, 1):
        ctx, _ = published(world, hour)
        announce(ctx, hour=hour)
    first, second = airflow()
    assert [first[k] for k in ("rows", "files", "partitions", "batches", "first_batch")] == [0, 0, 0, 0, None]
    assert (first["digest"], second["window"]) == (second["digest"], "20130105T010000Z")


def test_a_warning_of_completeness_reaches_the_consumer(world: World) -> None:
    hours(world, "a")
    ctx, _ = published(world)
    notice = announcements.notice(ctx, window(0), 1)
    assert notice is not None
    assert notice.certificate is not None

    def warned(action: str) -> Any:
        found = Comparison(verdict="short", action=action, text="3 rows fewer than audit says", source="audit")
        return rules.extra(world.pipeline, replace(notice, certificate=replace(notice.certificate, completeness=found)))

    assert warned("warn")["warning"] == "3 rows fewer than audit says"
    assert warned("publish")["warning"] is None


def test_a_warning_is_not_said_of_a_reopened_window_as_if_nothing_had_come_since(world: World) -> None:
    """The rows that were missing when it was closed may be in it by now; nobody asks again: the warning stays."""
    world.change_spec(
        completeness=Completeness(source="topic", conn_id="kafka", topic="audit", poll_ms=60_000, policy="warn")
    )
    hours(world, "a")
    world.truth.counts[window(0).start_ms] = 2
    published(world)
    world.produce(record("missed", 0.7))
    world.ingest("r2")
    ctx = world.context()
    reopen.reopen(ctx, window(0), over_budget=True)
    notice = announcements.notice(ctx, window(0), 2)
    assert notice is not None
    extra = rules.extra(world.pipeline, notice)
    assert (extra["rows"], extra["late_rows_taken_up"]) == (2, 1)
    assert str(extra["warning"]).endswith("published with a warning; since then 1 late row was taken up")


def test_each_generation_is_one_event_however_often_it_is_told(world: World, airflow: Any) -> None:
    hours(world, "a")
    ctx, _ = published(world)
    announce(ctx)
    assert "an event already" in announce(ctx)
    assert len(airflow()) == 1
    a_file = next(Path(world.location.removeprefix("file://")).glob("date=*/hour=00/*/*.parquet"))
    a_file.unlink()  # Clear rebuilds it
    ctx, healed = published(world)
    assert (healed.new, healed.generation) == (True, 2)
    announce(ctx, 2)
    assert [(e["generation"], e["kind"]) for e in airflow()] == [(1, "archive"), (2, "heal")]


def test_a_death_between_the_event_and_the_ledger_is_made_up_for_without_a_second_one(
    world: World, airflow: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    hours(world, "a")
    ctx, _ = published(world)
    with monkeypatch.context() as dying:
        dying.setattr(announcements, "told", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            announce(ctx)
    assert len(airflow()) == 1
    ctx, again = published(world)
    assert again.new, "the ledger does not know that it was told of"
    announce(ctx)
    assert len(airflow()) == 1
    _, once_more = published(world)
    assert not once_more.new


def test_what_nobody_told_of_is_told_by_maintenance_once(world: World, airflow: Any) -> None:
    """A publication whose task died, and generations that were published where no Airflow is."""
    world.change_spec(archive=replace(world.pipeline.archive, on_publish=("REFRESH lake.readings",)))
    hours(world, "a")
    published(world, 0)
    published(world, 1)
    world.catalogue.statements.clear()
    assert list(announcements.due(world.context())) == [], "its own task may be about to"
    world.clock.advance(rules.GRACE_MS)
    for _ in range(2):
        ctx = world.context()
        for notice in announcements.due(ctx):
            datasets.announce(ctx, notice, TI)
    assert [e["window"] for e in airflow()] == ["20130105T000000Z", "20130105T010000Z"]
    assert world.catalogue.statements == ["REFRESH lake.readings"] * 2


def test_what_was_reopened_without_airflow_is_told_of_at_once(world: World, airflow: Any) -> None:
    """No task of its own is about to."""
    hours(world, "a")
    ctx, _ = published(world)
    announce(ctx)
    world.produce(record("too late", 0.7))
    world.ingest("r2")
    assert reopen.reopen(world.context(), window(0)).new
    ctx = world.context()
    for notice in announcements.due(ctx):
        datasets.announce(ctx, notice, TI)
    extra = airflow()[-1]
    assert [extra[k] for k in ("generation", "kind", "rows", "late_rows", "late_rows_taken_up", "batches")] == [
        2, "reopen", 2, 1, 1, 2,
    ]  # fmt: skip
    assert list(announcements.due(world.context())) == []


def test_late_rows_that_wait_are_counted(world: World) -> None:
    hours(world, "a")
    ctx, _ = published(world)
    world.produce(record("too late", 0.7), record("too late, too", 0.8))
    world.ingest("r2")
    notice = announcements.notice(ctx, window(0), 1)
    assert notice is not None
    assert (notice.rows, notice.late_rows, notice.taken_up) == (1, 2, 0)


def test_what_was_published_long_ago_is_no_news(world: World) -> None:
    hours(world, "a")
    published(world)
    world.clock.advance(rules.MOST_DAYS_MS + HOUR)
    assert list(announcements.due(world.context())) == []


def test_what_another_generation_has_replaced_is_not_told_of(world: World) -> None:
    hours(world, "a")
    published(world)
    next(Path(world.location.removeprefix("file://")).glob("date=*/hour=00/*/*.parquet")).unlink()
    ctx, healed = published(world)
    assert healed.generation == 2
    assert announcements.notice(ctx, window(0), 1) is None
    world.clock.advance(rules.GRACE_MS)
    assert [notice.number for notice in announcements.due(ctx)] == [2]


def test_a_number_that_came_twice_is_another_event(world: World, airflow: Any) -> None:
    """A failover forgot generation 1 after it was told of; the new one has other content."""
    hours(world, "a")
    ctx, _ = published(world)
    announce(ctx)
    notice = announcements.notice(ctx, window(0), 1)
    assert notice is not None
    from airflow.utils.session import create_session

    with create_session() as session:
        assert datasets.register(world.pipeline, replace(notice, digest="other"), TI, session) is True
    assert len(airflow()) == 2


def test_a_publication_that_the_ledger_has_forgotten_is_an_error(world: World, airflow: Any) -> None:
    hours(world, "a")
    ctx, _ = published(world)
    notice = announcements.notice(ctx, window(0), 1)
    assert notice is not None
    with pytest.raises(LostComparison):
        datasets.announce(ctx, replace(notice, number=7), TI)


def test_a_dataset_that_airflow_does_not_know_yet_is_left_to_maintenance(world: World, airflow: Any) -> None:
    from airflow.models.dataset import DatasetModel
    from airflow.utils.session import create_session

    with create_session() as session:
        session.query(DatasetModel).delete()
    hours(world, "a")
    ctx, _ = published(world)
    assert "does not know" in announce(ctx)
    _, again = published(world)
    assert again.new
