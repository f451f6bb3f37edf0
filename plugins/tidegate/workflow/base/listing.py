"""What storage has of a generation's files, wherever its manifest says that they are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from tidegate.core.base.storage import Storage
from tidegate.core.target.paths import is_uri, join


def sizes(storage: Storage, directory: str, paths: Iterable[str]) -> dict[str, int] | None:
    """Bytes by path of all files below `directory` (a URI), and of those of `paths` that are URIs and are there.

    None if the directory is absent. Raises StorageError."""
    listing = _below(storage, directory)
    return None if listing is None else listing | _named(storage, paths)


def present(storage: Storage, directory: str, paths: Iterable[str]) -> dict[str, int]:
    """The same; where the directory is absent, the URIs alone: they may lie in directories of other generations.

    Raises StorageError."""
    return (_below(storage, directory) or {}) | _named(storage, paths)


def _below(storage: Storage, directory: str) -> dict[str, int] | None:
    listing = storage.list_files(directory)
    return None if listing is None else {f.path: f.bytes for f in listing}


def _named(storage: Storage, paths: Iterable[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    folders: dict[str, set[str]] = defaultdict(set)
    for path in paths:
        if is_uri(path):
            folders[path.rsplit("/", 1)[0]].add(path)
    for folder, wanted in folders.items():
        there = {join(folder, f.path): f.bytes for f in storage.list_files(folder) or []}
        found |= {path: there[path] for path in wanted & there.keys()}
    return found
