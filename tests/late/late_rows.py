"""A pipeline with late rows to come, and what became of them."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.look.row_readers import InProcessRows
from tests.world import HOUR, T0, World, make_pipeline, record
from tidegate.core.files.balance import Balance
from tidegate.core.look.fate import Fate
from tidegate.core.spec.pipeline import Column
from tidegate.workflow.dirty import redrive
from tidegate.workflow.look.where import where

AT = Column(name="at", type="bigint", path="$.at")


def with_times(folder: Path) -> Any:
    spec = make_pipeline(f"file://{folder}/lake/readings")
    return replace(spec, columns=(*spec.columns, AT))


def begun(world: World) -> World:
    world.produce(record("a0", 0.1), record("b0", 1.2))
    world.produce(record("c0", 2.0), record("d0", 3.5), partition=1)
    world.ingest("r1")
    world.archive(0)
    return world


def policy(world: World, name: str) -> None:
    world.change_spec(late_policy=name)


def totals(world: World) -> Balance:
    survey = world.context().ledger.reads.survey(["readings"], 0)["readings"]
    world.close()
    return survey.totals.balance


def fate(world: World, offset: int, partition: int = 0) -> Fate:
    ctx = world.context()
    (found,) = where(ctx, ctx.ledger.reads, InProcessRows(), partition, offset).fates
    world.close()
    return found


def floor(world: World, batch_id: int) -> Any:
    found = world.context().ledger.batches.get("readings", batch_id).plan.floor
    world.close()
    return found


def hour_of(ms: int | None) -> float | None:
    return None if ms is None else (ms - T0) / HOUR


def lose_a_file(world: World, hour: int) -> None:
    """Of the generation in force, wherever it lies."""
    partitions = world.partitions("lake.readings").items()
    places = [at for values, at in partitions if dict(values)["hour"] == f"{hour:02d}"]
    min(Path(places[0].removeprefix("file://")).glob("*.parquet")).unlink()


def sql(world: World, statement: str) -> list[Any]:
    world.close()
    with sqlite3.connect(world.database) as connection:
        return connection.execute(statement).fetchall()


def odd(name: str, hour: float) -> dict[str, Any]:
    """Dirty until the column takes another field."""
    return record(name, hour) | {"value": "many", "other": 7}


def mend(world: World, late_policy: str) -> None:
    id_, site, _, at = world.pipeline.columns
    world.change_spec(
        columns=(id_, site, Column(name="value", type="int", path="$.other"), at), late_policy=late_policy
    )


def redriven(world: World, run: str) -> redrive.Redriven:
    assert redrive.plan(world.context(), run) is not None
    found = redrive.carry_out(world.context(), run)
    world.close()
    return found
