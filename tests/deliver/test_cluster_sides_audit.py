"""An audit knows what was sent of late and dirty tables to another cluster: each batch's version, rows and files."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from tests.audit.audits import look
from tests.deliver.side_lab import HiveSides, begun, redrives_all, reopens, sends


@pytest.fixture
def lab(tmp_path: Path) -> HiveSides:
    made = HiveSides(tmp_path)
    begun(made)
    sends(made)
    return made


def problems(lab: HiveSides) -> list[str]:
    found = [p for p in look(lab.world).problems if "delivery" in p.what]
    assert all(p.subject.startswith("batch ") and p.advice for p in found)
    return [p.what for p in found]


def changed(lab: HiveSides, name: str, values: str) -> None:
    lab.world.close()
    with sqlite3.connect(lab.world.database) as ledger:
        assert ledger.execute(f"UPDATE deliveries SET {values} WHERE name = '{name}'").rowcount == 1


def test_what_stands_there_is_proved_while_rows_leave(lab: HiveSides) -> None:
    assert problems(lab) == []
    reopens(lab.world)
    assert problems(lab) == [], "what is due is no problem"
    sends(lab)
    assert problems(lab) == []
    redrives_all(lab.world)
    assert problems(lab) == []
    lab.world.archive(1)
    sends(lab)
    sends(lab)
    assert problems(lab) == []


@pytest.mark.parametrize("side", ["late", "dirty"])
@pytest.mark.parametrize(
    ("values", "what"),
    [
        ("rows = 1", "1 row was read back there, version 1 has 2"),
        ("digest = 'other'", "its digest is not that of version 1"),
        ("generation = 9", "the batch has no version 9"),
        ("window_ms = 1", "the batch has no version 1"),
    ],
)
def test_what_is_wrong_is_named(lab: HiveSides, side: str, values: str, what: str) -> None:
    changed(lab, f"shop.{side}", values)
    assert problems(lab) == [f"delivery shop.{side}, try 1: {what}"]


def test_versions_after_rows_have_left(lab: HiveSides) -> None:
    reopens(lab.world)
    redrives_all(lab.world)
    lab.world.archive(1)
    sends(lab)
    changed(lab, "shop.late", "rows = 2")
    assert problems(lab) == ["delivery shop.late, try 2: 2 rows were read back there, version 2 has 0"]
