"""Prints what the demo says: headings with elapsed seconds, progress lines, and checks that it remembers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

Say = Callable[[str], None]


@dataclass
class Output:
    """Lines go to `write` as soon as they are said; `failed` holds every check that did not hold."""

    write: Say = lambda line: print(line, flush=True)
    failed: list[str] = field(default_factory=list)
    passed: int = 0
    began: float = field(default_factory=time.monotonic)

    def heading(self, text: str) -> None:
        self.write(f"\n[{self.seconds:5.0f} s] {text}")

    def line(self, text: str) -> None:
        for part in text.splitlines() or [""]:
            self.write(f"          {part}")

    def check(self, ok: bool, text: str) -> bool:
        """A claim, and whether it holds; `text` has the numbers."""
        self.line(f"{'PASS' if ok else 'FAIL'}  {text}")
        if ok:
            self.passed += 1
        else:
            self.failed.append(text)
        return ok

    def verdict(self, lines: Sequence[str] = ()) -> int:
        """Say what came of the checks, beside `lines`; 0 only if all of them hold."""
        checks = self.passed + len(self.failed)
        self.heading(f"{len(self.failed)} of {checks} checks FAILED" if self.failed else f"All {checks} checks passed")
        for text in (*lines, *(f"FAIL  {text}" for text in self.failed)):
            self.line(text)
        return 1 if self.failed else 0

    @property
    def seconds(self) -> float:
        """Since the demo began."""
        return time.monotonic() - self.began
