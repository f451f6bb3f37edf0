"""Files that have several places where they can be, and bytes for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import BinaryIO

from spark_jobs.storage import open_storage
from tidegate.core.base.errors import PathMissing

RAW_BYTES = 300


def open_file(uri: str) -> BinaryIO:
    """Raises PathMissing where there is none."""
    return open_storage(uri).open_existing(uri)


def open_first(uris: Sequence[str]) -> tuple[str, BinaryIO]:
    """The first URI where the file is, and the open file. Raises PathMissing where it is nowhere."""
    for uri in uris[:-1]:
        try:
            return uri, open_file(uri)
        except PathMissing:
            continue
    return uris[-1], open_file(uris[-1])


def shown(raw: bytes | None) -> str:
    """Bytes for people: bounded, and nothing in it that a terminal would act on."""
    text = (raw or b"")[:RAW_BYTES].decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
