"""Bounds of files' columns, which jobs write beside the files for kinds of tables that keep them of each file.

They make queries faster and nothing else: where they are missing, or cannot be read, the table has none.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.core.base.errors import PathExists, StorageError
from tidegate.core.base.plain import dumps, loads
from tidegate.core.base.storage import Storage
from tidegate.core.target.paths import BOUNDS, GATHERED, join
from tidegate.core.target.stored import Bounds

Found = dict[str, Bounds]
"""By the path of a file below the directory that was read."""


def read(storage: Storage, directory: str) -> Found:
    """All that jobs have written below `directory` (a URI)."""
    found: Found = {}
    try:
        for name in storage.list_names(join(directory, BOUNDS)) or []:
            found |= loads(Found, storage.read(join(directory, BOUNDS, name)).decode())
    except (StorageError, ValueError):
        return found
    return found


def gather(storage: Storage, workdir: str, directory: str, sources: Mapping[str, tuple[str, ...]]) -> None:
    """Write those of a generation's files into its `directory`. `sources`: path there -> URIs where a file may have
    been before, each below a directory of one job, batch or generation in `workdir`."""
    known: dict[str, Found] = {}
    gathered: Found = {}
    for path, uris in sources.items():
        for uri in uris:
            home = _home(workdir, uri)
            if home is None:
                continue
            if home not in known:
                known[home] = read(storage, home)
            bounds = known[home].get(uri.removeprefix(f"{home}/"))
            if bounds is not None:
                gathered[path] = bounds
                break
    _gathered(storage, directory, gathered)


def hand_down(storage: Storage, earlier: str, directory: str, paths: Mapping[str, str]) -> None:
    """Write those of a generation that has the files of an `earlier` one (a directory). `paths`: of each file, what the
    new manifest calls it -> what the earlier one does."""
    known = read(storage, earlier)
    _gathered(storage, directory, {path: known[old] for path, old in paths.items() if old in known})


def _gathered(storage: Storage, directory: str, found: Found) -> None:
    try:
        storage.write_new(join(directory, GATHERED), dumps(found).encode())
    except PathExists:
        pass  # of the same files, by an epoch that came twice


def _home(workdir: str, uri: str) -> str | None:
    """The directory below which the file's job, batch or generation has its own: `<workdir>/landed/12`."""
    parts = uri.removeprefix(f"{workdir}/").split("/")
    return join(workdir, *parts[:2]) if uri.startswith(f"{workdir}/") and len(parts) > 2 else None
