"""The fate of an offset of a table without a log whose window was read again: offsets number the rows of one reading.

What the batch knows of the offset is of the first reading. Rows in force are of another snapshot, numbered anew.
"""

from __future__ import annotations

from dataclasses import replace

from tidegate.core.base.instants import iso
from tidegate.core.look.fate import GAP, PUBLISHED, UNDECIDED, Fate
from tidegate.core.look.sighting import Sighting
from tidegate.core.look.views import BatchRow, GenerationRow


def fate_of_another(
    table: str, batch: BatchRow, window_ms: int, current: GenerationRow, read: int, found: Sighting | None, unread: str
) -> Fate:
    """`current`: the generation in force, whose rows generation `read` has read; `found`: its row with that number."""
    rows = f"generation {read}, the second reading of window {iso(window_ms)}"
    first = f"what batch {batch.batch_id} read before is in earlier generations"
    base = Fate(
        kind=PUBLISHED, words="", batch_id=batch.batch_id, window_ms=window_ms, generation=current.number,
        published_ms=current.published_ms, table=table,
    )  # fmt: skip
    if found is not None:
        words = f"a row of {rows}, published in generation {current.number}; {first}"
        return replace(base, words=words, file=found.uri)
    if unread:
        words = f"perhaps a row of {rows}: its files were not read: {unread}"
        return Fate(kind=UNDECIDED, words=words, next_step="ask again when the files can be read")
    return Fate(kind=GAP, words=f"no row of {rows}, has this number; {first}", batch_id=batch.batch_id)
