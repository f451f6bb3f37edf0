"""The audit of redrives: each row has one owner, and whatever says otherwise is found."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from spark_jobs.handlers.coordinates import Coverage
from tests.audit.audits import in_process
from tests.dirty.redrives import first_batch, mend, redriven
from tests.world import World
from tidegate.workflow.audit.audit import audit


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Batch 1 has four dirty rows, batch 2 took them up: three are data, one is still dirty."""
    folder = tmp_path_factory.mktemp("redrive")
    (folder / "world").mkdir()
    world = World(folder / "world")
    first_batch(world)
    mend(world)
    redriven(world)
    world.archive(0)
    world.close()
    shutil.copytree(world.folder, folder / "after")
    yield world
    world.close()


@pytest.fixture
def world(lived: World) -> World:
    """As it was, in the same folder: locations are absolute."""
    shutil.rmtree(lived.folder)
    shutil.copytree(lived.folder.parent / "after", lived.folder)
    return lived


def problems(world: World) -> str:
    ctx = world.context()
    report = audit(ctx, ctx.ledger.reads, in_process)  # type: ignore[attr-defined]
    world.close()
    assert report.balanced == (not report.problems)
    return "\n".join(f"{p.subject}: {p.what}" for p in report.problems)


def sql(world: World, *statements: str) -> None:
    world.close()
    with sqlite3.connect(world.database) as c:
        for statement in statements:
            assert c.execute(statement).rowcount, statement


def test_what_is_well_is_well(world: World) -> None:
    assert problems(world) == ""


CHANGES = {
    "nobody owns them": ("DELETE FROM row_owners", "batch 2: it took up the dirty rows of batch 1, which are not its"),
    "another owner": ("UPDATE row_owners SET owner = 1", "batch 1: its dirty rows belong to batch 1, which took other"),
    "other sources": (
        "UPDATE batch_sources SET source = 2",
        "batch 2: it took up the dirty rows of batch 2, which are",
    ),
    "one row less read": (
        "UPDATE batch_ranges SET read = read - 1, data = data - 1 WHERE batch_id = 2 AND partition = 0",
        "2 rows redriven, its sources hold 3",
    ),
    "another coordinate": (
        """UPDATE batch_ranges SET gaps = '[{"end":2,"start":1}]', start = 0 WHERE batch_id = 2 AND partition = 0""",
        "of its offsets are in no dirty file that it was made of",
    ),
    "one more coordinate": (
        "UPDATE batch_ranges SET gaps = '[]' WHERE batch_id = 2 AND partition = 0",
        "of its offsets are in no dirty file that it was made of",
    ),
    "a planned end": (
        "INSERT INTO batch_partitions SELECT pipeline, 2, partition, planned_end, log_start, last_stable_offset, "
        "high_watermark, drained, NULL, NULL, NULL, NULL, NULL FROM batch_partitions WHERE batch_id = 1",
        "batch 2: it is a redrive, but has planned ends",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_the_ledger_is_compared_with_itself_and_the_files(world: World, name: str) -> None:
    statement, words = CHANGES[name]
    sql(world, statement)
    assert words in problems(world)


def work(world: World) -> Path:
    return world.folder / "lake/readings/_tidegate"


def test_a_kept_file_is_missed(world: World) -> None:
    (gone,) = [p for p in (work(world) / "redriven/1").iterdir()][:1]
    gone.unlink()
    assert f"redriven/1/{gone.name}" in problems(world) or f"dirty/_batch=1/{gone.name}" in problems(world)


def test_rows_that_came_back_to_the_dirty_table_are_seen(world: World) -> None:
    shutil.copytree(work(world) / "redriven/1", work(world) / "dirty/_batch=1", dirs_exist_ok=True)
    assert "dirty/_batch=1/part-00000-0-0000.parquet is in no manifest" in problems(world)


def test_files_of_another_redrive_in_the_place_of_its_own_are_seen(world: World) -> None:
    """The same rows of the same length would need the same bytes: another file is told by its footer."""
    (still,) = (work(world) / "dirty/_batch=2").iterdir()
    kept = sorted((work(world) / "redriven/1").iterdir())[0]
    kept.write_bytes(still.read_bytes().ljust(kept.stat().st_size, b"\0")[: kept.stat().st_size])
    assert f"redriven/1/{kept.name}" in problems(world)


# ---------------------------------------------------------------- many spans of one batch and partition


def test_islands_are_found_like_single_offsets(rng: random.Random) -> None:
    """Against a model: spans of ingest batches and islands of redrives, rows in any order, some wrong on purpose."""
    for _ in range(60):
        spans, wanted = [], set()
        for batch in range(1, 5):
            for partition in range(2):
                at = rng.randrange(5)
                for _ in range(1 if batch < 3 else rng.randrange(6)):
                    end = at + rng.randrange(1, 12)
                    spans.append([batch, partition, at, end, []])
                    wanted |= {(batch, partition, o) for o in range(at, end)}
                    at = end + rng.randrange(1, 20)
        rng.shuffle(spans)
        coverage = Coverage(0, 9, 100)
        coverage.expect(spans)
        rows = [r for r in wanted if rng.random() < 0.9]
        rows += [(rng.randrange(1, 5), rng.randrange(2), rng.randrange(80)) for _ in range(rng.randrange(4))]
        rng.shuffle(rows)
        for start in range(0, len(rows), 7):
            part = np.array(rows[start : start + 7], np.int64)
            coverage.add("file", part[:, 1].copy(), part[:, 2].copy(), part[:, 0].copy())
        told = coverage.told()
        found = set(rows) & wanted
        missing: dict[tuple[int, int], int] = {}
        for batch, partition, _ in wanted - found:
            missing[batch, partition] = missing.get((batch, partition), 0) + 1
        assert {(b, p): n for b, p, n, _ in told["missing"]} == missing
        known = {s[0] for s in spans}
        excess = sum(1 for r in rows if r[0] in known) - len(found)
        assert sum(n for _, n, _, _ in told["excess"]) == excess
        assert sum(n for _, n, *_ in told["strays"]) == sum(1 for r in rows if r[0] not in known)


def test_a_redrives_sources_are_looked_at_under_its_twin() -> None:
    coverage = Coverage(3, 9, 100)
    coverage.expect([[5, 0, 10, 12, []], [-5, 0, 10, 12, []], [-5, 0, 20, 21, []], [5, 0, 20, 21, []]])
    for batch in (5, -5):
        coverage.add("file", np.zeros(3, np.int64), np.array([10, 11, 20]), np.full(3, batch))
    told = coverage.told()
    assert (told["rows"], told["missing"], told["excess"], told["strays"]) == (3, [], [], [])
