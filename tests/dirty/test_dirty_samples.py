"""Dirty rows in the log: what was in a record does nothing to a terminal, and is bounded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.world import World, record
from tidegate.core.base.errors import BatchRefused
from tidegate.core.spec.pipeline import Column, DirtyLimits
from tidegate.workflow.batch import ingest

EVIL = "\x1b[2J\x07\r\n\u202e"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    made.change_spec(columns=(*made.pipeline.columns, Column(name="day", type="date", path="$.day")))
    yield made
    made.close()


def lines(world: World) -> list[str]:
    return [line for line in world.said if line.startswith("dirty: ")]


def test_samples_are_escaped_and_bounded(world: World) -> None:
    world.produce(record("a", 0.1) | {"day": EVIL}, b'{"id": "x", "day": "\x1b[2J' + b"y" * 100_000, b"\x00\x1b[31m")
    world.produce(*(record(f"{i}", 0.1) | {"value": f"{EVIL}{i}"} for i in range(60)), partition=1)
    world.ingest("r1")
    said = lines(world)
    assert 3 <= len(said) <= 20
    for line in said:
        assert line.isprintable()
        assert len(line) < 4_000
    assert any(line.startswith("dirty: partition 0 offset 0: day: ") for line in said)


def test_the_refusal_names_field_samples_and_what_to_do(world: World) -> None:
    world.change_spec(dirty=DirtyLimits(2, None))
    world.produce(*(record(f"{i}", 0.1) | {"value": EVIL} for i in range(5)), record("good", 0.2))
    ingest.plan(world.context(), "r1")
    with pytest.raises(BatchRefused) as refused:
        ingest.write(world.context(), "r1")
    what, advice = str(refused.value).split("\n")
    assert what.isprintable()
    assert what.startswith(
        "batch 1: 5 of 6 records are dirty, over dirty.max_count 2; mostly value: expected an integer"
    )
    assert "for example partition 0 offset 0: {" in what
    assert "fix the spec or raise the threshold" in advice
    assert len(lines(world)) == 5
