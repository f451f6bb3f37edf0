"""The board's pages of a mirror: its table and what waits, and no windows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import board_app  # first: it sets Airflow's home
import pytest

from tests.mirror.worlds import YAML, MirrorWorld, event


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MirrorWorld]:
    """Two batches have landed, the first is merged."""
    made = MirrorWorld(tmp_path)
    made.land(event(1, "a", 10), event(2, "b", 11))
    made.apply()
    made.land(event(1, None, 20))
    made.close()
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines/readings.yaml").write_text(YAML.format(location=f"file://{tmp_path}/lake/readings"))
    board_app.use(monkeypatch, made.database, tmp_path / "pipelines")
    yield made
    made.close()


def page(address: str, status: int = 200) -> str:
    answer: Any = board_app.client().get(address)
    assert answer.status_code == status, answer.text
    return " ".join(answer.text.split())


def test_the_pipelines_page_has_the_table_and_what_waits(world: MirrorWorld) -> None:
    text = page("/tidegate/readings")
    assert "2 rows" in text
    assert "0 tombstones, batches 1 to 1" in text
    assert "<dt>To merge</dt> <dd>1 batch" in text
    assert "Oldest open window" not in text
    assert "tg-windows" not in text, "no calendar"
    assert "readings.apply" in text
    assert "readings.archive" not in text
    assert "the newest row of each key" in text
    acting = board_app.client("Op").get("/tidegate/readings").text
    assert "Replay windows" not in acting


def test_the_list_says_how_far_it_is(world: MirrorWorld) -> None:
    text = page("/tidegate/")
    assert "a mirror has none" in text
    assert "<b>1</b> merged" in text
    assert "<b>1</b> to merge" in text


def test_there_is_no_page_of_a_window(world: MirrorWorld) -> None:
    assert "names no window" in page("/tidegate/readings/window/2013-01-05T00:00Z", 404)


def test_the_batch_and_its_records(world: MirrorWorld) -> None:
    assert "readings" in page("/tidegate/readings/batch/1")
