"""Reads the copy of an Iceberg table beside the table itself, by pyiceberg alone: imports nothing of Tidegate.

python -I check_copy.py <directory of the copy> [<directory of the table>]
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from pyiceberg.table import StaticTable


def rows(folder: str) -> Counter[tuple[object, ...]]:
    """Each row of the table's newest snapshot, and how often it is there. A column that the copy does not have yet is
    null in the table."""
    newest = max(Path(folder, "metadata").glob("*.metadata.json"), key=lambda path: path.name)
    found = StaticTable.from_metadata(f"file://{newest}").scan().to_arrow().to_pylist()
    return Counter(tuple((name, row[name]) for name in sorted(row) if row[name] is not None) for row in found)


def main(copy: str, own: str = "") -> int:
    """0 only if the copy has rows, each once, and those of the table."""
    found = rows(copy)
    print(f"{sum(found.values()):,} rows are in the copy")
    wrong = not found or max(found.values()) > 1
    if own:
        differ = found - rows(own) | rows(own) - found
        print(f"{sum(differ.values()):,} rows are in one of both alone")
        wrong = wrong or bool(differ)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
