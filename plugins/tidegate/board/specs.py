"""Pipelines of the folder, parsed once for as long as their files stay the same: parsing a thousand takes long."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tidegate.core.errors import SpecError
from tidegate.core.pipeline import Pipeline

LOOK_S = 5.0
"""How old the list of files may be."""


@dataclass(frozen=True)
class Spec:
    """A file of the pipelines folder: what it compiles to, or the error that says why it is no pipeline."""

    name: str
    pipeline: Pipeline | None
    error: SpecError | None


@dataclass(frozen=True)
class Folder:
    """`error`: why no file could be looked at."""

    path: Path
    specs: Mapping[str, Spec]
    error: SpecError | None = None


_Stamp = tuple[int, int, int]


class Specs:
    """Of one process. A file is parsed again when its size or time changes, all of them when `defaults.yaml` does, or
    one that a `format` names (a schema beside the YAMLs)."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._parsed: dict[Path, tuple[_Stamp, Spec]] = {}
        self._folder: Folder | None = None
        self._around: tuple[tuple[str, _Stamp], ...] = ()
        self._looked = 0.0

    def folder(self, path: Path) -> Folder:
        """Every file of the folder `path`, a broken one with its error."""
        with self._lock:
            fresh = time.monotonic() - self._looked < LOOK_S
            if self._folder is None or self._folder.path != path or not fresh:
                self._folder = self._look(path)
                self._looked = time.monotonic()
            return self._folder

    def _look(self, path: Path) -> Folder:
        from tidegate.spec.loader import NEAR_SUFFIX, SUFFIX

        try:
            entries = {e.name: (e.stat(), Path(e.path)) for e in os.scandir(path) if not e.name.startswith(".")}
        except OSError as e:
            return Folder(path, {}, SpecError(f"cannot be looked into: {e.strerror}", where=str(path)))
        stamps = {name: (s.st_mtime_ns, s.st_size, s.st_ino) for name, (s, _) in entries.items()}
        ours = {name for name in entries if Path(name).suffix in (SUFFIX, NEAR_SUFFIX) and name != "defaults.yaml"}
        around = tuple(sorted((name, stamp) for name, stamp in stamps.items() if name not in ours))
        if around != self._around:
            self._parsed, self._around = {}, around
        same = set(self._parsed) == {entries[n][1] for n in ours}
        if same and self._folder is not None and all(self._parsed[entries[n][1]][0] == stamps[n] for n in ours):
            return self._folder
        return Folder(path, self._parse({entries[n][1]: stamps[n] for n in ours}, path))

    def _parse(self, files: Mapping[Path, _Stamp], path: Path) -> Mapping[str, Spec]:
        from tidegate.spec import load_folder

        changed = [f for f, stamp in files.items() if self._parsed.get(f, (None,))[0] != stamp]
        known = {f: self._parsed[f] for f in files if f in self._parsed and f not in changed}
        if changed:
            for one in load_folder(path):
                if one.path in files:
                    known[one.path] = (files[one.path], Spec(one.name, one.pipeline, one.error))
        self._parsed = known
        return {spec.name: spec for _, (_, spec) in sorted(known.items())}
