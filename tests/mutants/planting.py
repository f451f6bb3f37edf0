"""Planted bugs: functions of the product, found by name, that do something else while a trace runs.

A bug names its seams by `seams.py`, so that code which moves is followed in one place. What is exchanged is the body of
the function itself: whoever has imported it, under whatever name, calls the bug.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType, TracebackType
from typing import Any

ROOT = Path(__file__).parents[2]


class NoLongerApplies(Exception):
    """A seam is gone, or takes other arguments: the bug must be adapted, or it proves nothing."""


@dataclass(frozen=True)
class Patch:
    """`seam`: `module:function` or `module:Class.method`, by its name in `seams.py`. `bug` is called instead: with the
    original, then as the original would have been."""

    seam: str
    bug: Callable[..., Any]


@dataclass(frozen=True)
class Bug:
    """`rule`: what of DESIGN it takes out; `attack`: the trace that shows it; `violates`: the invariant that must fail.

    `why` says what the trace needs to know, such as a second guard that had to be taken out too."""

    name: str
    rule: str
    attack: str
    violates: str
    patches: tuple[Patch, ...]
    why: str = ""
    swap: str = "pointer"  # how the happy path publishes
    target: str = "hive"  # and into which kind of table


def function_at(seam: str) -> FunctionType:
    """The function that a seam names, out of its property, class method or static method. Raises LookupError."""
    module, _, path = seam.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for name in path.split("."):
            found = inspect.getattr_static(found, name)
    except (ImportError, AttributeError) as e:
        raise LookupError(f"there is no {seam}: {e}") from None
    if isinstance(found, property):
        found = found.fget
    found = getattr(found, "__func__", found)
    if not isinstance(found, FunctionType) or found.__code__.co_freevars or hasattr(found, "__wrapped__"):
        raise LookupError(f"{seam} is not a plain function")
    return found


class Planted:
    """The bug's patches, from `with` to its end. Raises NoLongerApplies before anything is changed."""

    def __init__(self, bug: Bug) -> None:
        self._seams = {p.seam: _Seam(bug, p) for p in bug.patches}
        if len(self._seams) != len(bug.patches):
            raise NoLongerApplies(f"{bug.name}: two of its patches are of one seam")

    def __enter__(self) -> Planted:
        for name, seam in self._seams.items():
            if name in RUNNING:
                raise RuntimeError(f"{name} is patched already")
            RUNNING[name] = seam
            seam.function.__code__ = _in_its_place(name)
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, at: TracebackType | None) -> None:
        for name, seam in self._seams.items():
            seam.function.__code__ = seam.code
            del RUNNING[name]

    def forget_calls(self) -> None:
        for seam in self._seams.values():
            seam.called = False

    def never_called(self) -> list[str]:
        """Seams at which nothing has passed: there the bug was not in what ran."""
        return [name for name, seam in self._seams.items() if not seam.called]


class _Seam:
    def __init__(self, bug: Bug, patch: Patch) -> None:
        try:
            self.function = f = function_at(patch.seam)
            _must_fit(patch.bug, f)
        except (LookupError, TypeError) as e:
            raise NoLongerApplies(f"{bug.name}: {patch.seam}: {e}") from None
        self.code: CodeType = f.__code__
        self._bug, self.called = patch.bug, False
        self._original = FunctionType(f.__code__, f.__globals__, f.__name__, f.__defaults__)
        self._original.__kwdefaults__ = f.__kwdefaults__

    def __call__(self, *args: Any, **options: Any) -> Any:
        self.called = True
        return self._bug(self._original, *args, **options)


RUNNING: dict[str, _Seam] = {}
"""What is patched now, by seam."""


def _in_its_place(seam: str) -> CodeType:
    source = f"def planted(*args, **options):\n    from {__name__} import RUNNING\n"
    made: dict[str, Any] = {}
    exec(f"{source}    return RUNNING[{seam!r}](*args, **options)\n", made)
    return made["planted"].__code__


def _must_fit(bug: Callable[..., Any], original: FunctionType) -> None:
    """The bug takes what the original takes, under the same names where it names them. Raises TypeError."""
    kinds = inspect.Parameter
    theirs = list(inspect.signature(original).parameters.values())
    by_place = [p.name for p in theirs if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)]
    by_name = [p.name for p in theirs if p.kind is kinds.KEYWORD_ONLY]
    inspect.signature(bug).bind(original, *by_place, **dict.fromkeys(by_name))
    mine = [p.name for p in inspect.signature(bug).parameters.values() if p.kind is kinds.POSITIONAL_OR_KEYWORD][1:]
    if mine != by_place[: len(mine)]:
        raise TypeError(f"the bug takes {mine}, the function {by_place}")


# ---------------------------------------------------------------- what bugs often do


def nothing(original: Callable[..., Any], *args: Any, **options: Any) -> None:
    """The step is left out; a check that finds nothing."""


def always(value: Any) -> Callable[..., Any]:
    """A new one each time: callers may add to what they get."""
    return lambda original, *args, **options: copy(value)


def without(terms: Any, *columns: str) -> list[Any]:
    """The terms of a WHERE but for those that compare these columns, each of which must be there."""
    terms = list(terms)
    missing = set(columns) - {t.left.name for t in terms}
    if missing:
        raise NoLongerApplies(f"nothing compares {missing} here")
    return [t for t in terms if t.left.name not in columns]
