"""Pipelines of the folder, parsed in the background and once: a page never waits for a thousand YAMLs."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tidegate.core.base.errors import SpecError
from tidegate.spec.loader import Loaded

LOOK_S = 5.0
"""Seconds for which the list of files is fresh."""
WAIT_S = 0.1
"""Seconds that a page waits for changed files: enough to parse a few."""


@dataclass(frozen=True)
class Folder:
    """`names` of all files; `specs` of those that have been parsed. `error`: why none could be looked at."""

    path: Path
    names: tuple[str, ...] = ()
    specs: Mapping[str, Loaded] = field(default_factory=dict)
    error: SpecError | None = None


_Stamp = tuple[int, int, int]
_CHUNK = 20


class Specs:
    """Specs of one process. A file is parsed again when its time, size or inode changes; all of them when another file
    of the folder does, as `defaults.yaml` or a schema that a `format` names."""

    def __init__(self) -> None:
        self._wait_s = WAIT_S
        self._lock = threading.Lock()
        self._at_work: threading.Thread | None = None
        self._looked = 0.0
        self._around: Mapping[Path, _Stamp] = {}
        self._parsed: dict[Path, tuple[_Stamp, Loaded]] = {}
        self._folder = Folder(Path())

    def folder(self, path: Path) -> Folder:
        """The folder as far as it is parsed."""
        with self._lock:
            stale = self._folder.path != path or time.monotonic() - self._looked > LOOK_S
            if stale and self._at_work is None:
                self._at_work = threading.Thread(target=self._look, args=(path,), name="tidegate-specs", daemon=True)
                self._at_work.start()
            at_work = self._at_work
        if at_work is not None:
            at_work.join(self._wait_s)
        return self._folder if self._folder.path == path else Folder(path)

    def _look(self, path: Path) -> None:
        try:
            self._folder = self._refreshed(path)
        except SpecError as e:
            self._folder = Folder(path, error=e)
        finally:
            with self._lock:
                self._looked, self._at_work = time.monotonic(), None

    def _refreshed(self, path: Path) -> Folder:
        from tidegate.spec.loader import load_files, names, spec_files, without_clashes

        files = {file: _stamp(file) for file in spec_files(path)}
        around = {Path(e.path): _stamp(Path(e.path)) for e in os.scandir(path) if Path(e.path) not in files}
        if around != self._around:
            self._parsed, self._around = {}, around
        known = {f: self._parsed[f] for f, stamp in files.items() if self._parsed.get(f, (None,))[0] == stamp}
        changed = [f for f in files if f not in known]
        if not changed and len(known) == len(self._parsed) and self._folder.path == path:
            return self._folder
        told = tuple(names(path))
        for at in range(0, len(changed), _CHUNK):
            loaded = load_files(path, changed[at : at + _CHUNK])
            known |= {one.path: (files[one.path], one) for one in loaded}
            self._folder = Folder(path, told, {one.name: one for _, one in known.values()})
        self._parsed = known
        return Folder(path, told, {one.name: one for one in without_clashes([known[f][1] for f in files])})


def _stamp(file: Path) -> _Stamp:
    """Time, size and inode of a file; zeros for one that has gone meanwhile."""
    try:
        found = file.stat()
    except OSError:
        return (0, 0, 0)
    return found.st_mtime_ns, found.st_size, found.st_ino
