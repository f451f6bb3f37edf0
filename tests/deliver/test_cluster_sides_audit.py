"""An audit knows what was sent of late and dirty tables to another cluster: each batch's version, rows and files."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from tests.audit.audits import look
from tests.deliver.side_lab import HiveSides, begun, redrives_all, reopens, sends
from tidegate.core.audit.delivered import of_batches
from tidegate.core.audit.problems import RESTORE, Problem
from tidegate.core.deliver.port import Content
from tidegate.core.deliver.states import SENDING, STANDING, Delivered, Version


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


ROW = Delivered(
    pipeline="p", name="shop.late", window_ms=7, generation=2, digest="x", state=STANDING, epoch=5, nonce="n",
    since_ms=0, stood=2, content=Content(rows=3, checksum=1),
)  # fmt: skip


def of(row: Delivered, version: Version | None = Version(2, 3, "x")) -> list[Problem]:
    return list(of_batches([row], {"late": {} if version is None else {7: version}}))


def test_the_rule() -> None:
    assert of(ROW) == []
    assert of(replace(ROW, name="shop", digest="y")) == [], "an hour"
    assert of(replace(ROW, generation=1, digest="y", content=None)) == [], "it is due"
    unknown = "delivery shop.late, try 5: the batch has no version 2"
    assert of(ROW, None) == of(ROW, Version(1, 3, "x")) == [Problem("batch 7", unknown, RESTORE)]
    assert [p.what for p in of(replace(ROW, digest="y", state=SENDING))] == [
        "delivery shop.late, try 5: its digest is not that of version 2"
    ]
    assert of(replace(ROW, content=None, state=SENDING)) == []
    (found,) = of(replace(ROW, content=None))
    assert found.what == "delivery shop.late, try 5: nothing was read back there, version 2 has 3"
    assert found.advice == "send it again: tidegate deliver p --batch 7 --again --to shop.late --why ..."
