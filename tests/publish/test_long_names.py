"""Rows whose partition would have a longer name than Hive's metastore can store are in the overflow partition."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.engine.places import Places
from tests.audit.audits import look
from tests.targets.iceberg.in_place import Lake, make
from tests.world import HOUR, T0, World, make_pipeline, window
from tidegate.core.base.partition_values import PartitionValues, metastore_name_length, partition_path
from tidegate.core.files.overflow import MAX_KEY_BYTES, OVERFLOW_VALUE, OWN_BYTES
from tidegate.core.spec.pipeline import ArchiveRun, Column, Merge
from tidegate.targets.iceberg import live
from tidegate.workflow.late import reopen

NAMES = ("a", "b", "c", "d")
BEYOND = (OVERFLOW_VALUE,) * 4
LONGEST = 767 - 23 - 4 * 3
"""Of the four values together, in characters: date, hour, and `/x=` four times are the rest."""


def values(extra: str, length: int) -> tuple[str, ...]:
    """Four values of `length` characters together, the last ones `extra`."""
    assert extra.isascii()
    return ("v" * 240, "v" * 240, "v" * 200, "v" * (length - 680 - len(extra)) + extra)


SHORT = ("x", "y", "z", "w")
FITS = values("", LONGEST)
TOO_LONG = values("", LONGEST + 1)
ESCAPED_FITS = values("/", LONGEST - 2)  # `%2F`
ESCAPED_TOO_LONG = values(":", LONGEST - 1)
BLANK = values(" ", LONGEST)  # three characters in the directory, one in the name
MANY_BYTES = ("\u6f22" * 84,) * 4  # 1,000 bytes
TWICE = ("\U0001f30a" * 62,) * 4  # 496 characters, and as many again for Java: each is two
STAY = (SHORT, FITS, ESCAPED_FITS, BLANK, MANY_BYTES, TWICE)


def row(at: float, texts: tuple[str, ...], name: str = "r") -> dict[str, Any]:
    return {"id": name, "site": "s", "at": T0 + int(at * HOUR), "value": 1, **dict(zip(NAMES, texts, strict=True))}


@pytest.fixture
def world(tmp_path: Path) -> World:
    spec = make_pipeline(f"file://{tmp_path}/lake/readings")
    columns = (*spec.columns, *(Column(name=name, type="string", path=f"$.{name}") for name in NAMES))
    archive = ArchiveRun(sla_ms=1_800_000, merge=Merge(min_files=2))
    return World(tmp_path, replace(spec, columns=columns, partition_by=("date", "hour", *NAMES), archive=archive))


def found(world: World) -> dict[tuple[str | None, ...], int]:
    """Rows of the table by the values of their partition."""
    partitions = world.partitions("lake.readings").items()
    assert all(metastore_name_length(v) <= 767 for v, _ in partitions)
    return {tuple(text for name, text in v if name in NAMES): len(world.rows_at(at)) for v, at in partitions}


def published(world: World, *rows: tuple[str, ...]) -> None:
    """Two batches with each of these, and with one more: small files, which are merged."""
    for batch in range(2):
        for texts in rows:
            world.produce(row(0.1, texts, f"{batch}"))
        world.produce(row(batch, SHORT), partition=1)
        world.ingest(f"r{batch}")
    for partition in range(2):
        world.produce(row(9, SHORT), partition=partition)
    world.ingest("on")
    world.archive(0)


def test_the_longest_name_has_a_partition_and_the_next_is_in_the_overflow_partition(world: World) -> None:
    """On the worker, in a merge, a replay and a reopening alike."""
    published(world, *STAY, TOO_LONG, ESCAPED_TOO_LONG)
    due = dict.fromkeys(STAY, 2) | {BEYOND: 4, SHORT: 3}
    assert found(world) == due
    said = [line for line in world.said if line.startswith("overflow: window")]
    assert "2 rows with 2 values of a, b, c, d went to the overflow partition" in said[0]
    assert "longer than the 767 characters of Hive's metastore" in said[0]
    world.replay(0)
    assert [line for line in world.said if line.startswith("unchanged")]
    world.produce(row(0.2, TOO_LONG), row(0.3, values("q", LONGEST)), row(0.4, values("q", LONGEST + 1)))
    world.ingest("late")
    reopen.reopen(world.context(), window(0), "late rows")
    assert found(world) == due | {BEYOND: 6, values("q", LONGEST): 1}
    assert look(world).balanced
    world.close()


def test_values_that_a_window_has_already_are_held_to_it_too(world: World) -> None:
    """A release that did not ask may have let them in: no more rows go to a partition that can never be added."""
    kept: PartitionValues = tuple(zip(NAMES, TOO_LONG, strict=True))
    places = Places(world.pipeline, {T0: {kept}})
    assert places._place(0, T0, TOO_LONG).overflow
    assert not places._place(0, T0, FITS).overflow
    assert not places._place(1, T0, TOO_LONG).overflow, "the late table is partitioned by batch and time only"
    world.close()


# ---------------------------------------------------------------- in an object store

PREFIX = "/".join("p" * 99 for _ in range(6))
ROOM = MAX_KEY_BYTES - OWN_BYTES - len(f"{PREFIX}/readings/_tidegate") - len("date=2013-01-05/hour=00")
"""Of four columns' directories, each with a slash before it."""


def spelled(texts: tuple[str, ...]) -> int:
    """Bytes of these directories."""
    return len(f"/{partition_path(tuple(zip(NAMES, texts, strict=True)))}".encode())


def of_length(length: int, character: str) -> tuple[str, ...]:
    """Four values whose directories have so many bytes."""
    first = (character * 20,) * 3
    return (*first, "v" * (1 + length - spelled((*first, "v"))))


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    made = make(tmp_path, monkeypatch, bucket=f"s3://lake/{PREFIX}")
    spec = made.world.pipeline
    columns = (*spec.columns, *(Column(name=name, type="string", path=f"$.{name}") for name in NAMES))
    made.world.pipeline = replace(spec, columns=columns, partition_by=("date", "hour", *NAMES))
    return made


def where(lake: Lake) -> dict[tuple[str | None, ...], int]:
    """Rows of the table by the values of their partition."""
    loaded = lake.catalogue.load("lake.readings")
    assert loaded is not None
    rows: dict[tuple[str | None, ...], int] = {}
    for f in live.look(loaded.metadata, loaded.io, None).files:
        values = tuple(f.partition)[1:]
        rows[values] = rows.get(values, 0) + f.record_count
    return rows


@pytest.mark.parametrize("character", ["v", "/", "\u6f22"])
def test_a_row_whose_files_key_would_be_too_long_for_the_store_is_in_the_overflow_partition(
    lake: Lake, character: str
) -> None:
    """No batch fails for it. On the worker, in a merge, a replay and a reopening alike."""
    world, fits, too_long = lake.world, of_length(ROOM, character), of_length(ROOM + 1, character)
    published(world, SHORT, fits, too_long, ("/" * 60,) * 4)
    assert where(lake) == {fits: 2, BEYOND: 4, SHORT: 3}
    world.replay(0)
    world.produce(row(0.2, too_long), row(0.3, fits), row(0.4, of_length(ROOM, "w")))
    world.ingest("late")
    reopen.reopen(world.context(), window(0), "late rows")
    assert where(lake) == {fits: 3, BEYOND: 5, SHORT: 3, of_length(ROOM, "w"): 1}
    lake.balanced()
