"""Coordinates: what each copy of a record says of the place that it was copied from (F1).

The header `tidegate-source` of a copy is `<topic id>:<partition>:<first>:<offset>`: it is a copy of the record at
`offset` of that partition, which has no record at the offsets `[first, offset)`. So a copier that has read on from
one record to the next says `first` as the offset behind the one before; one that begins says where it began. Holes
that transactions and compaction leave are told from records that are missing.

With three sites the record may have been a copy itself. Its own header is gone from the copy, so a fifth part says the
topic id that it named: `...:<offset>:<topic id>`, or `...:<offset>:-` where the record had no such header.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

HEADER = "tidegate-source"
OWN = "-"
"""What the fifth part says of a record that was no copy."""
_FORM = re.compile(r"([^:\s]{1,100}):([0-9]{1,9}):([0-9]{1,19}):([0-9]{1,19})(?::([^:\s]{1,100}))?")


@dataclass(frozen=True)
class Coordinate:
    """A copy of the record at `offset`; its partition has no record at `[first, offset)`. `of`: the topic id that the
    record's own header named, OWN if it had no header; None: the copier does not say."""

    topic_id: str
    partition: int
    first: int
    offset: int
    of: str | None = None

    def text(self) -> bytes:
        """The header's value."""
        told = "" if self.of is None else f":{self.of}"
        return f"{self.topic_id}:{self.partition}:{self.first}:{self.offset}{told}".encode()


def coordinate_of(values: Sequence[bytes | None]) -> Coordinate | None:
    """The coordinate in a record's headers of that name; None without one. Raises ValueError for an invalid one."""
    if not values:
        return None
    if len(values) > 1:
        raise ValueError(f"{len(values)} headers {HEADER}, where one belongs")
    text = (values[0] or b"").decode(errors="replace")
    found = _FORM.fullmatch(text)
    if found is None:
        raise ValueError(f"header {HEADER} is {text[:60]!r}, not <topic id>:<partition>:<first>:<offset>[:<topic id>]")
    partition, first, offset = map(int, found.group(2, 3, 4))
    made = Coordinate(found[1], partition, first, offset, found[5])
    if made.first > made.offset:
        raise ValueError(f"header {HEADER} is {text[:60]!r}: its first offset is above its offset")
    return made
