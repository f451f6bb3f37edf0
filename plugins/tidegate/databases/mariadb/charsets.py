"""Character sets of MariaDB and MySQL, and labels of enumerations, as a connector (Debezium 3.1) makes texts of them.

Its Java has tables of its own: each character of each set was sent through it (`tests/copies/test_real_edges.py`)."""

from __future__ import annotations

import re

_UNICODE = ("utf8", "utf8mb3", "utf8mb4", "ucs2", "utf16", "utf16le", "utf32")
_BYTES = ("ascii", "latin2", "latin5", "latin7", "koi8r", "macce", "macroman", *(f"cp{n}" for n in (850, 852)))
_WINDOWS = tuple(f"cp{n}" for n in (1250, 1251, 1257))
ALIKE = frozenset((*_UNICODE, *_BYTES, *_WINDOWS, "gb2312"))
"""Sets whose characters are the same ones in events. Bytes that a set does not define are not: the server makes a
question mark of them, the connector U+FFFD."""
_LIST = re.compile(r"^(enum|set)\((.*)\)$", re.DOTALL | re.IGNORECASE)
_LABEL = re.compile(r"'((?:[^']|'')*)'")
_ESCAPED = re.compile(r"[,\\\x00-\x1f]")
"""What a connector leaves escaped in a label, or escapes."""


def told(column_type: str, charset: str | None, in_events: bool) -> str:
    """The type, in small letters, with what a rule has to know of its texts: a set by name where it is not ALIKE.
    `in_events`: its values come in events, too. Lists are left out, but for a label that has another text there."""
    found = _LIST.match(column_type)
    if found is None:
        named = in_events and charset is not None and charset not in ALIKE
        return column_type.lower() + (f" character set {charset}" if named else "")
    odd = [label for label in _LABEL.findall(found[2]) if _ESCAPED.search(label)] if in_events else []
    return found[1].lower() + (f" with the label {odd[0]!r}, which has another text in events" if odd else "")
