"""Which batches the next merge takes (M3): all that have landed above the last one in the table, without a hole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.core.base.errors import Alarm, StorageAhead

_SHOWN = 5


@dataclass(frozen=True)
class BatchRange:
    """Batches `first` to `last`, inclusive. An empty one, `first = last + 1`, is upkeep: a commit that merges no batch,
    on a table that holds batches 1 to `last`. Tries, their names and summaries know it by this alone."""

    first: int
    last: int

    @classmethod
    def upkeep(cls, upto: int) -> BatchRange:
        """The range of a commit that leaves `upto` where it is."""
        return cls(upto + 1, upto)

    @property
    def merges(self) -> bool:
        """Whether any batch is in it."""
        return self.first <= self.last

    def __contains__(self, batch_id: int) -> bool:
        return self.first <= batch_id <= self.last


def next_range(
    name: str,
    upto: int,
    landed: Mapping[int, int],
    newest: int,
    open_batch: int | None = None,
    most_rows: int | None = None,
) -> BatchRange | None:
    """The batches to merge next; None if the table has all of them.

    `upto`: the last batch in the table, 0 for none, as the table says it. `landed`: rows of each batch above `upto`
    that has landed, or was given up (0 rows), by the ledger; `newest`: the greatest of all of them, 0 for none.
    `most_rows`: a merge takes no further batch once it has so many, but at least one.

    Raises StorageAhead (R11: the table holds what the ledger does not know), Alarm (a hole)."""
    if upto > newest:
        raise _ahead(name, upto, newest, open_batch)
    if open_batch is not None and open_batch <= newest:
        raise Alarm(f"{name}: batch {open_batch} has not landed, but batch {newest} behind it has")
    missing = [n for n in range(upto + 1, newest + 1) if n not in landed]
    if missing:
        raise Alarm(
            f"{name}: the table holds batches 1 to {upto}, batch {newest} has landed, but the ledger does not know of "
            f"{'batch' if len(missing) == 1 else 'batches'} {', '.join(map(str, missing[:_SHOWN]))}"
            + (" ..." if len(missing) > _SHOWN else "")
        )
    if upto == newest:
        return None
    return BatchRange(upto + 1, _last(upto, newest, landed, most_rows))


def follows(upto: int, first: int, last: int) -> bool:
    """Whether a merge of batches `first` to `last`, or upkeep, may become the table's next snapshot: it begins right
    above."""
    return first == upto + 1 and last >= upto


def _last(upto: int, newest: int, landed: Mapping[int, int], most_rows: int | None) -> int:
    rows = 0
    for batch_id in range(upto + 1, newest + 1):
        rows += landed[batch_id]
        if most_rows is not None and rows > most_rows and batch_id > upto + 1:
            return batch_id - 1
    return newest


def _ahead(name: str, upto: int, newest: int, open_batch: int | None) -> StorageAhead:
    now = f"the ledger's newest landed one is {newest}" if newest else "the ledger knows of no landed batch"
    if open_batch is not None:
        now += f", and batch {open_batch} is open"
    return StorageAhead(f"{name}: the table holds batches 1 to {upto}, but {now}")
