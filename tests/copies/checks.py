"""What holds of every mirror that is copied, whatever has happened to it."""

from __future__ import annotations

from typing import Any

from tests.copies.worlds import CopyWorld
from tidegate.targets.iceberg.live import line, said_by
from tidegate.targets.mirror.prefix import UPTO


def merged_once(world: CopyWorld) -> None:
    """No commit brings what its table had: chunks, batches, the end of a copy."""
    before: Any = None
    for snapshot in reversed(list(line(world.loaded().metadata))):
        said = said_by(snapshot)
        now = said[UPTO], said.get("tidegate.copied")
        assert now != before, f"{said['tidegate.attempt']} has brought again what was in the table"
        before = now
