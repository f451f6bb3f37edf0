"""Tags that keep the snapshots of publications from expiry (C5), and the branch of what readers do not see yet."""

from __future__ import annotations

from tidegate.core.target.port import Token

TAG = "tidegate-"
FIRST_COPY = "tidegate-first-copy"
"""Branch of a table whose first full copy is not whole: readers, who read `main`, see an empty table (S9')."""


def tag_of(token: Token) -> str:
    """C5: keeps the snapshot of a publication from expiry until the ledger has it as CURRENT."""
    return f"{TAG}{token.unit}.{token.generation}.{token.epoch}"


def publication_of(tag: str) -> tuple[int, int] | None:
    """(unit, generation) of such a tag; None for any other."""
    parts = tag.removeprefix(TAG).split(".") if tag.startswith(TAG) else []
    if len(parts) != 3 or not all(part.lstrip("-").isdigit() for part in parts):
        return None
    return int(parts[0]), int(parts[1])
