"""How much of a table an audit looks at, and which of its findings stand: the pipeline is at work meanwhile."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tidegate.core.audit.problems import Problem
from tidegate.core.base.offsets import Interval
from tidegate.core.look.views import BatchRow, Spine
from tidegate.core.window.cut import parse_window_id
from tidegate.core.window.states import BUILDING, BUILT, SWAPPING

_VARYING = re.compile(r"(\[\d+, \d+\))|\S*/\S+|\d[\d,.]*")
"""Places and numbers: they differ between two looks at what goes on. Offsets, the group, do not: rows that move while
each look reads are other ones each time, and only those that are wrong are found again."""


@dataclass(frozen=True)
class Part:
    """The files that are looked at: those of the windows that start `within`, and of them a `share` that `seed` draws.

    The ledger is always compared with itself as a whole."""

    within: Interval | None = None
    share: float = 1.0
    seed: int = 0

    @property
    def is_all(self) -> bool:
        return self.within is None and self.share >= 1

    def holds(self, window_ms: int | None) -> bool:
        """Dirty rows belong to no window."""
        return self.within is None or (window_ms is not None and self.within.start <= window_ms < self.within.end)

    def draws(self, subject: str, path: str) -> bool:
        """Whether the file is looked into."""
        return zlib.crc32(f"{self.seed} {subject} {path}".encode()) < self.share * 2**32

    def notes(self) -> Iterator[str]:
        """What such a look does not say."""
        if not self.is_all:
            yield "only a part of the files was looked at: that each offset is in one file was not checked"
        if self.share < 1:
            yield f"--sample {self.share * 100:g}: a file that is damaged is among those read with that probability"


ALL = Part()


@dataclass(frozen=True)
class Again:
    """What is looked at once more: files of these batches and windows; with `rows` every coordinate."""

    batches: frozenset[int]
    windows: frozenset[int]
    rows: bool

    @classmethod
    def of(cls, problems: Iterable[Problem], rows: bool) -> Again:
        subjects = [p.subject.partition(" ") for p in problems]
        return cls(
            frozenset(int(name) for kind, _, name in subjects if kind == "batch" and name.isdigit()),
            frozenset(parse_window_id(name) for kind, _, name in subjects if kind == "window"),
            rows,
        )


def key(problem: Problem) -> tuple[str, str]:
    """Two looks have found the same. Sums go on while the pipeline works, everything else is told word by word."""
    if problem.subject in ("balance", "ledger") or problem.subject.startswith("partition "):
        return problem.subject, _VARYING.sub(lambda found: found[1] or "*", problem.what)
    return problem.subject, problem.what


def is_moving(spine: Spine) -> bool:
    """Whether files may move between two of the ledger's steps."""
    return spine.unmoved > 0 or any(g.state in (BUILDING, BUILT, SWAPPING) for g in spine.generations)


def is_still(before: Spine, after: Spine) -> bool:
    """Whether nothing happened in between: then what was found stands."""
    return before == after and not is_moving(before)


def stands(
    problem: Problem, before: Spine, after: Spine, was: Mapping[int, BatchRow], now: Mapping[int, BatchRow]
) -> bool:
    """Whether the ledger says the same of the problem's subject at both ends of two looks that found it (R10).

    `was` and `now`: batches with problems, as each look read them."""
    kind, _, name = problem.subject.partition(" ")
    if kind == "window":
        return _window(before, parse_window_id(name)) == _window(after, parse_window_id(name))
    if kind == "batch" and name.isdigit() and int(name) in was and int(name) in now:
        return was[int(name)] == now[int(name)]
    return True


def _window(spine: Spine, window_ms: int) -> object:
    return spine.windows.get(window_ms), [g for g in spine.generations if g.window_ms == window_ms]
