"""The board's map of a copy's chunks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import board_app  # first: it sets Airflow's home
import pytest

from tests.copies.test_parts import begun
from tests.copies.worlds import COPYING, CopyWorld
from tests.hooks import Died, Hook, die
from tidegate.core.copy.port import KeyRange
from tidegate.core.copy.rounds import Chunk, ChunkState, Round, RoundState
from tidegate.core.look.chunk_map import MOST_CELLS, chunk_map
from tidegate.core.mirror.copied import RoundIn


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CopyWorld]:
    """Copied once."""
    made = begun(tmp_path)
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines/readings.yaml").write_text(COPYING.format(location=f"file://{tmp_path}/lake/readings"))
    board_app.use(monkeypatch, made.database, tmp_path / "pipelines")
    yield made
    made.close()


def page(of: str = "") -> str:
    answer: Any = board_app.client().get(f"/tidegate/readings{of}")
    assert answer.status_code == 200, answer.text
    return " ".join(answer.text.split())


def test_a_copy_under_way_is_a_map(world: CopyWorld) -> None:
    assert "tg-chunks" not in page(), "the first copy is whole"
    world.again("test")
    world.wrap = lambda name, port: Hook(port, before={"accept": die}) if name == "copies" else port
    with pytest.raises(Died):
        world.read()
    world.wrap = lambda name, port: port
    text = page()
    assert "Chunks of copy 2 <small>5 chunks" in text
    assert text.count('tg-cell tg-chunk-begun" title') == 5
    assert "chunk 7 of shop.readings, keys above 3, up to 6: attempt 1 began" in text
    world.read()
    assert page().count('tg-cell tg-chunk-read" title') == 5
    assert "keys above 3, up to 6: 3 rows read" in page()
    world.apply()
    assert "tg-chunks" not in page()


def test_a_batch_of_a_mirror_says_whether_it_is_merged_and_names_no_window(world: CopyWorld) -> None:
    assert "<dt>Merged</dt><dd>it is in the table</dd>" in page("/batch/1")
    assert "/window/" not in page("/batch/1"), "a mirror has none: the page behind the link would be missing"
    world.source_table.set(1, "new")
    assert world.deliver() == 2
    assert "<dt>Merged</dt><dd>not yet: readings.apply merges it</dd>" in page("/batch/2")


def _chunk(number: int, **more: Any) -> Chunk:
    return Chunk(pipeline="p", number=number, round=1, table="s.t", keys=KeyRange((number,), (number + 1,)), **more)


def test_a_cell_of_many_chunks_is_as_far_as_the_least_far_of_them() -> None:
    one = Round(pipeline="p", number=1, table="s.t", key=("id",), state=RoundState.OPEN)
    chunks = [_chunk(n, state=ChunkState.READ, low=(1, 1)) for n in range(1, 2 * MOST_CELLS + 2)]
    inside = RoundIn(1, (1, 1, 1), (1, 1, 1), ((1, 6),))
    found = chunk_map(one, chunks, inside, 0)
    assert (found.chunks, found.each, len(found.cells)) == (2 * MOST_CELLS + 1, 3, -(-(2 * MOST_CELLS + 1) // 3))
    assert [cell.state for cell in found.cells[:3]] == ["merged", "merged", "read"]
    chunks[4] = replace(_chunk(5), tried_ms=None)
    found = chunk_map(one, chunks, RoundIn(1, (1, 1, 1), (1, 1, 1), ((1, 4),)), 0)
    assert found.cells[1].state == "waiting"
    assert found.cells[1].text == "chunks 4 to 6: 1 waiting, 1 read, 1 merged"
    assert chunk_map(one, [], None, 0).cells == ()
