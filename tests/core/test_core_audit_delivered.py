"""What the ledger says of batches of side tables that were delivered, as an audit reads it."""

from __future__ import annotations

from dataclasses import replace

from tidegate.core.audit.delivered import of_batches
from tidegate.core.audit.problems import RESTORE, Problem
from tidegate.core.deliver.port import Content
from tidegate.core.deliver.states import SENDING, STANDING, Delivered, Version

ROW = Delivered(
    pipeline="p", name="shop.late", window_ms=7, generation=2, digest="x", state=STANDING, epoch=5, nonce="n",
    since_ms=0, stood=2, content=Content(rows=3, checksum=1),
)  # fmt: skip


def of(row: Delivered, version: Version | None = Version(2, 3, "x")) -> list[Problem]:
    return list(of_batches([row], {"late": {} if version is None else {7: version}}))


def test_a_batch_of_a_side_table_stands_as_its_version_is() -> None:
    """D9: of an older version nobody knows the files any more."""
    assert of(ROW) == []
    assert of(replace(ROW, name="shop", digest="y")) == [], "an hour"
    assert of(replace(ROW, generation=1, digest="y", content=None)) == [], "it is due"
    unknown = "delivery shop.late, try 5: the batch has no version 2"
    assert of(ROW, None) == of(ROW, Version(1, 3, "x")) == [Problem("batch 7", unknown, RESTORE)]
    assert [p.what for p in of(replace(ROW, digest="y", state=SENDING))] == [
        "delivery shop.late, try 5: its digest is not that of version 2"
    ]
    assert of(replace(ROW, content=None, state=SENDING)) == []
    due, none = replace(ROW, generation=1), replace(ROW, name="shop.dirty")
    assert [p.what for p in of_batches([due, none], {"late": {7: Version(2, 3, "x")}})] == [
        "delivery shop.dirty, try 5: the batch has no version 2"
    ]
    (found,) = of(replace(ROW, content=None))
    assert found.what == "delivery shop.late, try 5: nothing was read back there, version 2 has 3"
    assert found.advice == "send it again: tidegate deliver p --batch 7 --again --to shop.late --why ..."
