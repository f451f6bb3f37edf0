"""Another system that counts windows, in memory."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate.core.base.errors import TruthUnknown
from tidegate.core.completeness.rules import count_of
from tidegate.core.window.states import WindowKey


@dataclass
class FakeTruth:
    """`counts`: by the window's start, UTC ms; `problem`: why it gives none, while it is set."""

    counts: dict[int, object] = field(default_factory=dict)
    problem: str = ""
    asked: list[WindowKey] = field(default_factory=list)

    def expected(self, window: WindowKey) -> int | None:
        self.asked.append(window)
        if self.problem:
            raise TruthUnknown(self.problem)
        try:
            return count_of(self.counts.get(window.start_ms))
        except ValueError as e:
            raise TruthUnknown(str(e)) from None
