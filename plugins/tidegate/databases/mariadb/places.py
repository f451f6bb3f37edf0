"""Places in a binary log as positions of change events have them."""

from __future__ import annotations

import re

from tidegate.core.copy.port import LogPosition

FILE_UNIT = 1 << 40
"""A log file's number counts this much in a position, a byte's offset one."""
_FILE = re.compile(r".+\.([0-9]{1,10})")


def place(file: str, offset: int) -> LogPosition:
    """Raises ValueError for a name that does not end in a number."""
    match = _FILE.fullmatch(file)
    if match is None:
        raise ValueError(f"{file} does not name a file of a binary log")
    return int(match[1]) * FILE_UNIT + offset, 0
