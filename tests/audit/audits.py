"""Audits of a world in this process, and ways to spoil its files and its ledger."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.handlers.footers import Inspector
from tests.crash.faults import Faults
from tests.crash.scenario import Snapshot
from tests.world import World, record
from tidegate.adapters.footers import FooterProcess
from tidegate.workflow.audit.audit import Depth, Report, audit


class InProcess(FooterProcess):
    """The child's own reading, without the child."""

    def __init__(self) -> None:
        super().__init__()
        self._inspector = Inspector()

    def _ask(self, request: Any, answers: int) -> Iterator[dict[str, Any]]:
        found = list(self._inspector.answer(json.loads(json.dumps(request))))
        assert len(found) == answers
        return iter(json.loads(json.dumps(found)))


in_process = InProcess()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Snapshot]:
    """Hours 0 and 1 are published, 2 and 3 wait; one late row, one dirty; hour 1 has rows of two batches."""
    folder = tmp_path_factory.mktemp("audit")
    (folder / "world").mkdir()
    made = World(folder / "world")
    made.produce(record("a0", 0.1), record("a1", 0.5, "b"), record("b0", 1.2), b"not json")
    made.produce(record("c0", 2.0), record("d0", 3.5), partition=1)
    made.ingest("r1")
    made.archive(0)
    made.produce(record("late", 0.7), record("fine", 1.9))
    made.ingest("r2")
    made.archive(1)
    return made.folder, Snapshot.of(made, folder / "snapshot")


@pytest.fixture
def world(built: tuple[Path, Snapshot]) -> Iterator[World]:
    folder, snapshot = built
    made = snapshot.restore(folder, Faults())  # locations are absolute: each test has the folder to itself
    yield made
    made.close()


def balanced(world: World) -> None:
    """What the ledger says, the files say; nothing is lost, and nothing is twice in a table."""
    report = look(world)
    assert report.balanced, "\n".join(f"{p.subject}: {p.what}" for p in report.problems) or report


def look(world: World, footers=in_process, **depth: Any) -> Report:
    ctx = world.context()
    try:
        return audit(ctx, ctx.ledger.reads, footers, Depth(**depth))
    finally:
        world.close()
