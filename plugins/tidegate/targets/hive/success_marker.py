"""Writes `_SUCCESS`, last of all: by it readers of files know that a published window is whole."""

from __future__ import annotations

from contextlib import suppress

from tidegate.core.base.errors import PathExists, PathMissing
from tidegate.core.target.paths import SUCCESS, join
from tidegate.core.window.states import WindowKey
from tidegate.targets.hive.places import Places


def write_success(table: Places, key: WindowKey, number: int, location: str) -> None:
    """By a rename from a name of the generation's own: a late one must not make a directory that has made way. In an
    object store it may: the file is nobody's there, and readers of the catalogue do not meet it."""
    storage, target = table.site.storage, join(location, SUCCESS)
    if storage.exists(target):
        return
    if not storage.renames:
        with suppress(PathExists):
            storage.write_new(target, b"")
        return
    draft = table.layout.success_draft(key.start_ms, number)
    try:
        storage.write_new(draft, b"")
    except PathExists:
        pass
    try:
        storage.rename_no_replace(draft, target)
    except PathExists:
        storage.delete(draft)
    except PathMissing:
        if not storage.exists(target):
            raise
