"""Planted bugs: exact replacements in the sources, imported in place of the real modules in a process of their own."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parents[2]


class NoLongerApplies(Exception):
    """The code has changed under a planted bug: the bug must be adapted, or it proves nothing."""


@dataclass(frozen=True)
class Edit:
    """`old` occurs exactly once in `file` (relative to the checkout); `new` takes its place."""

    file: str
    old: str
    new: str


@dataclass(frozen=True)
class Bug:
    """`rule`: what of DESIGN it takes out; `attack`: the trace that shows it; `violates`: the invariant that must fail.

    `why` says what the trace needs to know, such as a second guard that had to be taken out too."""

    name: str
    rule: str
    attack: str
    violates: str
    edits: tuple[Edit, ...]
    why: str = ""
    swap: str = "pointer"  # how the happy path publishes


def sources(bug: Bug) -> dict[str, tuple[Path, str]]:
    """Module name -> (file, its text with the bug). Raises NoLongerApplies."""
    texts: dict[str, str] = {}
    for edit in bug.edits:
        text = texts.get(edit.file) or (ROOT / edit.file).read_text()
        found = text.count(edit.old)
        if found != 1:
            raise NoLongerApplies(f"{bug.name}: {edit.file} holds its text {found} times, not once:\n{edit.old}")
        texts[edit.file] = text.replace(edit.old, edit.new)
    return {_module(file): (ROOT / file, text) for file, text in texts.items()}


def _module(file: str) -> str:
    return file.removeprefix("plugins/").removesuffix(".py").replace("/", ".")


class Planted(importlib.abc.MetaPathFinder):
    """Serves the changed modules; everything else is imported as it is."""

    def __init__(self, changed: dict[str, tuple[Path, str]]) -> None:
        self._changed = changed

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in self._changed:
            return None
        file, text = self._changed[name]
        return importlib.util.spec_from_loader(name, _Text(text), origin=str(file))

    def not_in_use(self) -> list[str]:
        """Changed modules that were never imported, or not from here: then the bug was not there."""
        loaded = {name: sys.modules.get(name) for name in self._changed}
        return [name for name, m in loaded.items() if not isinstance(getattr(m, "__loader__", None), _Text)]


class _Text(importlib.abc.InspectLoader):
    def __init__(self, text: str) -> None:
        self._text = text

    def get_source(self, fullname: str) -> str:
        return self._text

    def is_package(self, fullname: str) -> bool:
        return False

    def exec_module(self, module: ModuleType) -> None:
        spec: Any = module.__spec__
        module.__file__ = spec.origin
        exec(compile(self._text, spec.origin, "exec"), module.__dict__)


def plant(bug: Bug) -> Planted:
    """In this process, before anything of ours has been imported."""
    ours = [m for m in sys.modules if m.split(".")[0] in ("tidegate", "spark_jobs")]
    if ours:
        raise RuntimeError(f"too late to plant {bug.name}: {ours[:3]} are imported already")
    finder = Planted(sources(bug))
    sys.meta_path.insert(0, finder)
    return finder
