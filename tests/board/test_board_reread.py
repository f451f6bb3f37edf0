"""A window of a table without a log is read again from the board: asked once, with a reason, by a run of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests import board_app  # isort: skip  (before airflow: it sets its home)

import pytest

from tests.board.test_board_actions import acting, dags, forget, form, runs
from tests.offline.test_life import balanced
from tests.offline.worlds import START, TableWorld, window
from tidegate.airflow import replay_conf
from tidegate.board.reach import Reach

DAY = "2024-11-01T00:00Z"
PAGE = f"/tidegate/readings/act/reread?window={DAY}"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TableWorld]:
    """Day 0 is published, of three rows; the table has two by now."""
    made = TableWorld(tmp_path)
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines/readings.yaml").write_text(made.yaml)
    made.fake.rows = {key: ("first", None) for key in (1, 2, 3)}
    made.read(0)
    made.publish(0)
    made.fake.rows = {key: ("second", None) for key in (3, 4)}
    board_app.application()
    board_app.use(monkeypatch, made.database, tmp_path / "pipelines")

    def context(self: Reach, pipeline: Any, actor: str | None = None) -> Any:
        return acting(made, self, actor)

    monkeypatch.setattr(Reach, "context", context)
    dags(tmp_path)
    yield made
    made.close()
    forget()


def test_a_day_is_read_again_by_a_run(world: TableWorld) -> None:
    op = board_app.client("Op")
    assert "Read the table again" in op.get("/tidegate/readings/window/2024-11-01T00:00Z").text
    page = op.get(PAGE)
    for said in ("another snapshot", "shop.t", "generation 1 (archive), 3 rows"):
        assert said in page.text
    sent = form(page) | {"why": "the load had failed"}
    first, again = (op.post(PAGE.partition("?")[0], data=sent) for _ in range(2))
    assert (first.status_code, first.location) == (303, again.location)
    (run,) = runs()
    assert run.conf == {"do": "reread", "window": DAY, "why": "the load had failed", "by": "board, op"}
    asked = replay_conf.of_run(world.pipeline, {"dag_run": run}, START + 1000 * 86_400_000)  # type: ignore[arg-type]
    ctx = world.context()
    assert replay_conf._step(asked)(ctx, window(0)).rows == 2
    world.close()
    assert world.rows(0, "id") == [(3,), (4,)]
    balanced(world)


def test_a_form_of_before_another_generation_is_shown_again(world: TableWorld) -> None:
    op = board_app.client("Op")
    sent = form(op.get(PAGE)) | {"why": "x"}
    world.reread(0)
    answer = op.post(PAGE.partition("?")[0], data=sent)
    assert (answer.status_code, "This has changed since you looked" in answer.text) == (409, True)
    assert runs() == []


def test_what_may_not_be_read_again_has_no_button(world: TableWorld) -> None:
    op = board_app.client("Op")
    page = op.get("/tidegate/readings/act/reread?window=2024-11-02T00:00Z")
    assert "was never published" in page.text
    assert '<form method="post"' not in page.text
    page = op.get("/tidegate/readings/act/reread?from=2024-11-01&until=2024-11-03")
    assert "a second reading is of one window" in page.text
    assert runs() == []
