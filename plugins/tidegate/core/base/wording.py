"""Counts, and others' words, as people read them."""

from __future__ import annotations

_SINGULAR = {"are": "is", "were": "was", "have": "has", "go": "goes"}


def first_line(said: object) -> str:
    """First line of a text, or of an error's words, of a driver's own below SQLAlchemy's; empty without words."""
    return next(iter(str(getattr(said, "orig", None) or said or "").strip().splitlines()), "")


def in_one_line(said: object) -> str:
    """A text, or an error's words, without line breaks and repeated blanks."""
    return " ".join(str(said).split())


def many(count: int, what: str) -> str:
    """`1 row`, `1,200 rows`, `0 batches`; `what` in the singular."""
    plural = "" if count == 1 else "es" if what.endswith("ch") else "s"
    return f"{count:,} {what}{plural}"


def offsets(count: int) -> str:
    """`1,200 offsets`. A table that is read window by window has more of them for each than any log ever gets, and
    nobody knows how many rows before they are read."""
    return "one window of a table" if count >= 1 << 32 else many(count, "offset")


def those(count: int, what: str, verb: str = "are") -> str:
    """A count with its verb: `1 window is`, `12 windows are`; `verb` in the plural."""
    return f"{many(count, what)} {_SINGULAR.get(verb, verb + 's') if count == 1 else verb}"


def size(count: int) -> str:
    """`812 bytes`, `3.4 MB`, `120 GB`: decimal, as disks and links are sold."""
    if count < 1000:
        return many(count, "byte")
    value, unit = count / 1000, "kB"
    for larger in ("MB", "GB", "TB", "PB"):
        if value < 999.5:
            break
        value, unit = value / 1000, larger
    return f"{value:.1f} {unit}" if value < 10 else f"{value:,.0f} {unit}"
