"""What the board's pages say of a real ledger, for pipelines, windows, batches and records in their states."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import board_app  # first: it sets Airflow's home
import pytest
from sqlalchemy import text

from tests.spec_texts import GOOD
from tests.world import HOUR, T0, World, record
from tidegate.board import views
from tidegate.core.base.errors import BatchRefused
from tidegate.core.base.plain import dumps
from tidegate.core.tell.notices import Finding
from tidegate.core.window.due import RunsSeen
from tidegate.ledger import schema
from tidegate.ledger.store import make_engine
from tidegate.settings import load
from tidegate.workflow.batch import ingest
from tidegate.workflow.look import status as looking
from tidegate.workflow.maintain import reconcile

HOSTILE = "<script>alert('x')</script>\" onmouseover=\"alert(1) ../..\x07{{ 7*7 }}"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    world = World(tmp_path)
    (tmp_path / "pipelines").mkdir()
    board_app.use(monkeypatch, world.database, tmp_path / "pipelines")
    yield world
    world.close()


@pytest.fixture(scope="module")
def viewer() -> Any:
    return board_app.client("Viewer")


def get(client: Any, path: str, status: int = 200) -> str:
    answer = client.get(f"/tidegate/{path}")
    assert answer.status_code == status, answer.text
    page = answer.text
    return " ".join(page[page.index('<div class="tg">') : page.index("<footer")].split())


def says(client: Any, path: str, *words: str, status: int = 200) -> str:
    """The page, which has all of these on it."""
    page = get(client, path, status)
    for each in words:
        assert each in page
    return page


def change(world: World, statement: Any) -> None:
    """Of its ledger, as nothing of the product does it."""
    engine = make_engine(f"sqlite:///{world.database}")
    with engine.begin() as c:
        c.execute(text(statement) if isinstance(statement, str) else statement)
    engine.dispose()


def fill(world: World) -> None:
    """Batch 1 with rows of two hours, one of them dirty; hour 0 is published, then a late row comes with batch 2."""
    world.produce(*[record(f"{i}", i / 10, HOSTILE) for i in range(20)], b"{not json <b>")
    world.produce(record("on", 5.0), partition=1)
    world.ingest("readings.ingest/run 1")
    world.archive(0)
    world.produce(record("late", 0.5, HOSTILE), record("later", 5.0))
    world.ingest("readings.ingest/run 2")


# ---------------------------------------------------------------- pipelines


def test_an_empty_installation_says_how_to_begin(world: World, viewer: Any) -> None:
    says(viewer, "", "There are no pipelines yet", f"{world.folder}/pipelines")


def test_a_pipeline_that_has_not_run_is_new_and_a_broken_one_says_where(world: World, viewer: Any) -> None:
    (world.folder / "pipelines" / "broken.yaml").write_text("version: 1\nname: broken\ncolumns: <b>\n")
    settle()
    page = says(viewer, "", "broken YAML", "broken.yaml:")
    assert "<b>" not in page.replace('<b class="caret">', "")
    world.context()
    says(viewer, "", "not started")
    says(viewer, "broken", "No run has registered this pipeline", status=404)


def test_pipelines_at_a_glance(world: World, viewer: Any) -> None:
    fill(world)
    says(viewer, "", "readings", "lake.readings", "<b>1</b> published", "<b>3</b> due", "holds", "at the last plan")


def test_the_list_and_the_page_agree_with_status(world: World, viewer: Any) -> None:
    """Hours that are ready and that nobody publishes, before maintenance has told anybody of them."""
    fill(world)
    world.clock.advance(3 * HOUR)
    words = "ready and not published, the oldest (2013-01-05T01:00Z)"
    ctx = world.context()
    assert any(words in c.what for c in looking.status(ctx, ctx.ledger.reads, None).concerns)
    says(viewer, "readings", "needs attention", words)
    says(viewer, "?show=attention", words)
    says(viewer, "", 'Waiting for somebody <span class="tg-count tg-count-loud">1</span>')


def test_a_yaml_that_contradicts_what_has_landed_waits_for_somebody(world: World, viewer: Any) -> None:
    """Every task of the pipeline refuses it, so it has no run that could tell anybody."""
    fill(world)
    other = GOOD.replace("name: orders", "name: readings")
    (world.folder / "pipelines" / "readings.yaml").write_text(other)
    settle()
    words = "batches have landed under the spec as it was: "
    says(viewer, "readings", "needs attention", words)


def test_a_pause_on_purpose_waits_for_nobody(world: World, viewer: Any) -> None:
    fill(world)
    told = dumps(Finding(kind="unready_window", key="unready_window", subject="readings", what="an hour waits"))
    row = {"pipeline": "readings", "key": "unready_window", "content": told, "first_ms": T0, "told_ms": T0}
    change(world, schema.notices.insert().values(row))
    says(viewer, "?show=attention", "ready and not published")
    ledger: Any = world.context().ledger
    ledger.pauses.pause("readings", ["ingest", "archive"], "power & light", None, None)
    world.close()
    for path in ("", "readings"):
        page = says(viewer, path, "tg-badge-paused", "paused on purpose since", ": power &amp; light")
        assert "an hour waits" not in page
        assert "ready and not published" not in page
    says(viewer, "readings", "<code>tidegate unpause readings</code>")
    says(viewer, "?show=attention", "Nothing waits for somebody")


def test_a_search_that_finds_nothing_is_quoted_and_escaped(world: World, viewer: Any) -> None:
    world.context()
    page = says(viewer, "?q=%3Cimg%20src%3Dx%3E", "&lt;img src=x&gt;")
    assert "<img src=x" not in page
    says(viewer, "?show=attention", "Nothing waits for somebody")


def test_a_refused_batch_waits_for_somebody(world: World, viewer: Any) -> None:
    world.change_spec(dirty=replace(world.pipeline.dirty, max_count=0))
    world.produce(b"<script>no json</script>", record("a", 0.0))
    ingest.plan(world.context(), "r")
    with pytest.raises(BatchRefused, match="dirty"):
        ingest.write(world.context(), "r")
    says(viewer, "?show=attention", "batch 1 was refused")
    says(viewer, "readings", "batch 1 was refused", "fix the spec")
    page = says(viewer, "readings/batch/1", "Refused:", "--release 1")
    assert "<script>no" not in page


def test_what_the_audit_found_waits_for_somebody_until_it_is_over(world: World, viewer: Any) -> None:
    fill(world)
    for hour in (1, 2, 3):
        world.archive(hour)
    once = Finding(kind="schema_change", key="schema", subject="spec 2", what="a column was added", once=True)
    change(world, schema.notices.insert().values(pipeline="readings", key="schema", content=dumps(once), first_ms=T0))
    world.context().ledger.notices.audited("readings", 3, "<b>rows</b> are missing", "look at them", "quick")
    for path in ("?show=attention", "readings"):
        page = says(viewer, path, "needs attention", "found 3 problems, the first: &lt;b&gt;rows")
        assert "a column was added" not in page
    world.context().ledger.notices.audited("readings", 0, "", "", "quick")
    world.close()
    says(viewer, "?show=attention", "Nothing waits for somebody")


# ---------------------------------------------------------------- a pipeline


def test_a_pipelines_windows_are_a_calendar(world: World, viewer: Any) -> None:
    fill(world)
    says(
        viewer,
        "readings?at=2013-01",
        'tg-cell-late" href="/tidegate/readings/window/2013-01-05T00:00Z"',
        "2013-01-05 00:00 UTC: late rows; generation 1, 10 rows; 1 late row",
        'tg-cell-ready" href="/tidegate/readings/window/2013-01-05T01:00Z"',
        "data-tg-map",
        "What the states mean",
        "/dags/readings.archive/grid",
    )


def test_the_command_that_fills_is_not_stopped_by_a_run_that_has_failed(world: World, viewer: Any) -> None:
    fill(world)
    reconcile.note_archive(world.context(), RunsSeen(False, (T0 + 2 * HOUR,)))
    says(
        viewer,
        "readings",
        "to fill: airflow dags backfill --rerun-failed-tasks readings.archive -s 2013-01-05T01:00Z -e "
        "2013-01-05T03:00Z",
    )


def test_without_a_name_the_calendar_shows_where_the_data_is(world: World, viewer: Any) -> None:
    fill(world)
    says(viewer, "readings", "Windows of 2013-01")
    says(viewer, "readings?at=%3Cscript%3E", "Windows of 2013-01")


def test_a_replayed_window_says_so(world: World, viewer: Any) -> None:
    fill(world)
    world.archive(1)
    change(world, f"UPDATE generations SET kind = 'replay' WHERE window_ms = {T0 + HOUR}")
    says(
        viewer,
        "readings?at=2013-01",
        'tg-cell-replayed" href="/tidegate/readings/window/2013-01-05T01:00Z"',
        "replayed; generation 1, 10 rows",
    )


def test_a_broken_yaml_of_a_pipeline_that_ran_is_said_and_the_ledgers_spec_used(world: World, viewer: Any) -> None:
    fill(world)
    (world.folder / "pipelines" / "readings.yaml").write_text("version: 1\nname: readings\nwindows: {size: 1x}\n")
    settle()
    says(viewer, "readings", "readings.yaml:", "the spec that the last run used", "tg-cell-late")


def test_who_is_not_there_is_not_found(world: World, viewer: Any) -> None:
    world.context()
    says(viewer, "nobody", "There is no pipeline nobody.", status=404)
    says(viewer, "%3Cb%3E", "no pipeline &lt;b&gt;", status=404)


@pytest.mark.parametrize(
    ("path", "status", "says"),
    [
        ("events?before=99999999999999999999999", 200, "spec registered"),
        ("batch/99999999999999999999999", 404, "There is no batch 99999999999999999999999."),
        (f"where?partition=0&offset={'9' * 5000}", 200, "whole numbers"),
    ],
)
def test_a_number_that_is_too_large_is_nobodys(world: World, viewer: Any, path: str, status: int, says: str) -> None:
    fill(world)
    assert says in get(viewer, f"readings/{path}", status)


# ---------------------------------------------------------------- a window


def test_a_published_window_shows_its_certificate_and_what_it_rests_on(world: World, viewer: Any) -> None:
    fill(world)
    says(
        viewer,
        "readings/window/2013-01-05T00:00Z",
        "published: generation 1 (archive), 10 rows; rows that came late (1)",
        "tidegate reopen readings 2013-01-05T00:00Z",
        "watermark 2013-01-05T04:00Z has passed",
        "10 rows in 1 range of 1 batch",
        "closed",
    )


@pytest.mark.parametrize(
    ("at", "says"),
    [
        ("2013-01-05T01:30", "ready, but no run has published it"),
        ("20130105T010000Z", "ready, but no run has published it"),
        ("2013-01-05T07:00+01:00", "partition 0"),
        ("2013-02-01T00:00Z", "No landed batch has any"),
    ],
)
def test_a_window_that_is_not_published_says_why(world: World, viewer: Any, at: str, says: str) -> None:
    fill(world)
    page = get(viewer, f"readings/window/{at.replace('+', '%2B')}")
    assert says in page
    assert "What to do" in page


def test_what_names_no_window_is_not_found(world: World, viewer: Any) -> None:
    world.context()
    says(viewer, "readings/window/yesterday", "names no window", status=404)
    says(viewer, "readings/window/9999-99-99T00:00Z", "names no window", status=404)


def test_an_alarm_is_shown_with_the_command_that_clears_it(world: World, viewer: Any) -> None:
    fill(world)
    change(world, "UPDATE windows SET blocked = '<i>files</i> and ledger differ'")
    says(
        viewer,
        "readings/window/2013-01-05T00:00Z",
        "&lt;i&gt;files&lt;/i&gt; and ledger differ",
        "tidegate repair readings --window",
    )
    says(viewer, "readings?at=2013-01", "tg-cell-alarm")
    says(viewer, "", "1</b> alarm")


# ---------------------------------------------------------------- batches, events, records


def test_a_batch_shows_its_ranges_and_where_its_rows_went(world: World, viewer: Any) -> None:
    fill(world)
    says(
        viewer,
        "readings/batch/1",
        "read 22 = data 21 + late 0 + dirty 1",
        "<dt>Slow path</dt><dd>1 message: dirty</dd>",
        "/tidegate/readings/window/2013-01-05T01:00Z",
        "{not json &lt;b&gt;",
        "readings.ingest",
    )
    says(viewer, "readings/batch/9", "There is no batch 9", status=404)


def test_an_open_batch_has_ranges_and_no_counts(world: World, viewer: Any) -> None:
    world.produce(record("a", 0.0))
    ingest.plan(world.context(), "r")
    says(viewer, "readings/batch/1", "PLANNED", "not sealed yet")
    says(viewer, "readings", ">1</a> planned")


def test_events_are_paged_and_found_by_what_they_are_about(
    world: World, viewer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidegate.board.pages import events

    monkeypatch.setattr(events, "PAGE", 3)
    fill(world)
    ids = [e.id for e in world.context().ledger.reads.events("readings", 99)]
    page = says(viewer, "readings/events", f"before={ids[2]}")
    assert "Newest</a>" not in page
    page = says(viewer, f"readings/events?before={ids[-1] + 1}", "Newest</a>")
    assert "Older" not in page
    page = says(viewer, "readings/events?subject=batch+2", "batch 2")
    assert "batch 1<" not in page
    says(viewer, "readings/events?subject=%3Cb%3E", "No event is about")
    for written in ("2013-01-05T00:00Z", "20130105T000000Z"):
        page = says(viewer, f"readings/events?subject=window+{written}", "of window 2013-01-05T00:00Z", "announced")
        assert "20130105T000000Z" not in page


def test_where_a_record_is_by_the_ledger_and_by_its_file(world: World, viewer: Any) -> None:
    fill(world)
    says(viewer, "readings/where?partition=0&offset=3", "data-tg-fetch", "look into the files")
    page = says(viewer, "readings/where?partition=0&offset=3&look=file", "published", "b1-part-00000-0-0001.parquet")
    assert "data-tg-fetch" not in page


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("", "one fate"),
        ("partition=0&offset=x", "whole numbers"),
        ("partition=-1&offset=0", "whole numbers"),
        ("partition=0&offset=99999999999999999999", "whole numbers"),
        ("partition=%3Cb%3E&offset=1", "&lt;b&gt;"),
        ("partition=0&offset=4711", "Kafka could not be asked"),
    ],
)
def test_a_question_that_cannot_be_answered_says_why(world: World, viewer: Any, query: str, says: str) -> None:
    fill(world)
    assert says in get(viewer, f"readings/where?{query}")


def test_nothing_hostile_is_on_any_page(world: World, viewer: Any) -> None:
    fill(world)
    for path in ("", "readings", "readings/window/2013-01-05T00:00Z", "readings/batch/1", "readings/events",
                 "readings/where?partition=0&offset=20&look=file"):  # fmt: skip
        page = get(viewer, path)
        assert "<script>alert" not in page, path
        assert "onmouseover=" not in page, path
        assert " 49" not in page, path


# ---------------------------------------------------------------- helpers


def settle() -> None:
    """Until the pipelines folder has been parsed."""
    deadline = time.monotonic() + 30
    specs = views.reach._specs
    specs._looked = 0.0
    while time.monotonic() < deadline:
        specs.folder(load().pipelines_folder)
        if specs._at_work is None:
            return
        specs._at_work.join(1)
