"""A mirror whose source's table is there too, in memory: it is copied, and its events are landed and merged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.fakes.source_table import FakeSource
from tests.mirror.worlds import YAML, MirrorWorld
from tidegate.workflow.copy import copy as reading
from tidegate.workflow.look import status

COPYING = YAML + "copy: {{conn_id: shop, table: shop.readings, chunk_rows: 3, tasks: 1}}\n"


class CopyWorld(MirrorWorld):
    """`source_table`: the database; `sent`: how many of its events are in the topic, `delivered`: to which position the
    connector has noted that."""

    def __init__(self, folder: Path, yaml: str = COPYING, **options: Any) -> None:
        super().__init__(folder, yaml, **options)
        self.source_table = FakeSource()
        self.sent = self.delivered = 0

    def deliver(self, most: int | None = None) -> int | None:
        """The connector sends events, and a batch lands them."""
        found = self.source_table.log[self.sent :][:most]
        self.sent += len(found)
        return self.land(*found) if found else None

    def read(self, **options: Any) -> reading.Read:
        """The task that reads chunks, in a process of its own."""
        try:
            return reading.copy(self.context(), self.source_table, **options)
        finally:
            self.close()

    def again(self, why: str = "test", keys: tuple[str, str] | None = None) -> Any:
        """A new round, of some keys or all."""
        try:
            return reading.again(self.context(), self.source_table, why, keys)
        finally:
            self.close()

    def mirror(self) -> dict[int, str]:
        """Everything sent, read and merged."""
        self.deliver()
        self.apply()
        self.read()
        self.apply()
        return self.rows()


def copy_words(world: MirrorWorld) -> str:
    """What status says of how far the copy is."""
    ctx = world.context()
    return status.status(ctx, ctx.ledger.reads, None).copy_words
